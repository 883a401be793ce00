//! Argo CD's report about an Application, trimmed to a size that a status can hold.
//!
//! Argo CD reports every object and every deployment. For a service on fifty clusters that would exceed the size limit of the
//! API server.
//!
//! Source: "Status".

use lockstep_crds::dpuservice::{ApplicationCondition, HealthStatus, SyncStatus};
use lockstep_engine::conditions::cut;
use lockstep_engine::digest::digest;
use lockstep_engine::object::text;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The maximum number of objects that are kept for one Application.
pub const RESOURCES_MAX: usize = 100;
/// The maximum number of deployments that are kept for one Application, the latest ones.
pub const HISTORY_MAX: usize = 10;
/// The maximum size of the objects of one Application as JSON, in bytes.
const RESOURCES_MAX_BYTES: usize = 40_000;
/// The maximum size of the deployments of one Application, and of its images, and of its URLs, in bytes.
const LIST_MAX_BYTES: usize = 10_000;
/// The maximum number of error conditions that are kept for one Application.
const CONDITIONS_MAX: usize = 10;
/// The maximum number of images and of URLs that are kept for one Application.
const SUMMARY_MAX: usize = 20;
/// The maximum number of failed hooks and objects of one operation that a message names.
const FAILURES_MAX: usize = 3;
/// The maximum length of a text, in bytes.
const TEXT_MAX_BYTES: usize = 1024;

/// Argo CD's report about an Application.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Whether the cluster matches the chart. `None` until Argo CD has compared them.
    pub sync: Option<SyncStatus>,
    /// Its health in the cluster.
    pub health: Option<HealthStatus>,
    /// Its conditions.
    pub conditions: Vec<ApplicationCondition>,
    /// The objects that it manages.
    pub resources: Vec<Value>,
    /// Its deployments.
    pub history: Vec<Value>,
    /// Its operation.
    pub operation_state: Option<Value>,
    /// The fields of the operation that decisions depend on.
    pub operation: Option<Operation>,
    /// The type of source that Argo CD has detected.
    pub source_type: Option<String>,
    /// Images and URLs.
    pub summary: Option<Value>,
    /// When it was last compared. This changes with every comparison, so no decision must depend on it.
    pub reconciled_at: Option<String>,
    /// The source that the cluster was compared with.
    pub compared_to: Value,
}

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
    fn read(state: &Value) -> Self {
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
    fn has_failed(&self) -> bool {
        match &*self.phase {
            "Failed" | "Error" => true,
            // Once it waits for a hook, and no failure of that one is known, it is past the failure of the attempt before.
            "Running" => self.is_retried && (self.cause.is_some() || self.hook.is_none()),
            _ => false,
        }
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

impl Report {
    /// Parses the status of an Application.
    pub fn read(status: &Value) -> Self {
        let owned = |pointer: &str| text(status, pointer).map(short);
        let known = |pointer: &str| status.pointer(pointer).filter(|value| !value.is_null());
        let sync = known("/sync").map(|sync| SyncStatus {
            status: text(sync, "/status").map(short).unwrap_or_default(),
            revision: text(sync, "/revision").map(short).unwrap_or_default(),
        });
        let health = known("/health").map(|health| HealthStatus {
            status: text(health, "/status").map(short).unwrap_or_default(),
            message: text(health, "/message").map(steady).unwrap_or_default(),
            last_transition_time: text(health, "/lastTransitionTime").map(short).unwrap_or_default(),
        });
        let conditions =
            items(status, "conditions").take(CONDITIONS_MAX).map(|condition| ApplicationCondition {
                type_: text(condition, "/type").map(short).unwrap_or_default(),
                message: text(condition, "/message").map(steady).unwrap_or_default(),
                last_transition_time: text(condition, "/lastTransitionTime").map(short).unwrap_or_default(),
            });
        let history = items(status, "history").rev().take(HISTORY_MAX).map(deployment);
        let mut history = within(LIST_MAX_BYTES, history);
        let resources = items(status, "resources").take(RESOURCES_MAX).map(resource);
        history.reverse();
        let operation = known("/operationState").map(|state| {
            let operation = Operation::read(state);
            (shown(state, &operation), operation)
        });
        let (operation_state, operation) = operation.unzip();
        Self {
            sync,
            health,
            conditions: conditions.collect(),
            resources: within(RESOURCES_MAX_BYTES, resources),
            history,
            operation_state,
            operation,
            source_type: owned("/sourceType"),
            summary: known("/summary").map(summary),
            reconciled_at: owned("/reconciledAt"),
            compared_to: status.pointer("/sync/comparedTo").map(compared).unwrap_or_default(),
        }
    }

    /// Returns whether it is synced and healthy.
    pub fn is_well(&self) -> bool {
        let is = |status: Option<&str>, wanted: &str| status == Some(wanted);
        is(self.sync.as_ref().map(|sync| &*sync.status), "Synced")
            && is(self.health.as_ref().map(|health| &*health.status), "Healthy")
    }

    /// Returns whether the cluster differs from the chart.
    pub fn is_out_of_sync(&self) -> bool {
        self.sync.as_ref().is_some_and(|sync| sync.status == "OutOfSync")
    }

    /// Returns whether Argo CD reports a failure, rather than work in progress. The operation is the last one, if it is
    /// relevant.
    pub fn has_failed(&self, operation: Option<&Operation>) -> bool {
        let health = self.health.as_ref().map(|health| &*health.status);
        health == Some("Degraded")
            || operation.is_some_and(Operation::has_failed)
            || self.errors().next().is_some()
    }

    /// Returns its conditions that are errors of an Application that stays. Argo CD never removes a `DeletionError`.
    fn errors(&self) -> impl Iterator<Item = &ApplicationCondition> {
        let is_error = |condition: &&ApplicationCondition| {
            condition.type_.ends_with("Error") && condition.type_ != "DeletionError"
        };
        self.conditions.iter().filter(is_error)
    }

    /// Returns its state in a few words. The operation is the last one, if it is relevant.
    pub fn words(&self, operation: Option<&Operation>) -> String {
        let sync = self.sync.as_ref().map_or("Argo CD has not looked at it yet", |sync| &*sync.status);
        let health = self.health.as_ref().map(|health| &*health.status).filter(|_| self.sync.is_some());
        let states: Vec<&str> = [Some(sync), health].into_iter().flatten().collect();
        let cause = operation.and_then(|operation| operation.cause.as_deref());
        // A SyncError also reports that a sync failed, but without the cause.
        let mut errors = self.errors().filter(|error| error.type_ != "SyncError" || cause.is_none());
        let waits = operation.filter(|operation| {
            let is_under_way = matches!(&*operation.phase, "Running" | "Terminating");
            is_under_way && cause.is_none() && (operation.hook.is_some() || sync == "Synced")
        });
        let waits = waits.map(|Operation { started_at, hook, .. }| match hook {
            Some(hook) => format!("the sync that began at {started_at} waits for {hook}"),
            None => format!("the sync that began at {started_at} has not ended"),
        });
        let why: Vec<&str> = if let Some(error) = errors.next() {
            vec![&*error.message]
        } else {
            let health = self.health.as_ref().map(|health| &*health.message);
            [health, cause, waits.as_deref()].into_iter().flatten().filter(|why| !why.is_empty()).collect()
        };
        match &why[..] {
            [] => states.join(", "),
            why => format!("{}: {}", states.join(", "), why.join("; ")),
        }
    }

    /// Copies values from the previous report that this one omits, or that have not really changed. While Argo CD retries a
    /// sync, it does not report why the previous attempt failed. And it sets a new time for a condition whose message differs
    /// only in a random name.
    pub fn remember(&mut self, before: &Self) {
        for condition in &mut self.conditions {
            let mut same = before.conditions.iter().filter(|known| known.type_ == condition.type_);
            if let Some(known) = same.find(|known| known.message == condition.message) {
                condition.last_transition_time.clone_from(&known.last_transition_time);
            }
        }
        let (Some(operation), Some(before)) = (&mut self.operation, &before.operation) else { return };
        if operation.phase != "Running" || !operation.is_retried || before.phase != "Running" {
            return;
        }
        // If it runs a hook that the previous attempt did not report as failed, it has passed the cause of that failure.
        let is_past = |cause: &str| operation.hook.as_ref().is_some_and(|hook| !cause.contains(&**hook));
        if operation.cause.is_none()
            && let Some(cause) = before.cause.as_ref().filter(|cause| !is_past(cause))
        {
            operation.cause = Some(cause.clone());
            operation.hook = None;
        }
        if operation.source.is_null() {
            operation.source.clone_from(&before.source);
        }
        if let (Some(state), Some(cause)) = (&mut self.operation_state, &operation.cause) {
            state["message"] = cause.as_str().into();
        }
    }
}

fn items<'a>(status: &'a Value, field: &str) -> std::slice::Iter<'a, Value> {
    status[field].as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

/// Returns the first values, as many as fit.
fn within(max_bytes: usize, values: impl Iterator<Item = Value>) -> Vec<Value> {
    let fits = |left: &mut usize, value: Value| {
        *left = left.checked_sub(value.to_string().len())?;
        Some(value)
    };
    values.scan(max_bytes, fits).collect()
}

/// Truncates a text. Control characters are replaced, because each would take six bytes as JSON.
fn short(text: &str) -> String {
    let is_odd = |letter: char| letter.is_control() && letter != '\n';
    cut(text.replace(is_odd, " "), TEXT_MAX_BYTES)
}

/// Returns a message with a star for each value that differs each time: random names, such as those of the files into which
/// charts are loaded, and the local ports of connections.
fn steady(message: &str) -> String {
    let words = message.split_inclusive(char::is_whitespace).map(|word| {
        let word = without_local_port(&without_uuids(word));
        if word.contains('/') { without_long_numbers(&word) } else { word }
    });
    short(&words.collect::<String>())
}

/// The lengths of the groups of hexadecimal digits in a UUID.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

fn without_uuids(word: &str) -> String {
    let groups: Vec<&str> = word.split('-').collect();
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut kept: Vec<String> = Vec::new();
    let mut at = 0;
    while at < groups.len() {
        let candidate = groups.get(at..at + UUID.len()).and_then(|found| {
            // It may have text before and after it.
            let (first, last) = (found[0], found[4]);
            let before = first.len().checked_sub(UUID[0]).filter(|start| first.is_char_boundary(*start))?;
            let behind = (last.len() >= UUID[4] && last.is_char_boundary(UUID[4])).then_some(UUID[4])?;
            let inner = found[1..4]
                .iter()
                .zip(&UUID[1..4])
                .all(|(group, length)| group.len() == *length && is_hex(group));
            let is_uuid = inner && is_hex(&first[before..]) && is_hex(&last[..behind]);
            is_uuid.then(|| format!("{}*{}", &first[..before], &last[behind..]))
        });
        if let Some(stands_for) = candidate {
            kept.push(stands_for);
            at += UUID.len();
        } else {
            kept.push(groups[at].to_owned());
            at += 1;
        }
    }
    kept.join("-")
}

/// Removes the local port. Go names a connection by both of its ends, as in `read tcp 10.0.0.1:41234->10.0.0.2:6443`.
fn without_local_port(word: &str) -> String {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = word.split_once("->").and_then(|(from, to)| Some((from.rsplit_once(':')?, to)));
    match parts {
        Some(((host, port), to)) if is_port(port) => format!("{host}:*->{to}"),
        _ => word.to_owned(),
    }
}

/// A number in a path with at least this many digits counts as random.
const RANDOM_DIGITS: usize = 7;

fn without_long_numbers(path: &str) -> String {
    let mut kept = String::new();
    let mut digits = String::new();
    for letter in path.chars().chain(['\0']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        kept.push_str(if digits.len() < RANDOM_DIGITS { &digits } else { "*" });
        digits.clear();
        if letter != '\0' {
            kept.push(letter);
        }
    }
    kept
}

/// Returns the given fields of an object, without nulls and with truncated texts.
fn kept(value: &Value, fields: &[&str]) -> Value {
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
const INNER: [&str; 10] = [
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

fn resource(resource: &Value) -> Value {
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
fn deployment(deployment: &Value) -> Value {
    kept(deployment, &["id", "revision", "deployedAt", "deployStartedAt", "source"])
}

/// Returns an operation without `syncResult`, which lists every object again.
///
/// A retried operation reports at each attempt its number and time: only the cause of that is kept.
fn shown(state: &Value, operation: &Operation) -> Value {
    if operation.phase == "Running" && operation.is_retried {
        let mut kept = kept(state, &["phase", "startedAt"]);
        if let Some(cause) = &operation.cause {
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

fn summary(summary: &Value) -> Value {
    let lists = ["images", "externalURLs"].into_iter().filter_map(|field| {
        let items = summary[field].as_array()?.iter().filter_map(Value::as_str).take(SUMMARY_MAX);
        let items = within(LIST_MAX_BYTES, items.map(|item| short(item).into()));
        Some((field.to_owned(), Value::Array(items)))
    });
    lists.collect()
}

/// Returns a comparison with a digest of the chart's values instead of the values, if Argo CD reports them.
pub(super) fn compared(compared: &Value) -> Value {
    let mut kept = kept(compared, &["source", "destination"]);
    if let Some(values) = compared.pointer("/source/helm/valuesObject") {
        kept["values"] = digest_of_values(values).into();
    }
    kept
}

/// Returns a digest of values in the form that Argo CD reports: without nulls, which its merge patch omits, and with numbers
/// as 64-bit floats, which round integers beyond 2^53.
pub fn digest_of_values(values: &Value) -> String {
    fn repeated(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(_, value)| !value.is_null());
                kept.map(|(field, value)| (field.clone(), repeated(value))).collect()
            }
            Value::Array(items) => items.iter().map(repeated).collect(),
            // The addition of zero changes -0.0, which an API server stores as 0, to 0.0.
            Value::Number(number) => {
                number.as_f64().map_or_else(|| value.clone(), |float| (float + 0.0).into())
            }
            other => other.clone(),
        }
    }
    digest(&repeated(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Value {
        let resource = |index: usize| {
            json!({
                "kind": "Pod", "version": "v1", "namespace": "a", "name": format!("p{index}"), "status": "Synced",
                "health": { "status": "Healthy", "message": null }, "unheard-of": { "a": 1 },
            })
        };
        let deployment = |index: usize| {
            json!({
                "id": index, "revision": "1.0.0", "deployedAt": "2026-01-01T00:00:00Z",
                "source": { "repoURL": "r", "chart": "c", "targetRevision": "1.0.0", "helm": { "valuesObject": { "p": "s3cret" } } },
            })
        };
        json!({
            "sync": {
                "status": "OutOfSync", "revision": "1.0.0",
                "comparedTo": { "source": { "repoURL": "r", "chart": "c", "targetRevision": "1.0.0", "helm": {} }, "destination": {} },
            },
            "health": { "status": "Degraded", "message": "x".repeat(5000), "lastTransitionTime": "2026-01-01T00:00:00Z" },
            "operationState": {
                "phase": "Failed", "message": "one object is invalid", "startedAt": "2026-01-01T00:00:00Z",
                "syncResult": { "resources": [1, 2, 3] }, "operation": { "sync": { "revision": "1.0.0" } }, "retryCount": 2,
            },
            "conditions": [{ "type": "SyncError", "message": "boom", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            "resources": (0..150).map(resource).collect::<Vec<_>>(),
            "history": (0..15).map(deployment).collect::<Vec<_>>(),
            "summary": { "images": (0..30).map(|index| format!("i{index}")).collect::<Vec<_>>() },
            "sourceType": "Helm",
            "reconciledAt": "2026-01-01T00:00:00Z",
        })
    }

    #[test]
    fn a_report_is_bounded_and_holds_no_values() {
        let report = Report::read(&status());
        assert_eq!((report.resources.len(), report.history.len()), (RESOURCES_MAX, HISTORY_MAX));
        let size = serde_json::to_string(&report).unwrap().len();
        assert!(size < 40_000, "{size}");
        let shown = Report {
            resources: report.resources[..1].to_vec(),
            history: report.history[9..].to_vec(),
            health: report.health.clone().map(|health| HealthStatus { message: short("x"), ..health }),
            ..report.clone()
        };
        insta::assert_yaml_snapshot!(shown);
        assert!(!serde_json::to_string(&report).unwrap().contains("s3cret"));
    }

    #[test]
    fn no_status_makes_a_report_too_large() {
        let long = "\u{1}\"".repeat(3000);
        let many: Map<String, Value> = (0..500).map(|i| (format!("f{i}"), json!(long))).collect();
        let mut object = json!({ "kind": [long, long], "name": long, "namespace": long, "health": many });
        for field in INNER {
            object["health"][field] = json!(long);
            object[field] = json!(long);
        }
        object["source"] = object["health"].clone();
        object["destination"] = object["health"].clone();
        let mut status = object.clone();
        status["sync"] = json!({ "status": long, "revision": long, "comparedTo": object });
        status["operationState"] = json!({ "phase": long, "message": long, "startedAt": long });
        let objects = json!(vec![object; 200]);
        for list in ["resources", "history", "conditions"] {
            status[list] = objects.clone();
        }
        status["conditions"] = json!(vec![json!({ "type": long, "message": long }); 200]);
        status["summary"] = json!({ "images": vec![&long; 100], "externalURLs": vec![&long; 100] });
        let size = serde_json::to_string(&Report::read(&status)).unwrap().len();
        assert!(size < 200_000, "{size}");
    }

    #[test]
    fn the_words_name_the_cause() {
        let words = |change: &dyn Fn(&mut Value)| {
            let mut status = status();
            status["health"]["message"] = json!("0 of 3 pods run");
            change(&mut status);
            let report = Report::read(&status);
            report.words(report.operation.as_ref())
        };
        let hook = |phase: &str, message: &str| {
            json!({
                "kind": "Job", "name": "check", "hookType": "PostSync", "hookPhase": phase, "message": message,
            })
        };
        let operation = |phase: &str, message: &str, results: &[Value]| {
            json!({
                "sync": { "status": "Synced" }, "health": { "status": "Healthy" },
                "operationState": {
                    "phase": phase, "message": message, "startedAt": "2026-01-01T00:00:00Z", "retryCount": 2,
                    "syncResult": { "resources": results },
                },
            })
        };
        insta::assert_yaml_snapshot!([
            words(&|_| {}),
            words(&|status| status["conditions"] = json!(null)),
            words(&|status| {
                status["conditions"] = json!(null);
                status["health"] = json!({ "status": "Progressing" });
            }),
            words(&|status| *status =
                json!({ "sync": { "status": "Synced" }, "health": { "status": "Healthy" } })),
            words(&|status| *status = json!(null)),
            words(&|status| {
                let results = [hook("Succeeded", "done"), hook("Failed", "it ran into its backoff limit")];
                *status = operation("Failed", "one or more tasks failed", &results);
            }),
            words(&|status| *status = operation("Running", "waiting", &[hook("Running", "")])),
            words(&|status| *status = operation("Running", "waiting", &[])),
            words(&|status| {
                let object =
                    json!({ "kind": "DaemonSet", "name": "a", "status": "SyncFailed", "message": "denied" });
                *status = operation("Running", "failed. Retrying attempt #2 at 9:04AM.", &[object]);
            }),
            words(&|status| {
                *status = operation("Running", "no route to host. Retrying attempt #2 at 9:04AM.", &[]);
            }),
            words(&|status| {
                *status = operation("Succeeded", "synced", &[]);
                status["conditions"] = json!([{ "type": "DeletionError", "message": "it is over" }]);
            }),
        ]);
    }

    proptest::proptest! {
        /// Go writes a float with the fewest digits that distinguish it from others, as Rust does, and no exponent below 1e21.
        #[test]
        fn an_integer_and_what_argo_cd_makes_of_it_have_one_digest(integer: i64) {
            #[expect(clippy::cast_precision_loss, reason = "that is what Argo CD does")]
            let rounded: Value = serde_json::from_str(&format!("{}", integer as f64)).unwrap();
            let values = |number: Value| json!({ "a": [{ "b": number }] });
            proptest::prop_assert_eq!(
                digest_of_values(&values(json!(integer))),
                digest_of_values(&values(rounded))
            );
        }
    }

    #[test]
    fn why_an_attempt_failed_is_remembered_during_the_next() {
        let read = |phase: &str, message: &str, retries: u64| {
            let state = json!({ "phase": phase, "message": message, "retryCount": retries });
            Report::read(&json!({ "operationState": state }))
        };
        let cause = |report: &Report| report.operation.clone().and_then(|operation| operation.cause);
        let failed = read("Running", "no route to host. Retrying attempt #1 at 9:04AM.", 1);
        let mut next = read("Running", "Retrying operation. Attempt #1", 1);
        next.remember(&failed);
        assert_eq!(cause(&next).as_deref(), Some("no route to host"));
        let mut other = read("Running", "no such host. Retrying attempt #2 at 9:05AM.", 2);
        other.remember(&next);
        assert_eq!(cause(&other).as_deref(), Some("no such host"));
        for mut report in [read("Succeeded", "synced", 2), read("Running", "waiting", 0)] {
            report.remember(&next);
            assert_eq!(cause(&report), None);
        }
    }

    #[test]
    fn random_names_are_left_out() {
        let uuid = "b2f1c4e2-0a1b-4c3d-8e9f-0123456789ab";
        let table = [
            (format!("helm pull --destination /tmp/{uuid} failed"), "helm pull --destination /tmp/* failed"),
            (format!("/tmp/_argocd-repo/{uuid}/c-{uuid}.tgz: no"), "/tmp/_argocd-repo/*/c-*.tgz: no"),
            ("open /tmp/helm3871625591/c.tgz".to_owned(), "open /tmp/helm*/c.tgz"),
            (
                "https://10.0.0.1:6443/api/v1 after 12345678 ns".to_owned(),
                "https://10.0.0.1:6443/api/v1 after 12345678 ns",
            ),
            (
                "read tcp 10.0.0.1:41234->10.0.0.2:6443: reset, [::1]:5->[::1]:6".to_owned(),
                "read tcp 10.0.0.1:*->10.0.0.2:6443: reset, [::1]:*->[::1]:6",
            ),
            ("a->b :->c".to_owned(), "a->b :->c"),
            ("chart a-b-c-d-e-f 1.2.3-rc-1".to_owned(), "chart a-b-c-d-e-f 1.2.3-rc-1"),
            (
                "é-é-é-é-é zzzzzzzz-0a1b-4c3d-8e9f-0123456789ab".to_owned(),
                "é-é-é-é-é zzzzzzzz-0a1b-4c3d-8e9f-0123456789ab",
            ),
        ];
        for (message, expected) in table {
            assert_eq!(steady(&message), expected);
        }
    }

    #[test]
    fn attempts_of_one_sync_that_fails_read_the_same() {
        let read = |message: &str, retries: u64, finished: Option<&str>| {
            let mut state = json!({ "phase": "Running", "message": message, "retryCount": retries });
            if let Some(finished) = finished {
                state["finishedAt"] = finished.into();
            }
            Report::read(&json!({ "operationState": state }))
        };
        let first = read("denied. Retrying attempt #1 at 9:04AM.", 1, Some("2026-01-01T00:00:00Z"));
        let mut report = first.clone();
        for next in [
            read("Retrying operation. Attempt #1", 1, None),
            read("Retrying operation with latest revisions. Attempt #1", 1, None),
            read("waiting for completion of hook batch/Job/check", 1, None),
            read("denied. Retrying attempt #2 at 9:05AM.", 2, Some("2026-01-01T00:01:00Z")),
        ] {
            let mut next = next;
            next.remember(&report);
            report = next.clone();
            // Decisions about its end depend on this, and it is not shown.
            for operation in next.operation.iter_mut().zip(&first.operation) {
                operation.0.is_between_attempts = operation.1.is_between_attempts;
            }
            assert_eq!(next, first);
        }
    }

    #[test]
    fn a_hook_that_hangs_is_named_after_an_attempt_that_failed_of_something_else() {
        let read = |message: &str, results: Value| {
            let state = json!({
                "phase": "Running", "message": message, "retryCount": 1, "syncResult": { "resources": results },
            });
            Report::read(&json!({ "operationState": state }))
        };
        let hook = |phase: &str| json!({ "kind": "Job", "name": "check", "hookType": "PreSync", "hookPhase": phase });
        let failed = read("namespaces \"a\" already exists. Retrying attempt #1 at 9:04AM.", json!([]));
        let mut next = read("Retrying operation. Attempt #1", json!([]));
        next.remember(&failed);
        let mut waits = read("waiting for completion of hook batch/Job/check", json!([hook("Running")]));
        waits.remember(&next);
        let operation = waits.operation.unwrap();
        assert_eq!((operation.cause, operation.hook.as_deref()), (None, Some("PreSync hook Job check")));

        // A hook that runs again has not passed its own failure.
        let failed = read("failed. Retrying attempt #1 at 9:04AM.", json!([hook("Failed")]));
        let mut again = read("waiting for completion of hook batch/Job/check", json!([hook("Running")]));
        again.remember(&failed);
        let operation = again.operation.unwrap();
        assert_eq!(
            (operation.cause.as_deref(), operation.hook),
            (Some("PreSync hook Job check failed"), None)
        );
    }

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

    proptest::proptest! {
        #[test]
        fn a_message_can_be_anything(message in ".{0,80}") {
            let once = steady(&message);
            proptest::prop_assert_eq!(steady(&once), once);
        }
    }

    #[test]
    fn anything_can_be_read() {
        for status in
            [json!(null), json!("x"), json!({ "sync": 1, "resources": {}, "history": [1], "summary": [] })]
        {
            let report = Report::read(&status);
            assert!(!report.is_well() && !report.has_failed(None), "{status}");
        }
    }
}
