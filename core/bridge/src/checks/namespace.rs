//! The namespace of the control plane.
//!
//! HyperShift uses a namespace of this name although another client has created it, and deletes it with the HostedCluster (decision
//! 130). So there must be none before there is a HostedCluster.

use std::time::Duration;

use lockstep_engine::action::ErrorKind;

use super::unmet::Unmet;
use crate::model::bridge::Index;
use crate::model::namespace::NamespaceState;
use crate::model::source::Source;
use crate::names::control_plane_namespace;
use crate::retry;
use crate::snapshot::BridgeSnapshot;

/// Checks that HyperShift can create the namespace.
pub fn existing(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let state = snapshot.namespace()?;
    let title = format!("Namespace {} of the control plane", control_plane_namespace(snapshot.key));
    match state {
        Ok(NamespaceState::Free) => None,
        Ok(NamespaceState::Terminating) => Some(Unmet::wait(format!("{title} is being deleted"))),
        Ok(NamespaceState::Foreign) => Some(Unmet::user_action(format!(
            "{title} exists and was not created by HyperShift, which would delete it with the HostedCluster; create the DPFHCPBridge \
             under another name, or delete the Namespace if nothing in it is used"
        ))),
        Err(failure) => {
            let message = format!("{title} can't be read ({})", failure.message);
            Some(Unmet::wait(if failure.class == ErrorKind::Forbidden {
                format!("{message}; grant the operator get on namespaces")
            } else {
                message
            }))
        }
    }
}

/// Returns whether another client has created the namespace.
pub fn is_foreign(snapshot: &BridgeSnapshot<'_>) -> bool {
    matches!(snapshot.namespace(), Some(Ok(NamespaceState::Foreign)))
}

/// Returns the delay until the namespace is read again: namespaces are not watched.
pub fn look_again_after(snapshot: &BridgeSnapshot<'_>) -> Option<Duration> {
    let is_used =
        matches!(snapshot.namespace(), Some(Ok(NamespaceState::Terminating | NamespaceState::Foreign)));
    is_used.then_some(retry::NAMESPACE)
}

/// Checks that no older bridge and no HostedCluster has the same namespace: `a-b/c` and `a/b-c` would share one.
pub fn shared(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let namespace = control_plane_namespace(snapshot.key);
    let rival = || {
        let rival = snapshot.store.rival(&Index::ControlPlane(namespace.clone()), snapshot.key)?;
        Some(format!("DPFHCPBridge {rival}"))
    };
    let cluster = || {
        let others = snapshot.store.all(Source::HostedClusters).map(|(name, _)| name);
        let mut others = others.filter(|name| *name != snapshot.key);
        let cluster = others.find(|name| control_plane_namespace(name) == namespace)?;
        Some(format!("HostedCluster {cluster}"))
    };
    let user = rival().or_else(cluster)?;
    Some(Unmet::user_action(format!(
        "the namespace of the control plane, {namespace}, is that of {user}; create this one under another name"
    )))
}
