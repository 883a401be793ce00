//! Whether the HostedCluster and the NodePool match the spec.
//!
//! Fields that HyperShift can't change any more are not changed but reported.
//!
//! Source: "Spec Fields".

use std::collections::{BTreeMap, BTreeSet};

use lockstep_engine::conditions::{Finding, Status};
use serde_json::Value;

use super::contested;
use super::unwatched::{unwatched, unwatched_bridges};
use super::upgrade;
use crate::desired::{hosted_cluster, node_pool};
use crate::model::hosted_cluster::uses_load_balancer;
use crate::model::source::Source;
use crate::names::{condition, reason};
use crate::snapshot::{BridgeSnapshot, OwnedObject};

/// Returns the finding about `SpecApplied`: which fields have changed that HyperShift can't change.
pub fn judge(snapshot: &BridgeSnapshot<'_>) -> Option<Finding> {
    let finding =
        |(status, reason, message)| Finding { condition: condition::SPEC_APPLIED, status, reason, message };
    let existing = match snapshot.hosted_cluster() {
        OwnedObject::Ours(existing) => existing,
        OwnedObject::Unknown(failure) if snapshot.has_unwatchable_cluster() => {
            return Some(finding(unwatched(Source::HostedClusters, failure)));
        }
        OwnedObject::Unknown(_) | OwnedObject::Absent | OwnedObject::Foreign | OwnedObject::Going => {
            return None;
        }
    };
    let (spec, wanted) = (&existing["spec"], snapshot.spec);
    let storage_class = &spec["etcd"]["managed"]["storage"]["persistentVolume"]["storageClassName"];
    let networks =
        ["clusterNetwork", "serviceNetwork"].map(|network| &spec["networking"][network][0]["cidr"]);
    let wanted_capabilities =
        wanted.capabilities.as_ref().map(hosted_cluster::capabilities).unwrap_or_default();
    let fields = [
        (
            "controlPlaneAvailabilityPolicy",
            spec["controllerAvailabilityPolicy"] == wanted.control_plane_availability_policy,
        ),
        ("exposeThroughLoadBalancer", uses_load_balancer(existing) == wanted.expose_through_load_balancer),
        ("etcdStorageClass", *storage_class == wanted.etcd_storage_class),
        ("networking", networks == hosted_cluster::networks(wanted)),
        ("capabilities", sets(&spec["capabilities"]) == sets(&wanted_capabilities)),
        ("etcdEncryption", wanted.etcd_encryption.is_none() || spec["secretEncryption"].is_object()),
    ];
    let ignored: Vec<&str> = fields.iter().filter(|(_, holds)| !holds).map(|(field, _)| *field).collect();
    let (status, reason, message) = applied(snapshot, existing);
    if ignored.is_empty() {
        return Some(finding((status, reason, message)));
    }
    let kept = format!(
        "the HostedCluster keeps what it was created with, because HyperShift can't change {}: put the former value back, \
         or re-create the cluster",
        ignored.join(", ")
    );
    // A change that is ignored does not hide the state of the others (decision 29).
    Some(finding(match status {
        Status::False => (status, reason, format!("{message}; {kept}")),
        Status::Unknown => (Status::False, reason::IMMUTABLE_FIELD_CHANGED, format!("{kept}; {message}")),
        Status::True => (Status::False, reason::IMMUTABLE_FIELD_CHANGED, kept),
    }))
}

/// Returns the names in each list of capabilities. Their order does not matter, and an empty list is as none.
fn sets(capabilities: &Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let lists = capabilities.as_object().into_iter().flatten();
    let sets = lists.map(|(list, names)| {
        let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
        (list.as_str(), names.collect::<BTreeSet<_>>())
    });
    sets.filter(|(_, names)| !names.is_empty()).collect()
}

/// Returns whether a HostedCluster and its NodePool match the spec, apart from the fields that HyperShift can't change.
fn applied(snapshot: &BridgeSnapshot<'_>, existing: &Value) -> (Status, &'static str, String) {
    let pending = || {
        let message = "the HostedCluster or the NodePool is not as the spec says yet".to_owned();
        (Status::Unknown, reason::UPDATE_PENDING, message)
    };
    if let Some(message) = contested::message(snapshot) {
        (Status::False, reason::CONTESTED, message)
    } else if hosted_cluster::write(snapshot).is_some() {
        pending()
    } else if let OwnedObject::Unknown(failure) = snapshot.node_pool() {
        unwatched(Source::NodePools, failure)
    } else if node_pool::write(snapshot).is_some() {
        pending()
    } else if let Some(progress) = upgrade::progress(snapshot) {
        upgrade::state(existing, progress)
    } else if let Some(message) = unwatched_bridges(snapshot.store) {
        (Status::Unknown, reason::WATCH_FAILED, message)
    } else {
        (Status::True, reason::APPLIED, "the HostedCluster is as the spec says".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use lockstep_engine::action::ErrorKind;
    use serde_json::json;

    use super::*;
    use crate::fixture::{Fixture, NOW};

    #[test]
    fn the_order_of_capabilities_does_not_matter() {
        for (existing, differs) in [
            (json!({ "disabled": ["Ingress", "Console"], "enabled": [] }), false),
            (json!({ "disabled": ["Console"] }), true),
            (json!({ "enabled": ["Console", "Ingress"] }), true),
            (Value::Null, true),
        ] {
            let mut fixture = Fixture::with(&json!({}), |spec| {
                spec["capabilities"] = json!({ "disabled": ["Console", "Ingress"] });
            });
            fixture.cluster_with(NOW, &json!({}), |spec| spec["capabilities"] = existing.clone());
            let message = judge(&fixture.snapshot()).map(|finding| finding.message).unwrap_or_default();
            assert_eq!(message.contains("capabilities"), differs, "{existing}: {message}");
        }
    }

    #[test]
    fn whether_the_spec_is_applied_is_unknown_while_an_existing_cluster_can_not_be_watched() {
        let cluster = json!({ "hostedClusterRef": { "namespace": "team", "name": "a" } });
        for (status, class, expected) in [
            (&cluster, ErrorKind::Forbidden, Some(reason::WATCH_FAILED)),
            (&json!({}), ErrorKind::Forbidden, None),
            // Then there is no cluster any more.
            (&cluster, ErrorKind::KindNotServed, None),
        ] {
            let mut fixture = Fixture::new(status);
            fixture.refuse(Source::HostedClusters, class);
            let finding = judge(&fixture.snapshot());
            assert!(finding.as_ref().is_none_or(|finding| finding.status == Status::Unknown));
            assert_eq!(finding.map(|finding| finding.reason), expected, "{status} {class}");
        }
    }
}
