//! Label selectors in pools.

use lockstep_engine::object::label;
use serde_json::Value;

/// Returns whether a label selector matches an object. An invalid selector matches nothing.
pub(super) fn matches(selector: &Value, object: &Value) -> bool {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms = selector["matchExpressions"].as_array().into_iter().flatten();
    labels.into_iter().all(|(key, value)| label(object, key) == value.as_str())
        && terms.all(|term| holds(term, object))
}

fn holds(term: &Value, object: &Value) -> bool {
    let found = label(object, term["key"].as_str().unwrap_or_default());
    let is_listed = found.is_some_and(|found| {
        term["values"].as_array().into_iter().flatten().any(|value| value.as_str() == Some(found))
    });
    match term["operator"].as_str() {
        Some("In") => is_listed,
        Some("NotIn") => !is_listed,
        Some("Exists") => found.is_some(),
        Some("DoesNotExist") => found.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_match_as_in_kubernetes() {
        let object = json!({ "metadata": { "labels": { "tier": "front" } } });
        let term = |key: &str, operator: &str, values: Value| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        let table = [
            (json!({}), true),
            (json!({ "matchLabels": { "tier": "front" } }), true),
            (json!({ "matchLabels": { "tier": "front", "team": "a" } }), false),
            (term("tier", "In", json!(["back", "front"])), true),
            (term("team", "In", json!(["a"])), false),
            (term("tier", "NotIn", json!(["front"])), false),
            (term("team", "NotIn", json!(["a"])), true),
            (term("tier", "Exists", Value::Null), true),
            (term("tier", "DoesNotExist", Value::Null), false),
            (term("tier", "Resembles", Value::Null), false),
        ];
        for (selector, expected) in table {
            assert_eq!(matches(&selector, &object), expected, "{selector}");
        }
    }
}
