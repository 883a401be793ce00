//! The state of the controller, and the bridges that each change enqueues: only those that depend on it.
//!
//! Source: "Field Indexing".

use std::collections::BTreeSet;
use std::net::IpAddr;

use lockstep_engine::cache::Cached as _;
use lockstep_engine::machine::Note;
use lockstep_engine::object::{Name, is_deleting};
use lockstep_engine::operator::Outbox;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model::bridge::{Bridge, Index};
use super::model::hosted_cluster::uses_load_balancer;
use super::model::service;
use super::model::source::Source;
use super::names::{API_SERVICE, api_server_service, control_plane_namespace};
use super::store::{Memory, Store};

/// The name of the reconciler, in logs and metrics.
pub(super) const RECONCILER: &str = "bridge";

/// The decisions of the Bridge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Controller {
    /// The cached state of the cluster.
    pub(super) store: Store,
    /// Requests, notes, and the keys to enqueue.
    pub(super) outbox: Outbox<Name>,
}

impl Controller {
    /// Stores the answer to a read or write for a bridge. The later watch event will not enqueue anything, because the object
    /// is cached then. So the other bridges that depend on it are enqueued now.
    pub(super) fn absorb(&mut self, key: &Name, source: Source, object: &Value) {
        if let Some(before) = self.store.absorb(source, object) {
            let woken = self.outbox.woken.len();
            self.wake(source, &Name::of(object), before.as_deref(), Some(object));
            let others = self.outbox.woken.split_off(woken);
            self.outbox.woken.extend(others.into_iter().filter(|other| other != key));
        }
    }

    /// Enqueues all bridges.
    pub(super) fn wake_all(&mut self) {
        self.outbox.woken.extend(self.store.bridges.iter().map(|(name, _)| name.clone()));
    }

    /// Removes what was read for a bridge that is gone, and enqueues it. What was announced of it stays until its finalizer is removed:
    /// an outdated list may hide a bridge that exists, and its next phase is announced nevertheless.
    pub(super) fn forget(&mut self, name: &Name) {
        if let Some(memory) = self.store.memories.get_mut(name) {
            *memory = Memory { announced: memory.announced.take(), ..Memory::default() };
        }
        self.outbox.woken.push(name.clone());
    }

    fn wake_by(&mut self, index: &Index) {
        self.outbox.woken.extend(self.store.bridges.keys_by(index).cloned());
    }

    /// Enqueues the bridges that wait for objects or addresses of this bridge.
    pub(super) fn wake_rivals(&mut self, bridge: Option<&Bridge>) {
        for index in bridge.map(Bridge::indexes).unwrap_or_default() {
            if let Index::Vip(address) = &index {
                // Bridges that can't have it keep their current address, which others may request.
                self.wake_wanting(address.parse::<IpAddr>().into_iter().collect());
            } else if matches!(index, Index::DpuCluster(_) | Index::ControlPlane(_)) {
                self.wake_by(&index);
            }
        }
        if let Some(bridge) = bridge {
            self.wake_waiting_for(&Name::of(&bridge.metadata));
        }
    }

    /// Enqueues the bridges that request the addresses of a bridge. Whether it changes its address decides whether they can
    /// have them.
    fn wake_waiting_for(&mut self, bridge: &Name) {
        self.wake_wanting(self.held_by(bridge));
    }

    /// Returns the addresses that the Service of a bridge has, or requests.
    fn held_by(&self, bridge: &Name) -> Vec<IpAddr> {
        let found = self.store.find(Source::Services, &api_server_service(bridge)).ok().flatten();
        found.map(service::addresses).unwrap_or_default()
    }

    /// Enqueues the bridges that request one of these addresses, those that request what such a bridge would release, and so
    /// on.
    fn wake_wanting(&mut self, mut addresses: Vec<IpAddr>) {
        let mut seen = BTreeSet::new();
        while let Some(address) = addresses.pop() {
            if !seen.insert(address) {
                continue;
            }
            let wanting = self.store.bridges.keys_by(&Index::Vip(address.to_string()));
            let wanting: Vec<Name> = wanting.cloned().collect();
            addresses.extend(wanting.iter().flat_map(|bridge| self.held_by(bridge)));
            self.outbox.woken.extend(wanting);
        }
    }

    /// Returns the bridges that ask for a load balancer, but have a HostedCluster with node ports: that can't be changed.
    fn keeping_node_ports(&self) -> impl Iterator<Item = &Name> {
        let keeps = move |bridge: &&Name| {
            let cluster = self.store.find(Source::HostedClusters, bridge).ok().flatten();
            cluster.is_some_and(|cluster| !uses_load_balancer(cluster))
        };
        self.store.bridges.keys_by(&Index::LoadBalancer(true)).filter(keeps)
    }

    /// Enqueues the bridges that depend on an object that has changed.
    pub(super) fn wake(
        &mut self,
        source: Source,
        name: &Name,
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        match source {
            Source::DpuClusters => {
                let index = Index::DpuCluster(name.clone());
                let bridges: Vec<Name> = self.store.bridges.keys_by(&index).cloned().collect();
                let message = format!("Field index lookup for DPUCluster: {} DPFHCPBridges", bridges.len());
                let objects = vec![name.object(&source.kind())];
                self.outbox.notes.push(Note::Log { debug: true, message, objects });
                self.wake_by(&index);
                for bridge in bridges {
                    self.wake_waiting_for(&bridge);
                }
            }
            Source::HostedClusters | Source::NodePools => {
                if self.store.bridges.get(name).is_some() {
                    self.outbox.woken.push(name.clone());
                }
                // Bridges that would have the same namespace for their control plane wait until it is gone.
                if source == Source::HostedClusters && before.is_some() != after.is_some() {
                    self.wake_by(&Index::ControlPlane(control_plane_namespace(name)));
                }
                // Without a HostedCluster, or while it is being deleted, its bridge can't change its address.
                let stays = |object: Option<&Value>| object.is_some_and(|object| !is_deleting(object));
                if source == Source::HostedClusters && stays(before) != stays(after) {
                    self.wake_waiting_for(name);
                }
            }
            Source::Secrets => self.wake_by(&Index::Secret(name.clone())),
            Source::StorageClasses => self.wake_by(&Index::StorageClass(name.name.clone())),
            Source::Pools => self.wake_by(&Index::LoadBalancer(true)),
            Source::Advertisements => self.wake_by(&Index::OwnPool(name.clone())),
            Source::Nodes => {
                self.wake_by(&Index::LoadBalancer(false));
                let keeping: Vec<Name> = self.keeping_node_ports().cloned().collect();
                self.outbox.woken.extend(keeping);
            }
            Source::Services => {
                if name.name == API_SERVICE {
                    self.wake_by(&Index::ControlPlane(name.namespace.clone()));
                }
                let services = [before, after].into_iter().flatten();
                self.wake_wanting(services.flat_map(service::addresses).collect());
            }
            Source::Operator | Source::Versions => self.wake_all(),
        }
    }
}
