//! The validation of the real server's code, with its messages, one file for each family of kinds.

mod access;
mod address;
mod admission;
mod batch;
mod common;
mod config;
mod coordination;
mod counts;
mod cron;
mod endpoints;
mod event;
mod ingress;
mod network;
mod pod;
mod quota;
mod replication;
mod resources;
mod scaling;
mod service;
mod storage;
mod workload;

use serde_json::Value;

use super::field::Path;
use super::resource::Resource;
use super::view::{part, text};
use super::{autoscaling, names};
use crate::cause::Cause;

/// Validates a new object (`old` is none) or an update.
pub(super) fn object(
    resource: &Resource,
    subresource: Option<&str>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    match subresource {
        None => main(resource, object, old, &mut causes),
        Some("status") => status(resource, object, old, &mut causes),
        Some(_) => {}
    }
    causes
}

fn main(resource: &Resource, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    match resource.group {
        "" => core(resource.kind, object, old, causes),
        "apps" => match resource.kind {
            "Deployment" => workload::deployment(object, old, causes),
            "ReplicaSet" => workload::replica_set(object, old, causes),
            "StatefulSet" => workload::stateful_set(object, old, causes),
            "DaemonSet" => workload::daemon_set(object, old, causes),
            "ControllerRevision" => replication::controller_revision(object, old, causes),
            _ => {}
        },
        "rbac.authorization.k8s.io" => match resource.kind {
            "Role" => access::role(object, causes),
            "ClusterRole" => access::cluster_role(object, causes),
            _ => access::binding(resource, object, old, causes),
        },
        _ => others(resource, object, old, causes),
    }
}

fn core(kind: &str, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    match kind {
        "ConfigMap" => config::config_map(object, old, causes),
        "Secret" => config::secret(object, old, causes),
        "ResourceQuota" => quota::resource_quota(object, old, causes),
        "LimitRange" => quota::limit_range(object, causes),
        "Service" => service::service(object, old, causes),
        "Endpoints" => endpoints::endpoints(object, causes),
        "Event" => event::core(object, causes),
        "ReplicationController" => replication::replication_controller(object, causes),
        "PersistentVolumeClaim" => storage::claim(object, old, causes),
        "PersistentVolume" => storage::volume(object, old, causes),
        "Pod" => pod::pod(object, old, causes),
        "PodTemplate" => pod::template(part(object, "template"), &Path::root("template"), causes),
        _ => {}
    }
}

fn others(resource: &Resource, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    match (resource.group, resource.kind) {
        ("batch", "Job") => batch::job(object, old, causes),
        ("batch", "CronJob") => batch::cron_job(object, old, causes),
        ("policy", "PodDisruptionBudget") => scaling::disruption_budget(object, causes),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            let mut newest = object.clone();
            if resource.version == "v1" {
                autoscaling::to_v2(&mut newest, None);
            }
            scaling::autoscaler(&newest, causes);
        }
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(object, causes),
        ("networking.k8s.io", "Ingress") => ingress::ingress(object, causes),
        ("discovery.k8s.io", "EndpointSlice") => endpoints::slice(object, old, causes),
        ("coordination.k8s.io", "Lease") => coordination::lease(object, causes),
        ("events.k8s.io", "Event") => event::series_event(object, old, causes),
        ("scheduling.k8s.io", "PriorityClass") => coordination::priority_class(object, old, causes),
        ("storage.k8s.io", "StorageClass") => storage::class(object, old, causes),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission::policy(object, causes),
        _ => {}
    }
}

fn status(resource: &Resource, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    match (resource.group, resource.kind) {
        ("", "Namespace") => namespace_phase(object, causes),
        ("", "Pod") => pod::status(object, old, causes),
        ("", "ResourceQuota") => quota::resource_quota_status(object, causes),
        ("", "Service") => service::status(object, causes),
        ("apps", kind) | ("", kind @ "ReplicationController") => counts::status(kind, object, old, causes),
        _ => {}
    }
}

/// Checks that a namespace is terminating if, and only if, it is being deleted.
fn namespace_phase(namespace: &Value, causes: &mut Vec<Cause>) {
    let phase = text(part(namespace, "status"), "phase");
    let (wanted, when) = if part(namespace, "metadata").get("deletionTimestamp").is_some() {
        ("Terminating", "not empty")
    } else {
        ("Active", "empty")
    };
    if phase != wanted {
        let message = format!("may only be '{wanted}' if `deletionTimestamp` is {when}");
        causes.push(Path::root("status").child("Phase").invalid(phase, &message));
    }
}

/// Validates the name of a new object, or a `generateName` if it is a prefix.
pub(super) fn name(resource: &Resource, name: &str, is_prefix: bool) -> Vec<String> {
    let stand_in = if is_prefix { names::without_trailing_dash(name) } else { name.to_owned() };
    match (resource.group, resource.kind) {
        ("rbac.authorization.k8s.io", _) if is_prefix => names::path_segment(&format!("{name}x")),
        ("rbac.authorization.k8s.io", _) => names::path_segment(name),
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => names::dns_label(&stand_in),
        _ => names::dns_subdomain(&stand_in),
    }
}
