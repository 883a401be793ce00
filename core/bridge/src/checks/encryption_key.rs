//! Whether there is a key by which etcd can be encrypted, or is encrypted already.

use lockstep_engine::object::Name;

use super::unmet::Unmet;
use crate::model::encryption_key::{self, BYTES, KEY};
use crate::names::control_plane_namespace;
use crate::snapshot::{BridgeSnapshot, KeyState, OwnedObject};

/// Returns what is wrong with the key.
pub fn check(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    if let Some(message) = lost(snapshot) {
        return Some(Unmet::wait(message));
    }
    if !matches!(snapshot.hosted_cluster(), OwnedObject::Absent) {
        return None;
    }
    let secret = encryption_key::secret(snapshot.key);
    match snapshot.encryption_key()? {
        // It is generated just before the HostedCluster is created. The check of the pull secret reports Secrets that can't be
        // watched.
        KeyState::Usable | KeyState::Missing | KeyState::Unknown => None,
        KeyState::Unread => {
            Some(Unmet::wait(format!("Secret {secret}, the key for etcd, is not checked yet")))
        }
        KeyState::Foreign => Some(Unmet::user_action(format!(
            "Secret {secret}, the key for etcd, exists and does not belong to this DPFHCPBridge; remove it if no cluster uses \
             it, or create the DPFHCPBridge under another name"
        ))),
        KeyState::Bad => Some(Unmet::user_action(format!(
            "{}; remove it, and another key is generated: no HostedCluster uses it yet",
            bad(&secret)
        ))),
    }
}

/// Returns that the key of an existing cluster is lost, if it is.
pub fn lost(snapshot: &BridgeSnapshot<'_>) -> Option<String> {
    let exists =
        matches!(snapshot.hosted_cluster(), OwnedObject::Ours(_)) || snapshot.has_unwatchable_cluster();
    let secret = encryption_key::secret(snapshot.key);
    let problem = match snapshot.encryption_key().filter(|_| exists)? {
        KeyState::Missing => format!("Secret {secret}, the key for etcd, is gone"),
        KeyState::Bad => bad(&secret),
        KeyState::Usable | KeyState::Unknown | KeyState::Unread | KeyState::Foreign => return None,
    };
    Some(format!(
        "{problem}: HyperShift does not reconcile the cluster, and without this key nothing can read the Secrets in etcd; restore \
         it under this name from a backup, or from HyperShift's copy in namespace {}. No other key can replace it",
        control_plane_namespace(snapshot.key)
    ))
}

fn bad(secret: &Name) -> String {
    format!("Secret {secret}, the key for etcd, does not have {BYTES} bytes under {KEY:?}")
}
