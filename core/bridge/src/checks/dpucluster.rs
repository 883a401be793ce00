//! Validates that the DPUCluster of a bridge exists.
//!
//! Source: "DPFHCPBridge DPUCluster Validation". It checks existence and access only; the other requirements on a DPUCluster
//! are among the [prerequisites](super::prerequisites).

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::conditions::{Finding, Status};
use lockstep_engine::machine::Note;
use lockstep_engine::object::{Name, ObjectRef};

use crate::model::Lookup;
use crate::model::bridge::Bridge;
use crate::names::{self, condition, reason};

/// Returns the finding about `DPUClusterValid`.
pub fn validate<T>(bridge: &Bridge, lookup: &Lookup<T>) -> Finding {
    let (status, reason, message) = match (&bridge.dpu_cluster, lookup) {
        (None, _) => {
            let message =
                "spec.dpuClusterRef is invalid: dpuClusterRef.name and dpuClusterRef.namespace are required";
            (Status::False, reason::DPU_CLUSTER_NOT_SPECIFIED, message.to_owned())
        }
        (Some(Name { namespace, name }), Ok(Some(_))) => {
            let message = format!("DPUCluster '{name}' found in namespace '{namespace}'");
            (Status::True, reason::DPU_CLUSTER_FOUND, message)
        }
        (Some(Name { namespace, name }), Ok(None)) => {
            let message = format!("DPUCluster '{name}' not found in namespace '{namespace}'");
            (Status::False, reason::DPU_CLUSTER_NOT_FOUND, message)
        }
        (Some(Name { namespace, name }), Err(failure)) => {
            let why = failure_message(failure);
            let message = format!("Failed to retrieve DPUCluster '{name}' in namespace '{namespace}': {why}");
            (Status::False, reason::DPU_CLUSTER_ACCESS_ERROR, message)
        }
    };
    Finding { condition: condition::DPU_CLUSTER_VALID, status, reason, message }
}

/// Returns the reason and the message of the Event for the finding ("Events").
pub fn event(bridge: &Bridge, reason: &str, message: &str) -> (&'static str, String) {
    let title = bridge.dpu_cluster.as_ref().map(ToString::to_string).unwrap_or_default();
    match reason {
        reason::DPU_CLUSTER_FOUND => {
            ("DPUClusterValidated", format!("DPUCluster '{title}' validated successfully"))
        }
        reason::DPU_CLUSTER_NOT_FOUND => {
            (reason::DPU_CLUSTER_NOT_FOUND, format!("Referenced DPUCluster '{title}' not found"))
        }
        reason::DPU_CLUSTER_ACCESS_ERROR => {
            // Names contain no quotes, but the cause may.
            let why = message.split_once("': ").map_or("", |(_, why)| why);
            (reason::DPU_CLUSTER_ACCESS_ERROR, format!("Failed to access DPUCluster '{title}': {why}"))
        }
        _ => (
            reason::DPU_CLUSTER_NOT_SPECIFIED,
            "spec.dpuClusterRef.name and namespace are required".to_owned(),
        ),
    }
}

/// Returns the label `result` of the metrics ("Metrics").
pub fn result<T>(bridge: &Bridge, lookup: &Lookup<T>) -> &'static str {
    match lookup {
        Ok(Some(_)) => "success",
        Ok(None) if bridge.dpu_cluster.is_some() => "not_found",
        Ok(None) | Err(_) => "error",
    }
}

/// Returns the log lines of a validation ("Logging").
pub fn log<T>(key: &Name, bridge: &Bridge, lookup: &Lookup<T>) -> [Note; 2] {
    let line = |debug, message: &str| Note::Log {
        debug,
        message: message.to_owned(),
        objects: objects(key, bridge),
    };
    let found = match (&bridge.dpu_cluster, lookup) {
        (None, _) => line(false, "DPUCluster reference not specified"),
        (Some(_), Ok(Some(_))) => line(false, "DPUCluster validation successful"),
        (Some(_), Ok(None)) => line(false, "DPUCluster not found"),
        (Some(_), Err(failure)) => {
            let message = format!("Failed to get DPUCluster: {}", failure_message(failure));
            Note::Error { message, objects: objects(key, bridge) }
        }
    };
    let result = format!("DPUCluster validation result: {}", result(bridge, lookup));
    [found, line(true, &result)]
}

/// Returns the objects that a log line of a validation is about ("Logging").
pub fn objects(key: &Name, bridge: &Bridge) -> Vec<ObjectRef> {
    let dpu_cluster = bridge.dpu_cluster.as_ref().map(|name| name.object(&names::dpu_cluster()));
    [names::bridge_ref(key)].into_iter().chain(dpu_cluster).collect()
}

fn failure_message(failure: &Failure) -> String {
    match failure.class {
        ErrorKind::Forbidden => format!("permission denied ({})", failure.message),
        ErrorKind::KindNotServed => "the DPUCluster CRD is not installed".to_owned(),
        ErrorKind::NotFound
        | ErrorKind::AlreadyExists
        | ErrorKind::Conflict
        | ErrorKind::Invalid
        | ErrorKind::Gone
        | ErrorKind::Throttled
        | ErrorKind::Unavailable
        | ErrorKind::Unknown => failure.message.clone(),
    }
}
