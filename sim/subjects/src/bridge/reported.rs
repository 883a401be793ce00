//! What the status of a bridge must report at rest.

use lockstep_apiserver::server::ApiServer;
use lockstep_bridge::names::{self, condition, reason};
use lockstep_engine::object::{ObjectRef, metadata};
use lockstep_sim::conditions;
use lockstep_sim::history::references;
use serde_json::{Value, json};

use super::setup::NAMESPACE;

/// The conditions of a bridge whose hosted cluster is as its spec requires.
const STEPS: [&str; 7] = [
    condition::DPU_CLUSTER_VALID,
    condition::PREREQUISITES_MET,
    condition::HOSTED_CLUSTER_CREATED,
    condition::NODE_POOL_READY,
    condition::SERVICE_EXPOSURE_READY,
    condition::KUBECONFIG_INJECTED,
    condition::PROVISIONED,
];

/// Returns the bridges whose status can be rebuilt. A bridge that has failed before its HostedCluster exists remembers that: the
/// table of the specification has no way from `Failed` to `Pending`.
pub(super) fn rebuilt(server: &ApiServer) -> Vec<ObjectRef> {
    let remembers = |bridge: &Value| {
        bridge["status"]["phase"] == "Failed"
            && !conditions::is(bridge, condition::HOSTED_CLUSTER_CREATED, "True")
    };
    let bridges = references(server, &names::bridge()).into_iter();
    bridges.filter(|bridge| !server.object(bridge).is_some_and(|bridge| remembers(bridge))).collect()
}

/// Reports each wrong statement of a bridge that is Ready with its HostedCluster.
pub(super) fn when_ready(bridge: &Value, cluster: &Value, differ: &mut dyn FnMut(String)) {
    // HyperShift can't change this field.
    let keeps =
        cluster["spec"]["controllerAvailabilityPolicy"] != bridge["spec"]["controlPlaneAvailabilityPolicy"];
    let applied = if keeps { ("False", Some(reason::IMMUTABLE_FIELD_CHANGED)) } else { ("True", None) };
    let steps = STEPS.map(|step| (step, ("True", None)));
    for (name, (status, cause)) in steps.into_iter().chain([(condition::SPEC_APPLIED, applied)]) {
        let found = conditions::find(bridge, name);
        let is_as_required = |it: &Value| {
            it["status"] == status
                && cause.is_none_or(|cause| it["reason"] == cause)
                && it["observedGeneration"] == bridge["metadata"]["generation"]
        };
        if !found.is_some_and(is_as_required) {
            differ(format!("its {name} should be {status}: {found:?}"));
        }
    }
    let name = metadata(bridge, "name");
    for field in ["hostedClusterRef", "nodePoolRef"] {
        let found = &bridge["status"][field];
        if (&found["name"], &found["namespace"]) != (&json!(name), &json!(NAMESPACE)) {
            differ(format!("its {field} is {found}"));
        }
    }
    let found = &bridge["status"]["kubeconfigSecretRef"];
    if found["name"] != format!("{name}-admin-kubeconfig") {
        differ(format!("its kubeconfigSecretRef is {found}"));
    }
}

/// Reports what a bridge without a DPUCluster says of it.
pub(super) fn without_dpu_cluster(bridge: &Value, differ: &mut dyn FnMut(String)) {
    let found = conditions::find(bridge, condition::DPU_CLUSTER_VALID);
    let is_told = |it: &Value| it["status"] == "False" && it["reason"] == reason::DPU_CLUSTER_NOT_FOUND;
    if !found.is_some_and(is_told) {
        differ(format!("it has no DPUCluster, and says {found:?}"));
    }
}

/// Reports a message that is not the one of `Ready`.
pub(super) fn message(bridge: &Value, differ: &mut dyn FnMut(String)) {
    let (message, ready) = (&bridge["status"]["message"], conditions::find(bridge, condition::READY));
    if ready.is_none_or(|ready| ready["message"] != *message) {
        differ(format!("its message is {message}, and Ready is {ready:?}"));
    }
}
