//! Checks that a standby that takes over keeps the status of the former leader until it has found out about it itself.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_engine::action::{Action, ActionId, KubeRequest};
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::object::ResourceVersion;
use lockstep_sentinel::status::{BROKER_CONNECTED, FLEET_REACHABLE, PUBLISHING};
use lockstep_sim::subject::Testimony;
use serde_json::Value;

/// The systems that conditions are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum System {
    Fleet,
    /// The broker, with the Secret of its credentials.
    Broker,
}

/// The conditions that depend on answers of other systems. The answers of one of them are sufficient to change it.
const DEPENDENT: [(&str, &[System]); 3] = [
    (FLEET_REACHABLE, &[System::Fleet]),
    (BROKER_CONNECTED, &[System::Broker]),
    (PUBLISHING, &[System::Fleet, System::Broker]),
];

/// What a process has learned since it became the leader.
#[derive(Clone, Default)]
pub(super) struct Takeover {
    asked: BTreeMap<ActionId, System>,
    answered: BTreeSet<System>,
    version: ResourceVersion,
    generation: Value,
    /// The conditions of its configuration, as the watch has shown them.
    conditions: Value,
    /// Whether it has seen another configuration since it became the leader, which changes conditions as well. A process that leads
    /// from its start has seen none before.
    is_changed: bool,
}

impl Takeover {
    pub(super) fn see(&mut self, event: &Event, step: &Step) -> Result<(), Testimony> {
        match event {
            Event::LeadershipChanged { .. } => {
                self.answered.clear();
                self.asked.clear();
                self.is_changed = false;
            }
            Event::Applied { kind, object } if kind.kind == "SentinelConfig" => self.observed(object),
            Event::Deleted { .. } => self.is_changed = true,
            Event::Finished { id, .. } => self.answered.extend(self.asked.remove(id)),
            _ => {}
        }
        for request in &step.requests {
            match &request.action {
                Action::Http(_) => drop(self.asked.insert(request.id, System::Fleet)),
                Action::Broker(_) | Action::Kube(KubeRequest::Get { .. }) => {
                    self.asked.insert(request.id, System::Broker);
                }
                Action::Kube(KubeRequest::Patch { patch, .. }) => self.written(&patch["status"])?,
                _ => {}
            }
        }
        Ok(())
    }

    fn observed(&mut self, object: &Value) {
        let version = ResourceVersion::of(object);
        if self.version > version {
            return;
        }
        self.version = version;
        let [generation, conditions] = [&object["metadata"]["generation"], &object["status"]["conditions"]];
        self.is_changed |= self.generation != *generation;
        (self.generation, self.conditions) = (generation.clone(), conditions.clone());
    }

    fn written(&self, status: &Value) -> Result<(), Testimony> {
        let is_unfounded = |(name, systems): &&(&str, &[System])| {
            let is_answered = systems.iter().any(|system| self.answered.contains(system));
            !is_answered && state(&status["conditions"], name) != state(&self.conditions, name)
        };
        match DEPENDENT.iter().find(is_unfounded).filter(|_| !self.is_changed) {
            None => Ok(()),
            Some((name, _)) => Err(Testimony {
                invariant: "a_takeover_keeps_the_status",
                sentence: "A standby that becomes the leader changes no condition before it has an answer from the system that the condition is about, unless the configuration changes.",
                seen: format!("{name} was changed before any answer"),
            }),
        }
    }
}

/// Returns the status and the reason of a condition.
fn state<'a>(conditions: &'a Value, name: &str) -> Option<[&'a Value; 2]> {
    let condition = conditions.as_array()?.iter().find(|condition| condition["type"] == name)?;
    Some([&condition["status"], &condition["reason"]])
}
