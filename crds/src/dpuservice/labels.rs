//! Labels, annotations and label selectors, with the limits that Kubernetes sets them.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A label selector: all of its terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Labels and the values that they must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    pub match_labels: BTreeMap<String, String>,
    /// Further terms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One term of a selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
        "message": "In and NotIn need values",
        "reason": "FieldValueRequired",
        "fieldPath": ".values",
    },
    {
        "rule": "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",
        "message": "Exists and DoesNotExist take no values",
        "reason": "FieldValueForbidden",
        "fieldPath": ".values",
    },
]))]
pub struct LabelSelectorRequirement {
    /// The label.
    #[schemars(schema_with = "label_key")]
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    #[schemars(extend("enum" = ["In", "NotIn", "Exists", "DoesNotExist"]))]
    pub operator: String,
    /// The values of In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "label_values")]
    pub values: Vec<String>,
}

/// A map of labels.
pub(super) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": label_value(),
        "x-kubernetes-validations": [keys(
            is_qualified,
            "a label's name has up to 63 letters, digits, '-', '_' and '.', begins and ends with a letter or digit, and may follow a lower-case DNS name and a slash, such as example.com/role",
        )],
    })
}

/// A map of annotations. Their names are judged without regard to case.
pub(super) fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": ANNOTATIONS_BYTES_MAX },
        "x-kubernetes-validations": [
            keys(
                |key| qualified(key, "A-Za-z0-9"),
                "an annotation's name has up to 63 letters, digits, '-', '_' and '.', begins and ends with a letter or digit, and may follow a DNS name and a slash, such as example.com/role",
            ),
            {
                "rule": format!("self.map(key, size(bytes(key)) + size(bytes(self[key]))).sum() <= {ANNOTATIONS_BYTES_MAX}"),
                "message": format!("all annotations together must have at most {ANNOTATIONS_BYTES_MAX} bytes"),
            },
        ],
    })
}

/// How long the names and values of an object's annotations may be together.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Whether a string is a qualified name.
pub(super) fn is_qualified(text: &str) -> String {
    qualified(text, "a-z0-9")
}

/// Whether a string is a name of up to 63 characters, after a DNS name of such characters and a slash or without.
fn qualified(text: &str, dns: &str) -> String {
    let label = format!("[{dns}]([-{dns}]*[{dns}])?");
    let name = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
    format!(r"({text}.matches(r'^({label}(\.{label})*/)?{name}$') && {text}.indexOf('/') <= 253)")
}

/// A rule on the keys of a map; its message names the first that breaks it.
pub(super) fn keys(is_key: impl Fn(&str) -> String, message: &str) -> Value {
    let broken = first("self", |key| format!("!{}", is_key(key)));
    let quoted = message.replace('\'', r"\'");
    json!({
        "rule": format!("self.all(key, {})", is_key("key")),
        "message": message,
        "messageExpression": format!(r#"'"' + {broken} + '": {quoted}'"#),
    })
}

/// The smallest of the keys of a map that are so. The server could not estimate what a message with `min()` costs.
pub(super) fn first(map: &str, is_so: impl Fn(&str) -> String) -> String {
    let (key, other) = (is_so("key"), is_so("other"));
    format!("{map}.filter(key, {key} && {map}.all(other, key <= other || !({other})))[0]")
}

fn label_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 253 + 1 + 63,
        "x-kubernetes-validations": [{
            "rule": is_qualified("self"),
            "message": "must be the name of a label: up to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, after a lower-case DNS name and a slash or without, such as example.com/role",
        }],
    })
}

fn label_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "items": label_value(),
        "x-kubernetes-list-type": "atomic",
    })
}

fn label_value() -> Value {
    json!({
        "type": "string",
        "maxLength": 63,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",
            "message": "must be the value of a label: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, or nothing",
        }],
    })
}

/// The value of a label that names something, hence not empty.
pub(super) fn service_id(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 63,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",
            "message": "must be the value of a label: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit; leave serviceID out if there is none",
        }],
    })
}
