//! Secrets that are checked and copied: the pull secret and the SSH keys for HyperShift, the kubeconfig for the DPUCluster.
//!
//! Watches show their metadata only. A Secret is read when its version, or that of its copy, differs from the one that was
//! compared last. Its content is never stored.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::action::Action;
use lockstep_engine::object::{Name, Uid, controller_reference, is_controlled_by};
use lockstep_engine::write::create_or_apply;
use serde_json::{Value, json};

use crate::model::bridge::Bridge;
use crate::model::secret::SecretRole;
use crate::names;
use crate::parse::docker_config::DockerConfig;
use crate::parse::ssh_key;

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
        Err(problem) => {
            let place = format!("key {:?} of Secret {}", role.source_key(), Name::of(source));
            return Some(CopyComparison::Bad(format!("{place}: {problem}")));
        }
    };
    let keys = role.copy_keys();
    if copy.is_some_and(|copy| keys.iter().all(|key| copy["data"][*key] == *content)) {
        return Some(CopyComparison::Same);
    }
    let data: BTreeMap<&str, &Value> = keys.iter().map(|key| (*key, content)).collect();
    let mut manifest = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": target.namespace,
            "name": target.name,
            "labels": names::labels(key),
        },
        "type": role.secret_type(),
        "data": data,
    });
    // An owner in another namespace is not valid: the garbage collector would delete the copy.
    if role != SecretRole::Kubeconfig {
        let owner = controller_reference(&names::bridge(), &key.name, &bridge.uid);
        manifest["metadata"]["ownerReferences"] = json!([owner]);
    }
    let seen = copy.map(Uid::of);
    Some(CopyComparison::Differs(create_or_apply(target.object(&names::secret()), manifest, seen.as_ref())))
}

/// Returns whether a copy was made for this bridge.
pub fn is_ours(role: SecretRole, key: &Name, bridge: &Bridge, copy: &Value) -> bool {
    match role {
        SecretRole::Pull | SecretRole::Ssh => is_controlled_by(copy, &bridge.uid),
        SecretRole::Kubeconfig => names::is_labelled(copy, key),
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
