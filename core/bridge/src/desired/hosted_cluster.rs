//! The desired state of the HostedCluster.
//!
//! Every write sends the whole spec, with the HostedCluster's own values of the fields that HyperShift can't change.
//!
//! Source: "Relationships", "Spec Fields".

use lockstep_crds::bridge::{CLUSTER_NETWORK, Capabilities, DPFHCPBridgeSpec, SERVICE_NETWORK};
use lockstep_engine::action::Action;
use serde_json::{Value, json};

use super::manifest;
use crate::model::encryption_key;
use crate::model::hosted_cluster::SERVICES;
use crate::model::secret::SecretRole;
use crate::names;
use crate::snapshot::BridgeSnapshot;

/// Returns the write that brings the HostedCluster to its desired state; `None` if it has reached it.
pub fn write(snapshot: &BridgeSnapshot<'_>) -> Option<Action> {
    let existing = snapshot.hosted_cluster().ours();
    manifest::bring(snapshot, &names::hosted_cluster(), existing, &spec(snapshot, existing)?)
}

fn spec(snapshot: &BridgeSnapshot<'_>, existing: Option<&Value>) -> Option<Value> {
    let wanted = snapshot.spec;
    let kept = |pointer: &str| existing.and_then(|object| object.pointer(pointer)).cloned();
    let copy = |role: SecretRole| {
        Some(json!({ "name": role.copy(snapshot.key, snapshot.bridge.dpu_cluster.as_ref())?.name }))
    };
    let availability = kept("/spec/controllerAvailabilityPolicy")
        .unwrap_or_else(|| json!(wanted.control_plane_availability_policy));
    let storage_class = kept("/spec/etcd/managed/storage/persistentVolume/storageClassName")
        .unwrap_or_else(|| json!(wanted.etcd_storage_class));
    let services = match kept("/spec/services") {
        Some(services) => services,
        None => services(wanted, snapshot.node_address().as_deref())?,
    };
    let [cluster_network, service_network] = networks(wanted).map(|cidr| json!([{ "cidr": cidr }]));
    let cluster_network = kept("/spec/networking/clusterNetwork").unwrap_or(cluster_network);
    let service_network = kept("/spec/networking/serviceNetwork").unwrap_or(service_network);
    // HyperShift does not change it either. Releases without this field drop it from the HostedCluster, and refuse an update that
    // contains it.
    let allocation = match existing {
        Some(existing) => existing["spec"]["networking"].get("allocateNodeCIDRs").cloned(),
        None => Some(json!("Enabled")),
    };
    let mut spec = json!({
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
            "clusterNetwork": cluster_network,
            "serviceNetwork": service_network,
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
    });
    if let Some(allocation) = allocation {
        spec["networking"]["allocateNodeCIDRs"] = allocation;
    }
    // HyperShift sets an empty default, which can't be changed either.
    let capabilities = match existing {
        Some(existing) => existing["spec"]["capabilities"]
            .as_object()
            .filter(|kept| !kept.is_empty())
            .map(|kept| json!(kept)),
        None => wanted.capabilities.as_ref().map(capabilities),
    };
    if let Some(capabilities) = capabilities {
        spec["capabilities"] = capabilities;
    }
    // HyperShift can't remove it. Added later, it would leave what is in etcd already as it is.
    let encryption = if let Some(existing) = existing {
        existing["spec"].get("secretEncryption").cloned()
    } else {
        let key = json!({ "name": encryption_key::secret(snapshot.key).name });
        Some(json!({ "type": "aescbc", "aescbc": { "activeKey": key } }))
    };
    if let (Some(_), Some(encryption)) = (&wanted.etcd_encryption, encryption) {
        spec["secretEncryption"] = encryption;
    }
    Some(spec)
}

/// Returns the networks of pods and of services, in CIDR notation.
pub fn networks(spec: &DPFHCPBridgeSpec) -> [&str; 2] {
    let networking = spec.networking.as_ref();
    let pods = networking.and_then(|networking| networking.cluster_network.as_deref());
    let services = networking.and_then(|networking| networking.service_network.as_deref());
    [pods.unwrap_or(CLUSTER_NETWORK), services.unwrap_or(SERVICE_NETWORK)]
}

/// Returns the value of HyperShift's field; it has no empty lists.
pub fn capabilities(wanted: &Capabilities) -> Value {
    let mut value = json!({});
    for (list, names) in [("enabled", &wanted.enabled), ("disabled", &wanted.disabled)] {
        if let Some(names) = names.as_ref().filter(|names| !names.is_empty()) {
            value[list] = json!(names);
        }
    }
    value
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
