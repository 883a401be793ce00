//! Events have two representations, `v1` and `events.k8s.io/v1`, and are stored as the former.

use serde_json::Value;

/// The names of fields that differ between `v1` and `events.k8s.io/v1`.
const NAMES: [(&str, &str); 7] = [
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The fields that `v1` always has, and `events.k8s.io/v1` only if they are not empty.
const REPORTING: [&str; 2] = ["reportingComponent", "reportingInstance"];

/// Converts the stored form to `events.k8s.io/v1`.
pub(super) fn from_storage(event: &mut Value) {
    if let Some(fields) = event.as_object_mut() {
        fields.retain(|name, value| value != "" || !REPORTING.contains(&name.as_str()));
    }
    for (stored, shown) in NAMES {
        rename(event, stored, shown);
    }
}

/// Converts `events.k8s.io/v1` to the stored form.
pub(super) fn to_storage(event: &mut Value) {
    for (stored, shown) in NAMES {
        rename(event, shown, stored);
    }
    if let Some(fields) = event.as_object_mut() {
        for name in REPORTING {
            fields.entry(name).or_insert_with(|| "".into());
        }
    }
}

/// Returns the stored name of a field of `events.k8s.io/v1`, by its dotted path.
pub(super) fn stored_field(path: &str) -> String {
    let (first, rest) = path.split_once('.').map_or((path, ""), |(first, rest)| (first, rest));
    let stored = NAMES.iter().find(|(_, shown)| *shown == first).map_or(first, |(stored, _)| *stored);
    if rest.is_empty() { stored.to_owned() } else { format!("{stored}.{rest}") }
}

fn rename(event: &mut Value, from: &str, to: &str) {
    if let Some(fields) = event.as_object_mut()
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}
