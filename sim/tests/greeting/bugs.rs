//! Bugs that people make, planted around the greeter.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_engine::action::{Action, ActionId, Request};
use lockstep_engine::finalizer;
use lockstep_engine::machine::{Deadline, Event, Machine, Step};
use lockstep_engine::object::{ObjectRef, is_deleting};
use lockstep_engine::time::Now;
use lockstep_sim::bugs::Bug;
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::controller::{FINALIZER, NAME};

pub(crate) static FINALIZER_FIRST: Bug = Bug {
    name: "finalizer_first",
    sentence: "The finalizer is taken out as soon as the greeting is deleted.",
    controller: NAME,
    plant: |inner| Box::new(FinalizerFirst { inner, going: BTreeMap::new(), leading: false, asked: 0 }),
    garble: None,
};

pub(crate) static DELETES_BY_NAME: Bug = Bug {
    name: "deletes_by_name",
    sentence: "A ConfigMap is deleted by its name, whatever has that name by then.",
    controller: NAME,
    plant: |inner| inner,
    garble: Some(|action, mut request| {
        if matches!(action, Action::Delete { .. }) {
            let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
            *request.body_mut() = options.to_string().into_bytes();
        }
        request
    }),
};

pub(crate) static CHILDREN_UNWATCHED: Bug = Bug {
    name: "children_unwatched",
    sentence: "What becomes of the ConfigMaps wakes nobody.",
    controller: NAME,
    plant: |inner| Box::new(ChildrenUnwatched { inner }),
    garble: None,
};

struct FinalizerFirst {
    inner: Box<dyn Machine>,
    /// Deleted greetings that are held.
    going: BTreeMap<ObjectRef, Arc<Value>>,
    leading: bool,
    asked: u64,
}

impl Machine for FinalizerFirst {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        match &event {
            Event::LeadershipChanged { leading } => self.leading = *leading,
            Event::Applied { kind, object } if is_deleting(object) => {
                self.going.insert(reference(kind, object), Arc::clone(object));
            }
            _ => {}
        }
        let mut step = self.inner.step(event, now);
        if self.leading {
            for (target, greeting) in std::mem::take(&mut self.going) {
                // The inner machine ignores answers to what it did not ask for.
                self.asked += 1;
                let id = ActionId(u64::MAX - self.asked);
                let action = finalizer::remove(&target, &greeting, FINALIZER);
                step.requests.extend(action.map(|action| Request { id, action }));
            }
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        self.inner.deadline()
    }

    fn queue_depths(&self) -> Vec<(&'static str, usize)> {
        self.inner.queue_depths()
    }

    fn is_synced(&self) -> bool {
        self.inner.is_synced()
    }
}

struct ChildrenUnwatched {
    inner: Box<dyn Machine>,
}

impl Machine for ChildrenUnwatched {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        match event {
            Event::Applied { kind, .. } | Event::Deleted { kind, .. } if kind.kind == "ConfigMap" => {
                self.inner.step(Event::TimerFired, now)
            }
            event => self.inner.step(event, now),
        }
    }

    fn deadline(&self) -> Option<Deadline> {
        self.inner.deadline()
    }

    fn queue_depths(&self) -> Vec<(&'static str, usize)> {
        self.inner.queue_depths()
    }

    fn is_synced(&self) -> bool {
        self.inner.is_synced()
    }
}
