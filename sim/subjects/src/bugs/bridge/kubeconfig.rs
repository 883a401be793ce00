//! Mistakes with the kubeconfigs of DPUClusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockstep_engine::action::{Action, ActionId, KubeRequest, Outcome, Request, Success};
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::object::ObjectRef;
use lockstep_sim::bugs::Flaw;
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::super::common::{Extra, as_if_done, is};
use super::super::requests::status_patch;

#[derive(Default)]
pub(super) struct NeverInjects;

impl Flaw for NeverInjects {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        is(&request.action, "patch", "DPUCluster").then(|| Ok(as_if_done(&request.action)))
    }
}

#[derive(Default)]
pub(super) struct LeavesKubeconfig;

impl Flaw for LeavesKubeconfig {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        is(&request.action, "delete", "Secret").then_some(Ok(Success::Done))
    }
}

#[derive(Default)]
pub(super) struct TakesDpuClusterOver {
    taken: BTreeSet<ObjectRef>,
    extra: Extra,
}

impl Flaw for TakesDpuClusterOver {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Event::Applied { kind, object } = &event
            && kind.kind == "DPUCluster"
            && object["spec"]["kubeconfig"].as_str().is_some_and(|it| !it.ends_with("-dpucluster-kubeconfig"))
        {
            self.taken.insert(reference(kind, object));
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        for target in std::mem::take(&mut self.taken) {
            self.extra.ask(step, disconnect(target));
        }
    }
}

/// Returns an action that removes the kubeconfig from a DPUCluster.
fn disconnect(target: ObjectRef) -> Action {
    let patch = Arc::new(json!({ "spec": { "kubeconfig": null } }));
    Action::Kube(KubeRequest::Patch { target, subresource: None, patch })
}

#[derive(Default)]
pub(super) struct NamesHyperShifts;

impl Flaw for NamesHyperShifts {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Kube(KubeRequest::Patch { target, patch, .. }) = &mut request.action
            && target.kind.kind == "DPUCluster"
            && patch["spec"]["kubeconfig"].is_string()
        {
            let mut changed = Value::clone(patch);
            changed["spec"]["kubeconfig"] = json!("prod-admin-kubeconfig");
            *patch = Arc::new(changed);
        }
        None
    }
}

#[derive(Default)]
pub(super) struct Disconnects {
    connected: BTreeSet<ObjectRef>,
    has_lost: bool,
    extra: Extra,
}

impl Flaw for Disconnects {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::Applied { kind, object } if kind.kind == "DPUCluster" => {
                self.connected.insert(reference(kind, object));
            }
            Event::Deleted { kind, .. } if kind.kind == "HostedCluster" => self.has_lost = true,
            _ => {}
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        if std::mem::take(&mut self.has_lost) {
            for target in &self.connected {
                self.extra.ask(step, disconnect(target.clone()));
            }
        }
    }
}

/// Only a deletion reads just the metadata of a copy.
#[derive(Default)]
pub(super) struct UnreadIsOwn {
    reads: BTreeMap<ActionId, String>,
    connected: BTreeMap<ObjectRef, String>,
    unread: Option<String>,
    extra: Extra,
}

impl Flaw for UnreadIsOwn {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Kube(KubeRequest::Get { target, metadata_only: true }) = &request.action
            && target.kind.kind == "Secret"
        {
            self.reads.insert(request.id, target.name.clone());
        }
        None
    }

    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::Applied { kind, object } if kind.kind == "DPUCluster" => {
                let used = object["spec"]["kubeconfig"].as_str().unwrap_or_default();
                self.connected.insert(reference(kind, object), used.to_owned());
            }
            Event::Finished { id, outcome } => {
                self.unread = self.reads.remove(id).filter(|_| outcome.is_err());
            }
            _ => {}
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        if let Some(copy) = self.unread.take() {
            for (target, _) in self.connected.iter().filter(|(_, used)| **used == copy) {
                self.extra.ask(step, disconnect(target.clone()));
            }
        }
    }
}

#[derive(Default)]
pub(super) struct RenewalFails {
    /// The times at which the conditions of bridges became False.
    since: BTreeMap<(ObjectRef, String), Value>,
}

impl Flaw for RenewalFails {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (target, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        let status = &mut changed["status"];
        let conditions = status.get_mut("conditions")?.as_array_mut()?;
        let is_renewed = conditions.iter().any(|condition| {
            condition["type"] == "KubeconfigInjected"
                && condition["status"] == "True"
                && condition["message"].as_str().is_some_and(|it| it.contains("-dpucluster-kubeconfig, "))
        });
        if !is_renewed {
            self.since.retain(|(bridge, _), _| bridge != target);
            return None;
        }
        for condition in conditions {
            let reason = match condition["type"].as_str()? {
                "KubeconfigInjected" => "KubeconfigPending",
                "Ready" => "WaitingForInfrastructure",
                _ => continue,
            };
            let key = (target.clone(), reason.to_owned());
            let since = self.since.entry(key).or_insert_with(|| condition["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = since.clone();
            condition["status"] = json!("False");
            condition["reason"] = json!(reason);
        }
        if status["phase"] == "Ready" {
            status["phase"] = json!("Failed");
        }
        *patch = Arc::new(changed);
        None
    }
}
