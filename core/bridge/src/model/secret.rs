//! The Secrets of a bridge and their copies: names, keys, and the versions that were compared.

use lockstep_crds::bridge::DPFHCPBridgeSpec;
use lockstep_engine::object::{Name, metadata};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The role of a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SecretRole {
    /// Pulls images (`spec.pullSecretRef`).
    Pull,
    /// Gives access to nodes (`spec.sshKeySecretRef`).
    Ssh,
    /// The hosted cluster's kubeconfig, which HyperShift creates.
    Kubeconfig,
}

impl SecretRole {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Pull, Self::Ssh, Self::Kubeconfig];

    /// Returns the source Secret.
    pub fn source(self, bridge: &Name, spec: &DPFHCPBridgeSpec) -> Name {
        match self {
            Self::Pull => Name::new(&bridge.namespace, &spec.pull_secret_ref.name),
            Self::Ssh => Name::new(&bridge.namespace, &spec.ssh_key_secret_ref.name),
            Self::Kubeconfig => Name::new(&bridge.namespace, &format!("{}-admin-kubeconfig", bridge.name)),
        }
    }

    /// Returns the copy; `None` if no DPUCluster is named.
    pub fn copy(self, bridge: &Name, dpu_cluster: Option<&Name>) -> Option<Name> {
        let Name { namespace, name } = bridge;
        Some(match self {
            Self::Pull => Name::new(namespace, &format!("{name}-pull-secret")),
            Self::Ssh => Name::new(namespace, &format!("{name}-ssh-key")),
            Self::Kubeconfig => {
                Name::new(&dpu_cluster?.namespace, &format!("{namespace}-{name}-dpucluster-kubeconfig"))
            }
        })
    }

    /// Returns its key in the source.
    pub const fn source_key(self) -> &'static str {
        match self {
            Self::Pull => ".dockerconfigjson",
            Self::Ssh => "ssh-publickey",
            Self::Kubeconfig => "kubeconfig",
        }
    }

    /// Returns its keys in the copy: those that readers look for. DPF 24.10 reads `admin.conf` of a kubeconfig, a later one only
    /// `super-admin.conf`.
    pub const fn copy_keys(self) -> &'static [&'static str] {
        match self {
            Self::Pull => &[".dockerconfigjson"],
            Self::Ssh => &["id_rsa.pub"],
            Self::Kubeconfig => &["super-admin.conf", "admin.conf"],
        }
    }

    /// Returns the type of the copy.
    pub const fn secret_type(self) -> &'static str {
        match self {
            Self::Pull => "kubernetes.io/dockerconfigjson",
            Self::Ssh | Self::Kubeconfig => "Opaque",
        }
    }
}

/// The result of the comparison of a Secret with its copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    source: String,
    copy: Option<String>,
    /// What is wrong with either, without any of its content.
    pub problem: Option<String>,
}

impl Verified {
    /// Stores the result for these versions of the two.
    pub fn new(source: &Value, copy: Option<&Value>, problem: Option<String>) -> Self {
        Self { source: marker(source), copy: copy.map(marker), problem }
    }

    /// Returns whether it is about these versions of the two.
    pub fn is_of(&self, source: &Value, copy: Option<&Value>) -> bool {
        self.source == marker(source) && self.copy == copy.map(marker)
    }
}

/// Identifies one version of one object.
pub fn marker(object: &Value) -> String {
    format!("{}/{}", metadata(object, "uid"), metadata(object, "resourceVersion"))
}
