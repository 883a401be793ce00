//! The greeter: the text of every Greeting hangs in the namespace `lobby`, as a `ConfigMap`.
//!
//! ```text
//!  Greeting team-a/hello ──▶ reconcile ──▶ `ConfigMap` lobby/team-a.hello, labelled example.com/made-by=greeter
//! ```
//!
//! An object can't own one in another namespace, so the garbage collector does not clean up. A finalizer does: it stays
//! until the `ConfigMap` was seen gone. What is left behind all the same, because a request took effect late, is told by its
//! label and goes as soon as its greeting is proven gone.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, Scope};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::cache::{Cache, Cached};
use lockstep_engine::driver::{Driver, Settings};
use lockstep_engine::machine::{Deadline, Event, Machine, Step};
use lockstep_engine::object::{Kind, ObjectRef, label, metadata, resource_version};
use lockstep_engine::time::Now;
use serde_json::Value;

use super::reconcile::Stage;

pub(crate) const NAME: &str = "greeter";
/// Where the texts hang.
pub(crate) const LOBBY: &str = "lobby";
pub(crate) const FINALIZER: &str = "example.com/greeter";
/// On every `ConfigMap` that the greeter made. Who takes it off takes the `ConfigMap` over.
pub(crate) const LABEL: &str = "example.com/made-by";
pub(crate) const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };

/// Namespace and name of a greeting.
pub(crate) type Key = (String, String);

pub(crate) fn greeting_kind() -> Arc<Kind> {
    Kind::known("example.com", "v1", "Greeting", "greetings", true)
}

pub(crate) fn config_map_kind() -> Arc<Kind> {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

/// The `ConfigMap` of a greeting. No namespace has a dot in its name, so no two greetings share one.
pub(crate) fn child(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::namespaced(&config_map_kind(), LOBBY, &format!("{namespace}.{name}"))
}

/// Whether the greeter made a `ConfigMap`.
pub(crate) fn is_ours(child: &Value) -> bool {
    label(child, LABEL) == Some(NAME)
}

/// The machine: the engine's driver, and what decides.
#[derive(Debug)]
pub(crate) struct Greeter {
    driver: Driver<Key, Stage>,
    world: World,
}

/// What watches have shown.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) greetings: Cache<Key, Seen>,
    /// The metadata of the `ConfigMaps` with our label, by their greeting.
    pub(crate) children: Cache<Key, Seen>,
}

#[derive(Debug)]
pub(crate) struct Seen(pub(crate) Arc<Value>);

impl Cached for Seen {
    type Index = ();

    fn resource_version(&self) -> u64 {
        resource_version(&self.0)
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}

impl World {
    fn cache(&mut self, kind: &Kind) -> &mut Cache<Key, Seen> {
        if kind.kind == "Greeting" { &mut self.greetings } else { &mut self.children }
    }
}

/// The greeting that an object belongs to; none if it belongs to none.
fn key_of(kind: &Kind, object: &Value) -> Option<Key> {
    let (namespace, name) = (metadata(object, "namespace"), metadata(object, "name"));
    let (namespace, name) = match &*kind.kind {
        "Greeting" => (namespace, name),
        _ if namespace == LOBBY => name.split_once('.')?,
        _ => return None,
    };
    Some((namespace.to_owned(), name.to_owned()))
}

impl Greeter {
    pub(crate) fn new(seed: u64) -> Self {
        let settings = Settings { concurrency: 2, resync: Duration::from_mins(10), backoff: BACKOFF, seed };
        Self { driver: Driver::new(settings), world: World::default() }
    }

    fn watches() -> [Action; 2] {
        let everything = Scope { selector: String::new(), metadata_only: false, ..Scope::default() };
        let ours = Scope { selector: format!("{LABEL}={NAME}"), metadata_only: true, ..Scope::default() };
        [
            Action::Watch { kind: greeting_kind(), scope: everything },
            Action::Watch { kind: config_map_kind(), scope: ours },
        ]
    }

    fn enqueue_all(&mut self) {
        let World { greetings, children } = &self.world;
        for (key, _) in greetings.iter().chain(children.iter()) {
            self.driver.enqueue(key.clone());
        }
    }
}

impl Machine for Greeter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let mut step = Step::default();
        match event {
            Event::Started => {
                let watches = Self::watches().map(|watch| self.driver.request(watch));
                step.requests.extend(watches);
            }
            Event::LeadershipChanged { leading } => {
                self.driver.set_leading(leading);
                self.enqueue_all();
            }
            Event::ListStarted { kind } => self.world.cache(&kind).start_list(),
            Event::ListCompleted { kind } => {
                for (key, _) in self.world.cache(&kind).complete_list() {
                    self.driver.enqueue(key);
                }
            }
            Event::Applied { kind, object } => {
                if let Some(key) = key_of(&kind, &object)
                    && self.world.cache(&kind).observe(key.clone(), Seen(object))
                {
                    self.driver.enqueue(key);
                }
            }
            Event::Deleted { kind, object } => {
                if let Some(key) = key_of(&kind, &object)
                    && self.world.cache(&kind).vanish(&key, resource_version(&object))
                {
                    self.driver.enqueue(key);
                }
            }
            Event::Finished { id, outcome } => {
                self.driver.finish(&mut self.world, id, outcome, now, &mut step);
            }
            Event::WatchFailed { .. } | Event::TimerFired => {}
        }
        if self.driver.is_resync_due(now) {
            self.enqueue_all();
        }
        if self.is_synced() {
            self.driver.run(&mut self.world, now, &mut step);
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        self.driver.deadline()
    }

    fn queue_depths(&self) -> Vec<(&'static str, usize)> {
        vec![("greeting", self.driver.waiting().count())]
    }

    fn is_synced(&self) -> bool {
        self.world.greetings.is_synced() && self.world.children.is_synced()
    }
}
