//! One step of a path, from a value to a field or item.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

use super::value::compare;
use crate::cause::text;

/// Selects a field of a map or an item of a list.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// The value of a map's key.
    Field(String),
    /// The list item with these values of its key fields, sorted by name.
    Key(Vec<(String, Value)>),
    /// The item of a set.
    Value(Value),
    /// The item at an index.
    Index(i64),
}

impl Step {
    /// Returns the step to a field.
    pub(super) fn field(name: &str) -> Self {
        Step::Field(name.to_owned())
    }

    /// Parses the form in managed fields: `f:name`, `k:{...}`, `v:...`, `i:0`. None if it is unknown.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_at_checked(2) else {
            return Err(format!("key must be 2 characters long: {text}"));
        };
        if !kind.ends_with(':') {
            return Err(format!("missing colon: {text}"));
        }
        Ok(Some(match kind {
            "f:" => Step::Field(rest.to_owned()),
            "v:" => Step::Value(serde_json::from_str(rest).map_err(|error| error.to_string())?),
            "k:" => {
                let fields: Map<String, Value> =
                    serde_json::from_str(rest).map_err(|error| error.to_string())?;
                let mut fields: Vec<_> = fields.into_iter().collect();
                fields.sort_by(|left, right| left.0.cmp(&right.0));
                Step::Key(fields)
            }
            "i:" => Step::Index(rest.parse().map_err(|_| format!("no index: {rest}"))?),
            _ => return Ok(None),
        }))
    }

    /// Formats it as in managed fields.
    pub(super) fn serialize(&self) -> String {
        match self {
            Step::Field(name) => format!("f:{name}"),
            Step::Value(value) => format!("v:{}", text::json(value)),
            Step::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), text::json(value)))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Step::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Step::Field(_) => 0,
            Step::Key(_) => 1,
            Step::Value(_) => 2,
            Step::Index(_) => 3,
        }
    }
}

impl Ord for Step {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Step::Field(left), Step::Field(right)) => left.cmp(right),
            (Step::Key(left), Step::Key(right)) => {
                for ((left_name, left), (right_name, right)) in left.iter().zip(right) {
                    let order = left_name.cmp(right_name).then_with(|| compare(left, right));
                    if order != Ordering::Equal {
                        return order;
                    }
                }
                left.len().cmp(&right.len())
            }
            (Step::Value(left), Step::Value(right)) => compare(left, right),
            (Step::Index(left), Step::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Step {}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Field(name) => write!(f, ".{name}"),
            Step::Key(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={}", show(value))).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Step::Value(value) => write!(f, "[={}]", show(value)),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(string) => text::quote(string),
        Value::Bool(_) | Value::Number(_) => text::plain(value),
        Value::Array(list) => format!("[{}]", list.iter().map(show).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            map.iter().map(|(key, value)| format!("{key}={}", show(value))).collect::<Vec<_>>().concat()
        }
    }
}

/// Formats a path as in messages: `.spec.ports[port=80].name`.
pub(super) fn show_path(path: &[Step]) -> String {
    path.iter().map(ToString::to_string).collect()
}
