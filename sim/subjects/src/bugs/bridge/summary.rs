//! Mistakes in the phase, in `Ready`, and in their log. The machine continues to see what it has written, so that it writes nothing
//! else than without the flaw.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_bridge::names::condition::{
    HOSTED_CLUSTER_AVAILABLE, HOSTED_CLUSTER_CREATED, KUBECONFIG_INJECTED, READY,
};
use lockstep_bridge::names::{self, reason};
use lockstep_engine::action::{Outcome, Request, Success};
use lockstep_engine::machine::{Event, Note, Step};
use lockstep_engine::object::ObjectRef;
use lockstep_sim::bugs::Flaw;
use lockstep_sim::conditions;
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::super::requests::status_patch;

/// A field of the status of bridges that is written with another value.
#[derive(Default)]
struct Changed {
    /// The value that was written for each bridge, and the one that the machine requested.
    values: BTreeMap<ObjectRef, (Value, Value)>,
}

impl Changed {
    /// Changes a field of a status, if it is in the request.
    fn write(
        &mut self,
        request: &mut Request,
        field: fn(&mut Value) -> Option<&mut Value>,
        change: impl FnOnce(&Value) -> Option<Value>,
    ) {
        let Some((target, patch)) = status_patch(&mut request.action) else { return };
        self.values.remove(target);
        let Some(value) = field(&mut Arc::make_mut(patch)["status"]) else { return };
        if let Some(other) = change(value) {
            self.values.insert(target.clone(), (other.clone(), std::mem::replace(value, other)));
        }
    }

    /// Shows the machine what it requested.
    fn restore(&self, mut event: Event, field: fn(&mut Value) -> Option<&mut Value>) -> Event {
        if let Event::Applied { object, .. } | Event::Finished { outcome: Ok(Success::Object(object)), .. } =
            &mut event
            && object["kind"] == *names::bridge().kind
            && let Some((written, requested)) = self.values.get(&reference(&names::bridge(), object))
            && let Some(value) = field(&mut Arc::make_mut(object)["status"])
            && value == written
        {
            *value = requested.clone();
        }
        event
    }
}

fn phase(status: &mut Value) -> Option<&mut Value> {
    status.get_mut("phase")
}

fn ready_message(status: &mut Value) -> Option<&mut Value> {
    let mut conditions = status.get_mut("conditions")?.as_array_mut()?.iter_mut();
    Some(&mut conditions.find(|condition| condition["type"] == "Ready")?["message"])
}

#[derive(Default)]
pub(super) struct HidesFailures {
    phases: BTreeMap<ObjectRef, Value>,
    changed: Changed,
}

impl Flaw for HidesFailures {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(self.changed.restore(event, phase))
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let target = request.action.target()?.clone();
        let before = self.phases.get(&target).cloned();
        let is_hidden =
            |wanted: &Value| *wanted == "Failed" && before.as_ref().is_some_and(|it| *it == "Provisioning");
        self.changed.write(request, phase, |wanted| is_hidden(wanted).then(|| json!("Provisioning")));
        if let Some((_, patch)) = status_patch(&mut request.action) {
            self.phases.insert(target, patch["status"]["phase"].clone());
        }
        None
    }
}

#[derive(Default)]
pub(super) struct NamesNoObstacle(Changed);

impl Flaw for NamesNoObstacle {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(self.0.restore(event, ready_message))
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let waits = |message: &Value| {
            (!message.as_str()?.starts_with("the hosted cluster is ready"))
                .then(|| json!("the hosted cluster is not ready yet"))
        };
        self.0.write(request, ready_message, waits);
        None
    }
}

/// Sees no more than that the HostedCluster works.
#[derive(Default)]
pub(super) struct ReadyWithoutDpuCluster(Changed);

impl Flaw for ReadyWithoutDpuCluster {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(self.0.restore(event, |status| Some(status)))
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let ready = |wanted: &Value| {
            let bridge = json!({ "status": wanted });
            let has_lost = conditions::is_because(&bridge, READY, reason::VALIDATION_FAILED)
                && conditions::is_because(&bridge, KUBECONFIG_INJECTED, reason::DPU_CLUSTER_HAS_ITS_OWN)
                && conditions::is(&bridge, HOSTED_CLUSTER_CREATED, "True");
            let (phase, said, reason) = if conditions::is(&bridge, HOSTED_CLUSTER_AVAILABLE, "True") {
                ("Ready", "True", reason::CLUSTER_READY)
            } else {
                ("Provisioning", "False", reason::WAITING_FOR_CONTROL_PLANE)
            };
            has_lost.then(|| {
                let mut status = wanted.clone();
                status["phase"] = json!(phase);
                let conditions = status["conditions"].as_array_mut().into_iter().flatten();
                for condition in conditions.filter(|condition| condition["type"] == READY) {
                    condition["status"] = json!(said);
                    condition["reason"] = json!(reason);
                }
                status
            })
        };
        self.0.write(request, |status| Some(status), ready);
        None
    }
}

#[derive(Default)]
pub(super) struct LogsNoPhase;

impl Flaw for LogsNoPhase {
    fn step(&mut self, step: &mut Step) {
        step.notes.retain(
            |note| !matches!(note, Note::Log { message, .. } if message.starts_with("DPFHCPBridge ")),
        );
    }
}
