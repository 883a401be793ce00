//! The status of an Application.

use std::time::Duration;

use lockstep_engine::object::{ObjectRef, annotation};
use lockstep_engine::time::Wall;
use serde_json::{Value, json};

use super::compare::{Compared, Found};
use super::model::{NAMESPACE, REFRESH, repeated, time};
use super::{compare, operation};
use crate::read_view::ReadView;

/// Maximum age of a status: Argo CD's `timeout.reconciliation`, with its maximum jitter.
const AGE_MAX: Duration = Duration::from_mins(3);

/// Updates the status; if it is up to date, starts an automatic sync.
pub(super) fn reconcile(
    look: &mut ReadView<'_>,
    target: &ObjectRef,
    application: &Value,
    compared: &Compared<'_>,
) {
    // A message with a random name changes with each refresh, but does not cause one.
    let right = status(look, application, compared, &application["status"]["reconciledAt"]);
    let is_right = right == application["status"];
    let is_asked = annotation(application, REFRESH).is_some();
    let is_old = is_old(look, target, application);
    let is_due = if is_right && !is_asked { is_old } else { look.after(target, "compare") };
    if is_due {
        let now = time(look);
        let mut wanted = match compared {
            Compared::Failed(_) => status(look, application, compared, &now),
            Compared::Invalid(_) | Compared::Done(_) => right,
        };
        wanted["reconciledAt"] = now;
        let mut wanted = json!({ "status": wanted });
        if is_asked {
            wanted["metadata"] = application["metadata"].clone();
            wanted["metadata"]["annotations"].as_object_mut().map(|annotations| annotations.remove(REFRESH));
            look.keep_fields(target, application, &wanted, &["metadata", "status"]);
        } else {
            look.keep_fields(target, application, &wanted, &["status"]);
        }
    } else if let Compared::Done(found) = compared
        && is_right
        && application["operation"].is_null()
    {
        operation::begin(look, target, application, found);
    }
}

/// Returns whether a refresh is due.
pub(super) fn is_old(look: &mut ReadView<'_>, target: &ObjectRef, application: &Value) -> bool {
    let reconciled = application["status"]["reconciledAt"].as_str().and_then(|at| at.parse().ok());
    reconciled.is_some_and(|at| {
        let age = look.now.wall - Wall::from_timestamp(at);
        look.again_at(target, "refresh", look.now.monotonic + AGE_MAX.saturating_sub(age))
    })
}

fn status(look: &ReadView<'_>, application: &Value, compared: &Compared<'_>, at: &Value) -> Value {
    let mut status = match &application["status"] {
        Value::Null => json!({}),
        status => status.clone(),
    };
    status["controllerNamespace"] = NAMESPACE.into();
    let every = ["InvalidSpecError", "ComparisonError", "SyncError"];
    let (health, found, judged) = match compared {
        Compared::Invalid(wrong) => {
            status["sync"]["status"] = "Unknown".into();
            ("Unknown", named(every[0], wrong), &every[..1])
        }
        Compared::Failed(failures) => {
            status["sync"] = json!({ "status": "Unknown", "comparedTo": compared_to(application) });
            for field in ["resources", "summary"] {
                status.as_object_mut().map(|status| status.remove(field));
            }
            let failures: Vec<String> =
                failures.iter().map(|failure| compare::written(failure, at)).collect();
            ("Healthy", named(every[1], &failures), &every[..])
        }
        Compared::Done(found) => {
            describe(&mut status, application, found);
            let live =
                found.live().map_or("Missing", |live| live["data"]["health"].as_str().unwrap_or("Unknown"));
            let failure: Vec<String> = operation::failure(application, found).into_iter().collect();
            (live, named(every[2], &failure), &every[..])
        }
    };
    if status["health"]["status"] != health {
        status["health"] = json!({ "status": health, "lastTransitionTime": time(look) });
    }
    set_conditions(look, &mut status, found, judged);
    status
}

/// Sets the result of a completed comparison.
fn describe(status: &mut Value, application: &Value, found: &Found<'_>) {
    let sync = if found.is_synced() { "Synced" } else { "OutOfSync" };
    let source = &application["spec"]["source"];
    status["sync"] = json!({
        "status": sync,
        "revision": source["targetRevision"],
        "comparedTo": compared_to(application),
    });
    status["sourceType"] = "Helm".into();
    status["resourceHealthSource"] = "appTree".into();
    let mut resource = found.resource();
    resource["status"] = sync.into();
    status["resources"] = json!([resource]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let image =
        format!("registry.example.com/{}:{}", text(&source["chart"]), text(&source["targetRevision"]));
    status["summary"] = json!({ "images": [image] });
}

fn compared_to(application: &Value) -> Value {
    let spec = &application["spec"];
    json!({ "destination": repeated(&spec["destination"]), "source": repeated(&spec["source"]) })
}

fn named(condition: &'static str, messages: &[String]) -> Vec<(&'static str, String)> {
    messages.iter().map(|message| (condition, message.clone())).collect()
}

/// Returns the status with the condition that the deletion is blocked, as a part of the Application.
pub(super) fn undeletable(look: &ReadView<'_>, application: &Value, why: String) -> Value {
    let mut wanted = json!({ "status": application["status"] });
    let condition = "DeletionError";
    set_conditions(look, &mut wanted["status"], vec![(condition, why)], &[condition]);
    wanted
}

/// Replaces the conditions of the evaluated types; the others remain.
fn set_conditions(
    look: &ReadView<'_>,
    status: &mut Value,
    found: Vec<(&'static str, String)>,
    judged: &[&str],
) {
    let before = status["conditions"].as_array().cloned().unwrap_or_default();
    let is_judged = |condition: &Value| judged.iter().any(|judged| condition["type"] == *judged);
    let mut conditions: Vec<Value> =
        before.iter().filter(|condition| !is_judged(condition)).cloned().collect();
    for (condition, message) in found {
        let same = before.iter().find(|known| known["type"] == condition && known["message"] == message);
        conditions.push(same.cloned().unwrap_or_else(
            || json!({ "type": condition, "message": message, "lastTransitionTime": time(look) }),
        ));
    }
    let order = |condition: &Value| (condition["type"].to_string(), condition["message"].to_string());
    conditions.sort_by_key(order);
    if conditions.is_empty() {
        status.as_object_mut().map(|status| status.remove("conditions"));
    } else {
        status["conditions"] = conditions.into();
    }
}
