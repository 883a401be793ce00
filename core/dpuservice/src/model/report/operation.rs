//! An operation of an Application: a sync, running or ended.

use lockstep_engine::object::text;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::comparison::compared;
use super::stable_text::{short, steady};
use super::trim::kept;

/// The maximum number of failed hooks and objects of one operation that a message names.
const FAILURES_MAX: usize = 3;

/// A sync, running or ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// `Running`, `Terminating`, `Succeeded`, `Failed` or `Error`.
    pub phase: String,
    /// When it began, in the API's time format.
    pub started_at: String,
    /// Whether it is retried.
    pub is_retried: bool,
    /// Whether it waits for its next attempt. Until then nothing of it runs.
    pub is_between_attempts: bool,
    /// Whether it syncs single objects. Then it runs no hooks, so a comparison shows everything that it has not applied.
    pub is_partial: bool,
    /// The source that it syncs, in the form of a comparison; null until it is reported.
    pub source: Value,
    /// The failed hooks and objects with their reasons, or else Argo CD's message about the failure.
    pub cause: Option<String>,
    /// The hook that it waits for.
    pub hook: Option<String>,
}

impl Operation {
    pub(super) fn read(state: &Value) -> Self {
        let owned = |pointer: &str| text(state, pointer).map(steady).unwrap_or_default();
        let results = state.pointer("/syncResult/resources").and_then(Value::as_array);
        let results = || results.into_iter().flatten();
        // Argo CD lists them in another order at each attempt.
        let mut failures: Vec<String> = results().filter_map(failure).collect();
        failures.sort_unstable();
        failures.truncate(FAILURES_MAX);
        let phase = owned("/phase");
        let message = owned("/message");
        let cause = match &failures[..] {
            [] if phase == "Succeeded" => String::new(),
            [] if phase == "Running" => error_of_attempt(&message).to_owned(),
            [] => message,
            failures => short(&failures.join("; ")),
        };
        let source = state.pointer("/syncResult/source").map(|source| compared(&json!({ "source": source })));
        let resources = state.pointer("/operation/sync/resources").and_then(Value::as_array);
        Self {
            is_between_attempts: phase == "Running" && state["finishedAt"].is_string(),
            phase,
            started_at: owned("/startedAt"),
            is_retried: state["retryCount"].as_u64().is_some_and(|retries| retries > 0),
            is_partial: resources.is_some_and(|resources| !resources.is_empty()),
            source: source.unwrap_or_default(),
            cause: Some(cause).filter(|cause| !cause.is_empty()),
            // Objects that are no hooks have a phase too, but no type.
            hook: results().filter(|result| result["hookPhase"] == "Running").find_map(hook),
        }
    }

    /// Returns a message that it is still running although the source has changed.
    pub fn holds_up(&self) -> String {
        let began = format!("the sync of the spec before, which began at {},", self.started_at);
        match &self.hook {
            _ if self.is_between_attempts => format!("{began} has failed and waits for its next attempt"),
            Some(hook) => format!("{began} waits for {hook}"),
            None => format!("{began} has not ended"),
        }
    }

    /// Returns whether it has failed, or an attempt of it has.
    pub fn has_failed(&self) -> bool {
        match &*self.phase {
            "Failed" | "Error" => true,
            // Once it waits for a hook, and no failure of that one is known, it is past the failure of the attempt before.
            "Running" => self.is_retried && (self.cause.is_some() || self.hook.is_none()),
            _ => false,
        }
    }

    /// Returns the state of the operation without `syncResult`, which lists every object again.
    ///
    /// A retried operation reports at each attempt its number and time: only the cause of that is kept.
    pub(super) fn shown(&self, state: &Value) -> Value {
        if self.phase == "Running" && self.is_retried {
            let mut kept = kept(state, &["phase", "startedAt"]);
            if let Some(cause) = &self.cause {
                kept["message"] = cause.as_str().into();
            }
            return kept;
        }
        let mut kept = kept(state, &["phase", "message", "startedAt", "finishedAt", "retryCount"]);
        if let Some(message) = text(state, "/message") {
            kept["message"] = steady(message).into();
        }
        kept
    }
}

/// Returns Argo CD's message about the previous attempt, while it waits for the next one or runs it.
fn error_of_attempt(message: &str) -> &str {
    let notices = ["Retrying attempt #", "Retrying operation. Attempt #"];
    let Some(end) = notices.iter().filter_map(|notice| message.find(notice)).min() else { return "" };
    message[..end].trim_end_matches(['.', ' '])
}

/// Returns the title of a hook, such as `PostSync hook Job check`.
fn hook(result: &Value) -> Option<String> {
    let [hook, kind, name] = ["/hookType", "/kind", "/name"].map(|field| text(result, field));
    Some(short(&format!("{} hook {} {}", hook?, kind?, name?)))
}

/// Returns a failed hook or object, with the reason.
fn failure(result: &Value) -> Option<String> {
    let is = |field: &str, values: &[&str]| values.contains(&text(result, field).unwrap_or_default());
    let what = match hook(result) {
        Some(hook) if is("/hookPhase", &["Failed", "Error"]) => format!("{hook} failed"),
        None if is("/status", &["SyncFailed"]) => {
            format!("{} {} can't be applied", text(result, "/kind")?, text(result, "/name")?)
        }
        _ => return None,
    };
    let why = text(result, "/message").map(steady).filter(|why| !why.is_empty());
    Some(why.map_or_else(|| what.clone(), |why| format!("{what}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_named_in_one_order_and_hooks_among_objects() {
        let read = |results: Value| {
            let state =
                json!({ "phase": "Running", "retryCount": 1, "syncResult": { "resources": results } });
            Operation::read(&state)
        };
        let object = |name: &str| json!({ "kind": "ConfigMap", "name": name, "status": "SyncFailed", "message": "no route to host" });
        let ordered = read(json!([object("a"), object("b"), object("c"), object("d")]));
        assert_eq!(ordered, read(json!([object("d"), object("c"), object("b"), object("a")])));
        let applied = json!({ "kind": "Namespace", "name": "a", "status": "Synced", "hookPhase": "Running" });
        let job = json!({ "kind": "Job", "name": "check", "hookType": "PreSync", "hookPhase": "Running" });
        assert_eq!(read(json!([applied, job])).hook.as_deref(), Some("PreSync hook Job check"));
    }
}
