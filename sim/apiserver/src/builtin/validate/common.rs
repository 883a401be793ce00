//! Validation that several kinds share: selectors, ports, numbers, words.

use serde_json::{Map, Value};

use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::{entries, given, list, text};
use crate::cause::Cause;

/// Protocols of ports, in the order in which the errors of Services and containers list them.
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Checks a `LabelSelector`.
pub(super) fn label_selector(selector: &Value, path: &Path, causes: &mut Vec<Cause>) {
    labels(selector, "matchLabels", &path.child("matchLabels"), causes);
    let path = path.child("matchExpressions");
    for (index, requirement) in list(selector, "matchExpressions").iter().enumerate() {
        label_requirement(requirement, &path.index(index), causes);
    }
}

fn label_requirement(requirement: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let values = list(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if values.is_empty() {
                let message = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(path.child("values").required(message));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(path.child("values").forbidden(message));
            }
        }
        operator => causes.push(path.child("operator").invalid(operator, "not a valid selector operator")),
    }
    let key = text(requirement, "key");
    causes.extend(path.child("key").all_invalid(key, names::qualified_name(key)));
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        causes.extend(path.child("values").index(index).all_invalid(value, names::label_value(value)));
    }
}

/// Checks a map of labels.
pub(super) fn labels(object: &Value, field: &str, path: &Path, causes: &mut Vec<Cause>) {
    for (key, value) in entries(object, field) {
        causes.extend(path.all_invalid(key, names::qualified_name(key)));
        let value = value.as_str().unwrap_or_default();
        causes.extend(path.all_invalid(value, names::label_value(value)));
    }
}

/// Returns whether a selector matches these labels.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let all_equal = entries(selector, "matchLabels").all(|(key, value)| labels.get(key) == Some(value));
    all_equal
        && list(selector, "matchExpressions").iter().all(|requirement| {
            let label = labels.get(text(requirement, "key"));
            let among = label.is_some_and(|label| list(requirement, "values").contains(label));
            match text(requirement, "operator") {
                "In" => among,
                "NotIn" => !among,
                "Exists" => label.is_some(),
                _ => label.is_none(),
            }
        })
}

/// Checks a number or the name of a port.
pub(super) fn port_number_or_name(value: &Value, path: &Path, causes: &mut Vec<Cause>) {
    match value {
        Value::String(name) => causes.extend(path.all_invalid(name, names::port_name(name))),
        _ => port_number(value.as_i64().unwrap_or(0), path, causes),
    }
}

/// Checks a port number.
pub(super) fn port_number(number: i64, path: &Path, causes: &mut Vec<Cause>) {
    causes.extend(names::port_number(number).iter().map(|message| path.invalid(number, message)));
}

/// Checks that a number is not negative.
pub(super) fn not_negative(value: &Value, field: &str, path: &Path, causes: &mut Vec<Cause>) {
    if let Some(number) = value.get(field).and_then(Value::as_i64).filter(|number| *number < 0) {
        causes.push(path.child(field).invalid(number, "must be greater than or equal to 0"));
    }
}

/// Checks that a value does not change. An empty map is the same as none.
pub(super) fn immutable(
    path: &Path,
    object: &Value,
    old: Option<&Value>,
    field: &str,
    causes: &mut Vec<Cause>,
) {
    let is_empty = |value: &&Value| value.as_object().is_some_and(Map::is_empty);
    let [new, old] = [Some(object), old]
        .map(|object| object.map(|object| given(object, field).filter(|value| !is_empty(value))));
    if old.is_some() && new != old {
        causes.push(path.invalid(object.get(field).cloned().unwrap_or_default(), "field is immutable"));
    }
}

/// Checks that a value is one of a closed set of words; an empty one is missing.
pub(super) fn choice(path: &Path, value: &Value, field: &str, supported: &[&str], causes: &mut Vec<Cause>) {
    let path = path.child(field);
    match text(value, field) {
        "" => causes.push(path.required("")),
        word if !supported.contains(&word) => causes.push(path.not_supported(word, supported)),
        _ => {}
    }
}
