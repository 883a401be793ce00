//! CRDs as objects.

use std::sync::Arc;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::object::{Kind, ObjectRef, is_deleting};

/// Returns the kind of CRDs.
pub fn kind() -> Arc<Kind> {
    let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
    Kind::known(group, "v1", "CustomResourceDefinition", plural, false)
}

/// Returns the CRD of a kind.
pub fn of(custom: &Kind) -> ObjectRef {
    ObjectRef::cluster(&kind(), &format!("{}.{}", custom.plural, custom.group))
}

/// Returns whether a server has the CRD of a kind, and it is not being deleted.
pub fn is_served(server: &ApiServer, custom: &Kind) -> bool {
    server.object(&of(custom)).is_some_and(|crd| !is_deleting(crd))
}
