//! The status of a bridge, from all findings.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use lockstep_crds::bridge::{DPFHCPBridgeStatus, LocalObjectReference, ObjectReference};
use lockstep_engine::action::{Class, Failure};
use lockstep_engine::conditions::{self, Finding, Status};
use lockstep_engine::object::text;
use lockstep_engine::time::Now;

use super::dpucluster;
use super::exposure;
use super::hosted_cluster;
use super::kubeconfig;
use super::names::{condition, reason};
use super::node_pool;
use super::pass::{ManagedObject, ReconcileProgress};
use super::phase::{self, Phase};
use super::prerequisites::{self, Unmet};
use super::readiness;
use super::secrets::SecretRole;
use super::source::Source;
use super::view::{self, BridgeSnapshot, OwnedObject};
use super::world::Bridge;

/// The conditions that are copied from a HostedCluster.
const MIRRORED: [(&str, &str); 3] = [
    ("Available", condition::HOSTED_CLUSTER_AVAILABLE),
    ("Progressing", condition::HOSTED_CLUSTER_PROGRESSING),
    ("Degraded", condition::HOSTED_CLUSTER_DEGRADED),
];

/// Returns the desired status, and the conditions that it changes.
pub fn wanted(view: &BridgeSnapshot<'_>, pass: &ReconcileProgress) -> (DPFHCPBridgeStatus, Vec<Condition>) {
    let generation = view.bridge.generation;
    let mut status = view.bridge.status.clone();
    let mut changed = Vec::new();
    let mut findings = findings(view, pass);
    let ready = readiness::ready(view, &findings);
    status.message = Some(ready.message.clone());
    findings.push(readiness::provisioned(view, &ready));
    findings.push(ready);
    for finding in findings {
        changed.extend(conditions::set(&mut status.conditions, finding, generation, view.now));
    }
    mirror(view, &mut status.conditions, &mut changed);

    let own = || Some(ObjectReference { name: view.key.name.clone(), namespace: view.key.namespace.clone() });
    let is_created = view.hosted_cluster().ours().is_some();
    // While HostedClusters can't be watched, the known values are kept.
    if !matches!(view.hosted_cluster(), OwnedObject::Unknown(_)) {
        status.hosted_cluster_ref = is_created.then(own).flatten();
        status.api_endpoint = exposure::api_endpoint(view);
        status.ingress_endpoint = exposure::ingress_endpoint(view);
        if view.refusal(Source::Secrets).is_none() {
            status.kubeconfig_secret_ref = kubeconfig::is_made(view).then(|| LocalObjectReference {
                name: SecretRole::Kubeconfig.source(view.key, view.spec).name,
            });
        }
    }
    if !matches!(view.node_pool(), OwnedObject::Unknown(_)) {
        status.node_pool_ref = view.node_pool().ours().and_then(|_| own());
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
    lookup: &dpucluster::Lookup<T>,
    problem: &str,
    now: Now,
) -> (DPFHCPBridgeStatus, Vec<Condition>) {
    let mut status = bridge.status.clone();
    let message = format!("the spec can't be read ({problem}); write it anew as the definition demands");
    let findings = [
        dpucluster::validate(bridge, lookup),
        readiness::prerequisites(&[Unmet::mend(message.clone())], None),
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
pub fn unmet(view: &BridgeSnapshot<'_>, pass: &ReconcileProgress) -> Vec<Unmet> {
    let mut unmet = prerequisites::check(view);
    for role in [SecretRole::Pull, SecretRole::Ssh] {
        if let Some(failure) = pass.failure(ManagedObject::Secret(role)) {
            let source = role.source(view.key, view.spec);
            unmet.push(Unmet::wait(format!("Secret {source} can't be handed on ({})", failure.message)));
        }
    }
    unmet
}

fn findings(view: &BridgeSnapshot<'_>, pass: &ReconcileProgress) -> Vec<Finding> {
    let unmet = unmet(view, pass);
    let mut findings = vec![
        dpucluster::validate(view.bridge, view.dpu_cluster),
        readiness::prerequisites(&unmet, prerequisites::doubt(view, &unmet).as_deref()),
        created(view, pass),
        pool(view, pass),
        exposed(view, pass, &unmet),
        injected(view, pass),
    ];
    findings.extend(applied(view, pass));
    findings
}

/// Returns a failure that is not temporary.
fn refusal(pass: &ReconcileProgress, part: ManagedObject) -> Option<&Failure> {
    let failure = pass.failure(part)?;
    matches!(failure.class, Class::Forbidden | Class::Invalid | Class::NotFound).then_some(failure)
}

fn created(view: &BridgeSnapshot<'_>, pass: &ReconcileProgress) -> Finding {
    let mut finding = hosted_cluster::created(view);
    if let (Some(failure), None) = (refusal(pass, ManagedObject::HostedCluster), view.hosted_cluster().ours())
    {
        finding.status = Status::False;
        finding.reason = reason::CREATION_FAILED;
        finding.message = format!("the HostedCluster can't be created: {}", failure.message);
    }
    finding
}

fn applied(view: &BridgeSnapshot<'_>, pass: &ReconcileProgress) -> Option<Finding> {
    let mut finding = hosted_cluster::spec_applied(view)?;
    for (part, what) in
        [(ManagedObject::HostedCluster, "HostedCluster"), (ManagedObject::NodePool, "NodePool")]
    {
        if let Some(failure) = refusal(pass, part) {
            finding.status = Status::False;
            finding.reason = reason::UPDATE_REFUSED;
            finding.message = format!("the {what} can't be changed: {}", failure.message);
        }
    }
    Some(finding)
}

fn pool(view: &BridgeSnapshot<'_>, pass: &ReconcileProgress) -> Finding {
    let mut finding = node_pool::judge(view);
    if let (Some(failure), None) = (refusal(pass, ManagedObject::NodePool), view.node_pool().ours()) {
        finding.status = Status::False;
        finding.reason = reason::NODE_POOL_CREATION_FAILED;
        finding.message = format!("the NodePool can't be created: {}", failure.message);
    }
    finding
}

fn exposed(view: &BridgeSnapshot<'_>, pass: &ReconcileProgress, unmet: &[Unmet]) -> Finding {
    let mut finding = exposure::judge(view, unmet);
    if let Some(failure) = refusal(pass, ManagedObject::Service) {
        finding.status = Status::False;
        finding.reason = reason::SERVICE_CREATION_FAILED;
        finding.message = format!(
            "{} can't be given its address: {}",
            prerequisites::service_title(view.key),
            failure.message
        );
    }
    finding
}

fn injected(view: &BridgeSnapshot<'_>, pass: &ReconcileProgress) -> Finding {
    let mut finding = kubeconfig::judge(view);
    let failure = refusal(pass, ManagedObject::Secret(SecretRole::Kubeconfig))
        .or_else(|| refusal(pass, ManagedObject::DpuCluster));
    if let Some(failure) = failure {
        finding.status = Status::False;
        finding.reason = reason::INJECTION_FAILED;
        finding.message = format!("the DPUCluster can't be given the kubeconfig: {}", failure.message);
    }
    finding
}

/// Marks the conditions that were copied from a HostedCluster as unknown.
fn hide(
    view: &BridgeSnapshot<'_>,
    failure: &Failure,
    conditions: &mut Vec<Condition>,
    changed: &mut Vec<Condition>,
) {
    for (_, condition) in MIRRORED {
        if view.bridge.condition(condition).is_some() {
            let (status, reason, message) = view::unwatched(Source::HostedClusters, failure);
            let finding = Finding { condition, status, reason, message };
            changed.extend(conditions::set(conditions, finding, view.bridge.generation, view.now));
        }
    }
}

/// Copies HyperShift's conditions; without a HostedCluster there are none.
fn mirror(view: &BridgeSnapshot<'_>, conditions: &mut Vec<Condition>, changed: &mut Vec<Condition>) {
    let cluster = match view.hosted_cluster() {
        OwnedObject::Ours(cluster) => cluster,
        OwnedObject::Unknown(failure) => return hide(view, failure, conditions, changed),
        OwnedObject::Absent | OwnedObject::Foreign | OwnedObject::Going => {
            let is_mirrored = |name: &str| MIRRORED.iter().any(|(_, mirrored)| *mirrored == name);
            conditions.retain(|entry| !is_mirrored(&entry.type_) && entry.type_ != condition::SPEC_APPLIED);
            return;
        }
    };
    for (theirs, ours) in MIRRORED {
        let Some(reported) = view::condition(cluster, theirs) else {
            conditions.retain(|entry| entry.type_ != ours);
            continue;
        };
        let entry = Condition {
            type_: ours.to_owned(),
            status: reported["status"].as_str().unwrap_or("Unknown").to_owned(),
            reason: text(reported, "/reason").unwrap_or("NotReported").to_owned(),
            message: text(reported, "/message").unwrap_or_default().to_owned(),
            observed_generation: Some(view.bridge.generation),
            last_transition_time: Time(view.now.wall.timestamp_seconds()),
        };
        changed.extend(conditions::enter(conditions, entry));
    }
}
