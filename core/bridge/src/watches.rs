//! Watches: every event updates the cached state, and enqueues the bridges that depend on it.
//!
//! Source: "DPFHCPBridge DPUCluster Validation".

use std::sync::Arc;

use lockstep_crds::bridge::CONTROLLER;
use lockstep_engine::action::{Action, Failure, Scope, WatchCommand};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Metric;
use lockstep_engine::object::{Kind, Name, ResourceVersion};
use lockstep_engine::operator::{Control, Outbox};
use lockstep_engine::recording::Traits;
use lockstep_engine::time::Now;
use serde_json::Value;

use super::controller::{Controller, RECONCILER};
use super::model::bridge::Bridge;
use super::model::source::Source;
use super::recording::TRAITS;
use super::store::{Seen, Store};
use super::{metrics, names, retry};

impl Control for Controller {
    const NAME: &'static str = CONTROLLER;
    const BACKOFF: Backoff = retry::BACKOFF;
    const RECONCILERS: &'static [&'static str] = &[RECONCILER];
    const METRICS: &'static [Metric] = metrics::ALL;
    const TRAITS: Traits = TRAITS;

    fn new(outbox: Outbox<Name>) -> Self {
        Self { store: Store::default(), outbox }
    }

    fn outbox(&mut self) -> &mut Outbox<Name> {
        &mut self.outbox
    }

    fn keys(&self) -> Vec<Name> {
        self.store.bridges.iter().map(|(name, _)| name.clone()).collect()
    }

    fn is_synced(&self) -> bool {
        self.store.is_synced()
    }

    fn start(&mut self) {
        self.outbox
            .requests
            .push(Action::Watch(WatchCommand::Start { kind: names::bridge(), scope: Scope::default() }));
        for source in Source::ALL {
            self.store.watched.entry(source).or_default();
            self.outbox
                .requests
                .push(Action::Watch(WatchCommand::Start { kind: source.kind(), scope: source.scope() }));
        }
    }

    fn list_started(&mut self, kind: &Arc<Kind>) {
        match Source::of(kind) {
            None => self.store.bridges.start_list(),
            Some(source) => self.store.watched.entry(source).or_default().cache.start_list(),
        }
    }

    fn list_completed(&mut self, kind: &Arc<Kind>) {
        let Some(source) = Source::of(kind) else {
            for (name, bridge) in self.store.bridges.complete_list() {
                self.wake_rivals(Some(&bridge));
                self.forget(&name);
            }
            if self.store.refusals.end() {
                self.wake_all();
            }
            return;
        };
        let watched = self.store.watched.entry(source).or_default();
        let was_unsettled = !watched.cache.is_synced() || watched.refused.is_some();
        watched.refused = None;
        watched.unserved.end(&());
        watched.failing.end();
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
            let before = self.store.bridges.get(&name).cloned();
            let is_unchanged = before.as_ref().is_some_and(|before| before.is_same(&bridge));
            if self.store.bridges.observe(name.clone(), bridge) && !is_unchanged {
                self.wake_rivals(before.as_ref());
                self.wake_rivals(self.store.bridges.get(&name).cloned().as_ref());
                self.outbox.woken.push(name);
            }
            return;
        };
        let Some(trimmed) = source.trim(object) else {
            return self.vanished(kind, object);
        };
        let watched = self.store.watched.entry(source).or_default();
        let before = watched.cache.get(&name).map(|seen| Arc::clone(&seen.object));
        let is_unchanged = before.as_deref() == Some(&trimmed);
        if watched.cache.observe(name.clone(), Seen::new(trimmed, ResourceVersion::of(object)))
            && !is_unchanged
        {
            self.wake(source, &name, before.as_deref(), Some(object));
        }
    }

    fn vanished(&mut self, kind: &Arc<Kind>, object: &Value) {
        let (name, version) = (Name::of(object), ResourceVersion::of(object));
        let Some(source) = Source::of(kind) else {
            let before = self.store.bridges.get(&name).cloned();
            if self.store.bridges.vanish(&name, version) {
                self.wake_rivals(before.as_ref());
                self.forget(&name);
            }
            return;
        };
        let watched = self.store.watched.entry(source).or_default();
        let before = watched.cache.get(&name).map(|seen| Arc::clone(&seen.object));
        if watched.cache.vanish(&name, version) && before.is_some() {
            self.wake(source, &name, before.as_deref(), None);
        }
    }

    fn watch_failed(&mut self, kind: &Arc<Kind>, failure: Failure, now: Now) {
        let is_reported = match Source::of(kind) {
            None => self.store.refuse_bridges(failure),
            Some(source) => self.store.refuse(source, failure, now.monotonic),
        };
        if is_reported {
            self.wake_all();
        }
    }
}
