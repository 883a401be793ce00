//! The largest and the smallest values that a schema allows.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::path::{ITEMS, KEYS, VALUES};
use crate::schema::escape::escape;
use crate::schema::node::DEPTH_MAX;

/// The size of a request up to which the server estimates, in bytes. It is larger than the size that the server accepts.
pub(super) const REQUEST_BYTES_MAX: i64 = 3 * 1024 * 1024;
/// The maximum length of a string without limit: the request has two quotes as well.
const STRING_MAX: i64 = REQUEST_BYTES_MAX - 2;

/// A schema, as its author wrote it.
#[derive(Debug, Clone, Copy)]
pub(in crate::schema) struct Declaration<'s> {
    schema: &'s Map<String, Value>,
    /// Whether its values have the metadata of objects.
    is_object: bool,
    depth: usize,
}

type Static = LazyLock<Map<String, Value>>;

/// The type of fields that all objects have.
static STRING: Static = LazyLock::new(|| map(&json!({"type": "string"})));
/// The type of keys. The server has no estimate for their length.
static KEY: Static = LazyLock::new(|| map(&json!({"type": "string", "maxLength": 0})));
static METADATA: Static = LazyLock::new(|| {
    let string = json!({"type": "string"});
    map(&json!({"type": "object", "properties": {"name": string, "generateName": string}}))
});

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

impl<'s> Declaration<'s> {
    pub(in crate::schema) fn new(schema: &'s Map<String, Value>, is_object: bool) -> Self {
        Self { schema, is_object, depth: 0 }
    }

    /// Returns the schema at a path below; none if it is not declared.
    pub(super) fn find<'p>(self, steps: impl IntoIterator<Item = &'p str>) -> Option<Self> {
        steps.into_iter().try_fold(self, |at, step| match step {
            ITEMS | VALUES => at.element(),
            KEYS => at.values().map(|_| at.below(&KEY, false)),
            field => at.field(field).filter(|field| field.is_known()),
        })
    }

    /// Returns the maximum size of a value: characters, bytes, items or entries; 0 for other types.
    pub(super) fn max_size(self) -> u64 {
        let limit = |key: &str| self.number(key);
        let text = || limit("maxLength").map(|characters| characters.wrapping_mul(4));
        let size = if self.flag("x-kubernetes-int-or-string") {
            text().unwrap_or(STRING_MAX)
        } else {
            match self.text("type") {
                "array" => limit("maxItems").unwrap_or_else(|| {
                    let item = self.items().map_or(0, Self::min_bytes);
                    (REQUEST_BYTES_MAX - 2) / (item + 1)
                }),
                "object" => self.values().map_or(0, |values| {
                    // An entry also has a key of at least two characters, a colon and a comma.
                    let entry = || (REQUEST_BYTES_MAX - 2) / (values.min_bytes() + 6);
                    limit("maxProperties").unwrap_or_else(entry)
                }),
                "string" => match self.text("format") {
                    "byte" => limit("maxLength").unwrap_or(STRING_MAX),
                    "duration" | "date-time" => 32,
                    "date" => 12,
                    _ => text().or_else(|| self.longest_alternative()).unwrap_or(STRING_MAX),
                },
                _ => 0,
            }
        };
        size.cast_unsigned()
    }

    /// Returns the minimum size of a value in JSON.
    pub(super) fn min_bytes(self) -> i64 {
        if self.flag("x-kubernetes-int-or-string") {
            return 1;
        }
        match self.text("type") {
            "array" => 2,
            "object" if self.values().is_some() => 2,
            "object" => 2 + self.min_bytes_of_fields(),
            "string" => match self.text("format") {
                "duration" => 3,
                "date" => 12,
                "date-time" => 21,
                _ => 2,
            },
            "boolean" => 4,
            _ => 1,
        }
    }

    fn min_bytes_of_fields(self) -> i64 {
        let required = self.schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: BTreeSet<&str> = required.filter_map(Value::as_str).collect();
        let fields = required.into_iter().filter_map(|name| {
            let property = || Some(self.child(self.properties()?.get(name)?.as_object()?));
            let field = self.implied(name).or_else(property).filter(|field| field.is_known())?;
            let has_default = field.schema.get("default").is_some_and(|default| !default.is_null());
            // The name has quotes, and a colon and a comma follow.
            let name_bytes = i64::try_from(name.len()).unwrap_or(i64::MAX);
            (!has_default).then(|| name_bytes.saturating_add(field.min_bytes()).saturating_add(4))
        });
        fields.fold(0, i64::saturating_add)
    }

    /// Returns whether rules can use the values.
    fn is_known(self) -> bool {
        self.depth <= DEPTH_MAX
            && (self.flag("x-kubernetes-int-or-string")
                || match self.text("type") {
                    "array" => self.items().is_some_and(Self::is_known),
                    "object" => self.values().is_none_or(Self::is_known),
                    kind => ["string", "boolean", "number", "integer"].contains(&kind),
                })
    }

    fn element(self) -> Option<Self> {
        if self.flag("x-kubernetes-int-or-string") {
            return None;
        }
        match self.text("type") {
            "array" => self.items(),
            "object" => self.values(),
            _ => None,
        }
    }

    fn items(self) -> Option<Self> {
        Some(self.child(self.schema.get("items")?.as_object()?))
    }

    fn values(self) -> Option<Self> {
        Some(self.child(self.schema.get("additionalProperties")?.as_object()?))
    }

    fn field(self, name: &str) -> Option<Self> {
        if self.text("type") != "object" || self.values().is_some() {
            return None;
        }
        let declared = || {
            let (_, property) = self.properties()?.iter().find(|(key, _)| escape(key) == name)?;
            Some(self.child(property.as_object()?))
        };
        self.implied(name).or_else(declared)
    }

    /// Returns the schema of a field that all objects have, unless the author declared all such fields.
    fn implied(self, name: &str) -> Option<Self> {
        let schema: &'static Map<String, Value> = match name {
            "apiVersion" | "kind" => &STRING,
            "metadata" => &METADATA,
            _ => return None,
        };
        (self.is_object && !self.declares_metadata()).then(|| self.below(schema, false))
    }

    fn declares_metadata(self) -> bool {
        let kind = |property: Option<&Value>, kind: &str| {
            property.is_some_and(|property| property.get("type").is_some_and(|known| known == kind))
        };
        self.properties().is_some_and(|properties| {
            let metadata = properties.get("metadata");
            let below = |name: &str| metadata?.get("properties")?.get(name);
            kind(properties.get("kind"), "string")
                && kind(properties.get("apiVersion"), "string")
                && kind(metadata, "object")
                && kind(below("name"), "string")
                && kind(below("generateName"), "string")
        })
    }

    fn properties(self) -> Option<&'s Map<String, Value>> {
        self.schema.get("properties")?.as_object()
    }

    fn child(self, schema: &'s Map<String, Value>) -> Self {
        let is_object = schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
        self.below(schema, is_object)
    }

    fn below(self, schema: &'s Map<String, Value>, is_object: bool) -> Self {
        Self { schema, is_object, depth: self.depth + 1 }
    }

    /// Returns the length of the longest string of an enumeration, in bytes; none if there is no enumeration.
    fn longest_alternative(self) -> Option<i64> {
        let alternatives = self.schema.get("enum")?.as_array().filter(|values| !values.is_empty())?;
        let longest = alternatives.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0);
        i64::try_from(longest).ok()
    }

    fn number(self, key: &str) -> Option<i64> {
        self.schema.get(key)?.as_i64().map(|limit| limit.max(0))
    }

    fn text(self, key: &str) -> &'s str {
        self.schema.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(self, key: &str) -> bool {
        self.schema.get(key) == Some(&Value::Bool(true))
    }
}
