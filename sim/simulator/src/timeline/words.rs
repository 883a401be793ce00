//! Descriptions of events, in one line each.

use std::sync::Arc;

use lockstep_engine::action::{
    Action, BrokerRequest, Fetch, KubeRequest, Outcome, ResolveImage, Success, WatchCommand,
};
use lockstep_engine::machine::{Event, Note, ReconcileResult};
use lockstep_engine::object::{Kind, ObjectRef, is_deleting, metadata};
use serde_json::{Value, json};

use crate::cluster::{Carried, Change, FaultVerdict};
use crate::history::reference;

/// Returns the version of an object, if it has one.
fn version(object: &Value) -> String {
    match metadata(object, "resourceVersion") {
        "" => String::new(),
        version => format!(" @{version}"),
    }
}

fn deleting(object: &Value) -> &'static str {
    if is_deleting(object) { ", being deleted" } else { "" }
}

fn seen(kind: &Arc<Kind>, object: &Value) -> String {
    format!("{}{}{}", reference(kind, object), version(object), deleting(object))
}

/// Describes an event other than an answer.
pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Started => "starts".to_owned(),
        Event::LeadershipChanged { leading: true } => "leads".to_owned(),
        Event::LeadershipChanged { leading: false } => "leads no longer".to_owned(),
        Event::ListStarted { kind } => format!("lists {kind}"),
        Event::ListCompleted { kind } => format!("has listed {kind}"),
        Event::Applied { kind, object } => format!("sees {}", seen(kind, object)),
        Event::Deleted { kind, object } => format!("sees the end of {}", seen(kind, object)),
        Event::WatchFailed { kind, failure } => format!("cannot watch {kind}: {failure}"),
        Event::Finished { id, outcome } => answer(&format!("request {}", id.0), outcome),
        Event::TimerFired => "wakes up".to_owned(),
    }
}

/// Describes the outcome of a request, as its process sees it.
pub(super) fn answer(request: &str, outcome: &Outcome) -> String {
    match outcome {
        Ok(Success::Object(object)) => format!("{request}: done{}{}", version(object), deleting(object)),
        Ok(Success::Kinds(kinds)) => format!("{request}: {} kinds", kinds.len()),
        Ok(Success::Objects(objects)) => format!("{request}: {} objects", objects.len()),
        Ok(Success::Done) => format!("{request}: done"),
        Ok(Success::Image(found)) => format!("{request}: {}", found.digest),
        Ok(Success::Document(document)) => format!("{request}: {} bytes", document.text().len()),
        Ok(Success::Oversized { why, .. }) => format!("{request}: {why}"),
        Ok(Success::Published(results)) => {
            let confirmed = results.iter().filter(|result| result.is_ok()).count();
            format!("{request}: {confirmed} of {} confirmed", results.len())
        }
        Err(failure) => format!("{request}: {failure}"),
    }
}

/// Describes a request.
pub(super) fn action(action: &Action) -> String {
    match action {
        Action::Watch(WatchCommand::Start { kind, .. } | WatchCommand::Stop { kind }) => {
            format!("{} {kind}", action.name())
        }
        Action::Kube(KubeRequest::Discover { api_version }) => format!("discover {api_version}"),
        Action::Http(Fetch { url, .. }) => format!("fetch {url}"),
        Action::Registry(ResolveImage { image, .. }) => format!("find image {image}"),
        Action::Broker(BrokerRequest::Publish { events, .. }) => format!("publish {}", events.len()),
        _ => match action.target() {
            Some(target) => format!("{} {target}", action.name()),
            None => action.name().to_owned(),
        },
    }
}

/// Returns the body of a request.
pub(super) fn body(action: &Action) -> Option<Arc<Value>> {
    match action {
        Action::Kube(
            KubeRequest::Apply { manifest, .. }
            | KubeRequest::Create { manifest, .. }
            | KubeRequest::CreateSecret { manifest, .. }
            | KubeRequest::Update { manifest, .. },
        ) => Some(Arc::clone(manifest)),
        Action::Kube(KubeRequest::Patch { patch, .. }) => Some(Arc::clone(patch)),
        Action::Kube(KubeRequest::Delete { uid, resource_version, .. }) => {
            Some(Arc::new(json!({"preconditions": {"uid": uid, "resourceVersion": resource_version}})))
        }
        Action::Broker(BrokerRequest::Publish { events, .. }) => {
            serde_json::to_value(events).ok().map(Arc::new)
        }
        Action::Watch(_)
        | Action::Kube(
            KubeRequest::Discover { .. }
            | KubeRequest::Get { .. }
            | KubeRequest::GetLengths { .. }
            | KubeRequest::List { .. },
        )
        | Action::Http(_)
        | Action::Registry(_)
        | Action::Broker(BrokerRequest::Connect { .. }) => None,
    }
}

/// Describes a request at the server.
pub(super) fn carried(carried: &Carried) -> String {
    let request = action(&carried.action);
    let refused = carried.failed.map(|class| format!(", refused: {class}")).unwrap_or_default();
    match &carried.fate {
        FaultVerdict::Served if refused.is_empty() => format!("{request} served"),
        FaultVerdict::Served => format!("{request}{refused}"),
        FaultVerdict::Failed(failure) => format!("{request} kept from the server: {}", failure.class),
        FaultVerdict::AnswerLost => format!("{request} served{refused}, answer lost"),
        FaultVerdict::CrashedBefore => format!("{request} lost, its process dies"),
        FaultVerdict::CrashedAfter => format!("{request} served{refused}, its process dies"),
    }
}

/// Describes a change of an object.
pub(super) fn change(change: &Change) -> String {
    let object = &change.object;
    match (&change.old, &change.new) {
        (None, Some(new)) => format!("{object} created{}", version(new)),
        (Some(old), Some(new)) if is_deleting(new) && !is_deleting(old) => {
            format!("{object} marked for deletion{}", version(new))
        }
        (_, Some(new)) => format!("{object} changed{}", version(new)),
        (_, None) => format!("{object} gone"),
    }
}

/// Describes a note of a process.
pub(super) fn note(note: &Note) -> String {
    match note {
        Note::Reconciled { reconciler, object, result, .. } => {
            let result = match result {
                ReconcileResult::Converged => "converged".to_owned(),
                ReconcileResult::Requeued { after } => format!("again in {after:?}"),
                ReconcileResult::Abandoned => "abandoned, no longer the leader".to_owned(),
                ReconcileResult::Failed { reason, retry_after, .. } => {
                    format!("failed, again in {retry_after:?}: {reason}")
                }
            };
            format!("{reconciler} of {object}: {result}")
        }
        Note::ConditionChanged { object, condition, status, reason, message, .. } => {
            format!("{object} is {condition}={status}, {reason}: {message}")
        }
        Note::EventAnnounced { object, reason, note, .. } => format!("event on {object}: {reason}: {note}"),
        Note::LeadershipChanged { leading: true } => "became the leader".to_owned(),
        Note::LeadershipChanged { leading: false } => "is the leader no longer".to_owned(),
        Note::Error { message, objects } => format!("error: {}", about(message, objects)),
        Note::Warning { message } => format!("warning: {message}"),
        Note::Log { message, objects, .. } => about(message, objects),
        Note::Published { event, resource_type, resource } => {
            format!("published {event} about {resource_type}/{resource}")
        }
        Note::Measured(measure) => {
            format!("{} {}: {:?}", measure.metric, measure.labels.join(","), measure.by)
        }
        Note::Traced(span) => format!("span {}", span.name),
    }
}

/// Returns a message with the objects that it is about.
fn about(message: &str, objects: &[ObjectRef]) -> String {
    objects.iter().fold(message.to_owned(), |text, object| format!("{text} [{object}]"))
}
