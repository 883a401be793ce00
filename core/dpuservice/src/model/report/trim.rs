//! The trimmed objects of a report: the fields that are kept, and how many.

use serde_json::{Map, Value};

use super::stable_text::short;

/// The maximum size of the deployments of one Application, and of its images, and of its URLs, in bytes.
pub(super) const LIST_MAX_BYTES: usize = 10_000;

/// The maximum number of images and of URLs that are kept for one Application.
const SUMMARY_MAX: usize = 20;

/// Returns the items of a list in a status.
pub(super) fn items<'a>(status: &'a Value, field: &str) -> std::slice::Iter<'a, Value> {
    status[field].as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

/// Returns the first values, as many as fit.
pub(super) fn within(max_bytes: usize, values: impl Iterator<Item = Value>) -> Vec<Value> {
    let fits = |left: &mut usize, value: Value| {
        *left = left.checked_sub(value.to_string().len())?;
        Some(value)
    };
    values.scan(max_bytes, fits).collect()
}

/// Returns the given fields of an object, without nulls and with truncated texts.
pub(super) fn kept(value: &Value, fields: &[&str]) -> Value {
    let kept = fields.iter().filter_map(|field| {
        let found = value.get(*field)?;
        let found = match found {
            Value::Null | Value::Array(_) => return None,
            Value::String(text) => short(text).into(),
            Value::Object(fields) => Value::Object(flat(fields)),
            Value::Bool(_) | Value::Number(_) => found.clone(),
        };
        Some(((*field).to_owned(), found))
    });
    kept.collect()
}

/// The fields of a source, of a destination and of a health that are kept.
pub(super) const INNER: [&str; 10] = [
    "repoURL",
    "chart",
    "targetRevision",
    "path",
    "server",
    "namespace",
    "name",
    "status",
    "message",
    "lastTransitionTime",
];

/// Returns the texts, numbers and booleans among the fields of an object.
fn flat(fields: &Map<String, Value>) -> Map<String, Value> {
    let fields = fields.iter().filter(|(field, _)| INNER.contains(&field.as_str()));
    let kept = fields.filter_map(|(field, value)| {
        let value = match value {
            Value::String(text) => short(text).into(),
            Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((field.clone(), value))
    });
    kept.collect()
}

/// Returns the fields of an object that are kept.
pub(super) fn resource(resource: &Value) -> Value {
    let fields = [
        "group",
        "version",
        "kind",
        "namespace",
        "name",
        "status",
        "health",
        "hook",
        "requiresPruning",
        "syncWave",
    ];
    kept(resource, &fields)
}

/// Returns a deployment without the values of the chart, which are in the spec.
pub(super) fn deployment(deployment: &Value) -> Value {
    kept(deployment, &["id", "revision", "deployedAt", "deployStartedAt", "source"])
}

/// Returns images and URLs, as many as fit.
pub(super) fn summary(summary: &Value) -> Value {
    let lists = ["images", "externalURLs"].into_iter().filter_map(|field| {
        let items = summary[field].as_array()?.iter().filter_map(Value::as_str).take(SUMMARY_MAX);
        let items = within(LIST_MAX_BYTES, items.map(|item| short(item).into()));
        Some((field.to_owned(), Value::Array(items)))
    });
    lists.collect()
}
