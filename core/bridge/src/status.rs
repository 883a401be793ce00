//! The status of a bridge, from all findings.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use lockstep_crds::bridge::{DPFHCPBridgeStatus, LocalObjectReference, ObjectReference};
use lockstep_engine::action::{Action, ErrorKind, Failure, KubeRequest, Subresource};
use lockstep_engine::conditions::{self, Finding, Status};
use lockstep_engine::object::{Name, precondition, text};
use lockstep_engine::time::Now;
use serde::Serialize;
use serde_json::{Value, json};

use super::checks::retried::retried;
use super::checks::unmet::Unmet;
use super::checks::unwatched::{unwatched, unwatched_bridges};
use super::checks::{
    dpucluster, exposure, hosted_cluster, kubeconfig, node_pool, prerequisites, readiness, release_image,
    spec_applied,
};
use super::model::Lookup;
use super::model::bridge::Bridge;
use super::model::encryption_key;
use super::model::hypershift;
use super::model::managed_object::ManagedObject;
use super::model::secret::SecretRole;
use super::model::source::Source;
use super::names::{bridge_ref, condition, reason, service_title};
use super::phase::{self, Phase};
use super::snapshot::{BridgeSnapshot, OwnedObject};
use super::store::Store;

/// The conditions that are copied from a HostedCluster.
const MIRRORED: [(&str, &str); 3] = [
    ("Available", condition::HOSTED_CLUSTER_AVAILABLE),
    ("Progressing", condition::HOSTED_CLUSTER_PROGRESSING),
    ("Degraded", condition::HOSTED_CLUSTER_DEGRADED),
];

/// Returns the desired status, and the conditions that it changes.
pub fn wanted(snapshot: &BridgeSnapshot<'_>) -> (DPFHCPBridgeStatus, Vec<Condition>) {
    let generation = snapshot.bridge.generation;
    let mut status = snapshot.bridge.status.clone();
    let mut changed = Vec::new();
    let mut findings = findings(snapshot);
    let ready = readiness::ready(snapshot, &findings);
    status.message = Some(ready.message.clone());
    findings.push(readiness::provisioned(snapshot, &ready));
    findings.push(ready);
    for finding in findings {
        let is_provisioned = finding.condition == condition::PROVISIONED;
        let at = if is_provisioned { readiness::provisioned_at(snapshot) } else { snapshot.now };
        changed.extend(conditions::set(&mut status.conditions, finding, generation, at));
    }
    mirror(snapshot, &mut status.conditions, &mut changed);

    let own = || {
        Some(ObjectReference { name: snapshot.key.name.clone(), namespace: snapshot.key.namespace.clone() })
    };
    let is_created = snapshot.hosted_cluster().ours().is_some();
    // While HostedClusters can't be watched, the known values are kept.
    if !matches!(snapshot.hosted_cluster(), OwnedObject::Unknown(_)) {
        status.hosted_cluster_ref = is_created.then(own).flatten();
        status.api_endpoint = exposure::api_endpoint(snapshot);
        status.ingress_endpoint = exposure::ingress_endpoint(snapshot);
        if snapshot.refusal(Source::Secrets).is_none() {
            status.kubeconfig_secret_ref = snapshot.has_kubeconfig().then(|| LocalObjectReference {
                name: SecretRole::Kubeconfig.source(snapshot.key, snapshot.spec).name,
            });
        }
    }
    if !matches!(snapshot.node_pool(), OwnedObject::Unknown(_)) {
        status.node_pool_ref = snapshot.node_pool().ours().and_then(|_| own());
    }
    status.observed_generation = generation;
    set_phase(&mut status);
    (status, changed)
}

/// Moves the phase one edge toward the target phase of the conditions.
fn set_phase(status: &mut DPFHCPBridgeStatus) {
    let before = status.phase.as_deref().and_then(Phase::read);
    let target = phase::target(&status.conditions, before);
    status.phase = Some(Phase::toward(before, target).as_str().to_owned());
}

/// Returns the status of a bridge whose spec does not match its CRD: it is older than the CRD.
pub fn unreadable<T>(
    bridge: &Bridge,
    lookup: &Lookup<T>,
    problem: &str,
    store: &Store,
    now: Now,
) -> (DPFHCPBridgeStatus, Vec<Condition>) {
    let mut status = bridge.status.clone();
    let message = format!("the spec does not match the CRD ({problem}); correct the spec");
    let mut unmet = vec![Unmet::user_action(message.clone())];
    unmet.extend(unwatched_bridges(store).map(Unmet::wait));
    let findings = [
        dpucluster::validate(bridge, lookup),
        prerequisites::finding(&unmet, None),
        Finding {
            condition: condition::READY,
            status: Status::False,
            reason: reason::VALIDATION_FAILED,
            message: message.clone(),
        },
    ];
    let set = |finding| conditions::set(&mut status.conditions, finding, bridge.generation, now);
    let changed = findings.into_iter().filter_map(set).collect();
    status.message = Some(message);
    status.observed_generation = bridge.generation;
    set_phase(&mut status);
    (status, changed)
}

/// Returns the unmet prerequisites, including those from this pass.
pub fn unmet(snapshot: &BridgeSnapshot<'_>) -> Vec<Unmet> {
    let mut unmet = prerequisites::check(snapshot);
    for role in [SecretRole::Pull, SecretRole::Ssh] {
        if let Some(failure) = snapshot.failure(ManagedObject::Secret(role)) {
            let source = role.source(snapshot.key, snapshot.spec);
            unmet.push(Unmet::wait(format!("Secret {source} can't be handed on ({})", failure.message)));
        }
    }
    if let Some(failure) = snapshot.failure(ManagedObject::EncryptionKey) {
        let secret = encryption_key::secret(snapshot.key);
        let message =
            format!("Secret {secret}, the key for etcd, can't be read or created ({})", failure.message);
        unmet.push(Unmet::wait(message));
    }
    for object in [ManagedObject::Pool, ManagedObject::Advertisement] {
        if let (Some(failure), Some(name)) = (snapshot.failure(object), &snapshot.bridge.own_pool) {
            let kind = object.source().kind();
            let title = format!("{} {name} for spec.metalLBPool", kind.kind);
            let remedy = match failure.class {
                ErrorKind::NotFound => {
                    "; check that the namespace exists, and that MetalLB runs in it".to_owned()
                }
                ErrorKind::Forbidden => format!("; grant the operator create and patch on {}", kind.plural),
                _ => String::new(),
            };
            unmet.push(Unmet::wait(format!("{title} can't be written ({}){remedy}", failure.message)));
        }
    }
    unmet
}

fn findings(snapshot: &BridgeSnapshot<'_>) -> Vec<Finding> {
    let unmet = unmet(snapshot);
    let mut findings = vec![
        dpucluster::validate(snapshot.bridge, snapshot.dpu_cluster),
        prerequisites::finding(&unmet, release_image::doubt(snapshot, &unmet).as_deref()),
        created(snapshot),
        pool(snapshot),
        exposed(snapshot, &unmet),
        injected(snapshot),
    ];
    findings.extend(applied(snapshot));
    findings
}

/// The number of failures in a row from which a temporary failure to create the HostedCluster is reported as `CreationFailed`.
const FAILURES_MAX: u32 = 3;

/// Sets a condition from a failure that does not pass. A temporary one is only named: most such requests succeed at the next attempt
/// (decision 31), and one that has taken effect nevertheless is not.
fn blame(finding: &mut Finding, failure: &Failure, reason: &'static str, what: &str) {
    if !failure.passes() {
        refuse(finding, failure, reason, what);
    } else if finding.status != Status::True {
        finding.message = retried(&finding.message, failure);
    }
}

fn refuse(finding: &mut Finding, failure: &Failure, reason: &'static str, what: &str) {
    finding.status = Status::False;
    finding.reason = reason;
    finding.message = format!("{what}: {}", failure.message);
}

fn created(snapshot: &BridgeSnapshot<'_>) -> Finding {
    let mut finding = hosted_cluster::created(snapshot);
    let (reason, what) = (reason::CREATION_FAILED, "the HostedCluster can't be created");
    match (snapshot.failure(ManagedObject::HostedCluster), snapshot.hosted_cluster().ours()) {
        (Some(failure), None) if snapshot.memory.cluster_failures >= FAILURES_MAX => {
            refuse(&mut finding, failure, reason, what);
        }
        (Some(failure), None) => blame(&mut finding, failure, reason, what),
        _ => {}
    }
    finding
}

fn applied(snapshot: &BridgeSnapshot<'_>) -> Option<Finding> {
    let mut finding = spec_applied::judge(snapshot)?;
    let parts = [
        (ManagedObject::HostedCluster, "the HostedCluster can't be changed"),
        (ManagedObject::NodePool, "the NodePool can't be changed"),
    ];
    let failures = parts.into_iter().filter_map(|(part, what)| Some((snapshot.failure(part)?, what)));
    let (temporary, refused): (Vec<_>, Vec<_>) = failures.partition(|(failure, _)| failure.passes());
    for (failure, what) in refused.into_iter().chain(temporary) {
        // Neither a field that is ignored nor the other object's failure is hidden.
        let known = (finding.status == Status::False).then(|| finding.message.clone());
        blame(&mut finding, failure, reason::UPDATE_REFUSED, what);
        if let Some(known) = known.filter(|_| !failure.passes()) {
            finding.message = format!("{}; {known}", finding.message);
        }
    }
    Some(finding)
}

fn pool(snapshot: &BridgeSnapshot<'_>) -> Finding {
    let mut finding = node_pool::judge(snapshot);
    if let (Some(failure), None) = (snapshot.failure(ManagedObject::NodePool), snapshot.node_pool().ours()) {
        blame(&mut finding, failure, reason::NODE_POOL_CREATION_FAILED, "the NodePool can't be created");
    }
    finding
}

fn exposed(snapshot: &BridgeSnapshot<'_>, unmet: &[Unmet]) -> Finding {
    let mut finding = exposure::judge(snapshot, unmet);
    if let Some(failure) = snapshot.failure(ManagedObject::Service) {
        let what = format!("{} can't be given its address", service_title(snapshot.key));
        blame(&mut finding, failure, reason::SERVICE_CREATION_FAILED, &what);
    }
    finding
}

fn injected(snapshot: &BridgeSnapshot<'_>) -> Finding {
    let mut finding = kubeconfig::judge(snapshot);
    let parts = [ManagedObject::Secret(SecretRole::Kubeconfig), ManagedObject::DpuCluster];
    let failures = || parts.into_iter().filter_map(|part| snapshot.failure(part));
    if let Some(failure) = failures().find(|failure| !failure.passes()).or_else(|| failures().next()) {
        let what = "the DPUCluster can't be given the kubeconfig";
        blame(&mut finding, failure, reason::INJECTION_FAILED, what);
    }
    finding
}

/// Marks the conditions that were copied from a HostedCluster as unknown.
fn hide(
    snapshot: &BridgeSnapshot<'_>,
    failure: &Failure,
    conditions: &mut Vec<Condition>,
    changed: &mut Vec<Condition>,
) {
    for (_, condition) in MIRRORED {
        if snapshot.bridge.condition(condition).is_some() {
            let (status, reason, message) = unwatched(Source::HostedClusters, failure);
            let finding = Finding { condition, status, reason, message };
            changed.extend(conditions::set(conditions, finding, snapshot.bridge.generation, snapshot.now));
        }
    }
}

/// Copies HyperShift's conditions; without a HostedCluster there are none.
fn mirror(snapshot: &BridgeSnapshot<'_>, conditions: &mut Vec<Condition>, changed: &mut Vec<Condition>) {
    let cluster = match snapshot.hosted_cluster() {
        OwnedObject::Ours(cluster) => cluster,
        OwnedObject::Unknown(failure) => return hide(snapshot, failure, conditions, changed),
        OwnedObject::Absent | OwnedObject::Foreign | OwnedObject::Going => {
            let is_mirrored = |name: &str| MIRRORED.iter().any(|(_, mirrored)| *mirrored == name);
            conditions.retain(|entry| !is_mirrored(&entry.type_) && entry.type_ != condition::SPEC_APPLIED);
            return;
        }
    };
    for (theirs, ours) in MIRRORED {
        let Some(reported) = hypershift::condition(cluster, theirs) else {
            conditions.retain(|entry| entry.type_ != ours);
            continue;
        };
        let entry = Condition {
            type_: ours.to_owned(),
            status: reported["status"].as_str().unwrap_or("Unknown").to_owned(),
            reason: text(reported, "/reason").unwrap_or("NotReported").to_owned(),
            message: text(reported, "/message").unwrap_or_default().to_owned(),
            observed_generation: Some(snapshot.bridge.generation),
            last_transition_time: Time(snapshot.now.wall.timestamp_seconds()),
        };
        changed.extend(conditions::enter(conditions, entry));
    }
}

/// Returns the write of a status over the one that it was compared with.
pub fn write(key: &Name, bridge: &Bridge, status: &impl Serialize) -> Action {
    let mut status = json!(status);
    // A merge patch removes only fields that it names.
    for (field, _) in json!(bridge.status).as_object().into_iter().flatten() {
        if status.get(field).is_none() {
            status[field] = Value::Null;
        }
    }
    let patch = Arc::new(json!({ "metadata": precondition(&bridge.metadata), "status": status }));
    Action::Kube(KubeRequest::Patch {
        target: bridge_ref(key),
        subresource: Some(Subresource::Status),
        patch,
    })
}
