//! The fields that each kind supports in field selectors.

use serde_json::Value;

use super::scope::Scope;
use super::selector::Fields;
use super::status::{Status, quote};

/// Returns the fields other than `metadata.name` and `metadata.namespace`.
fn own(group: &str, plural: &str) -> &'static [&'static str] {
    match (group, plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") => &["status.replicas"],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("batch", "jobs") => &["status.successful"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        _ => &[],
    }
}

/// Refuses a selector with a field that the kind does not support.
pub(super) fn check(scope: &Scope, fields: &Fields) -> Result<(), Status> {
    let resource = &scope.resource;
    let known = own(&resource.group, &resource.plural);
    let selectable = scope.version().crd_entry().and_then(|entry| entry.get("selectableFields"));
    for key in fields.keys() {
        let common = key == "metadata.name" || (key == "metadata.namespace" && resource.namespaced);
        let path = format!(".{key}");
        let declared = selectable
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|field| field.get("jsonPath").and_then(Value::as_str) == Some(&path));
        if common || declared || known.contains(&key) {
            continue;
        }
        return Err(Status::bad_request(if known.is_empty() && !resource.is_custom() {
            format!(
                r#"{} is not a known field selector: only "metadata.name", "metadata.namespace""#,
                quote(key)
            )
        } else {
            format!("field label not supported: {key}")
        }));
    }
    Ok(())
}
