//! What the status of a bridge must report at rest.

use lockstep_apiserver::server::ApiServer;
use lockstep_bridge::model::rollout::was_complete;
use lockstep_bridge::names::{self, condition, reason};
use lockstep_engine::object::{ObjectRef, metadata};
use lockstep_sim::conditions;
use lockstep_sim::history::references;
use serde_json::{Value, json};

use super::operations::OTHER_NETWORK;
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

/// Returns the bridges whose status can be rebuilt.
pub(super) fn rebuilt(server: &ApiServer) -> Vec<ObjectRef> {
    let bridges = references(server, &names::bridge()).into_iter();
    bridges.filter(|it| !server.object(it).is_some_and(|bridge| remembers(server, bridge))).collect()
}

/// Returns whether the status of a bridge remembers what nothing else shows: that it was ready although HyperShift has completed no
/// version, because there are no nodes; that it was not, although HyperShift has; or that it failed before its HostedCluster
/// existed. The table of the specification has no way from `Failed` to `Pending`.
fn remembers(server: &ApiServer, bridge: &Value) -> bool {
    let is = |name: &str| conditions::is(bridge, name, "True");
    let target = ObjectRef::namespaced(&names::hosted_cluster(), NAMESPACE, metadata(bridge, "name"));
    let cluster = server.object(&target);
    let is_complete = cluster.is_some_and(|cluster| was_complete(cluster));
    (!is(condition::READY) && is(condition::PROVISIONED) != is_complete)
        || (bridge["status"]["phase"] == "Failed" && !is(condition::HOSTED_CLUSTER_CREATED))
}

/// Reports each wrong statement of a bridge that is Ready with its HostedCluster.
pub(super) fn when_ready(bridge: &Value, cluster: &Value, differ: &mut dyn FnMut(String)) {
    // HyperShift can't change these fields. At rest, no bridge requires other networks or capabilities.
    let keeps = cluster["spec"]["controllerAvailabilityPolicy"]
        != bridge["spec"]["controlPlaneAvailabilityPolicy"]
        || cluster["spec"]["networking"]["clusterNetwork"][0]["cidr"] == OTHER_NETWORK
        || cluster["spec"]["capabilities"]["disabled"].is_array();
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

/// Reports what a bridge with a node port at an address that no Node has says of it.
pub(super) fn without_node(bridge: &Value, address: &str, differ: &mut dyn FnMut(String)) {
    let exposure = conditions::find(bridge, condition::SERVICE_EXPOSURE_READY);
    let is_reported = |it: &Value| it["reason"] == reason::NODE_PORT_UNREACHABLE;
    if !exposure.is_some_and(is_reported) || !conditions::is(bridge, condition::READY, "False") {
        differ(format!("no Node has its address {address}, and it says {exposure:?}"));
    }
}

/// Reports a message that is not the one of `Ready`.
pub(super) fn message(bridge: &Value, differ: &mut dyn FnMut(String)) {
    let (message, ready) = (&bridge["status"]["message"], conditions::find(bridge, condition::READY));
    if ready.is_none_or(|ready| ready["message"] != *message) {
        differ(format!("its message is {message}, and Ready is {ready:?}"));
    }
}
