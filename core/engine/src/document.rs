//! Condenses JSON documents while they arrive: only the needed fields are kept.
//!
//! ```text
//!   {"items":[{"id":"a","spec":{ … 300 kB … },"labels":{"x":"y"}}],"total":1}     arrives in chunks
//!   {"items":[{"id":"a","labels":{"x":"y"}}],"total":1}                            is kept
//! ```
//!
//! For a parser that reads only the named fields, the kept text is equivalent to the whole document. A document that is
//! truncated, or is not JSON between these fields, stays invalid. Values that are left out are not checked.
//!
//! While a long list arrives, what was kept of it so far is compressed: a list of 100,000 resources has 30 MiB.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

mod parts;

pub use parts::Document;
use parts::{Beginning, Packed};

/// The maximum size of a document, in bytes: a page of 100 items of 600 kB.
pub const DOCUMENT_MAX_BYTES: usize = 64 << 20;
/// The maximum size of the kept text, in bytes.
pub const KEPT_MAX_BYTES: usize = 32 << 20;

/// A list is divided into parts of at least this size, in bytes.
const PART_BYTES: usize = 64 << 10;
/// The kept bytes of a document that is neither an object nor a list, for messages.
const BEGINNING_BYTES: usize = 4 << 10;
/// Longer keys, in bytes, are ignored: no needed field has such a name.
const KEY_MAX_BYTES: usize = 256;
/// A byte that is never valid between the values of a document. It makes a parser refuse a document with a mistake there.
const MISTAKE: u8 = 1;

/// The fields of a value to keep; all of it, if none is named. For a list of objects, these fields of each object are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(BTreeMap<String, Arc<Self>>);

impl Fields {
    /// Returns the fields at these paths, such as `["id", "status.phase"]`.
    pub fn at(paths: impl IntoIterator<Item: AsRef<str>>) -> Self {
        let mut fields = Self::default();
        for path in paths {
            path.as_ref().split('.').fold(&mut fields, |fields, name| {
                Arc::make_mut(fields.0.entry(name.to_owned()).or_default())
            });
        }
        fields
    }

    fn is_all(&self) -> bool {
        self.0.is_empty()
    }
}

/// The document exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Keeps the needed fields of one document.
#[derive(Debug)]
pub struct Condenser {
    kept: Vec<u8>,
    came: usize,
    state: State,
    /// The fields of the value that begins next; `None` if it is left out.
    next: Option<Arc<Fields>>,
    /// The enclosing objects and lists, from the outside to the inside.
    open: Vec<Container>,
    /// The key that is being read, with its quotes.
    key: Vec<u8>,
    /// The minimum size of a part, in bytes.
    part_bytes: usize,
    /// The text that opens the enclosing containers, up to the outermost list.
    opening: Vec<u8>,
    /// The parts of the outermost list, except for the last one.
    beginning: Option<Beginning>,
    /// The size of these parts in bytes, before their compression.
    packed: usize,
    /// Whether all of these parts are UTF-8.
    is_utf8: bool,
}

#[derive(Debug)]
struct Container {
    fields: Arc<Fields>,
    is_list: bool,
    /// Whether no member of it has been kept so far in this part.
    is_empty: bool,
    /// The length of [`Condenser::opening`] without it.
    opened_at: usize,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Before the document.
    Start,
    /// Everything is kept as it is.
    Verbatim,
    /// The beginning of a value that is neither an object nor a list is kept.
    Beginning,
    /// At the first member of an object or list, or at its end.
    First,
    /// At a member that must follow.
    Next,
    /// Within a key.
    Key { is_escaped: bool },
    /// Between key and value.
    Colon,
    /// At the value of a member.
    Value,
    /// Within a value that is kept whole, or left out.
    Whole(Whole),
    /// After a member.
    After,
    /// After the document.
    End,
    /// After a mistake: the rest is ignored.
    Broken,
}

#[derive(Debug, Default, Clone, Copy)]
struct Whole {
    is_kept: bool,
    depth: usize,
    is_text: bool,
    is_escaped: bool,
}

impl Condenser {
    /// Keeps these fields.
    pub fn new(fields: &Arc<Fields>) -> Self {
        Self::with_parts(fields, PART_BYTES)
    }

    /// Keeps these fields, and divides lists into parts of at least this size, in bytes.
    pub fn with_parts(fields: &Arc<Fields>, part_bytes: usize) -> Self {
        Self {
            kept: Vec::new(),
            came: 0,
            state: if fields.is_all() { State::Verbatim } else { State::Start },
            next: Some(Arc::clone(fields)),
            open: Vec::new(),
            key: Vec::new(),
            part_bytes,
            opening: Vec::new(),
            beginning: None,
            packed: 0,
            is_utf8: true,
        }
    }

    /// Returns the number of bytes that have arrived.
    pub fn came(&self) -> usize {
        self.came
    }

    /// Processes the next chunk.
    ///
    /// # Errors
    ///
    /// If the document, or its kept text, exceeds its limit.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<(), TooLong> {
        self.came = self.came.saturating_add(chunk.len());
        while !chunk.is_empty() {
            if self.came > DOCUMENT_MAX_BYTES || self.packed + self.kept.len() > KEPT_MAX_BYTES {
                return Err(TooLong);
            }
            let used = self.take(chunk);
            chunk = &chunk[used..];
        }
        Ok(())
    }

    /// Returns the kept text; `None` if it is not UTF-8.
    pub fn finish(mut self) -> Option<Document> {
        // The beginning may have been cut within a character.
        if let (State::Beginning, Err(error)) = (&self.state, std::str::from_utf8(&self.kept))
            && error.error_len().is_none()
        {
            let end = error.valid_up_to();
            self.kept.truncate(end);
        }
        let end = String::from_utf8(self.kept).ok()?;
        self.is_utf8.then(|| Document::new(self.beginning, end))
    }

    /// Processes some bytes and returns their number. It is zero only if the state changes.
    fn take(&mut self, chunk: &[u8]) -> usize {
        match &mut self.state {
            State::Verbatim => self.kept.extend_from_slice(chunk),
            State::Beginning => {
                let room = BEGINNING_BYTES.saturating_sub(self.kept.len());
                self.kept.extend_from_slice(&chunk[..room.min(chunk.len())]);
            }
            State::Broken => {}
            State::Whole(whole) => {
                let (used, is_over) = whole.take(chunk);
                if whole.is_kept {
                    self.kept.extend_from_slice(&chunk[..used]);
                }
                if is_over {
                    self.state = State::After;
                }
                return used;
            }
            State::Key { is_escaped } => {
                let end = end_of_text(chunk, is_escaped);
                let used = end.unwrap_or(chunk.len());
                let room = KEY_MAX_BYTES.saturating_sub(self.key.len());
                self.key.extend_from_slice(&chunk[..used.min(room)]);
                if end.is_some() {
                    self.state = State::Colon;
                }
                return used;
            }
            State::Start
            | State::First
            | State::Next
            | State::Colon
            | State::Value
            | State::After
            | State::End => {
                return if is_space(chunk[0]) { 1 } else { self.between(chunk[0]) };
            }
        }
        chunk.len()
    }

    /// Processes a byte between keys and values; returns 0 if it is the first of a value.
    fn between(&mut self, byte: u8) -> usize {
        let is_list = self.open.last().is_some_and(|container| container.is_list);
        match (self.state, byte) {
            (State::Start, b'{' | b'[') => {
                let fields = self.next.take().unwrap_or_default();
                self.enter(fields, byte);
            }
            (State::Start, _) => {
                self.state = State::Beginning;
                return 0;
            }
            (State::First | State::After, b'}') if !is_list => self.leave(byte),
            (State::First | State::After, b']') if is_list => self.leave(byte),
            (State::After, b',') => {
                self.divide();
                self.state = State::Next;
            }
            (State::First | State::Next, b'"') if !is_list => {
                self.key.clear();
                self.key.push(byte);
                self.state = State::Key { is_escaped: false };
            }
            (State::Colon, b':') => {
                self.next = self.member();
                self.state = State::Value;
            }
            (State::First | State::Next, _) if is_list => {
                self.separate();
                self.next = self.open.last().map(|list| Arc::clone(&list.fields));
                return self.begin(is_list, byte);
            }
            (State::Value, _) => return self.begin(is_list, byte),
            _ => self.mistake(),
        }
        1
    }

    /// Begins a value.
    fn begin(&mut self, is_in_list: bool, byte: u8) -> usize {
        match (self.next.take(), byte) {
            (_, b',' | b':' | b'}' | b']') => {
                self.mistake();
                1
            }
            (Some(fields), b'{' | b'[') if !(fields.is_all() || (is_in_list && byte == b'[')) => {
                self.enter(fields, byte);
                1
            }
            (fields, _) => {
                self.state = State::Whole(Whole { is_kept: fields.is_some(), ..Whole::default() });
                0
            }
        }
    }

    fn mistake(&mut self) {
        self.kept.push(MISTAKE);
        self.state = State::Broken;
    }

    /// Returns the fields to keep of the member whose key has been read; `None` if it is left out.
    fn member(&mut self) -> Option<Arc<Fields>> {
        // It was cut, or is as long as the limit: it names no needed field.
        if self.key.len() == KEY_MAX_BYTES {
            return None;
        }
        let fields = if self.key.contains(&b'\\') {
            match serde_json::from_slice::<String>(&self.key) {
                Ok(name) => Arc::clone(self.open.last()?.fields.0.get(&name)?),
                // A parser refuses this key. It must refuse the kept text as well.
                Err(_) => Arc::default(),
            }
        } else {
            let name = std::str::from_utf8(self.key.strip_suffix(b"\"")?.get(1..)?).ok()?;
            Arc::clone(self.open.last()?.fields.0.get(name)?)
        };
        self.separate();
        self.kept.extend_from_slice(&self.key);
        self.kept.push(b':');
        Some(fields)
    }

    /// Writes the separator between the previous kept value and the next one.
    fn separate(&mut self) {
        if let Some(container) = self.open.last_mut()
            && !std::mem::replace(&mut container.is_empty, false)
        {
            self.kept.push(b',');
        }
    }

    /// Ends a part after an item of the outermost list, if it is long enough.
    fn divide(&mut self) {
        if self.kept.len() < self.part_bytes {
            return;
        }
        let Some((list, around)) = self.open.split_last_mut() else { return };
        if !list.is_list || around.iter().any(|container| container.is_list) {
            return;
        }
        let (Ok(text), Ok(opening)) = (std::str::from_utf8(&self.kept), std::str::from_utf8(&self.opening))
        else {
            self.is_utf8 = false;
            return self.kept.clear();
        };
        let beginning = self.beginning.get_or_insert_with(|| Beginning {
            pieces: Vec::new(),
            opening: opening.to_owned(),
            closing: format!("]{}", "}".repeat(around.len())),
        });
        // All parts have the containers of one list: those of a second list would need others.
        if beginning.opening == opening {
            beginning.pieces.push(Packed::new(text));
            self.packed += text.len();
            self.kept.clear();
            list.is_empty = true;
        }
    }

    fn enter(&mut self, fields: Arc<Fields>, byte: u8) {
        self.kept.push(byte);
        let opened_at = self.opening.len();
        if !self.open.iter().any(|container| container.is_list) {
            if !self.open.is_empty() {
                self.opening.extend_from_slice(&self.key);
                self.opening.push(b':');
            }
            self.opening.push(byte);
        }
        self.open.push(Container { fields, is_list: byte == b'[', is_empty: true, opened_at });
        self.state = State::First;
    }

    fn leave(&mut self, byte: u8) {
        self.kept.push(byte);
        if let Some(container) = self.open.pop() {
            self.opening.truncate(container.opened_at);
        }
        self.state = if self.open.is_empty() { State::End } else { State::After };
    }
}

impl Whole {
    /// Processes the bytes that belong to the value. Returns their number, and whether the value has ended.
    fn take(&mut self, chunk: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < chunk.len() {
            if self.is_text {
                let Some(end) = end_of_text(&chunk[at..], &mut self.is_escaped) else { break };
                (at, self.is_text) = (at + end, false);
                if self.depth == 0 {
                    return (at, true);
                }
                continue;
            }
            match chunk[at] {
                b'"' => self.is_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' | b',' if self.depth == 0 => return (at, true),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                byte if self.depth == 0 && is_space(byte) => return (at, true),
                _ => {}
            }
            at += 1;
        }
        (chunk.len(), false)
    }
}

/// Returns whether a byte is whitespace in JSON.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Returns the end of a string, after its closing quote.
fn end_of_text(chunk: &[u8], is_escaped: &mut bool) -> Option<usize> {
    let mut at = 0;
    if std::mem::take(is_escaped) {
        at = 1;
    }
    loop {
        at += memchr::memchr2(b'"', b'\\', chunk.get(at..)?)?;
        if chunk[at] == b'"' {
            return Some(at + 1);
        }
        if at + 1 == chunk.len() {
            *is_escaped = true;
            return None;
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests;
