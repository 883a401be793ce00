//! Secrets that are checked and copied: the pull secret and the SSH keys for HyperShift, the kubeconfig for the DPUCluster.
//!
//! Watches show their metadata only. A Secret is read when its version, or that of its copy, differs from the one that was
//! compared last. Its content is never stored.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_crds::bridge::DPFHCPBridgeSpec;
use lockstep_engine::action::{Action, Failure};
use lockstep_engine::object::{Name, controller_reference, controller_uid, label, metadata};
use lockstep_engine::write::create_or_apply;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::names::{self, BRIDGE_NAME, BRIDGE_NAMESPACE};
use super::parse::docker_config::DockerConfig;
use super::parse::ssh_key;
use super::source::Source;
use super::world::{Bridge, Memory, World};

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

    /// Returns its key in the copy: the one that the reader looks for.
    const fn copy_key(self) -> &'static str {
        match self {
            Self::Pull => ".dockerconfigjson",
            Self::Ssh => "id_rsa.pub",
            Self::Kubeconfig => "super-admin.conf",
        }
    }

    const fn secret_type(self) -> &'static str {
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
    pub complaint: Option<String>,
}

impl Verified {
    /// Stores the result for these versions of the two.
    pub fn new(source: &Value, copy: Option<&Value>, complaint: Option<String>) -> Self {
        Self { source: marker(source), copy: copy.map(marker), complaint }
    }
}

/// Identifies one version of one object.
pub fn marker(object: &Value) -> String {
    format!("{}/{}", metadata(object, "uid"), metadata(object, "resourceVersion"))
}

/// The state of a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretState<'a> {
    /// It does not exist.
    Missing,
    /// It can't be read.
    Unknown(&'a Failure),
    /// It has to be read, and perhaps copied.
    Unread,
    /// It is invalid.
    Bad(&'a str),
    /// Its copy is up to date.
    Copied,
}

/// Returns the state of a Secret of a bridge.
pub fn standing<'a>(
    world: &'a World,
    memory: &'a Memory,
    key: &Name,
    bridge: &'a Bridge,
    role: SecretRole,
) -> SecretState<'a> {
    let Ok(spec) = &bridge.spec else { return SecretState::Missing };
    let source = match world.find(Source::Secrets, &role.source(key, spec)) {
        Err(failure) => return SecretState::Unknown(failure),
        Ok(None) => return SecretState::Missing,
        Ok(Some(source)) => source,
    };
    let copy = role.copy(key, bridge.dpu_cluster.as_ref());
    let copy = copy.and_then(|copy| world.find(Source::Secrets, &copy).ok().flatten());
    match memory.secrets.get(&role) {
        Some(known) if known.source == marker(source) && known.copy == copy.map(marker) => {
            match &known.complaint {
                Some(complaint) => SecretState::Bad(complaint),
                None if copy.is_some() => SecretState::Copied,
                None => SecretState::Unread,
            }
        }
        _ => SecretState::Unread,
    }
}

/// The result of the comparison of a Secret with its copy, with the write that it needs.
#[derive(Debug)]
pub enum CopyComparison {
    /// It is invalid.
    Bad(String),
    /// Its copy is up to date.
    Same,
    /// The copy has to be written.
    Differs(Action),
}

/// Compares a Secret with its copy.
pub fn examine(
    role: SecretRole,
    key: &Name,
    bridge: &Bridge,
    source: &Value,
    copy: Option<&Value>,
) -> Option<CopyComparison> {
    let target = role.copy(key, bridge.dpu_cluster.as_ref())?;
    if copy.is_some_and(|copy| !is_ours(role, key, bridge, copy)) {
        return Some(CopyComparison::Bad(format!(
            "Secret {target} exists and does not belong to this DPFHCPBridge; remove it if nothing uses it, or create the \
             DPFHCPBridge under another name"
        )));
    }
    let content = match content(role, source) {
        Ok(content) => content,
        Err(complaint) => {
            let place = format!("key {:?} of Secret {}", role.source_key(), Name::of(source));
            return Some(CopyComparison::Bad(format!("{place}: {complaint}")));
        }
    };
    if copy.is_some_and(|copy| copy["data"][role.copy_key()] == *content) {
        return Some(CopyComparison::Same);
    }
    let mut manifest = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": target.namespace,
            "name": target.name,
            "labels": names::labels(key),
        },
        "type": role.secret_type(),
        "data": { role.copy_key(): content },
    });
    // An owner in another namespace is not valid: the garbage collector would delete the copy.
    if role != SecretRole::Kubeconfig {
        let owner = controller_reference(&names::bridge(), &key.name, &bridge.uid);
        manifest["metadata"]["ownerReferences"] = json!([owner]);
    }
    let seen = copy.map(|copy| metadata(copy, "uid"));
    Some(CopyComparison::Differs(create_or_apply(target.object(&names::secret()), manifest, seen)))
}

/// Returns whether a copy was made for this bridge.
pub fn is_ours(role: SecretRole, key: &Name, bridge: &Bridge, copy: &Value) -> bool {
    match role {
        SecretRole::Pull | SecretRole::Ssh => controller_uid(copy) == Some(&bridge.uid),
        SecretRole::Kubeconfig => {
            label(copy, BRIDGE_NAME) == Some(&key.name)
                && label(copy, BRIDGE_NAMESPACE) == Some(&key.namespace)
        }
    }
}

/// Returns the value to copy, as it is in a Secret. An error states what is wrong, and shows nothing of it.
fn content(role: SecretRole, source: &Value) -> Result<&Value, String> {
    let data = &source["data"][role.source_key()];
    let Some(text) = data.as_str() else {
        return Err("the key is missing; add it".to_owned());
    };
    let bytes = STANDARD.decode(text).map_err(|_| "it is not base64".to_owned())?;
    match role {
        SecretRole::Pull => DockerConfig::parse(&bytes).map(|_| ())?,
        SecretRole::Ssh => ssh_key::check(&bytes).map(|_| ())?,
        SecretRole::Kubeconfig if bytes.is_empty() => return Err("it is empty".to_owned()),
        SecretRole::Kubeconfig => {}
    }
    Ok(data)
}

/// Returns the credentials of registries in a pull secret.
pub fn docker_config(source: &Value) -> Option<DockerConfig> {
    let bytes = STANDARD.decode(source["data"][SecretRole::Pull.source_key()].as_str()?).ok()?;
    DockerConfig::parse(&bytes).ok()
}
