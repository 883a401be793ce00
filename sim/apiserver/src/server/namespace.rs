//! The lifecycle of namespaces in admission.

use serde_json::{Value, json};

use super::meta;
use super::registry::Resource;
use super::state::ApiServer;
use super::status::{Qualified, Status};

/// The namespaces that exist from the start.
pub(super) const SYSTEM: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];
const NAMESPACES: Qualified<'static> = Qualified { group: "", name: "namespaces" };

/// Returns a new namespace in the registry's form.
pub(super) fn object(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    })
}

/// Returns whether `spec.finalizers` still has entries.
pub(super) fn has_finalizers(namespace: &Value) -> bool {
    namespace.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

/// Refuses creation in a namespace that is missing or being deleted.
pub(super) fn check_create(
    server: &ApiServer,
    resource: &Resource,
    name: &str,
    namespace: &str,
) -> Result<(), Status> {
    let found =
        server.find("", "namespaces", namespace).ok_or_else(|| Status::not_found(NAMESPACES, namespace))?;
    if !meta::is_deleting(found) {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(resource.qualified(), name, &why);
    status.details.causes.push((
        "NamespaceTerminating".to_owned(),
        format!("namespace {namespace} is being terminated"),
        "metadata.namespace".to_owned(),
    ));
    Err(status)
}

/// Refuses the deletion of a namespace that the system needs.
pub(super) fn check_delete(resource: &Resource, name: &str) -> Result<(), Status> {
    if resource.is("", "namespaces") && IMMORTAL.contains(&name) {
        return Err(Status::forbidden(NAMESPACES, name, "this namespace may not be deleted"));
    }
    Ok(())
}
