//! The selected object: its conditions and their causes, its relations, and the last steps about it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lockstep_engine::machine::Event;
use lockstep_engine::object::{Name, ObjectRef};
use lockstep_engine::recording::RecordedStep;
use serde_json::{Value, json};

use super::super::brief;
use super::super::explain::explanation::explain;
use super::super::explain::history::History;
use super::feed::{Feed, lock, millis};
use super::objects::{End, Entry};
use super::relations::Link;

/// The maximum number of related objects of one direction.
const RELATED_MAX: usize = 50;
/// What an explanation says about the next reconcile if the page has stopped while its controller continues.
const STOPPED: &str = "unknown, because the live page has stopped: this is its last state; restart the process for the present one";
/// The maximum number of steps.
const STEPS_MAX: usize = 40;

/// Returns the explanation of an object of a controller's own kind, without secrets; `None` if it does not occur.
pub(super) fn explanation(
    feeds: &[Arc<Mutex<Feed>>],
    kind: &str,
    namespace: &str,
    name: &str,
) -> Option<Value> {
    feeds.iter().find_map(|feed| {
        let (object, history, redactor, is_ended) = {
            let feed = lock(feed);
            let object = Name::new(namespace, name).object(feed.objects.own_kind(kind)?);
            let history = history(&feed, &object);
            (object, history, Arc::clone(&feed.redactor), feed.is_ended)
        };
        let mut explained = serde_json::to_value(explain(&history, &object)?).ok()?;
        if is_ended {
            explained["next"] = json!(STOPPED);
        }
        redactor.redact(&mut explained);
        Some(explained)
    })
}

/// Returns what the page shows about the object with this path. It may contain secrets.
pub(super) fn detail(feeds: &[Arc<Mutex<Feed>>], path: &str) -> Value {
    let unknown = json!({ "path": path, "found": false });
    let parts: Vec<&str> = path.split('/').collect();
    let [controller, kind, namespace, name] = parts[..] else { return unknown };
    let is_it = |object: &ObjectRef| {
        object.name == name
            && object.namespace.as_deref().unwrap_or_default() == namespace
            && object.kind.to_string() == kind
    };
    // Several Sentinels have the same controller, each with an object of its own.
    let mut feeds = feeds.iter().map(|feed| lock(feed)).filter(|feed| feed.controller == controller);
    let Some(feed) = feeds.find(|feed| feed.objects.iter().any(|(object, _)| is_it(object))) else {
        return unknown;
    };
    let Some((object, entry)) = feed.objects.iter().find(|(object, _)| is_it(object)) else { return unknown };
    let history = history(&feed, object);
    let explained = explain(&history, object);
    json!({
        "path": path,
        "found": true,
        "title": object.to_string(),
        "deleting": entry.is_deleting,
        "phase": entry.phase,
        "cycle": entry.last_cycle,
        "result": entry.end.as_ref().map(End::text),
        "ended": entry.end.as_ref().map(|end| end.at),
        "due": entry.end.as_ref().and_then(End::due),
        "explanation": explained.as_ref().map(|explained| json!(explained)),
        "relations": relations(&feed, object, entry),
        "requests": requests(&feed, object),
        "steps": history.about(object).take(STEPS_MAX).map(|step| lines(&history, object, step)).collect::<Vec<_>>(),
    })
}

fn history(feed: &Feed, object: &ObjectRef) -> History {
    let state = feed.objects.get(object).map(|entry| (object.clone(), Arc::clone(&entry.state)));
    History::of(feed.steps.iter().cloned(), BTreeMap::from_iter(state))
}

fn requests(feed: &Feed, object: &ObjectRef) -> Vec<Value> {
    let of_object = feed.pending.values().filter(|pending| pending.target.as_ref() == Some(object));
    of_object.map(|pending| json!({ "text": pending.text, "asked": millis(pending.asked) })).collect()
}

/// Returns the objects that this one names, and those that name it.
fn relations(feed: &Feed, object: &ObjectRef, entry: &Entry) -> Value {
    let summary = |entry: &Entry| entry.summary.as_ref().map(|row| row.ready.clone());
    let target = |link: &Link| feed.objects.iter().find(|(other, _)| link.leads_to(other));
    let to = entry.links.iter().map(|link| {
        let found = target(link);
        json!({
            "label": link.label,
            "text": format!("{} {}", link.kind, link.target()),
            "path": found.map(|(other, _)| feed.path(other)),
            "ready": found.and_then(|(_, entry)| summary(entry)),
        })
    });
    let from = |(_, other): &(&ObjectRef, &Entry)| other.links.iter().any(|link| link.leads_to(object));
    let from: Vec<_> = feed.objects.iter().filter(from).collect();
    let (count, shown) = (from.len(), from.into_iter().take(RELATED_MAX));
    let shown = shown.map(|(other, entry)| {
        json!({ "text": other.to_string(), "path": feed.path(other), "ready": summary(entry) })
    });
    json!({ "to": to.collect::<Vec<_>>(), "from": shown.collect::<Vec<_>>(), "count": count })
}

/// Returns a step with what concerns the object: its event, and the requests on the object.
fn lines(history: &History, object: &ObjectRef, step: &RecordedStep) -> Value {
    let event = match &step.event {
        Event::Finished { id, outcome } => match history.action(*id) {
            Some(action) => brief::answer(&brief::action(action), outcome),
            None => brief::described(&step.event),
        },
        other => brief::described(other),
    };
    let on_object = step.gave.requests.iter().filter(|request| request.action.target() == Some(object));
    let actions: Vec<String> = on_object.map(|request| brief::action(&request.action)).collect();
    let bad = matches!(step.event, Event::Finished { outcome: Err(_), .. });
    json!({ "step": step.number, "at": millis(step.now), "event": event, "actions": actions, "bad": bad })
}
