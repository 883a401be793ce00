//! The kinds of Kubernetes itself, and references to objects.

use std::sync::Arc;

use lockstep_engine::object::{Kind, ObjectRef, metadata};
use serde_json::Value;

/// Returns the kind `Service`.
pub(crate) fn service_kind() -> Arc<Kind> {
    Kind::known("", "v1", "Service", "services", true)
}

/// Returns the kind `Secret`.
pub(crate) fn secret_kind() -> Arc<Kind> {
    Kind::known("", "v1", "Secret", "secrets", true)
}

/// Returns the kind `ConfigMap`.
pub(crate) fn config_map_kind() -> Arc<Kind> {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

/// Returns the kind `Namespace`.
pub(crate) fn namespace_kind() -> Arc<Kind> {
    Kind::known("", "v1", "Namespace", "namespaces", false)
}

/// Returns the reference to an object of a kind.
pub(crate) fn reference(kind: &Arc<Kind>, object: &Value) -> ObjectRef {
    let (namespace, name) = (metadata(object, "namespace"), metadata(object, "name"));
    if kind.namespaced {
        ObjectRef::namespaced(kind, namespace, name)
    } else {
        ObjectRef::cluster(kind, name)
    }
}
