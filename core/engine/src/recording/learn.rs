//! Collects secrets from the events themselves, before a step is written.
//!
//! New knowledge may change how a text that the machine stores already is written. A text that was written in the clear turns
//! out to be a secret. A hidden text turns out to be a substring of a name. A mark gets its content. From there on, the
//! written steps no longer follow from the previous ones, so the machine's state must be written again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::Traits;
use super::redact::Redactor;
use super::secrets::{self, Found, Place, is_hidden, is_secret};
use super::stand_in::Placeholders;
use crate::action::Success;
use crate::machine::Event;
use crate::object::{Kind, metadata};

/// From this length in bytes on, a secret is searched for within texts.
const PART_MIN_BYTES: usize = 6;
/// The same for a secret of digits alone, because short numbers occur everywhere.
const DIGITS_MIN_BYTES: usize = 16;

/// The words of the engine, which all machines share: messages, and the names of the fields of a recording.
const WORDS: &str = include_str!(concat!(env!("OUT_DIR"), "/words.txt"));

/// The secrets and names that were collected so far.
pub struct SecretTracker {
    traits: Traits,
    /// The program's own words, and the fields of its own kinds.
    words: String,
    stand_ins: Placeholders,
    /// Every text of a secret with its placeholder, and whether it is searched for within texts.
    forms: BTreeMap<String, (String, bool)>,
    numbers: BTreeMap<String, Number>,
    /// Every name seen: of objects, kinds, labels and fields.
    names: BTreeSet<String>,
    /// The objects that have marks computed from them, by kind and name.
    sources: BTreeMap<(String, String), Arc<Value>>,
    /// The marks that objects were seen to have.
    carried: BTreeSet<String>,
    redactor: Arc<Redactor>,
}

/// The changes because of an event.
#[derive(Debug, Clone)]
pub struct TrackerUpdate {
    /// Replaces the previous one, from this event on.
    pub redactor: Arc<Redactor>,
    /// Whether the machine's state must be written again before the step.
    pub rewrites: bool,
}

impl SecretTracker {
    /// Returns an empty tracker. `key` is 32 random bytes, which must not be stored: they would allow guessing secrets from
    /// their placeholders.
    pub fn new(key: [u8; 32], traits: Traits) -> Self {
        let stand_ins = Placeholders::new(key);
        let mark = traits.mark.map(|mark| mark.annotation);
        let chosen = (mark, traits.forms);
        let redactor = Redactor::new(stand_ins.clone(), chosen, BTreeMap::new(), BTreeMap::new(), Vec::new());
        let fields = (traits.kinds)().into_iter().filter_map(|crd| serde_json::to_string(&crd).ok());
        let words = [WORDS, traits.words].map(str::to_owned);
        Self {
            words: words.into_iter().chain(fields).collect::<Vec<_>>().join("\0"),
            traits,
            stand_ins,
            forms: BTreeMap::new(),
            numbers: BTreeMap::new(),
            names: BTreeSet::new(),
            sources: BTreeMap::new(),
            carried: BTreeSet::new(),
            redactor: Arc::new(redactor),
        }
    }

    /// Returns the redactor for the secrets that are known.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// Collects the secrets and names in an event, before it is written.
    pub fn learn(&mut self, event: &Event) -> Option<TrackerUpdate> {
        let mut hides = false;
        if let Some(kind) = event.kind() {
            hides |= self.learn_kind(kind);
        }
        let mut source_changed = false;
        match event {
            Event::Applied { kind, object } | Event::Deleted { kind, object } => {
                hides |= self.learn_object(object, kind.kind == "Secret");
                source_changed |= self.learn_source(object, matches!(event, Event::Deleted { .. }));
            }
            Event::Finished { outcome: Ok(Success::Object(object)), .. } => {
                hides |= self.learn_object(object, false);
                source_changed |= self.learn_source(object, false);
            }
            Event::Finished { outcome: Ok(Success::Objects(objects)), .. } => {
                for object in objects {
                    hides |= self.learn_object(object, false);
                    source_changed |= self.learn_source(object, false);
                }
            }
            Event::Finished { outcome: Ok(Success::Kinds(kinds)), .. } => {
                for kind in kinds {
                    hides |= self.learn_kind(kind);
                }
            }
            Event::Finished {
                outcome:
                    Ok(
                        Success::Done
                        | Success::Document(_)
                        | Success::Oversized { .. }
                        | Success::Image(_)
                        | Success::Published(_),
                    )
                    | Err(_),
                ..
            }
            | Event::Started
            | Event::LeadershipChanged { .. }
            | Event::ListStarted { .. }
            | Event::ListCompleted { .. }
            | Event::WatchFailed { .. }
            | Event::TimerFired => {}
        }
        if !hides && !source_changed {
            return None;
        }
        let rewrites = self.renew(hides);
        Some(TrackerUpdate { redactor: Arc::clone(&self.redactor), rewrites })
    }

    fn learn_kind(&mut self, kind: &Kind) -> bool {
        let Kind { group, version, kind, plural, namespaced: _ } = kind;
        [group, version, kind, plural].into_iter().fold(false, |hides, name| self.learn_name(name) | hides)
    }

    fn learn_object(&mut self, object: &Value, known: bool) -> bool {
        let mut hides = self.learn_names(object, Place::Plain);
        self.learn_forms(object);
        let mut found = Vec::new();
        let visited = |secret: Found<'_>| match secret {
            Found::Data(text) if !text.is_empty() => {
                let (secret, hidden) = self.stand_ins.data(text);
                found.push((text.to_owned(), hidden));
                found.extend(self.stand_ins.forms(&secret));
            }
            Found::Text(text) if !text.is_empty() => found.extend(self.stand_ins.forms(text.as_bytes())),
            Found::Number(number) => {
                self.numbers.insert(number.to_string(), self.stand_ins.number(number));
                found.extend(self.stand_ins.forms(number.to_string().as_bytes()));
            }
            Found::Data(_) | Found::Text(_) => {}
        };
        secrets::visit_known(object, known, visited);
        for (text, hidden) in found {
            if !self.forms.contains_key(&text) {
                let is_part = is_long(&text) && !self.is_public(&text);
                self.forms.insert(text, (hidden, is_part));
                hides = true;
            }
        }
        hides
    }

    /// Values that the machine parses get placeholders that it can parse.
    fn learn_forms(&mut self, object: &Value) {
        if self.traits.forms.is_empty() || object["kind"] != "Secret" {
            return;
        }
        for form in self.traits.forms {
            let value = object["data"][form.key].as_str().filter(|value| !value.is_empty());
            if let Some(secret) = value.and_then(|value| STANDARD.decode(value).ok()) {
                self.stand_ins.form(&secret, form);
            }
        }
    }

    /// Returns whether a text occurs in a name, or in the program's own words: then it reveals nothing.
    fn is_public(&self, text: &str) -> bool {
        self.words.contains(text) || self.names.iter().any(|name| name.contains(text))
    }

    /// Returns whether a secret turned out to be a substring of it.
    fn learn_name(&mut self, name: &str) -> bool {
        if self.names.contains(name) {
            return false;
        }
        self.names.insert(name.to_owned());
        if !self.redactor.finds(name) {
            return false;
        }
        let parts = self.forms.iter_mut().filter(|(text, (_, is_part))| *is_part && name.contains(*text));
        parts.fold(false, |_, (_, (_, is_part))| {
            *is_part = false;
            true
        })
    }

    fn learn_names(&mut self, value: &Value, place: Place) -> bool {
        match value {
            Value::Object(fields) => self.learn_names_of(fields, place),
            Value::Array(items) => {
                items.iter().fold(false, |hides, item| self.learn_names(item, place) | hides)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    fn learn_names_of(&mut self, fields: &Map<String, Value>, place: Place) -> bool {
        let secret = is_secret(fields);
        let is_named = fields.get("kind").is_some_and(Value::is_string);
        let mut hides = false;
        for (field, value) in fields {
            if place == Place::Plain {
                hides |= self.learn_name(field);
            }
            match (field.as_str(), value) {
                // The names of fields in it, including the values of lists.
                ("fieldsV1", _) => {}
                ("metadata", Value::Object(metadata)) => {
                    hides |= self.learn_metadata(metadata);
                    hides |= self.learn_names(value, place);
                }
                ("apiVersion" | "kind" | "name" | "namespace", Value::String(name))
                    if is_named && place == Place::Plain =>
                {
                    hides |= self.learn_name(name);
                }
                ("className" | "observedClassName", Value::String(name)) if place == Place::Plain => {
                    hides |= self.learn_name(name);
                }
                (mark, Value::String(text)) if Some(mark) == self.redactor.mark => {
                    self.carried.insert(text.clone());
                }
                _ if secret && is_hidden(field) => {}
                _ => hides |= self.learn_names(value, place.below(field)),
            }
        }
        hides
    }

    fn learn_metadata(&mut self, metadata: &Map<String, Value>) -> bool {
        let names = ["name", "generateName", "namespace"].into_iter().filter_map(|field| metadata.get(field));
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        let texts = names.chain(labels.map(|(_, value)| value)).filter_map(Value::as_str);
        texts.fold(false, |hides, name| self.learn_name(name) | hides)
    }

    /// Returns whether the object has marks that were not known.
    fn learn_source(&mut self, object: &Arc<Value>, gone: bool) -> bool {
        let Some(mark) = self.traits.mark else { return false };
        let key =
            (object["kind"].as_str().unwrap_or_default().to_owned(), metadata(object, "name").to_owned());
        if gone {
            self.sources.remove(&key);
            return false;
        }
        let marks = (mark.of)(object);
        if marks.is_empty() {
            return false;
        }
        self.sources.insert(key, Arc::clone(object));
        marks.iter().any(|mark| !self.redactor.marks.contains_key(mark))
    }

    /// Rebuilds the redactor. Returns whether text that was written before may have to be written differently.
    fn renew(&mut self, hides: bool) -> bool {
        let mut redactor = Redactor::clone(&self.redactor);
        if hides {
            let texts = |part: bool| {
                let chosen = self.forms.iter().filter(move |(_, (_, is_part))| *is_part || !part);
                chosen.map(|(text, (hidden, _))| (text.clone(), hidden.clone()))
            };
            let (wholes, parts) = (texts(false).collect(), texts(true).collect());
            let (stand_ins, numbers) = (self.stand_ins.clone(), self.numbers.clone());
            let marks = std::mem::take(&mut redactor.marks);
            let chosen = (redactor.mark, redactor.forms);
            redactor = Redactor::new(stand_ins, chosen, wholes, numbers, parts);
            redactor.marks = marks;
        }
        let mut rewrites = hides;
        for (mark, hidden) in self.marks(&redactor) {
            let carried = || self.carried.contains(&mark).then(|| self.stand_ins.mark(&mark));
            let before = redactor.marks.get(&mark).cloned().or_else(carried);
            rewrites |= before.is_some_and(|before| before != hidden);
            redactor.marks.insert(mark, hidden);
        }
        self.redactor = Arc::new(redactor);
        rewrites
    }

    /// Returns the marks of all sources, each with the mark of the redacted source.
    fn marks(&self, redactor: &Redactor) -> Vec<(String, String)> {
        let Some(mark) = self.traits.mark else { return Vec::new() };
        let pairs = self.sources.values().flat_map(|source| {
            let mut hidden = Value::clone(source);
            redactor.redact(&mut hidden);
            (mark.of)(source).into_iter().zip((mark.of)(&hidden))
        });
        pairs.collect()
    }
}

impl fmt::Debug for SecretTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretTracker")
    }
}

/// Returns whether a secret is searched for within texts.
fn is_long(text: &str) -> bool {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.len() >= if digits { DIGITS_MIN_BYTES } else { PART_MIN_BYTES }
}

#[cfg(test)]
mod tests;
