//! Operations: deploy an Application to its cluster, on request or automatically.
//!
//! An operation is in the field `operation` while it is running, and remains in `status.operationState`. After a failed attempt,
//! the same source is retried with increasing delays, up to `retry.limit`; after that it is never retried.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::ObjectRef;
use lockstep_engine::time::{Monotonic, Wall};
use serde_json::{Value, json};

use super::compare::{self, Compared, Found};
use super::model::{repeated, time};
use crate::dpu_clusters::release;
use crate::read_view::ReadView;

/// Default number of entries in a history.
const HISTORY: i64 = 10;

/// Default number of retries of an automatic operation.
const RETRIES: i64 = 5;

/// Starts a sync if the Application is out of sync and has automatic sync.
pub(super) fn begin(look: &mut ReadView<'_>, target: &ObjectRef, application: &Value, found: &Found<'_>) {
    let policy = &application["spec"]["syncPolicy"];
    let automated = &policy["automated"];
    let is_wanted = automated.is_object() && automated["enabled"] != false && !found.is_synced();
    if !is_wanted || failure(application, found).is_some() {
        return;
    }
    let source = &application["spec"]["source"];
    let mut sync = json!({
        "prune": automated["prune"] == true,
        "revision": source["targetRevision"],
        "source": repeated(source),
    });
    if let Some(options) = policy["syncOptions"].as_array() {
        sync["syncOptions"] = json!(options);
    }
    if is_attempted(application) {
        if automated["selfHeal"] != true {
            return;
        }
        let resource = found.resource();
        let (group, kind, name) = (&resource["group"], &resource["kind"], &resource["name"]);
        sync["resources"] = json!([{ "group": group, "kind": kind, "name": name }]);
    }
    if look.after(target, "begin to sync") {
        let mut wanted = application.clone();
        let retry = policy.get("retry").cloned().unwrap_or_else(|| json!({ "limit": RETRIES }));
        wanted["operation"] = json!({ "initiatedBy": { "automated": true }, "retry": retry, "sync": sync });
        wanted["status"].as_object_mut().map(|status| status.remove("operationState"));
        look.keep(target, application, &wanted);
    }
}

/// Continues an operation. Returns whether it waits: then Argo CD continues to compare.
pub(super) fn go_on(
    look: &mut ReadView<'_>,
    target: &ObjectRef,
    application: &Value,
    compared: &Compared<'_>,
) -> bool {
    let state = &application["status"]["operationState"];
    let copy = || json!({ "operation": application["operation"], "spec": application["spec"], "status": application["status"] });
    let keep = |look: &mut ReadView<'_>, wanted: &Value| {
        look.keep_fields(target, application, wanted, &["operation", "status"]);
    };
    match state["phase"].as_str() {
        Some("Running") => {}
        Some("Terminating") => {
            let mut wanted = copy();
            end(look, &mut wanted, "Failed", "Operation terminated", None);
            keep(look, &wanted);
            return false;
        }
        _ => {
            let mut wanted = copy();
            wanted["status"]["operationState"] =
                json!({ "phase": "Running", "operation": application["operation"], "startedAt": time(look) });
            keep(look, &wanted);
            return false;
        }
    }
    if let Some(at) = next_attempt(look, application) {
        let is_endless = limit(application) < 0;
        if look.put_off_until(target, "try again", at, is_endless) {
            let mut wanted = copy();
            begin_attempt(&mut wanted);
            keep(look, &wanted);
            return false;
        }
        return true;
    }
    // The operation keeps the source with which it began, even if the Application has changed.
    if waits_for_hook(application) && !matches!(compared, Compared::Invalid(_)) {
        return true;
    }
    let mut wanted = copy();
    match compared {
        Compared::Invalid(wrong) => fail(look, &mut wanted, "Failed", &wrong.join("; "), None),
        Compared::Failed(failures) => {
            if !look.after(target, "attempt") {
                return true;
            }
            let why = compare::written(&failures.join("; "), &time(look));
            fail(look, &mut wanted, "Error", &why, Some(no_result(application)));
        }
        Compared::Done(found) => {
            let found = &of_operation(application, found);
            if let Some(why) = &found.out_of_reach {
                if !look.after(target, "attempt") {
                    return true;
                }
                let refused = "one or more synchronization tasks are not valid";
                fail(look, &mut wanted, "Failed", refused, Some(refused_by(application, found, why)));
            } else if let Some(problem) = unmet(application, found) {
                let result = Some(refused_by(application, found, &problem));
                let failed = format!("one or more objects failed to apply, reason: {problem}");
                fail(look, &mut wanted, "Failed", &failed, result);
            } else if !found.is_synced() {
                put(look, target, found);
                return false;
            } else {
                match run_hook(application, found) {
                    Hook::Succeeded => {
                        let result = Some(sync_result(application, found, &[]));
                        end(look, &mut wanted, "Succeeded", "successfully synced (all tasks run)", result);
                        remember(look, &mut wanted);
                    }
                    Hook::Failed(hook) => {
                        let failed = "one or more synchronization tasks completed unsuccessfully";
                        let result = Some(sync_result(application, found, &[hook]));
                        fail(look, &mut wanted, "Failed", failed, result);
                    }
                    Hook::Running(hook) => {
                        let state = &mut wanted["status"]["operationState"];
                        let name = text(&hook["name"]);
                        state["message"] = format!("waiting for completion of hook batch/Job/{name}").into();
                        state["syncResult"] = sync_result(application, found, &[hook]);
                    }
                    Hook::Waiting => return true,
                }
            }
        }
    }
    keep(look, &wanted);
    false
}

/// Returns the maximum number of retries; a negative number means no limit.
fn limit(application: &Value) -> i64 {
    application["operation"]["retry"]["limit"].as_i64().unwrap_or(0)
}

/// Records a failed attempt: the next one follows later, unless this was the last.
fn fail(look: &ReadView<'_>, application: &mut Value, phase: &str, why: &str, result: Option<Value>) {
    let tries = application["status"]["operationState"]["retryCount"].as_i64().unwrap_or(0);
    let limit = limit(application);
    if (0..=tries).contains(&limit) {
        let why = if tries > 0 { format!("{why} (retried {tries} times).") } else { why.to_owned() };
        return end(look, application, phase, &why, result);
    }
    let tries = tries + 1;
    let at = look.now.wall.timestamp_seconds() + backoff(&application["operation"]["retry"], tries);
    let state = &mut application["status"]["operationState"];
    state["finishedAt"] = time(look);
    state["retryCount"] = tries.into();
    state["message"] = format!("{why}. Retrying attempt #{tries} at {}.", at.strftime("%-I:%M%p")).into();
    if let Some(result) = result {
        state["syncResult"] = result;
    }
}

/// Returns when the next attempt begins, if the last one has failed.
fn next_attempt(look: &ReadView<'_>, application: &Value) -> Option<Monotonic> {
    let state = &application["status"]["operationState"];
    let finished = state["finishedAt"].as_str()?.parse().ok()?;
    let passed = look.now.wall - Wall::from_timestamp(finished);
    let tries = state["retryCount"].as_i64().unwrap_or(0);
    let wait = backoff(&application["operation"]["retry"], tries);
    Some(look.now.monotonic + wait.saturating_sub(passed))
}

/// Returns the delay before the nth attempt: by default 10 s, doubled up to three minutes.
fn backoff(retry: &Value, tries: i64) -> Duration {
    let backoff = &retry["backoff"];
    let given = |field: &str| backoff[field].as_str().and_then(seconds);
    let (base, most) = (given("duration").unwrap_or(5), given("maxDuration").unwrap_or(180));
    let factor = backoff["factor"].as_u64().unwrap_or(2);
    // With more attempts, the delay has long reached its maximum.
    let wait = (0..tries.min(32)).fold(base, |wait, _| wait.saturating_mul(factor).min(most));
    Duration::from_secs(wait)
}

/// Parses a duration in Go's notation, such as `1m30s`.
fn seconds(text: &str) -> Option<u64> {
    let (mut all, mut number) = (0, String::new());
    for letter in text.chars() {
        let unit = match letter {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            digit => {
                number.push(digit);
                continue;
            }
        };
        all += unit * std::mem::take(&mut number).parse::<u64>().ok()?;
    }
    number.is_empty().then_some(all)
}

/// Begins the next attempt; the message does not contain the last failure. The source is the same: `retry.refresh` resolves the
/// revision again, and a version of a chart resolves to itself.
fn begin_attempt(application: &mut Value) {
    let is_refreshed = application["operation"]["retry"]["refresh"] == true;
    let with = if is_refreshed { " with latest revisions" } else { "" };
    let state = &mut application["status"]["operationState"];
    state["message"] = format!("Retrying operation{with}. Attempt #{}", state["retryCount"]).into();
    state.as_object_mut().map(|state| state.remove("finishedAt"));
}

/// Returns the source with which the operation began, even if the Application has changed.
fn of_operation<'a>(application: &Value, found: &Found<'a>) -> Found<'a> {
    let mut found = found.clone();
    let source = &application["operation"]["sync"]["source"];
    // It is written without nulls, which count as values of a chart.
    if source.is_object() && *source != repeated(&application["spec"]["source"]) {
        let mut began_with = application.clone();
        began_with["spec"]["source"] = source.clone();
        found.wanted = release::data(&began_with);
    }
    found
}

/// The state of the `PostSync` hook of a chart.
enum Hook {
    /// The objects of the chart must become healthy first.
    Waiting,
    Running(Value),
    /// It succeeded, or there is none.
    Succeeded,
    Failed(Value),
}

/// Runs the hook of a chart that has one; a sync of single objects runs none.
fn run_hook(application: &Value, found: &Found<'_>) -> Hook {
    let values = release::values(&found.wanted);
    let (fails, hangs) = (values[release::FAILING_HOOK] == true, values[release::HANGING_HOOK] == true);
    let is_partial = application["operation"]["sync"]["resources"].is_array();
    if is_partial || !(fails || hangs) {
        return Hook::Succeeded;
    }
    let result = |phase: &str, message: &str| {
        json!({
            "group": "batch",
            "version": "v1",
            "kind": "Job",
            "namespace": found.wanted["namespace"],
            "name": format!("{}-check", text(&found.wanted["release"])),
            "hookType": "PostSync",
            "hookPhase": phase,
            "syncPhase": "PostSync",
            "message": message,
        })
    };
    match found.live().and_then(|live| live["data"]["health"].as_str()) {
        Some("Healthy") if hangs => {
            let created = format!("job.batch/{}-check created", text(&found.wanted["release"]));
            Hook::Running(result("Running", &created))
        }
        Some("Healthy" | "Degraded") => {
            Hook::Failed(result("Failed", "Job has reached the specified backoff limit"))
        }
        _ => Hook::Waiting,
    }
}

/// Returns whether an operation waits for a hook. The only long-running hooks in the model never end.
fn waits_for_hook(application: &Value) -> bool {
    let results = application["status"]["operationState"]["syncResult"]["resources"].as_array();
    let is_hook = |result: &&Value| result["hookType"].is_string();
    results.into_iter().flatten().filter(is_hook).any(|result| result["hookPhase"] == "Running")
}

/// Returns why the last operation prevents an automatic retry of the same source.
pub(super) fn failure(application: &Value, found: &Found<'_>) -> Option<String> {
    let state = &application["status"]["operationState"];
    let has_failed = matches!(state["phase"].as_str(), Some("Failed" | "Error"));
    let is_useless = has_failed && is_attempted(application) && !found.is_synced();
    is_useless.then(|| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (revision, message) = (text(&state["syncResult"]["revision"]), text(&state["message"]));
        format!("Failed last sync attempt to [{revision}]: {message}")
    })
}

/// Returns whether the last operation was for the current source.
fn is_attempted(application: &Value) -> bool {
    let (last, source) =
        (&application["status"]["operationState"]["syncResult"], &application["spec"]["source"]);
    last["source"] == repeated(source) && last["revision"] == source["targetRevision"]
}

/// Returns why the objects of a chart can't be applied.
fn unmet(application: &Value, found: &Found<'_>) -> Option<String> {
    let options = application["spec"]["syncPolicy"]["syncOptions"].as_array();
    let may_create = options.into_iter().flatten().any(|option| option == "CreateNamespace=true");
    let namespace = &found.wanted["namespace"];
    let is_missing = !may_create && *namespace != "default";
    is_missing.then(|| format!("namespaces {namespace} not found"))
}

/// Creates the release on the cluster. If the old one is still being deleted, it waits. Each Application waits by itself: two that
/// deploy the same release take turns.
fn put(look: &mut ReadView<'_>, application: &ObjectRef, found: &Found<'_>) {
    let Found { cluster, target, wanted, object, .. } = found;
    if !look.after(application, "put") || object.is_some() && found.live().is_none() {
        return;
    }
    let manifest = release::manifest(cluster, target, wanted.clone());
    match found.live() {
        None => look
            .ask(Action::Kube(KubeRequest::Create { target: target.clone(), manifest: Arc::new(manifest) })),
        Some(live) => {
            let mut changed = live.clone();
            changed["data"] = manifest["data"].clone();
            look.keep(target, live, &changed);
        }
    }
}

fn end(look: &ReadView<'_>, application: &mut Value, phase: &str, message: &str, result: Option<Value>) {
    let state = &mut application["status"]["operationState"];
    state["phase"] = phase.into();
    state["message"] = message.into();
    state["finishedAt"] = time(look);
    if let Some(result) = result {
        state["syncResult"] = result;
    }
    application.as_object_mut().map(|application| application.remove("operation"));
}

/// Returns the result of an operation that reached no object. It keeps a source that was set before.
fn no_result(application: &Value) -> Value {
    let named = [
        &application["status"]["operationState"]["syncResult"]["source"],
        &application["operation"]["sync"]["source"],
        &application["spec"]["source"],
    ];
    let source = named.into_iter().find(|source| !source.is_null()).map(repeated).unwrap_or_default();
    let begun_with = &application["operation"]["sync"]["revision"];
    let revision = if begun_with.is_string() { begun_with } else { &source["targetRevision"] };
    json!({ "revision": revision, "source": source })
}

/// Returns the result of a sync, with the hooks that it ran.
fn sync_result(application: &Value, found: &Found<'_>, hooks: &[Value]) -> Value {
    let message = format!("daemonset.apps/{} configured", text(&found.wanted["release"]));
    let mut result = no_result(application);
    // A sync that is over at once leaves them as they began.
    let phase = if hooks.is_empty() { "Running" } else { "Succeeded" };
    let applied = applied(found, "Synced", Some(phase), &message);
    result["resources"] = [applied].into_iter().chain(hooks.iter().cloned()).collect();
    result
}

/// Returns the result of a sync in which every object was refused.
fn refused_by(application: &Value, found: &Found<'_>, why: &str) -> Value {
    let mut result = no_result(application);
    result["resources"] = json!([applied(found, "SyncFailed", None, why)]);
    result
}

/// Returns the sync result of an object. It has a hook phase, although it is not a hook.
fn applied(found: &Found<'_>, status: &str, phase: Option<&str>, message: &str) -> Value {
    let mut result = found.resource();
    result["syncPhase"] = "Sync".into();
    result["status"] = status.into();
    if let Some(phase) = phase {
        result["hookPhase"] = phase.into();
    }
    result["message"] = message.into();
    result
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Adds a sync of the whole Application to its history.
fn remember(look: &ReadView<'_>, application: &mut Value) {
    let limit = application["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(HISTORY);
    let status = &mut application["status"];
    let state = &status["operationState"];
    if state["operation"]["sync"]["resources"].is_array() {
        return;
    }
    let mut history = status["history"].as_array().cloned().unwrap_or_default();
    let entry = json!({
        "id": history.last().map_or(0, |last| last["id"].as_i64().unwrap_or(0) + 1),
        "revision": state["syncResult"]["revision"],
        "source": state["syncResult"]["source"],
        "deployStartedAt": state["startedAt"],
        "deployedAt": time(look),
        "initiatedBy": state["operation"]["initiatedBy"],
    });
    history.push(repeated(&entry));
    let surplus = history.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    status["history"] = history.split_off(surplus).into();
}
