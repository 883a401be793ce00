//! Maps watch events to bridges: each event enqueues only the bridges that depend on it.
//!
//! Source: "DPFHCPBridge DPUCluster Validation", "Field Indexing".

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use lockstep_crds::bridge::CONTROLLER;
use lockstep_engine::action::{Action, Failure, Scope};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::cache::Cached as _;
use lockstep_engine::machine::{Metric, Note};
use lockstep_engine::object::{Kind, Name, is_deleting, resource_version};
use lockstep_engine::operator::{Control, Outbox};
use lockstep_engine::recording::Traits;
use serde_json::Value;

use super::names::{self, API_SERVICE};
use super::recording::TRAITS;
use super::source::Source;
use super::vip;
use super::world::{Bridge, Index, Seen, World};
use super::{BACKOFF, Controller, RECONCILER, metrics};

impl Control for Controller {
    const NAME: &'static str = CONTROLLER;
    const BACKOFF: Backoff = BACKOFF;
    const RECONCILERS: &'static [&'static str] = &[RECONCILER];
    const METRICS: &'static [Metric] = metrics::ALL;
    const TRAITS: Traits = TRAITS;

    fn new(outbox: Outbox<Name>) -> Self {
        Self { world: World::default(), outbox }
    }

    fn outbox(&mut self) -> &mut Outbox<Name> {
        &mut self.outbox
    }

    fn keys(&self) -> Vec<Name> {
        self.world.bridges.iter().map(|(name, _)| name.clone()).collect()
    }

    fn is_synced(&self) -> bool {
        self.world.is_synced()
    }

    fn start(&mut self) {
        self.outbox.requests.push(Action::Watch { kind: names::bridge(), scope: Scope::default() });
        for source in Source::ALL {
            self.world.watched.entry(source).or_default();
            self.outbox.requests.push(Action::Watch { kind: source.kind(), scope: source.scope() });
        }
    }

    fn list_started(&mut self, kind: &Arc<Kind>) {
        match Source::of(kind) {
            None => self.world.bridges.start_list(),
            Some(source) => self.world.watched.entry(source).or_default().cache.start_list(),
        }
    }

    fn list_completed(&mut self, kind: &Arc<Kind>) {
        let Some(source) = Source::of(kind) else {
            for (name, bridge) in self.world.bridges.complete_list() {
                self.wake_rivals(Some(&bridge));
                self.forget(&name);
            }
            return;
        };
        let watched = self.world.watched.entry(source).or_default();
        let was_unsettled = !watched.cache.is_synced() || watched.refused.is_some();
        watched.refused = None;
        for (name, seen) in watched.cache.complete_list() {
            self.wake(source, &name, Some(&seen.object), None);
        }
        if was_unsettled {
            self.wake_all();
        }
    }

    fn observed(&mut self, kind: &Arc<Kind>, object: &Arc<Value>) {
        let name = Name::of(object);
        let Some(source) = Source::of(kind) else {
            let bridge = Bridge::read(object);
            let before = self.world.bridges.get(&name).cloned();
            let is_told = before.as_ref().is_some_and(|before| before.is_same(&bridge));
            if self.world.bridges.observe(name.clone(), bridge) && !is_told {
                self.wake_rivals(before.as_ref());
                self.wake_rivals(self.world.bridges.get(&name).cloned().as_ref());
                self.outbox.woken.push(name);
            }
            return;
        };
        let Some(trimmed) = source.trim(object) else {
            return self.vanished(kind, object);
        };
        let watched = self.world.watched.entry(source).or_default();
        let before = watched.cache.get(&name).map(|seen| Arc::clone(&seen.object));
        let is_told = before.as_deref() == Some(&trimmed);
        if watched.cache.observe(name.clone(), Seen::new(trimmed, resource_version(object))) && !is_told {
            self.wake(source, &name, before.as_deref(), Some(object));
        }
    }

    fn vanished(&mut self, kind: &Arc<Kind>, object: &Value) {
        let (name, version) = (Name::of(object), resource_version(object));
        let Some(source) = Source::of(kind) else {
            let before = self.world.bridges.get(&name).cloned();
            if self.world.bridges.vanish(&name, version) {
                self.wake_rivals(before.as_ref());
                self.forget(&name);
            }
            return;
        };
        let watched = self.world.watched.entry(source).or_default();
        let before = watched.cache.get(&name).map(|seen| Arc::clone(&seen.object));
        if watched.cache.vanish(&name, version) && before.is_some() {
            self.wake(source, &name, before.as_deref(), None);
        }
    }

    fn watch_failed(&mut self, kind: &Arc<Kind>, failure: Failure) {
        if let Some(source) = Source::of(kind)
            && self.world.refuse(source, failure)
        {
            self.wake_all();
        }
    }
}

impl Controller {
    /// Stores the answer to a read or write for a bridge. The later watch event will not enqueue anything, because the object
    /// is cached then. So the other bridges that depend on it are enqueued now.
    pub(super) fn absorb(&mut self, key: &Name, source: Source, object: &Value) {
        if let Some(before) = self.world.absorb(source, object) {
            let woken = self.outbox.woken.len();
            self.wake(source, &Name::of(object), before.as_deref(), Some(object));
            let others = self.outbox.woken.split_off(woken);
            self.outbox.woken.extend(others.into_iter().filter(|other| other != key));
        }
    }

    fn wake_all(&mut self) {
        self.outbox.woken.extend(self.world.bridges.iter().map(|(name, _)| name.clone()));
    }

    /// Removes the stored state of a deleted bridge.
    fn forget(&mut self, name: &Name) {
        self.world.memories.remove(name);
        self.outbox.woken.push(name.clone());
    }

    fn wake_by(&mut self, index: &Index) {
        self.outbox.woken.extend(self.world.bridges.keys_by(index).cloned());
    }

    /// Enqueues the bridges that wait for objects or addresses of this bridge.
    fn wake_rivals(&mut self, bridge: Option<&Bridge>) {
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
        let found = self.world.find(Source::Services, &vip::own_service(bridge)).ok().flatten();
        found.map(vip::addresses).unwrap_or_default()
    }

    /// Enqueues the bridges that request one of these addresses, those that request what such a bridge would release, and so
    /// on.
    fn wake_wanting(&mut self, mut addresses: Vec<IpAddr>) {
        let mut seen = BTreeSet::new();
        while let Some(address) = addresses.pop() {
            if !seen.insert(address) {
                continue;
            }
            let wanting = self.world.bridges.keys_by(&Index::Vip(address.to_string()));
            let wanting: Vec<Name> = wanting.cloned().collect();
            addresses.extend(wanting.iter().flat_map(|bridge| self.held_by(bridge)));
            self.outbox.woken.extend(wanting);
        }
    }

    fn wake(&mut self, source: Source, name: &Name, before: Option<&Value>, after: Option<&Value>) {
        match source {
            Source::DpuClusters => {
                let index = Index::DpuCluster(name.clone());
                let bridges: Vec<Name> = self.world.bridges.keys_by(&index).cloned().collect();
                let found = bridges.len();
                let message = format!("Field index lookup for DPUCluster {name}: {found} DPFHCPBridges");
                self.outbox.notes.push(Note::Log { debug: true, message });
                self.wake_by(&index);
                for bridge in bridges {
                    self.wake_waiting_for(&bridge);
                }
            }
            Source::HostedClusters | Source::NodePools => {
                if self.world.bridges.get(name).is_some() {
                    self.outbox.woken.push(name.clone());
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
            Source::Nodes => self.wake_by(&Index::LoadBalancer(false)),
            Source::Services => {
                if name.name == API_SERVICE {
                    self.wake_by(&Index::ControlPlane(name.namespace.clone()));
                }
                let services = [before, after].into_iter().flatten();
                self.wake_wanting(services.flat_map(vip::addresses).collect());
            }
            Source::Operator | Source::Versions => self.wake_all(),
        }
    }
}
