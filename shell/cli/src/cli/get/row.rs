//! One object in the table.

use jiff::Timestamp;
use lockstep_engine::object::{Kind, generation, is_deleting, metadata};
use serde::Serialize;
use serde_json::Value;

/// The condition that sums up the others, by preference: a NamespaceClass has no condition Ready.
const SUMMARIES: [&str; 2] = ["Ready", "Valid"];

/// What the table shows of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Row {
    pub(in crate::cli) kind: String,
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    /// The status of the condition: `True`, `False` or `Unknown`.
    pub(in crate::cli) ready: String,
    pub(in crate::cli) reason: String,
    pub(in crate::cli) message: String,
    /// The time of the last change of the condition.
    pub(super) since: Option<Timestamp>,
    pub(super) created: Option<Timestamp>,
}

impl Row {
    /// Reads an object. A status that is older than the spec does not say whether the object is ready.
    pub(in crate::cli) fn of(kind: &Kind, object: &Value) -> Self {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
        let summary = SUMMARIES.iter().find_map(|name| conditions.iter().find(|one| one["type"] == **name));
        let field = |field: &str| summary.and_then(|one| one[field].as_str()).unwrap_or_default();
        let (ready, reason, mut message) = match (summary, outdated(object, summary)) {
            (None, _) => ("Unknown", "NoStatus", "no controller has reported a status yet".to_owned()),
            (Some(_), Some(message)) => ("Unknown", "StatusOutdated", message),
            (Some(_), None) => (field("status"), field("reason"), field("message").to_owned()),
        };
        if is_deleting(object) {
            message = format!("being deleted: {message}");
        }
        let text = str::to_owned;
        Self {
            kind: kind.kind.clone(),
            namespace: text(metadata(object, "namespace")),
            name: text(metadata(object, "name")),
            ready: text(ready),
            reason: text(reason),
            message: message.replace(char::is_control, " "),
            since: field("lastTransitionTime").parse().ok(),
            created: metadata(object, "creationTimestamp").parse().ok(),
        }
    }

    pub(in crate::cli) fn is_ready(&self) -> bool {
        self.ready == "True"
    }

    /// Returns the sort key.
    pub(super) fn key(&self) -> (&str, &str, &str) {
        (&self.kind, &self.namespace, &self.name)
    }

    /// Returns `namespace/name`, or the name alone.
    pub(super) fn title(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

/// Returns a message if the status is about an older generation than the spec.
fn outdated(object: &Value, condition: Option<&Value>) -> Option<String> {
    let of_condition = condition.and_then(|one| one["observedGeneration"].as_i64());
    let observed = of_condition.or_else(|| object.pointer("/status/observedGeneration")?.as_i64())?;
    let current = generation(object);
    (observed < current)
        .then(|| format!("the status is about generation {observed}, and the spec has generation {current}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(object: &Value) -> Row {
        Row::of(&Kind::known("g", "v1", "DPUService", "dpuservices", true), object)
    }

    #[test]
    fn the_summary_is_ready_or_valid() {
        let condition = |name: &str| json!({"type": name, "status": "True", "reason": "R", "message": "m"});
        let both = json!({"status": {"conditions": [condition("Other"), condition("Valid")]}});
        assert_eq!((row(&both).ready.as_str(), row(&both).reason.as_str()), ("True", "R"));
        let none = json!({"status": {"conditions": [condition("Other")]}});
        assert_eq!((row(&none).ready.as_str(), row(&none).reason.as_str()), ("Unknown", "NoStatus"));
    }

    #[test]
    fn a_status_of_an_older_generation_says_nothing() {
        let mut object = json!({
            "metadata": {"generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]},
        });
        let old = row(&object);
        assert_eq!((old.ready.as_str(), old.reason.as_str()), ("Unknown", "StatusOutdated"));
        assert!(
            old.message.starts_with("being deleted: the status is about generation 1"),
            "{}",
            old.message
        );
        object["status"]["conditions"][0]["observedGeneration"] = json!(2);
        assert!(row(&object).is_ready());
    }
}
