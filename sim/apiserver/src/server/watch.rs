//! Watches: a cursor into the log of one resource.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::form::Form;
use super::negotiate::Negotiated;
use super::registry::Registry;
use super::request::Request;
use super::scope::Scope;
use super::selection::{Selection, parse_version};
use super::status::{Qualified, Status, quote};
use super::store::{Change, Compacted, Store};
use super::{meta, table};
use crate::builtin;
use crate::cause::Cause;

/// Minimum duration in seconds of a watch without `timeoutSeconds`, as in kube-apiserver.
const TIMEOUT_SECONDS_MIN: i64 = 1800;
/// Interval of bookmarks: about once a minute.
const BOOKMARK_SECONDS: i64 = 60;
/// The last bookmark is sent this long before the end.
const BOOKMARK_BEFORE_END_SECONDS: i64 = 2;
/// Maximum number of events in one poll; the rest follows in the next.
const POLL_MAX: usize = 1000;

/// The id of an open watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchId(pub(super) u64);

/// One event of a watch.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: &'static str,
    /// The object, in full unless it is a table.
    pub object: Arc<Value>,
    form: Form,
}

impl WatchEvent {
    /// Encodes the event as one line of JSON.
    pub fn encode(&self) -> bytes::Bytes {
        let mut line = format!("{{\"type\":\"{}\",\"object\":", self.kind).into_bytes();
        self.form.write_object(&mut line, &self.object);
        line.extend_from_slice(b"}\n");
        line.into()
    }
}

/// The result of a poll of a watch.
#[derive(Debug)]
pub struct WatchPoll {
    /// New events, oldest first.
    pub events: Vec<WatchEvent>,
    /// Whether the watch has ended.
    pub closed: bool,
    /// Whether more events are already available.
    pub more: bool,
    /// When to poll again if nothing changes.
    pub wake_at: Timestamp,
}

/// The open watches.
#[derive(Debug, Clone, Default)]
pub(super) struct Watches {
    open: BTreeMap<WatchId, Watch>,
    next: u64,
}

#[derive(Debug, Clone)]
struct Watch {
    scope: Scope,
    selection: Selection,
    form: Form,
    /// Changes up to this revision have been delivered.
    cursor: u64,
    initial: Option<Initial>,
    bookmarks: bool,
    next_bookmark: Timestamp,
    deadline: Timestamp,
    failure: Option<Status>,
    /// Tables describe their columns in the first event only.
    columns_sent: bool,
}

/// The initial state, which is still to be delivered as `ADDED`.
#[derive(Debug, Clone)]
struct Initial {
    objects: VecDeque<Arc<Value>>,
    /// Whether a bookmark marks its end.
    marked: bool,
}

impl Watches {
    /// Opens a watch of the objects in a store.
    pub(super) fn open(
        &mut self,
        store: &Store,
        scope: &Scope,
        request: &Request<'_>,
        negotiated: &Negotiated,
        now: Timestamp,
    ) -> Result<WatchId, Status> {
        let selection = Selection::parse(scope, request)?;
        let version = parse_version(request.query.text("resourceVersion")).map_err(Status::unknown)?;
        let initial_events = check_initial_events(request)?;
        let bookmarks = request.query.flag("allowWatchBookmarks").unwrap_or_default();
        let starts_with_state = initial_events.unwrap_or(version.unwrap_or_default() == 0);
        let mut failure = None;
        let mut cursor = version.unwrap_or_default();
        let mut initial = None;
        if starts_with_state {
            let objects = store
                .list(scope.resource.table, &selection.prefix, None)
                .filter(|(_, object)| selection.matches(object))
                .map(|(_, object)| Arc::clone(object))
                .collect();
            initial = Some(Initial { objects, marked: initial_events == Some(true) && bookmarks });
            cursor = store.revision();
        } else if cursor == 0 {
            cursor = store.revision();
        } else if let Err(compacted) = check_history(store, scope, cursor) {
            let message = format!("too old resource version: {cursor} ({})", compacted.oldest);
            failure = Some(Status::expired(message));
        }
        let seconds = request.query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
        negotiated.can_stream()?;
        let id = self.next;
        let spread = i64::try_from(id * 37 % 1800).expect("below 1800");
        let seconds = seconds.unwrap_or(TIMEOUT_SECONDS_MIN + spread).min(1 << 30);
        let deadline = later(now, seconds);
        let next_bookmark = later(now, BOOKMARK_SECONDS.min((seconds - BOOKMARK_BEFORE_END_SECONDS).max(1)));
        self.next += 1;
        let form = negotiated.form.clone();
        let scope = scope.clone();
        let watch = Watch {
            scope,
            selection,
            form,
            cursor,
            initial,
            bookmarks,
            next_bookmark,
            deadline,
            failure,
            columns_sent: false,
        };
        self.open.insert(WatchId(id), watch);
        Ok(WatchId(id))
    }

    /// Returns the new events of a watch. A closed watch is removed.
    pub(super) fn poll(
        &mut self,
        store: &Store,
        registry: &Registry,
        id: WatchId,
        now: Timestamp,
    ) -> WatchPoll {
        let Some(watch) = self.open.get_mut(&id) else {
            return WatchPoll { events: Vec::new(), closed: true, more: false, wake_at: now };
        };
        let mut events = Vec::new();
        let ended = watch.failure.is_some();
        let gone = !registry.is_current(&watch.scope.resource);
        let mut more = false;
        if let Some(failure) = watch.failure.take() {
            events.push(WatchEvent { kind: "ERROR", object: Arc::new(failure.to_value()), form: Form::Full });
        } else if !watch.drain_initial(&mut events, now) {
            more = true;
        } else {
            match store.since(watch.scope.resource.table, watch.cursor) {
                Ok(changes) => more = watch.drain(changes, &mut events, now),
                Err(compacted) => {
                    let message =
                        format!("too old resource version: {} ({})", watch.cursor, compacted.oldest);
                    watch.failure = Some(Status::expired(message));
                    more = true;
                }
            }
        }
        if !more && !ended {
            watch.cursor = watch.cursor.max(store.revision());
            if watch.bookmarks && now >= watch.next_bookmark {
                watch.next_bookmark = later(now, BOOKMARK_SECONDS);
                events.push(watch.bookmark(false));
            }
        }
        let closed = ended || (!more && gone) || (!more && now >= watch.deadline);
        let wake_at = if watch.bookmarks { watch.deadline.min(watch.next_bookmark) } else { watch.deadline };
        if closed {
            self.open.remove(&id);
        }
        WatchPoll { events, closed, more, wake_at }
    }

    /// Returns whether the only event of a watch is that it can't start at the requested revision.
    pub(super) fn is_refused(&self, id: WatchId) -> bool {
        self.open.get(&id).is_some_and(|watch| watch.failure.is_some())
    }

    /// Ends a watch.
    pub(super) fn cancel(&mut self, id: WatchId) {
        self.open.remove(&id);
    }
}

/// Checks whether a watch may start at a revision.
fn check_history(store: &Store, scope: &Scope, revision: u64) -> Result<(), Compacted> {
    let table = scope.resource.table;
    store.check_opened(table, revision)?;
    store.since(table, revision).map(drop)
}

impl Watch {
    /// Delivers the initial state; returns whether it is complete.
    fn drain_initial(&mut self, events: &mut Vec<WatchEvent>, now: Timestamp) -> bool {
        let Some(mut initial) = self.initial.take() else { return true };
        let count = initial.objects.len().min(POLL_MAX);
        for object in initial.objects.drain(..count) {
            events.push(self.event("ADDED", &object, now));
        }
        if !initial.objects.is_empty() {
            self.initial = Some(initial);
            return false;
        }
        if initial.marked {
            events.push(self.bookmark(true));
        }
        true
    }

    /// Delivers changes; returns whether there are more.
    fn drain<'a>(
        &mut self,
        changes: impl Iterator<Item = &'a Change>,
        events: &mut Vec<WatchEvent>,
        now: Timestamp,
    ) -> bool {
        for change in changes {
            if events.len() >= POLL_MAX {
                return true;
            }
            self.cursor = change.revision;
            if !self.selection.prefix.contains(&change.key) {
                continue;
            }
            let matches = |object: &Arc<Value>| self.selection.matches(object);
            let was = change.old.as_ref().filter(|old| matches(old));
            let is = !change.deleted && matches(&change.object);
            let event = match (was, is) {
                (Some(_), true) => self.event("MODIFIED", &change.object, now),
                (None, true) => self.event("ADDED", &change.object, now),
                (Some(old), false) => {
                    // The new revision has no relation to the definition with which the object was stored.
                    let mut last = (*self.scope.resource.view(self.scope.version(), old)).clone();
                    meta::set(&mut last, "resourceVersion", change.revision.to_string());
                    self.shown("DELETED", Arc::new(last), now)
                }
                (None, false) => continue,
            };
            events.push(event);
        }
        false
    }

    fn event(&mut self, kind: &'static str, object: &Arc<Value>, now: Timestamp) -> WatchEvent {
        let object = self.scope.resource.view(self.scope.version(), object);
        self.shown(kind, object, now)
    }

    /// Returns an event about an object that is already in the scope's version.
    fn shown(&mut self, kind: &'static str, object: Arc<Value>, now: Timestamp) -> WatchEvent {
        if let Form::Table(version, include) = &self.form {
            let mut rendered = table::render(&self.scope, &[Arc::clone(&object)], version, *include, now);
            rendered["metadata"] = json!({"resourceVersion": meta::resource_version(&object)});
            if std::mem::replace(&mut self.columns_sent, true) {
                rendered["columnDefinitions"] = Value::Null;
            }
            return WatchEvent { kind, object: Arc::new(rendered), form: Form::Full };
        }
        WatchEvent { kind, object, form: self.form.clone() }
    }

    fn bookmark(&self, end_of_initial: bool) -> WatchEvent {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string()});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let resource = &self.scope.resource;
        let mut object = json!({
            "kind": resource.kind,
            "apiVersion": resource.api_version(self.scope.version()),
            "metadata": metadata,
        });
        if let Some(resource) = self.scope.version().builtin_resource() {
            // It is an empty object of the Go type.
            builtin::complete_empty(resource, &mut object);
        }
        if let Form::Table(..) = self.form {
            let rows = json!([{"cells": [], "object": object}]);
            let rendered = json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": self.cursor.to_string()},
                "columnDefinitions": null, "rows": rows,
            });
            return WatchEvent { kind: "BOOKMARK", object: Arc::new(rendered), form: Form::Full };
        }
        WatchEvent { kind: "BOOKMARK", object: Arc::new(object), form: self.form.clone() }
    }
}

fn later(now: Timestamp, seconds: i64) -> Timestamp {
    now.saturating_add(SignedDuration::from_secs(seconds)).expect("a duration in seconds is no calendar unit")
}

/// Checks the rules for `sendInitialEvents` on watches; returns its value.
fn check_initial_events(request: &Request<'_>) -> Result<Option<bool>, Status> {
    let rule = request.query.text("resourceVersionMatch");
    if !request.query.text("continue").is_empty() {
        let cause = Cause {
            reason: "FieldValueForbidden",
            field: "resourceVersionMatch".to_owned(),
            message: "Forbidden: resourceVersionMatch is forbidden when continue is provided".to_owned(),
        };
        return Err(Status::invalid(Qualified { group: "meta.k8s.io", name: "ListOptions" }, "", &[cause]));
    }
    let initial = request.query.flag("sendInitialEvents");
    let cause = match (initial, rule) {
        (None, "") | (Some(_), "NotOlderThan") => return Ok(initial),
        (None, _) => Cause {
            reason: "FieldValueForbidden",
            field: "resourceVersionMatch".to_owned(),
            message:
                "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                    .to_owned(),
        },
        (Some(_), "") => Cause {
            reason: "FieldValueForbidden",
            field: "resourceVersionMatch".to_owned(),
            message: "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                .to_owned(),
        },
        (Some(_), other) => Cause {
            reason: "FieldValueNotSupported",
            field: "resourceVersionMatch".to_owned(),
            message: format!(r#"Unsupported value: {}: supported values: "NotOlderThan""#, quote(other)),
        },
    };
    Err(Status::invalid(Qualified { group: "meta.k8s.io", name: "ListOptions" }, "", &[cause]))
}
