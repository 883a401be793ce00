//! Mistakes that a Bridge could make.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_bridge::names;
use lockstep_engine::action::{Action, ActionId, ErrorKind, Failure, KubeRequest, Outcome, Request};
use lockstep_engine::machine::{Event, Machine, Step};
use lockstep_engine::object::{ObjectRef, Uid};
use lockstep_sim::bugs::{Bug, Flaw, plant};
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::common::{
    DpuClusters, HostedClusters, Ignores, LogsSecrets, NoFinalizer, Secrets, as_if_done, change, is, retell,
};
use super::requests::{StatusAlways, TimesMove, status_patch};

mod encryption;
mod kubeconfig;
mod own_pool;
mod status;
mod summary;
mod watches;

const fn bug(
    name: &'static str,
    sentence: &'static str,
    plant: fn(Box<dyn Machine>) -> Box<dyn Machine>,
) -> Bug {
    Bug { name, sentence, controller: lockstep_crds::bridge::CONTROLLER, plant, garble: None }
}

pub(super) const BUGS: &[Bug] = &[
    bug(
        "overwrites_existing_objects",
        "Objects are applied instead of created, over any object of that name.",
        plant::<TakesOver>,
    ),
    bug("never_adds_the_finalizer", "Clusters are created without the finalizer.", plant::<NoFinalizer>),
    bug(
        "removes_the_finalizer_before_the_cluster",
        "A cluster that is being deleted counts as gone.",
        plant::<LeavesEarly>,
    ),
    bug(
        "deletes_clusters_with_dpuclusters",
        "When a DPUCluster is deleted, its HostedClusters are deleted.",
        plant::<TakesDown>,
    ),
    bug(
        "writes_immutable_fields",
        "The spec's availability is written although HyperShift can't change it.",
        plant::<Fights>,
    ),
    bug(
        "sends_fields_that_hypershift_lacks",
        "An update of a HostedCluster contains a field that an older HyperShift does not have.",
        plant::<SendsNewerFields>,
    ),
    bug("phases_go_back", "A phase goes back to Pending.", plant::<PhasesJump>),
    bug("never_injects", "The DPUCluster never gets its kubeconfig.", plant::<kubeconfig::NeverInjects>),
    bug("copies_once", "A rotated Secret is not copied.", plant::<CopiesOnce>),
    bug("ignores_secrets", "Changes of Secrets are ignored.", plant::<Ignores<Secrets>>),
    bug("ignores_dpuclusters", "Changes of DPUClusters are ignored.", plant::<Ignores<DpuClusters>>),
    bug("ignores_hostedclusters", "Changes of HostedClusters are ignored.", plant::<Ignores<HostedClusters>>),
    bug("no_owner", "HostedClusters are created without their owner.", plant::<NoOwner>),
    bug(
        "keeps_the_kubeconfig",
        "The kubeconfig is kept when the bridge is deleted.",
        plant::<kubeconfig::LeavesKubeconfig>,
    ),
    bug("ready_too_early", "A HostedCluster counts as available once it exists.", plant::<ReadyTooEarly>),
    bug("never_requests_the_address", "The address is not requested from MetalLB.", plant::<NeverAsks>),
    bug("labels_the_service", "HyperShift's Service gets a label.", plant::<MarksService>),
    bug(
        "replaces_another_kubeconfig",
        "A kubeconfig that another client gave a DPUCluster is replaced.",
        plant::<kubeconfig::TakesDpuClusterOver>,
    ),
    bug(
        "disconnects_a_namesakes_dpucluster",
        "In a deletion, a copy of the kubeconfig that can't be read counts as the bridge's own.",
        plant::<kubeconfig::UnreadIsOwn>,
    ),
    bug(
        "names_hypershifts_kubeconfig",
        "The DPUCluster gets the name of HyperShift's Secret instead of its copy.",
        plant::<kubeconfig::NamesHyperShifts>,
    ),
    bug(
        "disconnects_the_dpucluster",
        "When a HostedCluster is deleted, its DPUCluster loses its kubeconfig.",
        plant::<kubeconfig::Disconnects>,
    ),
    bug(
        "treats_a_renewal_as_a_failure",
        "A cluster that serves is Failed while the copy of its kubeconfig is brought up to date.",
        plant::<kubeconfig::RenewalFails>,
    ),
    bug("hides_degradation", "A degraded HostedCluster is reported as healthy.", plant::<HidesDegradation>),
    bug(
        "raises_the_nodepool_early",
        "A HostedCluster counts as upgraded as soon as the upgrade is requested.",
        plant::<RaisesNodePool>,
    ),
    bug(
        "treats_new_tokens_as_broken",
        "A NodePool with a new token that does not exist yet is reported as unhealthy.",
        plant::<TokensBreak>,
    ),
    bug(
        "treats_a_pause_as_a_failure",
        "A cluster that serves is Failed while HyperShift is paused.",
        plant::<status::PauseFails>,
    ),
    bug(
        "freezes_while_a_watch_is_refused",
        "While the cluster of a bridge can't be watched, only PrerequisitesMet is updated.",
        plant::<status::Freezes>,
    ),
    bug(
        "ignores_its_own_watch",
        "That bridges can't be watched any more is not reported.",
        plant::<watches::IgnoresOwnWatch>,
    ),
    bug(
        "believes_unserved_clusters",
        "In the deletion of a bridge, one answer that a kind is not served means that its objects are gone.",
        plant::<watches::BelievesUnserved>,
    ),
    bug(
        "waits_for_unserved_dpuclusters",
        "The deletion of a bridge waits for its DPUCluster although DPUClusters are not served any more.",
        plant::<watches::WaitsForUnserved>,
    ),
    bug(
        "advises_to_disconnect",
        "A bridge advises to remove the kubeconfig of its DPUCluster, even if another bridge has set it.",
        plant::<status::AdvisesToDisconnect>,
    ),
    bug(
        "trusts_a_silent_registry",
        "A release image that could not be checked counts as checked.",
        plant::<status::Trusts>,
    ),
    bug(
        "ignores_addresses_of_others",
        "Services of other clients count as Services without an address.",
        plant::<OverlooksUsers>,
    ),
    bug(
        "requests_the_address_once",
        "An address that MetalLB has refused is not requested again when it is free.",
        plant::<AsksOnce>,
    ),
    bug(
        "treats_degraded_as_failed",
        "A cluster that serves is Failed when HyperShift reports it as degraded.",
        plant::<status::DegradedFails>,
    ),
    bug(
        "treats_a_move_as_a_failure",
        "A cluster with a pending change of its address is Failed until it has the new address.",
        plant::<status::MoveFails>,
    ),
    bug(
        "hides_failures_of_provisioning",
        "A bridge that fails while its cluster is created keeps the phase Provisioning.",
        plant::<summary::HidesFailures>,
    ),
    bug(
        "is_ready_without_its_dpucluster",
        "A bridge stays Ready although another one has its DPUCluster.",
        plant::<summary::ReadyWithoutDpuCluster>,
    ),
    bug(
        "names_no_obstacle",
        "The message of Ready only says that the cluster is not ready.",
        plant::<summary::NamesNoObstacle>,
    ),
    bug("logs_no_phase", "Changes of the phase are not logged.", plant::<summary::LogsNoPhase>),
    bug(
        "reports_the_ingress_at_once",
        "The status has the ingress endpoint as soon as a HostedCluster exists.",
        plant::<status::EarlyIngress>,
    ),
    bug("times_out_early", "A new cluster has half an hour to become ready.", plant::<status::TimesOutEarly>),
    bug(
        "generates_the_key_again",
        "When the key for etcd is deleted, another one is generated.",
        plant::<encryption::GeneratesAgain>,
    ),
    bug(
        "applies_the_key",
        "The key for etcd is applied instead of created, over a Secret of another owner.",
        plant::<encryption::Applies>,
    ),
    bug(
        "creates_the_cluster_before_its_key",
        "A HostedCluster is created before the key for etcd that it names.",
        plant::<encryption::ForgetsKey>,
    ),
    bug(
        "creates_pools_that_overlap",
        "The IPAddressPool of a bridge is created although its address is in another pool.",
        plant::<own_pool::Overlaps>,
    ),
    bug(
        "keeps_changed_pools",
        "The IPAddressPool of a bridge is not restored after another client has changed it.",
        plant::<own_pool::KeepsChanges>,
    ),
    bug(
        "leaves_the_pool",
        "The IPAddressPool of a bridge is left when the bridge is deleted.",
        plant::<own_pool::LeavesPool>,
    ),
    bug(
        "deletes_the_pool_first",
        "The IPAddressPool of a bridge is deleted before its HostedCluster.",
        plant::<own_pool::DeletesFirst>,
    ),
    bug(
        "creates_the_cluster_before_its_pool",
        "A HostedCluster is created before the L2Advertisement of its address.",
        plant::<own_pool::ForgetsAdvertisement>,
    ),
    bug("logs_secrets", "Objects that are read are logged.", plant::<LogsSecrets>),
    bug(
        "writes_status_at_every_pass",
        "The status is written even if it has not changed.",
        plant::<StatusAlways>,
    ),
    bug("moves_transition_times", "lastTransitionTime is set at every write.", plant::<TimesMove>),
];

#[derive(Default)]
struct TakesOver;

impl Flaw for TakesOver {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        // The bug also skips the read of the existing object.
        let is_copy = request.action.target().is_some_and(|target| target.name.ends_with("-ssh-key"));
        if is_copy && is(&request.action, "get", "Secret") {
            return Some(Err(Failure::new(ErrorKind::NotFound, "not found")));
        }
        if let Action::Kube(KubeRequest::Create { target, manifest }) = &request.action
            && target.kind.kind != "Event"
        {
            request.action =
                Action::Kube(KubeRequest::Apply { target: target.clone(), manifest: Arc::clone(manifest) });
        }
        None
    }
}

#[derive(Default)]
struct LeavesEarly;

impl Flaw for LeavesEarly {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        is(&request.action, "get", "HostedCluster")
            .then(|| Err(Failure::new(ErrorKind::NotFound, "not found")))
    }
}

#[derive(Default)]
struct TakesDown {
    clusters: BTreeMap<ObjectRef, Uid>,
    has_lost: bool,
    next: u64,
}

impl Flaw for TakesDown {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::Applied { kind, object } if kind.kind == "HostedCluster" => {
                self.clusters.insert(reference(kind, object), Uid::of(object));
            }
            Event::Deleted { kind, .. } if kind.kind == "DPUCluster" => self.has_lost = true,
            _ => {}
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        if !std::mem::take(&mut self.has_lost) {
            return;
        }
        for (target, uid) in &self.clusters {
            self.next += 1;
            let action = Action::Kube(KubeRequest::Delete {
                target: target.clone(),
                uid: uid.clone(),
                resource_version: None,
            });
            step.requests.push(Request { id: ActionId(1_000_000_000 + self.next), action });
        }
    }
}

#[derive(Default)]
struct Fights;

impl Flaw for Fights {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if request.action.name() == "apply" {
            change(request, "HostedCluster", |manifest| {
                manifest["spec"]["controllerAvailabilityPolicy"] = json!("SingleReplica");
            });
        }
        None
    }
}

#[derive(Default)]
struct SendsNewerFields;

impl Flaw for SendsNewerFields {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if request.action.name() == "apply" {
            change(request, "HostedCluster", |manifest| {
                manifest["spec"]["networking"]["allocateNodeCIDRs"] = json!("Enabled");
            });
        }
        None
    }
}

#[derive(Default)]
struct PhasesJump;

impl Flaw for PhasesJump {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        if changed["status"]["phase"] == "Failed" {
            changed["status"]["phase"] = json!("Pending");
        }
        *patch = Arc::new(changed);
        None
    }
}

#[derive(Default)]
struct CopiesOnce;

impl Flaw for CopiesOnce {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        is(&request.action, "apply", "Secret").then(|| Ok(as_if_done(&request.action)))
    }
}

#[derive(Default)]
struct NoOwner;

impl Flaw for NoOwner {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change(request, "HostedCluster", |manifest| manifest["metadata"]["ownerReferences"] = json!([]));
        None
    }
}

#[derive(Default)]
struct ReadyTooEarly;

impl Flaw for ReadyTooEarly {
    fn event(&mut self, event: Event) -> Option<Event> {
        let Event::Applied { kind, object } = event else { return Some(event) };
        if kind.kind != "HostedCluster" {
            return Some(Event::Applied { kind, object });
        }
        let mut object = Value::clone(&object);
        for condition in
            object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if condition["type"] == "Available" {
                condition["status"] = json!("True");
            }
        }
        for entry in object["status"]["controlPlaneVersion"]["history"].as_array_mut().into_iter().flatten() {
            entry["state"] = json!("Completed");
        }
        Some(Event::Applied { kind, object: Arc::new(object) })
    }
}

#[derive(Default)]
struct NeverAsks;

impl Flaw for NeverAsks {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        is(&request.action, "patch", "Service").then(|| Ok(as_if_done(&request.action)))
    }
}

#[derive(Default)]
struct MarksService;

impl Flaw for MarksService {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Kube(KubeRequest::Patch { target, patch, .. }) = &mut request.action
            && target.kind.kind == "Service"
        {
            let mut marked = Value::clone(patch);
            marked["metadata"]["labels"] = json!({ "dpf.hcp.bridge.com/bridge-name": "x" });
            *patch = Arc::new(marked);
        }
        None
    }
}

#[derive(Default)]
struct HidesDegradation;

impl Flaw for HidesDegradation {
    fn event(&mut self, event: Event) -> Option<Event> {
        let Event::Applied { kind, object } = event else { return Some(event) };
        if kind.kind != "HostedCluster" {
            return Some(Event::Applied { kind, object });
        }
        let mut object = Value::clone(&object);
        for condition in
            object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if condition["type"] == "Degraded" {
                condition["status"] = json!("False");
                condition["reason"] = json!("AsExpected");
            }
        }
        Some(Event::Applied { kind, object: Arc::new(object) })
    }
}

#[derive(Default)]
struct RaisesNodePool;

impl Flaw for RaisesNodePool {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(retell(event, "HostedCluster", |cluster| {
            let image = cluster["spec"]["release"]["image"].clone();
            let newest = json!([{ "state": "Completed", "image": image, "version": "4.20.1" }]);
            if cluster["status"].is_object() {
                cluster["status"]["version"]["history"] = newest;
            }
        }))
    }
}

#[derive(Default)]
struct TokensBreak;

impl Flaw for TokensBreak {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(retell(event, "NodePool", |pool| {
            for condition in
                pool.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
            {
                if condition["reason"] == "NotFound" {
                    condition["reason"] = json!("InvalidPayload");
                }
            }
        }))
    }
}

#[derive(Default)]
struct OverlooksUsers;

impl Flaw for OverlooksUsers {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(retell(event, "Service", |service| {
            if service["metadata"]["name"] != "kube-apiserver" {
                service["status"] = json!({});
                service["metadata"]["annotations"] = json!({});
            }
        }))
    }
}

#[derive(Default)]
struct AsksOnce;

impl Flaw for AsksOnce {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let Action::Kube(KubeRequest::Patch { target, patch, .. }) = &request.action else { return None };
        let is_again = patch["metadata"]["annotations"][names::ASKED_AGAIN].is_string();
        (target.kind.kind == "Service" && is_again).then(|| Ok(as_if_done(&request.action)))
    }
}
