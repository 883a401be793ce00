//! Replaces secrets with placeholders.
//!
//! | what | replacement |
//! | --- | --- |
//! | a value in a Secret | always, by a placeholder of the same JSON type; base64 by base64 |
//! | the text of such a value elsewhere, raw or in base64 | within any text, if it is long; as a whole text in data and annotations, if it is short or a substring of a name |
//! | a mark that is computed from contents | by the mark that is computed from the recorded contents |
//!
//! Names are not replaced, because decisions depend on their order and messages contain them.

use std::collections::BTreeMap;
use std::fmt;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Number, Value};

use super::secrets::{Place, fields_of_secrets, is_hidden, is_secret, nested};
use super::stand_in::Placeholders;
use super::{Form, Line, written};

/// The shortest beginning of a secret that is hidden at the end of a truncated text, in bytes.
const TAIL_MIN_BYTES: usize = 4;

/// Replaces all secrets that were known when it was created.
#[derive(Clone)]
pub struct Redactor {
    pub(super) stand_ins: Placeholders,
    pub(super) mark: Option<&'static str>,
    pub(super) forms: &'static [Form],
    pub(super) marks: BTreeMap<String, String>,
    /// By text: the replacement if it is the whole text of a value.
    wholes: BTreeMap<String, String>,
    numbers: BTreeMap<String, Number>,
    /// Texts that are replaced wherever they occur, with their placeholders.
    parts: Vec<(String, String)>,
    /// Finds them. Without it, every text is treated as a secret.
    finder: Option<AhoCorasick>,
}

impl Redactor {
    pub(super) fn new(
        stand_ins: Placeholders,
        (mark, forms): (Option<&'static str>, &'static [Form]),
        wholes: BTreeMap<String, String>,
        numbers: BTreeMap<String, Number>,
        parts: Vec<(String, String)>,
    ) -> Self {
        let texts = parts.iter().map(|(text, _)| text);
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts).ok();
        Self { stand_ins, mark, forms, marks: BTreeMap::new(), wholes, numbers, parts, finder }
    }

    /// Returns a line, or any other value, as JSON without secrets.
    pub fn redacted(&self, value: &impl Serialize) -> serde_json::Result<Value> {
        let mut value = serde_json::to_value(value)?;
        self.redact(&mut value);
        Ok(value)
    }

    /// Returns the written form of a line, without secrets.
    pub fn line(&self, line: &Line) -> serde_json::Result<Vec<u8>> {
        written(&self.redacted(line)?)
    }

    /// Replaces all secrets in a value.
    pub fn redact(&self, value: &mut Value) {
        self.value(value, Place::Plain);
    }

    /// Returns whether a text contains a secret that is replaced wherever it occurs.
    pub(super) fn finds(&self, text: &str) -> bool {
        self.finder.as_ref().is_none_or(|finder| finder.is_match(text))
    }

    fn value(&self, value: &mut Value, place: Place) {
        match value {
            Value::Object(fields) => self.object(fields, place, false),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item, place)),
            Value::String(text) => {
                if let Some(changed) = self.text(text, place) {
                    *text = changed;
                }
            }
            Value::Number(number) if place == Place::Data => {
                if let Some(hidden) = self.numbers.get(&number.to_string()) {
                    *number = hidden.clone();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&self, fields: &mut Map<String, Value>, place: Place, known: bool) {
        let secret = known || is_secret(fields);
        let of_secrets = fields_of_secrets(fields);
        for (field, value) in fields.iter_mut() {
            if secret && is_hidden(field) {
                self.hide(value, field == "data");
            } else if of_secrets.contains(&field.as_str()) {
                self.secrets(value);
            } else if let (true, Value::String(mark)) = (Some(field.as_str()) == self.mark, &mut *value) {
                *mark = self.marked(mark);
            } else {
                self.value(value, place.below(field));
            }
        }
        self.keys(fields);
    }

    fn secrets(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => self.object(fields, Place::Plain, true),
            Value::Array(items) => items.iter_mut().for_each(|item| self.secrets(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Replaces every value in a field of a Secret.
    fn hide(&self, value: &mut Value, base64: bool) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields.iter_mut() {
                    let form = self.forms.iter().find(|form| base64 && form.key == key.as_str());
                    if form.is_none_or(|form| !self.hide_formed(value, form)) {
                        self.hide(value, base64);
                    }
                }
                self.keys(fields);
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item, base64)),
            Value::String(text) if text.is_empty() => {}
            Value::String(text) if base64 => *text = self.stand_ins.data(text).1,
            Value::String(text) => *text = self.stand_ins.text(text.as_bytes()),
            Value::Number(number) => *number = self.stand_ins.number(number),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Replaces a value whose format the machine parses by one of the same format. Returns whether the value could be
    /// decoded.
    fn hide_formed(&self, value: &mut Value, form: &Form) -> bool {
        let secret =
            value.as_str().filter(|text| !text.is_empty()).and_then(|text| STANDARD.decode(text).ok());
        let Some(secret) = secret else { return false };
        *value = STANDARD.encode(self.stand_ins.formed(&secret, form)).into();
        true
    }

    /// Keys are texts too: managed fields contain the values of lists in their keys.
    fn keys(&self, fields: &mut Map<String, Value>) {
        if fields.keys().any(|key| self.finds(key)) {
            let changed = std::mem::take(fields).into_iter();
            *fields = changed.map(|(key, value)| (self.within(&key).unwrap_or(key), value)).collect();
        }
    }

    pub(super) fn marked(&self, mark: &str) -> String {
        self.marks.get(mark).cloned().unwrap_or_else(|| self.stand_ins.mark(mark))
    }

    /// Returns the replacement of a text, if anything in it must be replaced.
    fn text(&self, text: &str, place: Place) -> Option<String> {
        if place == Place::Data
            && let Some(hidden) = self.wholes.get(text)
        {
            return Some(hidden.clone());
        }
        if let Some(before) = nested(text) {
            let mut after = before.clone();
            self.value(&mut after, place);
            if after != before {
                return Some(after.to_string());
            }
        }
        if is_timestamp(text) { None } else { self.within(text) }
    }

    fn within(&self, text: &str) -> Option<String> {
        let Some(finder) = &self.finder else { return Some(self.stand_ins.text(text.as_bytes())) };
        let mut changed = None;
        if finder.is_match(text) {
            let mut hidden = String::with_capacity(text.len());
            finder.replace_all_with(text, &mut hidden, |found, _, hidden| {
                hidden.push_str(&self.parts[found.pattern().as_usize()].1);
                true
            });
            changed = Some(hidden);
        }
        self.tails(changed.as_deref().unwrap_or(text)).or(changed)
    }

    /// Removes the beginning of a secret at the end of a truncated text.
    fn tails(&self, text: &str) -> Option<String> {
        let mark = ["…", " ..."].into_iter().find(|mark| text.contains(mark))?;
        let mut pieces: Vec<&str> = text.split(mark).collect();
        let last = pieces.len() - 1;
        for piece in &mut pieces[..last] {
            let left = self.parts.iter().filter_map(|(secret, _)| tail(piece, secret)).max();
            *piece = &piece[..piece.len() - left.unwrap_or(0)];
        }
        let cut = pieces.join(mark);
        (cut != text).then_some(cut)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

/// Returns how many bytes at the end of a text are the beginning of a secret.
fn tail(text: &str, secret: &str) -> Option<usize> {
    let longest = secret.len().min(text.len());
    (TAIL_MIN_BYTES..=longest).rev().find(|length| {
        secret.is_char_boundary(*length) && text.as_bytes().ends_with(&secret.as_bytes()[..*length])
    })
}

/// Returns whether a text is a timestamp and nothing else; timestamps are parsed and compared.
fn is_timestamp(text: &str) -> bool {
    text.as_bytes().get(10) == Some(&b'T') && text.parse::<Timestamp>().is_ok()
}
