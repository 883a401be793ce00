//! Code that the bugs of several controllers share.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::action::{Action, ActionId, ErrorKind, KubeRequest, Outcome, Request, Success};
use lockstep_engine::machine::{Event, Machine, Note, Step};
use lockstep_engine::object::{ObjectRef, Uid, is_deleting};
use lockstep_sim::bugs::Flaw;
use lockstep_sim::history::reference;
use serde_json::{Value, json};

/// The controller in which the bugs of most files are planted.
pub(super) const HOST: &str = lockstep_crds::namespaceclass::CONTROLLER;

/// Changes nothing in a machine.
pub(super) fn sound(machine: Box<dyn Machine>) -> Box<dyn Machine> {
    machine
}

/// Returns an answer that the server might have given to a write after success. An object without a version is not taken for a
/// newer state.
pub(super) fn as_if_done(action: &Action) -> Success {
    match action {
        Action::Kube(
            KubeRequest::Apply { manifest, .. }
            | KubeRequest::Create { manifest, .. }
            | KubeRequest::Update { manifest, .. },
        ) => Success::Object(Arc::clone(manifest)),
        Action::Kube(KubeRequest::Patch { target, patch, .. }) => {
            let mut object = Value::clone(patch);
            object["metadata"]["namespace"] = json!(target.namespace);
            object["metadata"]["name"] = json!(target.name);
            Success::Object(Arc::new(object))
        }
        _ => Success::Done,
    }
}

/// The requested actions without an answer.
#[derive(Default)]
pub(super) struct Asked(BTreeMap<ActionId, Action>);

impl Asked {
    /// Adds a request.
    pub(super) fn note(&mut self, request: &Request) {
        self.0.insert(request.id, request.action.clone());
    }

    /// Removes and returns the action whose answer an event is.
    pub(super) fn answered(&mut self, event: &Event) -> Option<Action> {
        match event {
            Event::Finished { id, .. } => self.0.remove(id),
            _ => None,
        }
    }
}

/// Returns whether an action has this name and targets an object of this kind.
pub(super) fn is(action: &Action, name: &str, kind: &str) -> bool {
    action.name() == name && action.target().is_some_and(|target| target.kind.kind == kind)
}

/// Changes what is written to objects of a kind.
pub(super) fn change(request: &mut Request, kind: &str, change: impl FnOnce(&mut Value)) {
    if let Action::Kube(KubeRequest::Apply { target, manifest } | KubeRequest::Create { target, manifest }) =
        &mut request.action
        && target.kind.kind == kind
    {
        let mut changed = Value::clone(manifest);
        change(&mut changed);
        *manifest = Arc::new(changed);
    }
}

/// Changes the objects of a kind in an event.
pub(super) fn retell(event: Event, kind_name: &str, change: impl FnOnce(&mut Value)) -> Event {
    match event {
        Event::Applied { kind, object } if kind.kind == kind_name => {
            let mut object = Value::clone(&object);
            change(&mut object);
            Event::Applied { kind, object: Arc::new(object) }
        }
        other => other,
    }
}

/// Changes an object of a kind in an event or an answer.
pub(super) fn edit(event: &mut Event, kind: &str, edit: impl FnOnce(&mut Value)) {
    if let Event::Applied { object, .. } | Event::Finished { outcome: Ok(Success::Object(object)), .. } =
        event
        && object["kind"] == kind
    {
        edit(Arc::make_mut(object));
    }
}

/// A kind for which events can be dropped.
pub(super) trait Unheard {
    const KIND: &'static str;
}

pub(super) struct Secrets;

impl Unheard for Secrets {
    const KIND: &'static str = "Secret";
}

pub(super) struct DpuClusters;

impl Unheard for DpuClusters {
    const KIND: &'static str = "DPUCluster";
}

pub(super) struct HostedClusters;

impl Unheard for HostedClusters {
    const KIND: &'static str = "HostedCluster";
}

/// Drops all events of a kind after its first list.
pub(super) struct Ignores<K> {
    listed: bool,
    to: PhantomData<K>,
}

impl<K> Default for Ignores<K> {
    fn default() -> Self {
        Self { listed: false, to: PhantomData }
    }
}

impl<K: Unheard> Flaw for Ignores<K> {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::ListStarted { kind }
            | Event::Applied { kind, .. }
            | Event::Deleted { kind, .. }
            | Event::ListCompleted { kind }
                if kind.kind == K::KIND =>
            {
                let is_lost = self.listed;
                self.listed |= matches!(event, Event::ListCompleted { .. });
                (!is_lost).then_some(event)
            }
            _ => Some(event),
        }
    }
}

/// Sends requests that the machine has not requested.
#[derive(Default)]
pub(super) struct Extra(u64);

impl Extra {
    /// Greater than any id of a machine.
    const FIRST: u64 = 1_000_000_000;

    pub(super) fn ask(&mut self, step: &mut Step, action: Action) {
        self.0 += 1;
        step.requests.push(Request { id: ActionId(Self::FIRST + self.0), action });
    }

    /// Returns whether an answer is for such a request.
    pub(super) fn has_asked(&self, id: ActionId) -> bool {
        (Self::FIRST + 1..=Self::FIRST + self.0).contains(&id.0)
    }
}

/// The kinds that the machine can't watch, by name.
#[derive(Default)]
pub(super) struct Refused(pub(super) BTreeSet<String>);

impl Refused {
    pub(super) fn absorb(&mut self, event: &Event) {
        match event {
            Event::WatchFailed { kind, failure }
                if matches!(failure.class, ErrorKind::Forbidden | ErrorKind::KindNotServed) =>
            {
                self.0.insert(kind.kind.clone());
            }
            Event::ListCompleted { kind } => {
                self.0.remove(&kind.kind);
            }
            _ => {}
        }
    }
}

/// The objects of the relevant kinds, as the watches delivered them.
#[derive(Default)]
pub(super) struct Known {
    pub(super) objects: BTreeMap<ObjectRef, Arc<Value>>,
    pub(super) extra: Extra,
}

impl Known {
    /// Processes an event. Returns its object, if it is of the kind.
    pub(super) fn absorb(&mut self, event: &Event, kind_name: &str) -> Option<(ObjectRef, Arc<Value>)> {
        match event {
            Event::Applied { kind, object } => {
                let target = reference(kind, object);
                self.objects.insert(target.clone(), Arc::clone(object));
                (kind.kind == kind_name).then(|| (target, Arc::clone(object)))
            }
            Event::Deleted { kind, object } => {
                self.objects.remove(&reference(kind, object));
                None
            }
            _ => None,
        }
    }

    /// Requests the deletion of all objects of a kind that match.
    pub(super) fn remove(&mut self, step: &mut Step, kind: &str, is_so: impl Fn(&Value) -> bool) {
        for (target, object) in &self.objects {
            if target.kind.kind == kind && is_so(object) && !is_deleting(object) {
                let uid = Uid::of(object);
                let action =
                    Action::Kube(KubeRequest::Delete { target: target.clone(), uid, resource_version: None });
                self.extra.ask(step, action);
            }
        }
    }
}

/// Answers the write of the finalizer as a success without sending it.
#[derive(Default)]
pub(super) struct NoFinalizer {
    seen: BTreeMap<ObjectRef, Arc<Value>>,
}

impl Flaw for NoFinalizer {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Event::Applied { kind, object } = &event {
            self.seen.insert(reference(kind, object), Arc::clone(object));
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let Action::Kube(KubeRequest::Patch { target, subresource: None, patch }) = &request.action else {
            return None;
        };
        let finalizers = patch["metadata"].get("finalizers")?;
        let mut object = Value::clone(self.seen.get(target)?);
        object["metadata"]["finalizers"] = finalizers.clone();
        Some(Ok(Success::Object(Arc::new(object))))
    }
}

#[derive(Default)]
pub(super) struct LogsSecrets {
    read: Option<String>,
}

impl Flaw for LogsSecrets {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Event::Finished { outcome: Ok(Success::Object(object)), .. } = &event
            && object["kind"] == "Secret"
        {
            let values = object["data"].as_object().into_iter().flatten();
            self.read = Some(values.filter_map(|(_, value)| Some(decoded(value.as_str()?))).collect());
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        if let Some(message) = self.read.take() {
            step.notes.push(Note::debug(message));
        }
    }
}

/// Decodes base64 to text.
pub(super) fn decoded(encoded: &str) -> String {
    String::from_utf8_lossy(&STANDARD.decode(encoded).unwrap_or_default()).into_owned()
}
