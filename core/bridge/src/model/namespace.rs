//! The namespace of a control plane.

use lockstep_engine::object::{is_deleting, label};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::names::CONTROL_PLANE;

/// What the namespace of a control plane means for a HostedCluster that does not exist yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespaceState {
    /// It does not exist, or HyperShift has created it for an earlier HostedCluster of the name.
    Free,
    /// It is being deleted.
    Terminating,
    /// Another client has created it.
    Foreign,
}

impl NamespaceState {
    /// Returns the state of a namespace; `None` is one that does not exist.
    pub fn of(namespace: Option<&Value>) -> Self {
        match namespace {
            Some(namespace) if is_deleting(namespace) => Self::Terminating,
            // Older versions of HyperShift leave the value empty.
            Some(namespace) if label(namespace, CONTROL_PLANE).is_none() => Self::Foreign,
            _ => Self::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_namespace_without_the_label_of_hypershift_belongs_to_another_client() {
        let namespace = |labels: Value| json!({ "metadata": { "labels": labels } });
        for (namespace, expected) in [
            (None, NamespaceState::Free),
            (Some(namespace(json!({ CONTROL_PLANE: "true" }))), NamespaceState::Free),
            (Some(namespace(json!({ CONTROL_PLANE: "" }))), NamespaceState::Free),
            (Some(namespace(json!({ "team": "web" }))), NamespaceState::Foreign),
            (Some(namespace(json!(null))), NamespaceState::Foreign),
            (
                Some(json!({ "metadata": { "deletionTimestamp": "2026-01-01T12:00:00Z" } })),
                NamespaceState::Terminating,
            ),
        ] {
            assert_eq!(NamespaceState::of(namespace.as_ref()), expected, "{namespace:?}");
        }
    }
}
