//! What the status of a service must report at rest, while all clusters are connected: the condition of each step, and for each
//! cluster what Argo CD reports.

use std::sync::Arc;

use lockstep_apiserver::server::ApiServer;
use lockstep_dpuservice::names::{self, condition};
use lockstep_engine::object::{Name, is_deleting};
use lockstep_external::dpu_clusters::release;
use lockstep_sim::conditions;
use serde_json::Value;

use super::identity;
use super::setup::project_ref;

/// The conditions that are True at rest, whatever runs.
const STEPS: [&str; 2] = [condition::CLUSTER_SECRETS_RECONCILED, condition::APPLICATIONS_RECONCILED];

/// Reports each wrong statement.
pub(super) fn differences(
    server: &ApiServer,
    service: &Value,
    clusters: &[Arc<Value>],
    differ: &mut dyn FnMut(String),
) {
    let values = &service["spec"]["values"];
    let does = |cause: &str| values[cause] == true;
    let has_clusters = !clusters.is_empty();
    // A hook runs only once the objects of the chart are healthy, and the one that hangs is still running.
    let broken = if does(release::DEGRADED) {
        Some("Failure")
    } else if does(release::HANGING_HOOK) {
        Some("Pending")
    } else {
        does(release::FAILING_HOOK).then_some("Failure")
    };
    let broken = broken.filter(|_| has_clusters);
    let mut requires = |name: &str, status: Option<&str>, reasons: &[&str]| {
        let found = conditions::find(service, name);
        let reason = found.and_then(|found| found["reason"].as_str()).unwrap_or_default();
        let generation = found.map(|found| &found["observedGeneration"]);
        let is_current = generation.is_none_or(|it| *it == service["metadata"]["generation"]);
        let is_as_required = found.and_then(|found| found["status"].as_str()) == status
            && (status.is_none() || reasons.contains(&reason));
        if !is_as_required || !is_current {
            differ(format!("{name} should be {status:?}, {reasons:?}; it is {found:?}"));
        }
    };
    for step in STEPS {
        requires(step, Some("True"), &["Success", "ValuesRounded"]);
    }
    if server.object(&project_ref()).is_some_and(|project| is_deleting(project)) {
        requires(condition::APP_PROJECT_RECONCILED, Some("False"), &["AwaitingDeletion"]);
    } else {
        requires(condition::APP_PROJECT_RECONCILED, Some("True"), &["Success"]);
    }
    if has_clusters {
        requires(condition::DPU_CLUSTERS_READY, Some("True"), &["Success"]);
    } else {
        requires(condition::DPU_CLUSTERS_READY, Some("False"), &["NoDPUClusters"]);
    }
    match broken {
        Some(reason) => {
            requires(condition::APPLICATIONS_READY, Some("False"), &[reason]);
            requires(condition::READY, Some("False"), &[reason]);
        }
        None => requires(condition::APPLICATIONS_READY, Some("True"), &["Success"]),
    }
    requires(condition::PAUSED, None, &[]);
    if service["spec"]["rollout"].is_object() {
        requires(condition::ROLLED_OUT, Some("True"), &["AllClustersChanged"]);
    } else {
        requires(condition::ROLLED_OUT, None, &[]);
    }
    of_argo_cd(server, service, clusters, differ);
}

/// Compares the maps of the status with the Applications.
fn of_argo_cd(server: &ApiServer, service: &Value, clusters: &[Arc<Value>], differ: &mut dyn FnMut(String)) {
    let name = Name::of(service);
    for application in server.objects(&names::application()) {
        let Some((_, cluster)) = identity::of_application(&application).filter(|(of, _)| *of == name) else {
            continue;
        };
        let key = identity::title(&cluster, clusters.iter().map(|it| &**it));
        for field in ["sync", "health"] {
            let said = &service["status"][field][&key]["status"];
            let reported = &application["status"][field]["status"];
            if said != reported {
                differ(format!("its {field} on {key} is {said}, and Argo CD reports {reported}"));
            }
        }
    }
}
