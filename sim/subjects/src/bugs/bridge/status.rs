//! Mistakes in the content of the status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use lockstep_bridge::names;
use lockstep_engine::action::{ActionId, Outcome, Request, Success};
use lockstep_engine::machine::Event;
use lockstep_engine::object::{ObjectRef, metadata};
use lockstep_sim::bugs::Flaw;
use lockstep_sim::conditions;
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::super::common::retell;
use super::super::requests::status_patch;

#[derive(Default)]
pub(super) struct PauseFails;

impl Flaw for PauseFails {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        let status = &mut changed["status"];
        let conditions = status.get_mut("conditions")?.as_array_mut()?;
        let is_blocked = conditions.iter().any(|condition| condition["reason"] == "Blocked");
        for condition in conditions.iter_mut().filter(|condition| is_blocked && condition["type"] == "Ready")
        {
            condition["status"] = json!("False");
            condition["reason"] = json!("ValidationFailed");
        }
        if is_blocked && status["phase"] == "Ready" {
            status["phase"] = json!("Failed");
        }
        *patch = Arc::new(changed);
        None
    }
}

#[derive(Default)]
pub(super) struct Freezes {
    refused: BTreeSet<String>,
    seen: BTreeMap<ObjectRef, Arc<Value>>,
    /// The status that the machine believes that it has written.
    believed: BTreeMap<ActionId, Value>,
}

impl Flaw for Freezes {
    fn event(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::WatchFailed { ref kind, .. }
                if matches!(&*kind.kind, "HostedCluster" | "NodePool" | "Service" | "Secret") =>
            {
                self.refused.insert(kind.kind.clone());
            }
            Event::ListCompleted { ref kind } => {
                self.refused.remove(&kind.kind);
            }
            Event::Applied { ref kind, ref object } if kind.kind == "DPFHCPBridge" => {
                self.seen.insert(reference(kind, object), Arc::clone(object));
            }
            Event::Finished { id, outcome: Ok(Success::Object(object)) } => {
                let mut object = Value::clone(&object);
                if let Some(status) = self.believed.remove(&id) {
                    object["status"] = status;
                }
                return Some(Event::Finished { id, outcome: Ok(Success::Object(Arc::new(object))) });
            }
            _ => {}
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (target, patch) = status_patch(&mut request.action)?;
        let before = self.seen.get(target).filter(|_| !self.refused.is_empty())?["status"].clone();
        let wanted = patch["status"].clone();
        if before["hostedClusterRef"].is_null() || wanted["phase"] == "Deleting" {
            return None;
        }
        let of = |status: &Value| {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            conditions.find(|condition| condition["type"] == "PrerequisitesMet").cloned()
        };
        let mut changed = Value::clone(patch);
        // Each write differs from the last, so that each gives the bridge a new version.
        let message = format!("{} ", before["message"].as_str().unwrap_or_default());
        changed["status"] = before;
        changed["status"]["message"] = json!(message);
        for condition in
            changed.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if condition["type"] == "PrerequisitesMet" {
                *condition = of(&wanted).unwrap_or_default();
            }
        }
        *patch = Arc::new(changed);
        self.believed.insert(request.id, wanted);
        None
    }
}

/// The machine continues to see the messages that it has written, so that it writes nothing else than without the flaw.
#[derive(Default)]
pub(super) struct AdvisesToDisconnect {
    written: BTreeMap<ObjectRef, Value>,
}

impl AdvisesToDisconnect {
    /// Returns the message about the kubeconfig of another client, if a status has one.
    fn message(status: &mut Value) -> Option<&mut Value> {
        let mut conditions = status.get_mut("conditions")?.as_array_mut()?.iter_mut();
        let condition = conditions.find(|condition| condition["reason"] == "DPUClusterHasItsOwn")?;
        Some(&mut condition["message"])
    }

    fn restore(&self, bridge: &mut Arc<Value>) {
        if let Some(written) = self.written.get(&reference(&names::bridge(), bridge))
            && let Some(message) = Self::message(&mut Arc::make_mut(bridge)["status"])
        {
            *message = written.clone();
        }
    }
}

impl Flaw for AdvisesToDisconnect {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        match &mut event {
            Event::Applied { kind, object } if kind.kind == "DPFHCPBridge" => self.restore(object),
            Event::Finished { outcome: Ok(Success::Object(object)), .. }
                if object["kind"] == "DPFHCPBridge" =>
            {
                self.restore(object);
            }
            _ => {}
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (target, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        let message = Self::message(&mut changed["status"])?;
        let advice = json!("the DPUCluster has another kubeconfig; remove spec.kubeconfig of the DPUCluster");
        self.written.insert(target.clone(), std::mem::replace(message, advice));
        *patch = Arc::new(changed);
        None
    }
}

#[derive(Default)]
pub(super) struct Trusts;

impl Flaw for Trusts {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        for condition in changed.pointer_mut("/status/conditions")?.as_array_mut()? {
            if condition["reason"] == "ReleaseImageUnchecked" {
                condition["reason"] = json!("AllMet");
            }
        }
        *patch = Arc::new(changed);
        None
    }
}

#[derive(Default)]
pub(super) struct DegradedFails;

impl Flaw for DegradedFails {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        let is_degraded = conditions::is(&changed, "HostedClusterDegraded", "True");
        let status = &mut changed["status"];
        if is_degraded && status["phase"] == "Ready" {
            status["phase"] = json!("Failed");
        }
        *patch = Arc::new(changed);
        None
    }
}

#[derive(Default)]
pub(super) struct MoveFails;

impl Flaw for MoveFails {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        let status = &mut changed["status"];
        let conditions = status.get_mut("conditions")?.as_array_mut()?;
        let moves = conditions.iter().any(|condition| condition["reason"] == "AddressChangePending");
        for condition in conditions.iter_mut().filter(|condition| moves && condition["type"] == "Ready") {
            condition["status"] = json!("False");
            condition["reason"] = json!("WaitingForInfrastructure");
        }
        if moves && status["phase"] == "Ready" {
            status["phase"] = json!("Failed");
        }
        *patch = Arc::new(changed);
        None
    }
}

#[derive(Default)]
pub(super) struct EarlyIngress;

impl Flaw for EarlyIngress {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        let status = &mut changed["status"];
        if status["hostedClusterRef"].is_object() && status["ingressEndpoint"].is_null() {
            status["ingressEndpoint"] = json!("*.apps.prod.clusters.example.com");
        }
        *patch = Arc::new(changed);
        None
    }
}

/// The machine sees clusters as half an hour older than they are.
#[derive(Default)]
pub(super) struct TimesOutEarly;

impl Flaw for TimesOutEarly {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(retell(event, "HostedCluster", |cluster| {
            if let Ok(created) = metadata(cluster, "creationTimestamp").parse::<Timestamp>() {
                let earlier = created - SignedDuration::from_mins(30);
                cluster["metadata"]["creationTimestamp"] = json!(earlier.to_string());
            }
        }))
    }
}
