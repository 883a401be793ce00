//! The Secret with the key by which a hosted cluster encrypts Secrets in etcd.

use lockstep_engine::object::{Name, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::secret::marker;

/// The key of the Secret's data that HyperShift reads.
pub const KEY: &str = "key";
/// The size of the key in bytes: HyperShift uses AES-CBC with 256 bits.
pub const BYTES: usize = 32;

/// Returns the name of the Secret.
pub fn secret(bridge: &Name) -> Name {
    Name::new(&bridge.namespace, &format!("{}-etcd-encryption-key", bridge.name))
}

/// Returns whether a HostedCluster encrypts with the key of this bridge.
pub fn is_used(cluster: &Value, bridge: &Name) -> bool {
    text(cluster, "/spec/secretEncryption/aescbc/activeKey/name") == Some(&secret(bridge).name)
}

/// The result of the last look into the Secret. The key itself is never read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    version: String,
    has_key: bool,
}

impl Measured {
    /// Stores the lengths of the values of a Secret.
    pub fn new(secret: &Value) -> Self {
        Self { version: marker(secret), has_key: secret["lengths"][KEY] == BYTES }
    }

    /// Returns whether this version of the Secret has a key of the right size; `None` if another version was measured.
    pub fn has_key(&self, secret: &Value) -> Option<bool> {
        (self.version == marker(secret)).then_some(self.has_key)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_key_that_is_named_like_the_bridge_is_its_own() {
        let bridge = Name::new("fleet", "dpu");
        let encrypted = |name: &str| json!({ "spec": { "secretEncryption": { "aescbc": { "activeKey": { "name": name } } } } });
        assert!(is_used(&encrypted("dpu-etcd-encryption-key"), &bridge));
        assert!(!is_used(&encrypted("other"), &bridge));
        assert!(!is_used(&json!({}), &bridge));
    }

    #[test]
    fn a_measurement_is_of_one_version() {
        let secret = |version: &str, length: usize| json!({ "metadata": { "uid": "a", "resourceVersion": version }, "lengths": { KEY: length } });
        let measured = Measured::new(&secret("1", BYTES));
        assert_eq!(measured.has_key(&secret("1", BYTES)), Some(true));
        assert_eq!(measured.has_key(&secret("2", BYTES)), None);
        assert_eq!(Measured::new(&secret("1", 16)).has_key(&secret("1", 16)), Some(false));
    }
}
