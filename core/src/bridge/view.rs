//! All that one decision about a bridge looks at.

use lockstep_crds::bridge::DPFHCPBridgeSpec;
use serde_json::Value;

use super::dpucluster::Lookup;
use super::image::Checked;
use super::names::reason;
use super::secrets::{self, SecretRole, SecretState};
use super::source::Source;
use super::world::{Bridge, Memory, World, control_plane_namespace};
use crate::engine::action::{Class, Failure};
use crate::engine::conditions::Status;
use crate::object::{Name, controller_uid, is_deleting, text};
use crate::time::Now;

/// A bridge in its world.
#[derive(Debug, Clone, Copy)]
pub struct BridgeSnapshot<'a> {
    /// The bridge's name.
    pub key: &'a Name,
    /// The bridge.
    pub bridge: &'a Bridge,
    /// What it asks for.
    pub spec: &'a DPFHCPBridgeSpec,
    /// What is known of the cluster.
    pub world: &'a World,
    /// What was found out about the bridge besides.
    pub memory: &'a Memory,
    /// The DPUCluster that it names.
    pub dpu_cluster: &'a Lookup<Value>,
    /// The time.
    pub now: Now,
}

/// How an object of the bridge's name stands to it.
#[derive(Debug, Clone, Copy)]
pub enum OwnedObject<'a> {
    /// There is none.
    Absent,
    /// Nobody knows.
    Unknown(&'a Failure),
    /// Somebody else has one of that name.
    Foreign,
    /// It is on its way out.
    Going,
    /// It is the bridge's.
    Ours(&'a Value),
}

impl<'a> BridgeSnapshot<'a> {
    /// The HostedCluster.
    pub fn hosted_cluster(&self) -> OwnedObject<'a> {
        self.own(Source::HostedClusters)
    }

    /// The NodePool.
    pub fn node_pool(&self) -> OwnedObject<'a> {
        self.own(Source::NodePools)
    }

    fn own(&self, source: Source) -> OwnedObject<'a> {
        match self.world.find(source, self.key) {
            // There is no such kind, and so no such object.
            Err(failure) if failure.class == Class::NotFound => OwnedObject::Absent,
            Err(failure) => OwnedObject::Unknown(failure),
            Ok(None) => OwnedObject::Absent,
            Ok(Some(object)) if controller_uid(object) != Some(&self.bridge.uid) => OwnedObject::Foreign,
            Ok(Some(object)) if is_deleting(object) => OwnedObject::Going,
            Ok(Some(object)) => OwnedObject::Ours(object),
        }
    }

    /// The API server's Service, if HyperShift has made it.
    pub fn service(&self) -> Option<&'a Value> {
        let name = Name::new(&control_plane_namespace(self.key), super::names::API_SERVICE);
        self.world.find(Source::Services, &name).ok().flatten()
    }

    /// How a Secret stands.
    pub fn secret(&self, role: SecretRole) -> SecretState<'a> {
        secrets::standing(self.world, self.memory, self.key, self.bridge, role)
    }

    /// What the registry said of the release image that is asked for.
    pub fn checked_image(&self) -> Option<&'a Checked> {
        self.memory.image.as_ref().filter(|checked| checked.is_of(&self.spec.ocp_release_image))
    }

    /// Why objects that exist can't be watched. Of a kind that is not served there are none.
    pub fn refusal(&self, source: Source) -> Option<&'a Failure> {
        self.world.refusal(source).filter(|failure| failure.class != Class::NotFound)
    }

    /// Whether the bridge had a HostedCluster when HostedClusters could be watched last, and they can't be watched now.
    pub fn is_out_of_sight(&self) -> bool {
        self.bridge.status.hosted_cluster_ref.is_some()
            && matches!(self.hosted_cluster(), OwnedObject::Unknown(_))
    }

    /// The DPUCluster, if it is known to exist.
    pub fn dpu_cluster(&self) -> Option<&'a Value> {
        self.dpu_cluster.as_ref().ok()?.as_ref()
    }
}

impl<'a> OwnedObject<'a> {
    /// The object, if it is the bridge's.
    pub fn ours(self) -> Option<&'a Value> {
        match self {
            Self::Ours(object) => Some(object),
            Self::Absent | Self::Unknown(_) | Self::Foreign | Self::Going => None,
        }
    }
}

/// What a condition says that is judged from objects which can't be watched.
pub fn unwatched(source: Source, failure: &Failure) -> (Status, &'static str, String) {
    let kind = source.kind();
    let mut message = format!("{}s can't be watched ({})", kind.kind, failure.message);
    if failure.class == Class::Forbidden {
        message = format!("{message}; grant the operator list and watch on {}", kind.plural);
    }
    (Status::Unknown, reason::WATCH_FAILED, message)
}

/// A condition of an object of HyperShift.
pub fn condition<'a>(object: &'a Value, condition: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|entry| entry["type"] == condition)
}

/// Whether such a condition has a status.
pub fn is(object: &Value, name: &str, status: &str) -> bool {
    condition(object, name).is_some_and(|condition| condition["status"] == status)
}

/// What such a condition says.
pub fn words(object: &Value, name: &str) -> String {
    let Some(condition) = condition(object, name) else { return format!("{name} is not reported yet") };
    let reason = condition["reason"].as_str().unwrap_or_default();
    match text(condition, "/message") {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    }
}
