//! The state of a pass.

use std::collections::BTreeSet;

use lockstep_engine::action::Failure;
use lockstep_engine::object::Name;
use lockstep_engine::time::{Monotonic, Now};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::Lookup;
use crate::model::bridge::Bridge;
use crate::model::managed_object::{ManagedObject, Written};
use crate::model::namespace::NamespaceState;
use crate::model::source::Source;
use crate::snapshot::BridgeSnapshot;
use crate::store::{Memory, Store};

/// The state of a pass.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReconcileProgress {
    /// When the pass began.
    pub began: Monotonic,
    /// The DPUCluster, if it had to be read.
    pub dpu_cluster: Option<Lookup<Value>>,
    /// The namespace of the control plane, if it was read.
    #[serde(default)]
    pub namespace: Option<Result<NamespaceState, Failure>>,
    /// Whether the key for etcd was missing before the pass read the HostedCluster. A key that vanishes later may be that of a
    /// HostedCluster that another process has created in the meantime.
    #[serde(default)]
    pub lacks_key: bool,
    /// The objects that could not be read or written.
    pub failures: Vec<(ManagedObject, Failure)>,
    /// The objects that were written, or could not be.
    pub written: BTreeSet<ManagedObject>,
    /// What was written.
    #[serde(default)]
    pub repaired: Vec<Written>,
    /// What could not be written.
    #[serde(default)]
    pub refused: Vec<Written>,
    /// When the next write that waits is due: another client changes its object.
    #[serde(default)]
    pub postponed: Option<Monotonic>,
    /// The number of status writes.
    pub reports: u32,
}

impl ReconcileProgress {
    /// Returns the state at the begin of a pass.
    pub fn begin(now: Now) -> Self {
        Self { began: now.monotonic, ..Self::default() }
    }

    /// Calls a function with the snapshot of a bridge; `None` if the bridge is gone or can't be parsed.
    pub fn with_snapshot<T>(
        &self,
        store: &Store,
        key: &Name,
        now: Now,
        decide: impl FnOnce(&BridgeSnapshot<'_>) -> T,
    ) -> Option<T> {
        let bridge = store.bridges.get(key)?;
        let spec = bridge.spec.as_ref().ok()?;
        let nothing = Memory::default();
        let memory = store.memories.get(key).unwrap_or(&nothing);
        let dpu_cluster = self.dpu_cluster(store, bridge);
        Some(decide(&BridgeSnapshot {
            key,
            bridge,
            spec,
            store,
            memory,
            dpu_cluster: &dpu_cluster,
            namespace: self.namespace.as_ref(),
            failures: &self.failures,
            now,
        }))
    }

    /// Returns the DPUCluster of a bridge, as it was read in this pass or is watched.
    pub fn dpu_cluster(&self, store: &Store, bridge: &Bridge) -> Lookup<Value> {
        match (&self.dpu_cluster, &bridge.dpu_cluster) {
            (Some(read), _) => read.clone(),
            (None, None) => Ok(None),
            (None, Some(name)) => {
                store.find(Source::DpuClusters, name).map(Option::<&Value>::cloned).map_err(Clone::clone)
            }
        }
    }
}
