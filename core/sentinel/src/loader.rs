//! The configuration: as the watch showed it, and as it was loaded.

use std::sync::Arc;

use lockstep_crds::sentinel::{GROUP, SecretKeyRef, SentinelConfigStatus, VERSION};
use lockstep_engine::action::{ActionId, Success};
use lockstep_engine::object::{Kind, ResourceVersion, Uid};
use lockstep_engine::time::Monotonic;
use serde_json::Value;

use super::config::{Config, Target};
use super::metrics::Shard;

/// A loaded configuration.
#[derive(Debug, PartialEq)]
pub struct Loaded {
    /// The parsed configuration.
    pub config: Config,
    /// Its labels in metrics.
    pub shard: Shard,
    /// The generation of the object.
    pub generation: i64,
}

/// The object as the watch last showed it.
#[derive(Debug, Clone)]
pub struct Observed {
    pub(super) uid: Uid,
    pub(super) version: ResourceVersion,
    pub(super) generation: i64,
    pub(super) spec: Value,
    /// Its status, or the status that was written since.
    pub(super) status: SentinelConfigStatus,
}

impl Observed {
    /// Records a status write. What the watch showed before is outdated by it. What it showed since is not: another client
    /// may have written before the answer arrived.
    pub(super) fn written(&mut self, status: SentinelConfigStatus, answer: &Success) {
        if let Success::Object(object) = answer {
            let version = ResourceVersion::of(object);
            if version < self.version {
                return;
            }
            self.version = version;
        }
        self.status = status;
    }
}

/// The state of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Loader {
    pub(super) observed: Option<Observed>,
    pub(super) loaded: Option<Arc<Loaded>>,
    /// Whether the last list contained it.
    pub(super) was_listed: bool,
    /// What is wrong with it, and when that is reported again.
    pub(super) problem: Option<(String, Monotonic)>,
    /// The earliest time of the next read of the Secret.
    pub(super) secret_not_before: Monotonic,
    /// The read of the Secret in flight. Answers of earlier reads, which may show an older value, are ignored.
    pub(super) secret_read: Option<ActionId>,
    /// Whether the URL that was read last may have been replaced: a connection failed with it, or was lost.
    pub(super) is_secret_suspect: bool,
    /// Why the last read of the Secret failed. The URL that was read before stays in use.
    pub(super) secret_problem: Option<String>,
}

/// Returns the kind of configurations.
pub fn kind() -> Arc<Kind> {
    Kind::known(GROUP, VERSION, "SentinelConfig", "sentinelconfigs", true)
}

impl Loader {
    /// Returns when the next work is due.
    pub(super) fn next_due(&self) -> Option<Monotonic> {
        self.problem.as_ref().map(|(_, at)| *at)
    }

    /// Returns the Secret that the loaded configuration names.
    pub(super) fn secret(&self) -> Option<&SecretKeyRef> {
        match &self.loaded.as_ref()?.config.target {
            Target::InSecret { secret, .. } => Some(secret),
            Target::Known(_) => None,
        }
    }

    pub(super) fn generation(&self) -> i64 {
        self.observed.as_ref().map_or(0, |observed| observed.generation)
    }
}
