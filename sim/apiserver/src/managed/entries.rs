//! The entries of `metadata.managedFields`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::set::Set;
use crate::cause::text;

const APPLY: &str = "Apply";
pub(super) const UPDATE: &str = "Update";

/// The fields that one manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) applies: bool,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: Option<String>,
    pub(super) set: Set,
}

/// The entries of an object by manager identifier.
pub(super) type Entries = BTreeMap<String, Entry>;

impl Entry {
    /// Returns the identifier. For applies it has no API version, so that the entry is the same across versions.
    pub(super) fn id(&self) -> String {
        let mut id = format!(
            "{{\"manager\":{},\"operation\":\"{}\"",
            text::json(&json!(self.manager)),
            self.operation()
        );
        if !self.applies {
            let _ = write!(id, ",\"apiVersion\":{}", text::json(&json!(self.api_version)));
        }
        if !self.subresource.is_empty() {
            let _ = write!(id, ",\"subresource\":{}", text::json(&json!(self.subresource)));
        }
        id.push('}');
        id
    }

    /// Returns the name of the manager in conflicts.
    pub(super) fn describe(&self) -> String {
        let mut name = text::quote(&self.manager);
        if !self.subresource.is_empty() {
            let _ = write!(name, " with subresource {}", text::quote(&self.subresource));
        }
        if !self.applies {
            let _ = write!(name, " using {}", self.api_version);
        }
        name
    }

    /// Returns the entry's time in seconds, for ordering.
    pub(super) fn seconds(&self) -> i64 {
        seconds(self.time.as_deref())
    }

    fn operation(&self) -> &'static str {
        if self.applies { APPLY } else { UPDATE }
    }

    fn parse(index: usize, value: &Value) -> Result<Self, String> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let applies = match text("operation").as_str() {
            APPLY => true,
            UPDATE => false,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if text("apiVersion").is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
            other => {
                return Err(format!(
                    "invalid fieldsType {} in managed fields entry {index}",
                    text::quote(other)
                ));
            }
        }
        let set = match value.get("fieldsV1") {
            None | Some(Value::Null) => Set::default(),
            Some(fields) => Set::parse(fields)?,
        };
        Ok(Self {
            manager: text("manager"),
            applies,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: value.get("time").and_then(Value::as_str).map(str::to_owned),
            set,
        })
    }

    fn to_json(&self) -> Value {
        let mut entry = Map::new();
        entry.insert("apiVersion".to_owned(), json!(self.api_version));
        entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
        entry.insert("fieldsV1".to_owned(), self.set.to_json());
        entry.insert("manager".to_owned(), json!(self.manager));
        entry.insert("operation".to_owned(), json!(self.operation()));
        if !self.subresource.is_empty() {
            entry.insert("subresource".to_owned(), json!(self.subresource));
        }
        if let Some(time) = &self.time {
            entry.insert("time".to_owned(), json!(time));
        }
        Value::Object(entry)
    }
}

/// Parses the entries of an object.
pub(super) fn decode(object: Option<&Value>) -> Result<Entries, String> {
    let list = object.and_then(listed).map_or(&[][..], Vec::as_slice);
    let entries = list.iter().enumerate().map(|(index, entry)| Entry::parse(index, entry));
    entries.map(|entry| entry.map(|entry| (entry.id(), entry))).collect()
}

/// Returns the list in an object.
pub(super) fn listed(object: &Value) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

/// Writes the entries into an object: applies first, then by time, manager, version and subresource.
pub(super) fn encode(object: &mut Value, entries: &Entries) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        if let (Some(object), false) = (object.as_object_mut(), entries.is_empty()) {
            object.insert("metadata".to_owned(), json!({}));
            encode_into(object.get_mut("metadata").and_then(Value::as_object_mut), entries);
        }
        return;
    };
    encode_into(Some(metadata), entries);
}

fn encode_into(metadata: Option<&mut Map<String, Value>>, entries: &Entries) {
    let Some(metadata) = metadata else { return };
    if entries.is_empty() {
        metadata.remove("managedFields");
        return;
    }
    let mut list: Vec<Value> = entries.values().map(Entry::to_json).collect();
    sort(&mut list);
    metadata.insert("managedFields".to_owned(), Value::Array(list));
}

/// Sorts entries as an object lists them.
pub(super) fn sort(listed: &mut [Value]) {
    let text =
        |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    listed.sort_by_cached_key(|entry| {
        let order = ["manager", "apiVersion", "subresource"].map(|key| text(entry, key));
        (entry["operation"] != APPLY, seconds(entry["time"].as_str()), order)
    });
}

/// Returns a time in seconds.
fn seconds(time: Option<&str>) -> i64 {
    time.and_then(|time| time.parse::<jiff::Timestamp>().ok()).map_or(0, jiff::Timestamp::as_second)
}
