//! The cached state of the cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::cache::{Cache, Cached};
use lockstep_engine::doubts::Doubts;
use lockstep_engine::object::{Name, ResourceVersion, Uid};
use lockstep_engine::pairs;
use lockstep_engine::refusals::Refusals;
use lockstep_engine::repair_backoff::RepairBackoff;
use lockstep_engine::time::Monotonic;
use lockstep_engine::unconfirmed::Unconfirmed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model::address_request::AddressRequest;
use super::model::bridge::{Bridge, Index};
use super::model::cleanup_target::CleanupTarget;
use super::model::encryption_key::Measured;
use super::model::image::Checked;
use super::model::managed_object::Written;
use super::model::secret::{SecretRole, Verified};
use super::model::service;
use super::model::source::Source;

pub mod addresses;
pub mod pools;

/// Everything that watches and answers have shown.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Store {
    /// The bridges.
    pub bridges: Cache<Name, Bridge>,
    /// The refused watches of bridges.
    pub refusals: Refusals,
    /// The objects that bridges depend on or create.
    #[serde(with = "pairs")]
    pub watched: BTreeMap<Source, Watched>,
    /// The conditions of status writes that ended without an answer.
    #[serde(default)]
    pub unconfirmed: Unconfirmed<Name>,
    /// State about single bridges that no watch shows.
    #[serde(with = "pairs")]
    pub memories: BTreeMap<Name, Memory>,
}

/// The objects of one source, and the state of their watch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Watched {
    /// The objects, trimmed.
    pub cache: Cache<Name, Seen>,
    /// Why they can't be watched.
    pub refused: Option<Failure>,
    /// Since when they are said not to be served.
    #[serde(default)]
    pub unserved: Doubts<()>,
    /// The failures of the first list.
    #[serde(default)]
    pub failing: Refusals,
}

/// State about a bridge that no watch shows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Secrets that were read and compared with their copies.
    #[serde(with = "pairs")]
    pub secrets: BTreeMap<SecretRole, Verified>,
    /// The size of the key for etcd.
    #[serde(default)]
    pub key: Option<Measured>,
    /// The registry's answer about the release image.
    pub image: Option<Checked>,
    /// The last request to MetalLB for a free address.
    pub asked: Option<AddressRequest>,
    /// The number of writes of the HostedCluster that have failed since the last one that succeeded.
    #[serde(default)]
    pub cluster_failures: u32,
    /// The objects that were written repeatedly, because another client changes them.
    #[serde(default)]
    pub repairs: RepairBackoff<Written>,
    /// The objects of the deleted bridge that it must not remove.
    #[serde(default)]
    pub forbidden: Doubts<CleanupTarget>,
    /// The objects of the deleted bridge whose kinds are said not to be served.
    #[serde(default)]
    pub unserved: Doubts<CleanupTarget>,
    /// What was announced of the status.
    #[serde(default)]
    pub announced: Option<Announced>,
}

/// What is announced when it changes in the status of a bridge, beside the conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// Identifies the bridge: another one may have the name later.
    pub uid: Uid,
    /// The phase.
    pub phase: Option<String>,
    /// The generation of the spec.
    pub generation: i64,
}

impl Announced {
    /// Returns what the status of a bridge contains.
    pub fn of(bridge: &Bridge) -> Self {
        let status = &bridge.status;
        Self { uid: bridge.uid.clone(), phase: status.phase.clone(), generation: status.observed_generation }
    }
}

/// An object, reduced to its relevant fields.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seen {
    /// The object, trimmed by [`Source::trim`].
    pub object: Arc<Value>,
    version: ResourceVersion,
}

impl Seen {
    /// Returns an object that was trimmed.
    pub fn new(object: Value, version: ResourceVersion) -> Self {
        Self { object: Arc::new(object), version }
    }
}

impl Cached for Seen {
    /// An address that a Service has, or requests.
    type Index = IpAddr;

    fn resource_version(&self) -> ResourceVersion {
        self.version
    }

    fn indexes(&self) -> Vec<IpAddr> {
        service::addresses(&self.object)
    }
}

impl Store {
    /// Returns an object, if it exists. An error is the reason why that is unknown.
    pub fn find(&self, source: Source, name: &Name) -> Result<Option<&Value>, &Failure> {
        let Some(watched) = self.watched.get(&source) else { return Ok(None) };
        match &watched.refused {
            Some(failure) => Err(failure),
            None => Ok(watched.cache.get(name).map(|seen| &*seen.object)),
        }
    }

    /// Returns all cached objects of a source.
    pub fn all(&self, source: Source) -> impl Iterator<Item = (&Name, &Value)> {
        let caches = self.watched.get(&source).into_iter();
        caches.flat_map(|watched| watched.cache.iter().map(|(name, seen)| (name, &*seen.object)))
    }

    /// Returns the Services that have, or request, an address.
    pub fn users<'a>(&'a self, address: &IpAddr) -> impl Iterator<Item = &'a Name> + use<'a> {
        let services = self.watched.get(&Source::Services);
        services.map(|watched| watched.cache.keys_by(address)).into_iter().flatten()
    }

    /// Returns why a source can't be watched.
    pub fn refusal(&self, source: Source) -> Option<&Failure> {
        self.watched.get(&source)?.refused.as_ref()
    }

    /// Returns whether all kinds that decisions need have been listed, or can't be.
    pub fn is_synced(&self) -> bool {
        let is_settled = |source: &Source| {
            let watched = self.watched.get(source);
            watched.is_some_and(|watched| watched.cache.is_synced() || watched.refused.is_some())
        };
        self.bridges.is_synced() && Source::ALL.iter().all(is_settled)
    }

    /// Stores the answer to a read or write of ours. Returns the previous object, if the object has changed.
    pub fn absorb(&mut self, source: Source, object: &Value) -> Option<Option<Arc<Value>>> {
        let trimmed = source.trim(object)?;
        let watched = self.watched.get_mut(&source).filter(|watched| watched.refused.is_none())?;
        let name = Name::of(object);
        let before = watched.cache.get(&name).map(|seen| Arc::clone(&seen.object));
        let is_unchanged = before.as_deref() == Some(&trimmed);
        let is_newer = watched.cache.absorb(name, Seen::new(trimmed, ResourceVersion::of(object)));
        (is_newer && !is_unchanged).then_some(before)
    }

    /// Returns whether a kind is not served, and so has no objects.
    pub fn is_unserved(&self, source: Source) -> bool {
        self.watched.get(&source).is_some_and(|watched| watched.unserved.is_believed(&()))
    }

    /// Records that a watch failed. A kind that can't be listed at all is reported, and not waited for. Returns whether this
    /// changed the recorded state.
    pub fn refuse(&mut self, source: Source, failure: Failure, now: Monotonic) -> bool {
        let watched = self.watched.entry(source).or_default();
        let was_unserved = watched.unserved.is_believed(&());
        let is_unserved = failure.class == ErrorKind::KindNotServed && watched.unserved.believes((), now);
        if failure.class != ErrorKind::KindNotServed {
            watched.unserved.end(&());
        }
        let is_refusal = matches!(failure.class, ErrorKind::Forbidden | ErrorKind::KindNotServed);
        let is_known = watched.refused.as_ref().is_some_and(|before| before.class == failure.class);
        let mut fails_from_the_start =
            || !watched.cache.is_synced() && watched.failing.count_of_first_list(&failure);
        if is_known || !(is_refusal || fails_from_the_start()) {
            return was_unserved != is_unserved;
        }
        watched.refused = Some(failure);
        true
    }

    /// Counts a refused watch of bridges. Without their CRD there are no bridges that could report it. Returns whether it is now to be
    /// reported.
    pub fn refuse_bridges(&mut self, failure: Failure) -> bool {
        matches!(failure.class, ErrorKind::Forbidden | ErrorKind::Invalid) && self.refusals.count(failure)
    }

    /// Returns the bridge that has precedence for the same index value, if it is not this one.
    pub fn rival(&self, index: &Index, key: &Name) -> Option<&Name> {
        let bridge = self.bridges.get(key)?;
        let rivals = self.bridges.keys_by(index).filter(|rival| *rival != key);
        let mut rivals = rivals.filter_map(|rival| Some((rival, self.bridges.get(rival)?)));
        rivals.find(|(_, rival)| rival.is_older(bridge)).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_list_that_fails_is_reported_at_the_third_time_and_a_refusal_at_once() {
        let mut store = Store::default();
        let mut fails =
            |class: ErrorKind| store.refuse(Source::Secrets, Failure::new(class, "no"), Monotonic::START);
        let classes =
            [ErrorKind::Unavailable, ErrorKind::Throttled, ErrorKind::Unavailable, ErrorKind::Unknown];
        assert_eq!(classes.map(&mut fails), [false, false, false, true]);
        assert!(!fails(ErrorKind::Unknown), "it is reported already");
        assert!(fails(ErrorKind::Unavailable), "the latest counts");
        assert!(fails(ErrorKind::Forbidden));
    }
}
