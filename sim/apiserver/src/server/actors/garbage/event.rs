//! The warning about owner references that cross namespaces.

use jiff::Timestamp;
use serde_json::json;

use super::graph::Graph;
use crate::server::meta;
use crate::server::state::ApiServer;
use crate::server::write;

/// Warns if an owner with that uid exists, but not in the namespace of the reference.
pub(super) fn check_namespaces(server: &mut ApiServer, graph: &Graph, uid: &str, now: Timestamp) {
    let Some(node) = graph.get(uid) else { return };
    for owner in &node.owners {
        let Some(found) = graph.get(&owner.uid) else { continue };
        if found.namespace.is_empty() || found.namespace == node.namespace {
            continue;
        }
        let Some(resource) = server.registry.by_table(node.table).cloned() else { continue };
        let message = format!(
            "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {:?}",
            owner.api_version, owner.kind, node.namespace, owner.name, owner.uid, node.namespace
        );
        let namespace = if node.namespace.is_empty() { "default" } else { &node.namespace };
        let time = meta::timestamp(now);
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{}.{:x}", node.name, now.as_nanosecond()), "namespace": namespace},
            "involvedObject": {
                "apiVersion": resource.api_version(resource.storage_version()),
                "kind": resource.kind,
                "namespace": node.namespace,
                "name": node.name,
                "uid": uid,
            },
            "type": "Warning",
            "reason": "OwnerRefInvalidNamespace",
            "message": message,
            "source": {"component": "garbage-collector-controller"},
            "reportingComponent": "garbage-collector-controller",
            "reportingInstance": "",
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        });
        // Events are best effort: in a terminating namespace they have no reader.
        let _refused = write::install(server, "", "events", event, now);
    }
}
