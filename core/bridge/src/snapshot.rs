//! The input of one decision about a bridge.

use std::net::IpAddr;

use lockstep_crds::bridge::DPFHCPBridgeSpec;
use lockstep_engine::action::Failure;
use lockstep_engine::object::{Name, is_controlled_by, is_deleting, metadata, text};
use lockstep_engine::time::{Monotonic, Now};
use serde_json::Value;

use super::model::Lookup;
use super::model::bridge::{Bridge, Index};
use super::model::encryption_key;
use super::model::hosted_cluster;
use super::model::image::Checked;
use super::model::managed_object::{ManagedObject, Written};
use super::model::namespace::NamespaceState;
use super::model::node;
use super::model::secret::SecretRole;
use super::model::source::Source;
use super::names::{api_server_service, is_labelled};
use super::store::{Memory, Store};

/// A bridge with all state that decisions need.
#[derive(Debug, Clone, Copy)]
pub struct BridgeSnapshot<'a> {
    /// The bridge's name.
    pub key: &'a Name,
    /// The bridge.
    pub bridge: &'a Bridge,
    /// Its spec.
    pub spec: &'a DPFHCPBridgeSpec,
    /// The cached state of the cluster.
    pub store: &'a Store,
    /// State about the bridge that no watch shows.
    pub memory: &'a Memory,
    /// The DPUCluster that it names.
    pub dpu_cluster: &'a Lookup<Value>,
    /// The namespace of the control plane, if it was read in this pass.
    pub namespace: Option<&'a Result<NamespaceState, Failure>>,
    /// The failures of this pass, with the objects that could not be read or written.
    pub failures: &'a [(ManagedObject, Failure)],
    /// The time.
    pub now: Now,
}

/// The state of an object of the bridge's name.
#[derive(Debug, Clone, Copy)]
pub enum OwnedObject<'a> {
    /// There is none.
    Absent,
    /// It can't be read.
    Unknown(&'a Failure),
    /// Another owner has an object of that name.
    Foreign,
    /// It is being deleted.
    Going,
    /// It is the bridge's.
    Ours(&'a Value),
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

/// The state of the Secret with the key for etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It does not exist.
    Missing,
    /// It can't be watched.
    Unknown,
    /// It belongs to another owner, and no HostedCluster uses it.
    Foreign,
    /// It has to be measured.
    Unread,
    /// It has no key of the right size.
    Bad,
    /// It has a key.
    Usable,
}

impl<'a> BridgeSnapshot<'a> {
    /// Returns the HostedCluster.
    pub fn hosted_cluster(&self) -> OwnedObject<'a> {
        self.own(Source::HostedClusters)
    }

    /// Returns the NodePool.
    pub fn node_pool(&self) -> OwnedObject<'a> {
        self.own(Source::NodePools)
    }

    fn own(&self, source: Source) -> OwnedObject<'a> {
        match self.store.find(source, self.key) {
            Err(_) if self.store.is_unserved(source) => OwnedObject::Absent,
            Err(failure) => OwnedObject::Unknown(failure),
            Ok(None) => OwnedObject::Absent,
            Ok(Some(object)) if !is_controlled_by(object, &self.bridge.uid) => OwnedObject::Foreign,
            Ok(Some(object)) if is_deleting(object) => OwnedObject::Going,
            Ok(Some(object)) => OwnedObject::Ours(object),
        }
    }

    /// Returns the name of the bridge's own IPAddressPool and L2Advertisement, and its address; `None` if it uses the pools of
    /// others.
    pub fn own_pool(&self) -> Option<(&'a Name, IpAddr)> {
        let uses_load_balancer = match self.hosted_cluster().ours() {
            Some(cluster) => hosted_cluster::uses_load_balancer(cluster),
            None => self.spec.expose_through_load_balancer,
        };
        let name = self.bridge.own_pool.as_ref().filter(|_| uses_load_balancer)?;
        Some((name, self.spec.metal_lb_virtual_ip.parse().ok()?))
    }

    /// Returns the state of the bridge's own IPAddressPool or L2Advertisement. Its labels show whether it is the bridge's.
    pub fn own_pool_object(&self, source: Source) -> Option<OwnedObject<'a>> {
        let name = self.bridge.own_pool.as_ref()?;
        Some(match self.store.find(source, name) {
            Err(failure) => OwnedObject::Unknown(failure),
            Ok(None) => OwnedObject::Absent,
            Ok(Some(object)) if !is_labelled(object, self.key) => OwnedObject::Foreign,
            Ok(Some(object)) if is_deleting(object) => OwnedObject::Going,
            Ok(Some(object)) => OwnedObject::Ours(object),
        })
    }

    /// Returns what was read of the control plane's namespace while there is no HostedCluster.
    pub fn namespace(&self) -> Option<&'a Result<NamespaceState, Failure>> {
        self.namespace.filter(|_| matches!(self.hosted_cluster(), OwnedObject::Absent))
    }

    /// Returns the API server's Service, if HyperShift has created it.
    pub fn service(&self) -> Option<&'a Value> {
        self.store.find(Source::Services, &api_server_service(self.key)).ok().flatten()
    }

    /// Returns the state of a Secret.
    pub fn secret(&self, role: SecretRole) -> SecretState<'a> {
        let source = match self.store.find(Source::Secrets, &role.source(self.key, self.spec)) {
            Err(failure) => return SecretState::Unknown(failure),
            Ok(None) => return SecretState::Missing,
            Ok(Some(source)) => source,
        };
        let copy = role.copy(self.key, self.bridge.dpu_cluster.as_ref());
        let copy = copy.and_then(|copy| self.store.find(Source::Secrets, &copy).ok().flatten());
        match self.memory.secrets.get(&role) {
            Some(known) if known.is_of(source, copy) => match &known.problem {
                Some(problem) => SecretState::Bad(problem),
                None if copy.is_some() => SecretState::Copied,
                None => SecretState::Unread,
            },
            _ => SecretState::Unread,
        }
    }

    /// Returns when a write may be repeated, if it has to wait because another client changes its object.
    pub fn repair_due(&self, written: &Written) -> Option<Monotonic> {
        let wait = self.memory.repairs.wait(written, self.now.monotonic)?;
        Some(self.now.monotonic + wait)
    }

    /// Returns when a Secret may be copied again, if that has to wait.
    pub fn copy_due(&self, role: SecretRole) -> Option<Monotonic> {
        if self.secret(role) != SecretState::Unread {
            return None;
        }
        let source = self.store.find(Source::Secrets, &role.source(self.key, self.spec)).ok().flatten()?;
        self.repair_due(&Written::copy(role, source))
    }

    /// Returns the state of the key for etcd; `None` if etcd is not encrypted, or the HostedCluster uses another key. The key of
    /// an existing HostedCluster may be one that a user has restored, without its owner.
    pub fn encryption_key(&self) -> Option<KeyState> {
        self.spec.etcd_encryption.as_ref()?;
        let cluster = self.hosted_cluster();
        if cluster.ours().is_some_and(|cluster| !encryption_key::is_used(cluster, self.key)) {
            return None;
        }
        let secret = match self.store.find(Source::Secrets, &encryption_key::secret(self.key)) {
            Err(_) => return Some(KeyState::Unknown),
            Ok(None) => return Some(KeyState::Missing),
            Ok(Some(secret)) => secret,
        };
        let is_ours = is_controlled_by(secret, &self.bridge.uid);
        if !is_ours && matches!(cluster, OwnedObject::Absent) {
            return Some(KeyState::Foreign);
        }
        Some(match self.memory.key.as_ref().and_then(|measured| measured.has_key(secret)) {
            None => KeyState::Unread,
            Some(false) => KeyState::Bad,
            Some(true) => KeyState::Usable,
        })
    }

    /// Returns whether HyperShift has created the kubeconfig: the Secret belongs to the HostedCluster, which names it.
    pub fn has_kubeconfig(&self) -> bool {
        let source = SecretRole::Kubeconfig.source(self.key, self.spec);
        let Some(cluster) = self.hosted_cluster().ours() else { return false };
        let Ok(Some(secret)) = self.store.find(Source::Secrets, &source) else { return false };
        let owners = secret["metadata"]["ownerReferences"].as_array();
        let is_theirs =
            owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == metadata(cluster, "uid")));
        is_theirs && text(cluster, "/status/kubeconfig/name") == Some(&source.name)
    }

    /// Returns the name of the kubeconfig that the DPUCluster uses.
    pub fn kubeconfig(&self) -> Option<&'a str> {
        text(self.dpu_cluster()?, "/spec/kubeconfig")
    }

    /// Returns the name of a kubeconfig in the DPUCluster that this bridge did not set.
    pub fn foreign_kubeconfig(&self) -> Option<&'a str> {
        let ours = SecretRole::Kubeconfig.copy(self.key, self.bridge.dpu_cluster.as_ref())?;
        self.kubeconfig().filter(|name| *name != ours.name)
    }

    /// Returns the other bridge that has set the kubeconfig of the DPUCluster, if one has. Without it the cluster of that bridge is cut
    /// off.
    pub fn connected_bridge(&self) -> Option<&'a Name> {
        let (theirs, dpu_cluster) = (self.foreign_kubeconfig()?, self.bridge.dpu_cluster.as_ref()?);
        let mut bridges = self.store.bridges.keys_by(&Index::DpuCluster(dpu_cluster.clone()));
        bridges.find(|bridge| {
            SecretRole::Kubeconfig.copy(bridge, Some(dpu_cluster)).is_some_and(|copy| copy.name == theirs)
        })
    }

    /// Returns the address of node ports: that of the first Node that has one.
    pub fn node_address(&self) -> Option<String> {
        self.store.all(Source::Nodes).find_map(|(_, node)| node::address(node))
    }

    /// Returns the failure to read or write an object in this pass.
    pub fn failure(&self, object: ManagedObject) -> Option<&'a Failure> {
        self.failures.iter().find(|(failed, _)| *failed == object).map(|(_, failure)| failure)
    }

    /// Returns the registry's answer about the release image in the spec.
    pub fn checked_image(&self) -> Option<&'a Checked> {
        self.memory.image.as_ref().filter(|checked| checked.is_of(&self.spec.ocp_release_image))
    }

    /// Returns why existing objects can't be watched. A kind that is not served has no objects.
    pub fn refusal(&self, source: Source) -> Option<&'a Failure> {
        self.store.refusal(source).filter(|_| !self.store.is_unserved(source))
    }

    /// Returns whether the bridge had a HostedCluster when HostedClusters could last be watched, and they can't be watched
    /// now.
    pub fn has_unwatchable_cluster(&self) -> bool {
        self.bridge.status.hosted_cluster_ref.is_some()
            && matches!(self.hosted_cluster(), OwnedObject::Unknown(_))
    }

    /// Returns the DPUCluster, if it is known to exist.
    pub fn dpu_cluster(&self) -> Option<&'a Value> {
        self.dpu_cluster.as_ref().ok()?.as_ref()
    }
}

impl<'a> OwnedObject<'a> {
    /// Returns the object, if it is the bridge's.
    pub fn ours(self) -> Option<&'a Value> {
        match self {
            Self::Ours(object) => Some(object),
            Self::Absent | Self::Unknown(_) | Self::Foreign | Self::Going => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{Fixture, NOW};

    /// Users may have a Secret of that name too.
    #[test]
    fn the_kubeconfig_is_a_secret_of_the_hosted_cluster_that_names_it() {
        let ours = json!([{ "uid": "other" }, { "uid": "cluster" }]);
        let name = Name::new("team", "a-admin-kubeconfig");
        for (owners, named, expected) in [
            (Some(&ours), "a-admin-kubeconfig", true),
            (Some(&ours), "another", false),
            (Some(&ours), "", false),
            (Some(&json!([{ "uid": "other" }])), "a-admin-kubeconfig", false),
            (Some(&json!(null)), "a-admin-kubeconfig", false),
            (None, "a-admin-kubeconfig", false),
        ] {
            let mut fixture = Fixture::new(&json!({}));
            fixture.cluster(NOW, &json!({ "kubeconfig": { "name": named } }));
            if let Some(owners) = owners {
                let secret = json!({ "metadata": { "uid": "s", "ownerReferences": owners } });
                fixture.see(Source::Secrets, &name, secret);
            }
            assert_eq!(fixture.snapshot().has_kubeconfig(), expected, "{owners:?} {named}");
        }
    }
}
