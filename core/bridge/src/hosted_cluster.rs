//! The HostedCluster and its NodePool: their desired state, and which of its fields HyperShift can still change.
//!
//! Fields that HyperShift can't change any more are not changed but reported. Every write sends the whole spec, with the
//! HostedCluster's own values of the immutable fields.
//!
//! Source: "Relationships", "Spec Fields".

use std::sync::Arc;

use lockstep_crds::bridge::DPFHCPBridgeSpec;
use lockstep_engine::action::Action;
use lockstep_engine::conditions::{Finding, Status};
use lockstep_engine::object::{Kind, controller_reference, metadata};
use lockstep_engine::write::{covers, create_or_apply};
use serde_json::{Value, json};

use super::names::{self, CLUSTER_TYPE, condition, reason};
use super::secrets::SecretRole;
use super::source::Source;
use super::upgrade;
use super::view::{BridgeSnapshot, OwnedObject, is, unwatched, words};
use super::world::{Bridge, World};

/// The services that have to be published. The list is immutable, including its order.
const SERVICES: [&str; 4] = ["APIServer", "OAuthServer", "Konnectivity", "Ignition"];

/// Returns the write that brings the HostedCluster to its desired state; `None` if it has reached it.
pub fn write(view: &BridgeSnapshot<'_>) -> Option<Action> {
    let existing = view.hosted_cluster().ours();
    bring(view, &names::hosted_cluster(), existing, &spec(view, existing)?)
}

/// Returns the write that brings the NodePool to its desired state; `None` if it has reached it.
pub fn write_node_pool(view: &BridgeSnapshot<'_>) -> Option<Action> {
    let spec = json!({
        "clusterName": view.key.name,
        // There are no machines to manage: nodes join by themselves.
        "replicas": 0,
        "release": { "image": upgrade::node_pool_release(view) },
        "platform": { "type": "None" },
        "management": { "upgradeType": "Replace" },
    });
    bring(view, &names::node_pool(), view.node_pool().ours(), &spec)
}

/// Returns the write that brings an object of the bridge's name to its desired state, if it differs from that.
fn bring(
    view: &BridgeSnapshot<'_>,
    kind: &Arc<Kind>,
    existing: Option<&Value>,
    spec: &Value,
) -> Option<Action> {
    let mut labels = names::labels(view.key);
    labels[CLUSTER_TYPE] = json!(view.spec.cluster_type);
    let is_as_wanted = existing.is_some_and(|existing| {
        covers(&existing["spec"], spec) && covers(&existing["metadata"]["labels"], &labels)
    });
    let manifest = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "namespace": view.key.namespace,
            "name": view.key.name,
            "labels": labels,
            "ownerReferences": [controller_reference(&names::bridge(), &view.key.name, &view.bridge.uid)],
        },
        "spec": spec,
    });
    (!is_as_wanted).then(|| {
        create_or_apply(view.key.object(kind), manifest, existing.map(|existing| metadata(existing, "uid")))
    })
}

fn spec(view: &BridgeSnapshot<'_>, existing: Option<&Value>) -> Option<Value> {
    let wanted = view.spec;
    let kept = |pointer: &str| existing.and_then(|object| object.pointer(pointer)).cloned();
    let copy = |role: SecretRole| {
        Some(json!({ "name": role.copy(view.key, view.bridge.dpu_cluster.as_ref())?.name }))
    };
    let availability = kept("/spec/controllerAvailabilityPolicy")
        .unwrap_or_else(|| json!(wanted.control_plane_availability_policy));
    let storage_class = kept("/spec/etcd/managed/storage/persistentVolume/storageClassName")
        .unwrap_or_else(|| json!(wanted.etcd_storage_class));
    let services = match kept("/spec/services") {
        Some(services) => services,
        None => services(wanted, node_address(view.world).as_deref())?,
    };
    Some(json!({
        "release": { "image": wanted.ocp_release_image },
        "pullSecret": copy(SecretRole::Pull)?,
        "sshKey": copy(SecretRole::Ssh)?,
        "dns": { "baseDomain": wanted.base_domain },
        "platform": { "type": "None" },
        "controllerAvailabilityPolicy": availability,
        "infrastructureAvailabilityPolicy": wanted.infrastructure_availability_policy,
        // DPF provides the network of the nodes.
        "networking": {
            "networkType": "Other",
            "allocateNodeCIDRs": "Enabled",
            "clusterNetwork": [{ "cidr": "10.132.0.0/14" }],
            "serviceNetwork": [{ "cidr": "172.31.0.0/16" }],
        },
        "etcd": {
            "managementType": "Managed",
            "managed": {
                "storage": {
                    "type": "PersistentVolume",
                    "persistentVolume": { "size": "8Gi", "storageClassName": storage_class },
                },
            },
        },
        "services": services,
    }))
}

fn services(spec: &DPFHCPBridgeSpec, node_address: Option<&str>) -> Option<Value> {
    let strategy = |service: &str| -> Option<Value> {
        Some(match (spec.expose_through_load_balancer, service) {
            (true, "APIServer") => json!({ "type": "LoadBalancer" }),
            (true, _) => json!({ "type": "Route" }),
            (false, _) => json!({ "type": "NodePort", "nodePort": { "address": node_address? } }),
        })
    };
    let entry =
        |service: &str| Some(json!({ "service": service, "servicePublishingStrategy": strategy(service)? }));
    SERVICES.into_iter().map(entry).collect::<Option<Vec<Value>>>().map(Value::from)
}

/// Returns the address of node ports: that of the first Node that has one. A more public address is preferred.
pub fn node_address(world: &World) -> Option<String> {
    world.all(Source::Nodes).find_map(|(_, node)| {
        let addresses = node["status"]["addresses"].as_array()?;
        ["ExternalDNS", "ExternalIP", "InternalIP"].into_iter().find_map(|kind| {
            let address = addresses.iter().find(|address| address["type"] == kind)?;
            address["address"].as_str().map(str::to_owned)
        })
    })
}

/// Returns whether a HostedCluster publishes its API server through a load balancer.
pub fn uses_load_balancer(hosted_cluster: &Value) -> bool {
    let services = hosted_cluster["spec"]["services"].as_array().into_iter().flatten();
    let mut api_server = services.filter(|entry| entry["service"] == SERVICES[0]);
    api_server.any(|entry| entry["servicePublishingStrategy"]["type"] == "LoadBalancer")
}

/// Returns the finding about `SpecApplied`: which fields have changed that HyperShift can't change.
pub fn spec_applied(view: &BridgeSnapshot<'_>) -> Option<Finding> {
    let finding =
        |(status, reason, message)| Finding { condition: condition::SPEC_APPLIED, status, reason, message };
    let existing = match view.hosted_cluster() {
        OwnedObject::Ours(existing) => existing,
        OwnedObject::Unknown(failure) if view.is_out_of_sight() => {
            return Some(finding(unwatched(Source::HostedClusters, failure)));
        }
        OwnedObject::Unknown(_) | OwnedObject::Absent | OwnedObject::Foreign | OwnedObject::Going => {
            return None;
        }
    };
    let (spec, wanted) = (&existing["spec"], view.spec);
    let storage_class = &spec["etcd"]["managed"]["storage"]["persistentVolume"]["storageClassName"];
    let fields = [
        (
            "controlPlaneAvailabilityPolicy",
            spec["controllerAvailabilityPolicy"] == wanted.control_plane_availability_policy,
        ),
        ("exposeThroughLoadBalancer", uses_load_balancer(existing) == wanted.expose_through_load_balancer),
        ("etcdStorageClass", *storage_class == wanted.etcd_storage_class),
    ];
    let ignored: Vec<&str> = fields.iter().filter(|(_, holds)| !holds).map(|(field, _)| *field).collect();
    Some(finding(if ignored.is_empty() {
        applied(view, existing)
    } else {
        let message = format!(
            "the HostedCluster keeps what it was created with, because HyperShift can't change {}: put the former value back, \
             or create the cluster anew",
            ignored.join(", ")
        );
        (Status::False, reason::IMMUTABLE_FIELD_CHANGED, message)
    }))
}

/// Returns whether a HostedCluster and its NodePool match the spec, if no immutable field differs.
fn applied(view: &BridgeSnapshot<'_>, existing: &Value) -> (Status, &'static str, String) {
    let pending = || {
        let message = "the HostedCluster or the NodePool is not as the spec says yet".to_owned();
        (Status::Unknown, reason::UPDATE_PENDING, message)
    };
    if write(view).is_some() {
        pending()
    } else if let OwnedObject::Unknown(failure) = view.node_pool() {
        unwatched(Source::NodePools, failure)
    } else if write_node_pool(view).is_some() {
        pending()
    } else if let Some(progress) = upgrade::progress(view) {
        upgrading(existing, progress)
    } else {
        (Status::True, reason::APPLIED, "the HostedCluster is as the spec says".to_owned())
    }
}

/// Returns the state of an upgrade.
fn upgrading(cluster: &Value, progress: String) -> (Status, &'static str, String) {
    let blocked = || words(cluster, "Progressing");
    if !upgrade::is_blocked(cluster) {
        (Status::Unknown, reason::UPGRADE_IN_PROGRESS, progress)
    } else if is(cluster, "ReconciliationActive", "False") {
        (Status::Unknown, reason::UPDATE_PENDING, format!("{progress}; HyperShift is paused: {}", blocked()))
    } else {
        (
            Status::False,
            reason::UPDATE_REFUSED,
            format!("HyperShift can't upgrade the HostedCluster: {}", blocked()),
        )
    }
}

/// Returns the finding about `HostedClusterCreated`, unless a write of this pass overrides it.
pub fn created(view: &BridgeSnapshot<'_>) -> Finding {
    let key = view.key;
    let before = view.bridge.condition(condition::HOSTED_CLUSTER_CREATED);
    let existed = existed(view.bridge) || before.is_some_and(|before| before.reason == reason::DELETED);
    let (status, reason, message) = match view.hosted_cluster() {
        OwnedObject::Ours(_) => {
            (Status::True, reason::CREATED, format!("HostedCluster '{key}' created successfully"))
        }
        OwnedObject::Going => {
            (Status::False, reason::DELETED, format!("HostedCluster '{key}' is being deleted"))
        }
        OwnedObject::Foreign => (
            Status::False,
            reason::CREATION_FAILED,
            format!(
                "HostedCluster '{key}' exists and does not belong to this DPFHCPBridge; create the DPFHCPBridge under another name"
            ),
        ),
        OwnedObject::Unknown(failure) => unwatched(Source::HostedClusters, failure),
        OwnedObject::Absent if existed => {
            (Status::False, reason::DELETED, format!("HostedCluster '{key}' was deleted"))
        }
        OwnedObject::Absent => {
            (Status::Unknown, reason::NOT_CREATED, "the HostedCluster is not created yet".to_owned())
        }
    };
    Finding { condition: condition::HOSTED_CLUSTER_CREATED, status, reason, message }
}

/// Returns whether the status reports that the HostedCluster exists, or that it did when it could last be watched.
pub fn existed(bridge: &Bridge) -> bool {
    bridge.condition(condition::HOSTED_CLUSTER_CREATED).is_some_and(|before| {
        before.status == "True"
            || (before.reason == reason::WATCH_FAILED && bridge.status.hosted_cluster_ref.is_some())
    })
}
