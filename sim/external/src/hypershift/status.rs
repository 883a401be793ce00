//! The status of a HostedCluster.

use lockstep_engine::conditions::Status::{False, True, Unknown};
use lockstep_engine::object::{ObjectRef, annotation};
use lockstep_sim::conditions;
use serde_json::{Value, json};

use super::endpoint::{Endpoint, endpoint, strategy};
use super::judge::{LOGGED, NO_ROUTES, Problem, RECONCILE_ERROR};
use super::model::{AILS, FLAPPING, NO_NODES, NODES, REPORTS, VERSION_ONLY, api_server_service, kubeconfig};
use super::release;
use crate::read_view::ReadView;
use crate::status::{Findings, is_true};

/// Maximum number of versions in a history.
const HISTORY: usize = 10;
/// The versions of the whole cluster.
const OF_ALL: &str = "version";
/// The versions of the control plane.
const OF_CONTROL_PLANE: &str = "controlPlaneVersion";

/// Returns the status as it should be now.
pub(super) fn of(
    look: &mut ReadView<'_>,
    target: &ObjectRef,
    cluster: &Value,
    judged: &Result<&str, Problem>,
) -> Value {
    let mut status = cluster["status"].clone();
    let mut findings = Findings::of(cluster, look.now);
    if let Err(Problem { condition: NO_ROUTES, reason, message }) = judged {
        findings.set("ValidConfiguration", False, reason, message);
        let error = "no matches for kind \"Route\" in version \"route.openshift.io/v1\"";
        findings.set("ReconciliationSucceeded", False, "ReconciliationError", error);
        status["conditions"] = json!(findings.into_conditions());
        return status;
    }
    match judged {
        Err(problem) if problem.condition == "ReconciliationActive" => {
            findings.set("ReconciliationActive", False, problem.reason, &problem.message);
        }
        _ => findings.set("ReconciliationActive", True, "AsExpected", "Reconciliation active on resource"),
    }
    let message = "HostedCluster is supported by operator configuration";
    findings.set("SupportedHostedCluster", True, "AsExpected", message);
    validity(&mut findings, judged);
    let missing = infrastructure(look, target, cluster, &mut findings);
    let is_available = missing.is_none();
    match (missing, judged) {
        (None, _) => findings.set("Available", True, "AsExpected", "The hosted control plane is available"),
        (Some(_), Err(problem)) => {
            findings.set("Available", False, "WaitingForAvailable", &problem.message);
        }
        (Some((reason, message)), Ok(_)) => findings.set("Available", False, reason, message),
    }
    if is_available {
        let message = "Ignition server deployment is available";
        findings.set("IgnitionEndpointAvailable", True, "AsExpected", message);
    }
    findings.set("DataPlaneConnectionAvailable", Unknown, "NoWorkerNodesAvailable", "There are no nodes.");
    let image = cluster["spec"]["release"]["image"].as_str().unwrap_or_default();
    let resolved = release::resolved(image);
    if let Ok(version) = judged {
        let generation = &cluster["metadata"]["generation"];
        let desired = json!({ "image": resolved, "version": version });
        let wanted = json!({ "desired": desired, "observedGeneration": generation });
        versions(look, target, cluster, &mut status, &wanted, is_available);
    }
    health(look, target, cluster, &status, &mut findings);
    let entered = &status[OF_ALL]["history"][0]["image"];
    let has_not_begun = entered.is_string() && *entered != *resolved;
    let history = &status[OF_CONTROL_PLANE]["history"];
    // The installation of the first version is not an upgrade.
    let is_rolling = history[0]["state"] == "Partial" && !history[1].is_null();
    match judged {
        Err(problem) if ![RECONCILE_ERROR, LOGGED].contains(&problem.condition) => {
            findings.set("Progressing", False, "Blocked", &problem.message);
        }
        _ if has_not_begun || is_rolling => {
            let message = "HostedCluster is deploying, upgrading, or reconfiguring";
            findings.set("Progressing", True, "Progressing", message);
        }
        _ => findings.set("Progressing", False, "AsExpected", "HostedCluster is at expected version"),
    }
    let reached = endpoint(look, cluster);
    let known = reached.unwrap_or(Endpoint { host: String::new(), port: 0 });
    if !known.host.is_empty() || !is_known(&status) {
        status["controlPlaneEndpoint"] = json!({ "host": known.host, "port": known.port });
    }
    if look.get(&kubeconfig(cluster)).is_some() {
        status["kubeconfig"] = json!({ "name": kubeconfig(cluster).name });
    }
    status["conditions"] = json!(findings.into_conditions());
    status
}

/// Sets the health of the control plane. HyperShift reports every Deployment with an unavailable replica, also during a rollout,
/// which replaces replicas one by one. A failure is reported after a while.
fn health(
    look: &mut ReadView<'_>,
    target: &ObjectRef,
    cluster: &Value,
    status: &Value,
    findings: &mut Findings,
) {
    let lacks_replicas = annotation(cluster, AILS).is_some() || is_rolled_out(look, target, cluster, status);
    if lacks_replicas && (is_true(cluster, "Degraded") || look.after(target, "health")) {
        let message = "kube-apiserver deployment has 1 unavailable replicas";
        findings.set("Degraded", True, "UnavailableReplicas", message);
    } else {
        findings.set("Degraded", False, "AsExpected", "The hosted cluster is not degraded");
    }
}

/// Returns whether a version is being rolled out after the first one. The history of the control plane shows the end of a rollout.
/// Without that history, a rollout ends some time after it has taken replicas down.
fn is_rolled_out(look: &mut ReadView<'_>, target: &ObjectRef, cluster: &Value, status: &Value) -> bool {
    let of_all = &status[OF_ALL]["history"];
    let of_control_plane = &status[OF_CONTROL_PLANE]["history"];
    let is_first = of_all[0]["state"] != "Completed" && of_all[1].is_null();
    if is_first || of_control_plane.is_array() {
        return !is_first && of_control_plane[0]["state"] == "Partial";
    }
    if of_all[0]["state"] != "Partial" {
        return false;
    }
    conditions::find(cluster, "Degraded").is_some_and(|degraded| {
        if degraded["status"] == "True" {
            !look.after(target, "rollout")
        } else {
            degraded["lastTransitionTime"].as_str() < of_all[0]["startedTime"].as_str()
        }
    })
}

/// Returns whether a status has the endpoint of the API server.
fn is_known(status: &Value) -> bool {
    status["controlPlaneEndpoint"]["host"].as_str().is_some_and(|host| !host.is_empty())
}

/// Sets the conditions about the validity of the spec.
fn validity(findings: &mut Findings, judged: &Result<&str, Problem>) {
    let valid = [
        ("ValidConfiguration", "Configuration passes validation"),
        ("ValidReleaseImage", "Release image is valid"),
    ];
    for (condition, message) in valid {
        match judged {
            Err(problem) if problem.condition == condition => {
                findings.set(condition, False, problem.reason, &problem.message);
            }
            _ => findings.set(condition, True, "AsExpected", message),
        }
    }
    match judged {
        Ok(_) | Err(Problem { condition: LOGGED, .. }) => {
            findings.set("ReconciliationSucceeded", True, "ReconciliatonSucceeded", "It went well.");
        }
        Err(problem) => {
            findings.set("ReconciliationSucceeded", False, "ReconciliationError", &problem.message);
        }
    }
}

/// Sets the progress of the control plane. Returns the first missing prerequisite of its availability.
fn infrastructure(
    look: &mut ReadView<'_>,
    target: &ObjectRef,
    cluster: &Value,
    findings: &mut Findings,
) -> Option<(&'static str, &'static str)> {
    let was_available = is_true(cluster, "Available");
    // A component that is ready remains ready, so only new components take time.
    let mut report_component =
        |look: &mut ReadView<'_>, condition, reasons: [&'static str; 2], possible: bool| {
            let holds = possible && (is_true(cluster, condition) || look.after(target, condition));
            if holds {
                findings.set(condition, True, reasons[0], "It is available.");
            } else {
                findings.set(condition, False, reasons[1], "It is not available yet.");
            }
            holds
        };
    let is_built = look.get(&api_server_service(cluster)).is_some();
    let is_reached = endpoint(look, cluster).is_some();
    let reached = report_component(
        look,
        "InfrastructureReady",
        ["AsExpected", "WaitingOnInfrastructureReady"],
        is_reached,
    );
    let has_kubeconfig = cluster["status"]["kubeconfig"]["name"].is_string();
    let is_begun = is_true(cluster, "EtcdAvailable") || (reached && has_kubeconfig);
    let etcd = report_component(look, "EtcdAvailable", ["QuorumAvailable", "EtcdWaitingForQuorum"], is_begun);
    let serves = report_component(
        look,
        "KubeAPIServerAvailable",
        ["AsExpected", "WaitingForAvailable"],
        reached && etcd,
    );
    let has_load_balancer = strategy(cluster, "APIServer")["type"] == "LoadBalancer";
    let drops = was_available && annotation(cluster, AILS) == Some(FLAPPING) && look.after(target, "flap");
    if !is_built {
        Some(("WaitingForAvailable", "The control plane is being set up."))
    } else if !reached {
        Some(("WaitingOnInfrastructureReady", "The address of the API server is not known yet."))
    } else if !has_kubeconfig {
        Some(("KubeconfigWaitingForCreate", "Waiting for hosted control plane kubeconfig to be created"))
    } else if !etcd {
        Some(("EtcdWaitingForQuorum", "Waiting for etcd to reach quorum"))
    } else if !serves {
        Some(("WaitingForAvailable", "Waiting for Kube APIServer deployment to become available"))
    } else if has_load_balancer && !was_available && !look.after(target, "load balancer") {
        Some(("KASLoadBalancerNotReachable", "The load balancer of the API server is not reachable."))
    } else if drops || !(was_available || look.after(target, "Available")) {
        Some(("ComponentsNotAvailable", "Some components are not available yet."))
    } else {
        None
    }
}

/// Updates the two histories. An upgrade is entered some time after the conditions refer to the new spec, because other components
/// of HyperShift write the histories. The history of the control plane completes on its own; that of the whole cluster completes
/// after it, and only with nodes. An older HyperShift has no history of the control plane. One that follows it begins that history
/// with the current rollout, and without the versions that were installed before.
fn versions(
    look: &mut ReadView<'_>,
    target: &ObjectRef,
    cluster: &Value,
    status: &mut Value,
    wanted: &Value,
    is_available: bool,
) {
    let time = json!(look.now.wall.timestamp_seconds().to_string());
    let has_nodes = annotation(cluster, NODES) != Some(NO_NODES);
    let is_older = annotation(cluster, REPORTS) == Some(VERSION_ONLY);
    if is_older && let Some(status) = status.as_object_mut() {
        status.remove(OF_CONTROL_PLANE);
    }
    let histories =
        [(OF_CONTROL_PLANE, "rollout", is_available), (OF_ALL, "nodes", is_available && has_nodes)];
    let histories = &histories[usize::from(is_older)..];
    let lacks = |field: &str| status[field]["history"][0]["image"] != wanted["desired"]["image"];
    let lacking: Vec<&str> =
        histories.iter().map(|(field, ..)| *field).filter(|field| lacks(field)).collect();
    if !lacking.is_empty() {
        if status[OF_ALL]["history"][0].is_object() && !look.after(target, "upgrade") {
            return;
        }
        for field in lacking {
            enter(status, field, wanted, &time);
        }
    }
    for (field, step, can_complete) in histories {
        let newest = &mut status[*field]["history"][0];
        if newest["state"] == "Partial" {
            if *can_complete && look.after(target, step) {
                newest["state"] = "Completed".into();
                newest["completionTime"] = time;
            }
            return;
        }
    }
}

/// Enters a version into a history.
fn enter(status: &mut Value, field: &str, wanted: &Value, time: &Value) {
    let mut entry = wanted["desired"].clone();
    entry["state"] = "Partial".into();
    entry["startedTime"] = time.clone();
    if field == OF_ALL {
        entry["verified"] = false.into();
        // The schema requires it, and a merge patch can't set null.
        entry["completionTime"] = time.clone();
    }
    let mut history = status[field]["history"].as_array().cloned().unwrap_or_default();
    history.insert(0, entry);
    history.truncate(HISTORY);
    status[field] = wanted.clone();
    status[field]["history"] = history.into();
    if field == OF_ALL {
        status[field]["availableUpdates"] = json!([]);
    }
}
