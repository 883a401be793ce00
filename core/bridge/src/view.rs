//! The input of one decision about a bridge.

use lockstep_crds::bridge::DPFHCPBridgeSpec;
use lockstep_engine::action::{Class, Failure};
use lockstep_engine::conditions::Status;
use lockstep_engine::object::{Name, controller_uid, is_deleting, text};
use lockstep_engine::time::Now;
use serde_json::Value;

use super::dpucluster::Lookup;
use super::image::Checked;
use super::names::reason;
use super::secrets::{self, SecretRole, SecretState};
use super::source::Source;
use super::world::{Bridge, Memory, World, control_plane_namespace};

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
    pub world: &'a World,
    /// State about the bridge that no watch shows.
    pub memory: &'a Memory,
    /// The DPUCluster that it names.
    pub dpu_cluster: &'a Lookup<Value>,
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
        match self.world.find(source, self.key) {
            // The kind is not served, so there is no such object.
            Err(failure) if failure.class == Class::NotFound => OwnedObject::Absent,
            Err(failure) => OwnedObject::Unknown(failure),
            Ok(None) => OwnedObject::Absent,
            Ok(Some(object)) if controller_uid(object) != Some(&self.bridge.uid) => OwnedObject::Foreign,
            Ok(Some(object)) if is_deleting(object) => OwnedObject::Going,
            Ok(Some(object)) => OwnedObject::Ours(object),
        }
    }

    /// Returns the API server's Service, if HyperShift has created it.
    pub fn service(&self) -> Option<&'a Value> {
        let name = Name::new(&control_plane_namespace(self.key), super::names::API_SERVICE);
        self.world.find(Source::Services, &name).ok().flatten()
    }

    /// Returns the state of a Secret.
    pub fn secret(&self, role: SecretRole) -> SecretState<'a> {
        secrets::standing(self.world, self.memory, self.key, self.bridge, role)
    }

    /// Returns the registry's answer about the release image in the spec.
    pub fn checked_image(&self) -> Option<&'a Checked> {
        self.memory.image.as_ref().filter(|checked| checked.is_of(&self.spec.ocp_release_image))
    }

    /// Returns why existing objects can't be watched. A kind that is not served has no objects.
    pub fn refusal(&self, source: Source) -> Option<&'a Failure> {
        self.world.refusal(source).filter(|failure| failure.class != Class::NotFound)
    }

    /// Returns whether the bridge had a HostedCluster when HostedClusters could last be watched, and they can't be watched
    /// now.
    pub fn is_out_of_sight(&self) -> bool {
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

/// Returns the status, reason and message of a condition about objects that can't be watched.
pub fn unwatched(source: Source, failure: &Failure) -> (Status, &'static str, String) {
    let kind = source.kind();
    let mut message = format!("{}s can't be watched ({})", kind.kind, failure.message);
    if failure.class == Class::Forbidden {
        message = format!("{message}; grant the operator list and watch on {}", kind.plural);
    }
    (Status::Unknown, reason::WATCH_FAILED, message)
}

/// Returns a condition of an object of HyperShift.
pub fn condition<'a>(object: &'a Value, condition: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|entry| entry["type"] == condition)
}

/// Returns whether such a condition has a status.
pub fn is(object: &Value, name: &str, status: &str) -> bool {
    condition(object, name).is_some_and(|condition| condition["status"] == status)
}

/// Returns the reason and message of such a condition.
pub fn words(object: &Value, name: &str) -> String {
    let Some(condition) = condition(object, name) else { return format!("{name} is not reported yet") };
    let reason = condition["reason"].as_str().unwrap_or_default();
    match text(condition, "/message") {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    }
}
