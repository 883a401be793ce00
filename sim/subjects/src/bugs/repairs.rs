//! Mistakes in the repair of drift.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest, Outcome, Request};
use lockstep_engine::machine::{Event, Note, Step};
use lockstep_engine::object::{ObjectRef, is_deleting, metadata};
use lockstep_sim::bugs::{Bug, Flaw, plant};
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::common::{Extra, HOST, HostedClusters, Unheard};
use super::requests::{status_patch, written_conditions};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "repairs_at_full_speed",
        sentence: "Drift is repaired whenever a watch shows it, so two clients that change a resource in turns never slow down.",
        controller: HOST,
        plant: plant::<RepairsAtFullSpeed<ConfigMaps>>,
        garble: None,
    },
    Bug {
        name: "repairs_clusters_at_full_speed",
        sentence: "A HostedCluster is repaired whenever a watch shows its change by another client.",
        controller: lockstep_crds::bridge::CONTROLLER,
        plant: plant::<RepairsAtFullSpeed<HostedClusters>>,
        garble: None,
    },
    Bug {
        name: "overlooks_edits",
        sentence: "A change of a resource by another client is noticed only by the next list.",
        controller: HOST,
        plant: plant::<OverlooksEdits>,
        garble: None,
    },
    Bug {
        name: "hides_contests",
        sentence: "A binding is ready while another client keeps changing its resources.",
        controller: HOST,
        plant: plant::<HidesContests>,
        garble: None,
    },
    Bug {
        name: "contested_at_once",
        sentence: "The first repair of a resource is reported as if another client kept changing it.",
        controller: HOST,
        plant: plant::<ContestedAtOnce>,
        garble: None,
    },
];

struct ConfigMaps;

impl Unheard for ConfigMaps {
    const KIND: &'static str = "ConfigMap";
}

/// What was applied to objects of a kind that existed, what was applied twice, and those objects of the latter that another client has
/// changed since.
struct RepairsAtFullSpeed<K> {
    of: PhantomData<K>,
    applied: BTreeMap<ObjectRef, Arc<Value>>,
    repaired: BTreeMap<ObjectRef, Arc<Value>>,
    changed: BTreeSet<ObjectRef>,
    extra: Extra,
}

impl<K> Default for RepairsAtFullSpeed<K> {
    fn default() -> Self {
        Self {
            of: PhantomData,
            applied: BTreeMap::new(),
            repaired: BTreeMap::new(),
            changed: BTreeSet::new(),
            extra: Extra::default(),
        }
    }
}

impl<K: Unheard> Flaw for RepairsAtFullSpeed<K> {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::Finished { id, .. } if self.extra.has_asked(*id) => return None,
            Event::LeadershipChanged { .. } => (self.applied, self.repaired) = Default::default(),
            Event::Applied { kind, object } => {
                let target = reference(kind, object);
                let is_it = |applied: &Arc<Value>| object["metadata"]["uid"] == applied["metadata"]["uid"];
                if self.repaired.get(&target).is_some_and(is_it) && !is_deleting(object) {
                    self.changed.insert(target);
                }
            }
            _ => {}
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Kube(KubeRequest::Apply { target, manifest }) = &request.action
            && target.kind.kind == K::KIND
            && manifest["metadata"].get("uid").is_some()
        {
            let last = self.applied.insert(target.clone(), Arc::clone(manifest));
            if last.as_ref() == Some(manifest) {
                self.repaired.insert(target.clone(), Arc::clone(manifest));
            } else {
                self.repaired.remove(target);
            }
            self.changed.remove(target);
        }
        None
    }

    fn step(&mut self, step: &mut Step) {
        for target in std::mem::take(&mut self.changed) {
            if let Some(manifest) = self.repaired.get(&target).cloned() {
                self.extra.ask(step, Action::Kube(KubeRequest::Apply { target, manifest }));
            }
        }
    }
}

/// The uids of the objects that the machine knows.
#[derive(Default)]
struct OverlooksEdits(BTreeMap<ObjectRef, String>);

impl Flaw for OverlooksEdits {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::ListStarted { kind } => self.0.retain(|object, _| object.kind != *kind),
            Event::Applied { kind, object } if kind.kind == "ConfigMap" && !is_deleting(object) => {
                let uid = metadata(object, "uid").to_owned();
                let last = self.0.insert(reference(kind, object), uid.clone());
                return (last != Some(uid)).then_some(event);
            }
            _ => {}
        }
        Some(event)
    }
}

/// The condition `Ready` of each binding, as it was last written with the status True.
#[derive(Default)]
struct HidesContests(BTreeMap<ObjectRef, Value>);

impl Flaw for HidesContests {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (target, ready) = ready_of(request)?;
        if ready["status"] == "True" {
            self.0.insert(target, ready.clone());
        } else if ready["reason"] == "Contested"
            && let Some(last) = self.0.get(&target)
        {
            *ready = last.clone();
        }
        None
    }

    fn step(&mut self, step: &mut Step) {
        step.notes.retain(|note| match note {
            Note::ConditionChanged { object, reason, .. } | Note::EventAnnounced { object, reason, .. } => {
                reason != "Contested" || !self.0.contains_key(object)
            }
            _ => true,
        });
    }
}

/// The namespaces in which an object that existed was applied.
#[derive(Default)]
struct ContestedAtOnce(BTreeSet<String>);

impl Flaw for ContestedAtOnce {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Kube(KubeRequest::Apply { target, manifest }) = &request.action
            && manifest["metadata"].get("uid").is_some()
        {
            self.0.extend(target.namespace.clone());
        }
        let (target, ready) = ready_of(request)?;
        if target.namespace.is_some_and(|namespace| self.0.contains(&namespace)) && ready["status"] == "True"
        {
            ready["reason"] = json!("Contested");
        }
        None
    }
}

/// Returns the condition `Ready` in a status that is written, and the object.
fn ready_of(request: &mut Request) -> Option<(ObjectRef, &mut Value)> {
    let target = status_patch(&mut request.action)?.0.clone();
    let ready = written_conditions(request)?.iter_mut().find(|condition| condition["type"] == "Ready")?;
    Some((target, ready))
}
