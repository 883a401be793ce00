//! Operations: what an Application says is brought to its cluster, because somebody asked for it or by itself.
//!
//! An operation stands in the field `operation` while it goes on, and in `status.operationState` ever after.

use std::sync::Arc;

use lockstep_core::engine::action::Action;
use lockstep_core::object::ObjectRef;
use serde_json::{Value, json};

use super::compare::{Compared, Found};
use super::status::{repeated, resource, time};
use crate::worlds::dpu_clusters::release;
use crate::worlds::look::Look;

/// How many entries a history has, unless its Application says otherwise.
const HISTORY: i64 = 10;

/// How often an operation is tried again, as its `retry` says.
const RETRIES: u64 = 5;

/// Begins to sync what is out of sync, if the Application wants that.
pub(super) fn begin(look: &mut Look<'_>, target: &ObjectRef, application: &Value, found: &Found<'_>) {
    let policy = &application["spec"]["syncPolicy"];
    let automated = &policy["automated"];
    let is_wanted = automated.is_object() && automated["enabled"] != false && !found.is_synced();
    if !is_wanted || failure(application, found).is_some() {
        return;
    }
    let mut sync = json!({
        "prune": automated["prune"] == true,
        "revision": application["spec"]["source"]["targetRevision"],
    });
    if let Some(options) = policy["syncOptions"].as_array() {
        sync["syncOptions"] = json!(options);
    }
    if is_attempted(application) {
        if automated["selfHeal"] != true {
            return;
        }
        let resource = resource(found);
        let (group, kind, name) = (&resource["group"], &resource["kind"], &resource["name"]);
        sync["resources"] = json!([{ "group": group, "kind": kind, "name": name }]);
    }
    if look.after(target, "begin to sync") {
        let mut wanted = application.clone();
        wanted["operation"] =
            json!({ "initiatedBy": { "automated": true }, "retry": { "limit": RETRIES }, "sync": sync });
        wanted["status"].as_object_mut().map(|status| status.remove("operationState"));
        look.keep(target, application, &wanted);
    }
}

/// Brings an operation further.
pub(super) fn go_on(look: &mut Look<'_>, target: &ObjectRef, application: &Value, compared: &Compared<'_>) {
    let state = &application["status"]["operationState"];
    let mut wanted = application.clone();
    if state["phase"] != "Running" {
        wanted["status"]["operationState"] =
            json!({ "phase": "Running", "operation": application["operation"], "startedAt": time(look) });
        return look.keep(target, application, &wanted);
    }
    match compared {
        Compared::Invalid(wrong) => end(look, &mut wanted, "Failed", &wrong.join("; "), None),
        Compared::Failed(failures) => {
            let (why, tries) = (failures.join("; "), state["retryCount"].as_u64().unwrap_or(0));
            wanted["status"]["operationState"]["message"] = why.clone().into();
            if look.after(target, "try again") {
                if tries < RETRIES {
                    wanted["status"]["operationState"]["retryCount"] = (tries + 1).into();
                } else {
                    end(look, &mut wanted, "Error", &why, None);
                }
            }
        }
        Compared::Done(found) => match unmet(application, found) {
            Some(trouble) => end(look, &mut wanted, "Failed", &trouble, Some(found)),
            None if found.is_synced() => {
                end(look, &mut wanted, "Succeeded", "successfully synced (all tasks run)", Some(found));
                remember(look, &mut wanted);
            }
            None => return put(look, found),
        },
    }
    look.keep(target, application, &wanted);
}

/// Why the last operation makes it useless to try the same again by itself.
pub(super) fn failure(application: &Value, found: &Found<'_>) -> Option<String> {
    let state = &application["status"]["operationState"];
    let has_failed = matches!(state["phase"].as_str(), Some("Failed" | "Error"));
    let is_useless = has_failed && is_attempted(application) && !found.is_synced();
    is_useless.then(|| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (revision, message) = (text(&state["syncResult"]["revision"]), text(&state["message"]));
        format!("Failed last sync attempt to {revision}: {message}")
    })
}

/// Whether the last operation was about the source as it is now.
fn is_attempted(application: &Value) -> bool {
    let last = &application["status"]["operationState"]["syncResult"]["source"];
    *last == repeated(&application["spec"]["source"])
}

/// What keeps the objects of a chart from being applied.
fn unmet(application: &Value, found: &Found<'_>) -> Option<String> {
    let options = application["spec"]["syncPolicy"]["syncOptions"].as_array();
    let may_create = options.into_iter().flatten().any(|option| option == "CreateNamespace=true");
    let namespace = &found.wanted["namespace"];
    let is_missing = !may_create && *namespace != "default";
    is_missing
        .then(|| format!("one or more objects failed to apply, reason: namespaces {namespace} not found"))
}

/// Puts the release on the cluster. One that is still going is waited for.
fn put(look: &mut Look<'_>, found: &Found<'_>) {
    let Found { cluster, target, wanted, object } = found;
    if !look.after(target, "put") || object.is_some() && found.live().is_none() {
        return;
    }
    let manifest = release::manifest(cluster, target, wanted.clone());
    match found.live() {
        None => look.ask(Action::Create { target: target.clone(), manifest: Arc::new(manifest) }),
        Some(live) => {
            let mut changed = live.clone();
            changed["data"] = manifest["data"].clone();
            look.keep(target, live, &changed);
        }
    }
}

fn end(look: &Look<'_>, application: &mut Value, phase: &str, message: &str, found: Option<&Found<'_>>) {
    let source = repeated(&application["spec"]["source"]);
    let state = &mut application["status"]["operationState"];
    state["phase"] = phase.into();
    state["message"] = message.into();
    state["finishedAt"] = time(look);
    if let Some(found) = found {
        let mut resource = resource(found);
        resource["syncPhase"] = "Sync".into();
        resource["status"] = if phase == "Succeeded" { "Synced" } else { "SyncFailed" }.into();
        state["syncResult"] =
            json!({ "revision": source["targetRevision"], "source": source, "resources": [resource] });
    }
    application.as_object_mut().map(|application| application.remove("operation"));
}

/// Enters a sync of the whole Application into its history.
fn remember(look: &Look<'_>, application: &mut Value) {
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
