//! JSON documents that are read as they arrive: only the fields that are needed are kept.
//!
//! ```text
//!   {"items":[{"id":"a","spec":{ … 300 kB … },"labels":{"x":"y"}}],"total":1}     comes in chunks
//!   {"items":[{"id":"a","labels":{"x":"y"}}],"total":1}                            is kept
//! ```
//!
//! What is kept means the same to a parser as the whole document, as far as it looks at the fields that were named: a document
//! that breaks off or is no JSON between these fields stays one. Values that are left out are not checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A document may have this many bytes: a page of 100 items of 600 kB.
pub const DOCUMENT_MAX_BYTES: usize = 64 << 20;
/// What is kept of it may have this many.
pub const KEPT_MAX_BYTES: usize = 32 << 20;

/// How much is kept of a document that is neither an object nor a list, for messages.
const BEGINNING_BYTES: usize = 4 << 10;
/// Keys that are longer, in bytes, are not looked at: they name no field that anything is read from.
const KEY_MAX_BYTES: usize = 256;
/// Never valid between the values of a document, and so what makes a parser refuse one that has a mistake there.
const MISTAKE: u8 = 1;

/// Which fields of a value are kept; all of it, where none is named. Of a list of objects these fields of each are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(BTreeMap<String, Arc<Self>>);

impl Fields {
    /// The fields at these paths, such as `["id", "status.phase"]`.
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

/// Keeps the fields that are needed of one document.
#[derive(Debug)]
pub struct Condenser {
    kept: Vec<u8>,
    came: usize,
    state: State,
    /// The objects and lists around the place, from the outside to the inside.
    open: Vec<Container>,
    /// The key that is being read, with its quotes.
    key: Vec<u8>,
}

#[derive(Debug)]
struct Container {
    fields: Arc<Fields>,
    is_list: bool,
    /// Whether nothing of it is kept so far.
    is_empty: bool,
}

#[derive(Debug)]
enum State {
    /// Before the document.
    Start(Arc<Fields>),
    /// Everything is kept as it is.
    Verbatim,
    /// The beginning is kept of what is no object and no list.
    Beginning,
    /// At the first member of an object or list, or at its end.
    First,
    /// At a member that must follow.
    Next,
    /// Within a key.
    Key { is_escaped: bool },
    /// Between key and value.
    Colon,
    /// At a value of these fields; none if it is left out.
    Value(Option<Arc<Fields>>),
    /// Within a value that is kept whole, or not at all.
    Whole(Whole),
    /// After a member.
    After,
    /// After the document.
    End,
    /// After a mistake: what follows is of no use.
    Broken,
}

#[derive(Debug, Default)]
struct Whole {
    is_kept: bool,
    depth: usize,
    is_text: bool,
    is_escaped: bool,
}

impl Condenser {
    /// Keeps these fields.
    pub fn new(fields: &Arc<Fields>) -> Self {
        let fields = Arc::clone(fields);
        let state = if fields.is_all() { State::Verbatim } else { State::Start(fields) };
        Self { kept: Vec::new(), came: 0, state, open: Vec::new(), key: Vec::new() }
    }

    /// How many bytes have come.
    pub fn came(&self) -> usize {
        self.came
    }

    /// Takes in what comes next.
    ///
    /// # Errors
    ///
    /// If the document, or what is kept of it, exceeds its limit.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<(), TooLong> {
        self.came = self.came.saturating_add(chunk.len());
        while !chunk.is_empty() {
            if self.came > DOCUMENT_MAX_BYTES || self.kept.len() > KEPT_MAX_BYTES {
                return Err(TooLong);
            }
            let used = self.take(chunk);
            chunk = &chunk[used..];
        }
        Ok(())
    }

    /// What was kept; none if it is not UTF-8.
    pub fn finish(mut self) -> Option<String> {
        // The beginning may have been cut within a character.
        if let (State::Beginning, Err(error)) = (&self.state, std::str::from_utf8(&self.kept))
            && error.error_len().is_none()
        {
            let end = error.valid_up_to();
            self.kept.truncate(end);
        }
        String::from_utf8(self.kept).ok()
    }

    /// Takes in some bytes and returns how many; none only where it goes on to another state.
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
            State::Start(_)
            | State::First
            | State::Next
            | State::Colon
            | State::Value(_)
            | State::After
            | State::End => {
                return if is_space(chunk[0]) { 1 } else { self.between(chunk[0]) };
            }
        }
        chunk.len()
    }

    /// Takes in a byte between keys and values; returns 0 if it is the first of a value.
    fn between(&mut self, byte: u8) -> usize {
        let is_list = self.open.last().is_some_and(|container| container.is_list);
        match (std::mem::replace(&mut self.state, State::Broken), byte) {
            (State::Start(fields), b'{' | b'[') => self.enter(fields, byte),
            (State::Start(_), _) => {
                self.state = State::Beginning;
                return 0;
            }
            (State::First | State::After, b'}') if !is_list => self.leave(byte),
            (State::First | State::After, b']') if is_list => self.leave(byte),
            (State::After, b',') => self.state = State::Next,
            (State::First | State::Next, b'"') if !is_list => {
                self.key.clear();
                self.key.push(byte);
                self.state = State::Key { is_escaped: false };
            }
            (State::Colon, b':') => self.state = State::Value(self.member()),
            (State::First | State::Next, _) if is_list => {
                self.separate();
                let fields = self.open.last().map(|list| Arc::clone(&list.fields));
                return self.begin(fields, byte);
            }
            (State::Value(fields), _) => return self.begin(fields, byte),
            _ => self.kept.push(MISTAKE),
        }
        1
    }

    /// Begins a value.
    fn begin(&mut self, fields: Option<Arc<Fields>>, byte: u8) -> usize {
        let is_in_list = self.open.last().is_some_and(|container| container.is_list);
        match (fields, byte) {
            (_, b',' | b':' | b'}' | b']') => {
                self.kept.push(MISTAKE);
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

    /// The fields that are kept of the member whose key has been read; none if it is left out.
    fn member(&mut self) -> Option<Arc<Fields>> {
        // It was cut, or is as long: it names nothing.
        if self.key.len() == KEY_MAX_BYTES {
            return None;
        }
        let fields = if self.key.contains(&b'\\') {
            match serde_json::from_slice::<String>(&self.key) {
                Ok(name) => Arc::clone(self.open.last()?.fields.0.get(&name)?),
                // A parser refuses it, and so should one of what is kept.
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

    /// Separates what is kept next from what was kept before.
    fn separate(&mut self) {
        if let Some(container) = self.open.last_mut()
            && !std::mem::replace(&mut container.is_empty, false)
        {
            self.kept.push(b',');
        }
    }

    fn enter(&mut self, fields: Arc<Fields>, byte: u8) {
        self.kept.push(byte);
        self.open.push(Container { fields, is_list: byte == b'[', is_empty: true });
        self.state = State::First;
    }

    fn leave(&mut self, byte: u8) {
        self.kept.push(byte);
        self.open.pop();
        self.state = if self.open.is_empty() { State::End } else { State::After };
    }
}

impl Whole {
    /// Takes in what belongs to the value, and returns how many bytes that is and whether the value is over.
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

/// Whether JSON takes a byte for space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Where a text ends, its closing quote included.
fn end_of_text(chunk: &[u8], is_escaped: &mut bool) -> Option<usize> {
    let mut at = 0;
    if std::mem::take(is_escaped) {
        at = 1;
    }
    loop {
        at += chunk.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
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
#[path = "document/tests.rs"]
mod tests;
