//! The NamespaceClass operator: every namespace that carries the label of a class holds the resources of that class.
//!
//! ```text
//!  Namespace ──▶ reconcile namespace ──▶ NamespaceClassBinding ──▶ reconcile binding ──▶ resources
//!  NamespaceClass ──▶ reconcile class (judges its resources, wakes its bindings) ──────────┘
//! ```
//!
//! | what | where | source in the specification |
//! | --- | --- | --- |
//! | namespace → binding | [`namespace`] | flows 2, 3, 4; "`NamespaceReconciler`" |
//! | class → content, condition `Valid` | [`class`], [`content`] | flows 1, 5 |
//! | binding → resources, pruning, removal | [`binding`], [`plan`] | flows 2, 4, 5, 6; "Declarative Pruning" |
//! | condition `Ready`, status tracking | [`status`] | "Status Tracking" |
//! | drift of what was applied, fights over it | [`drift`], [`repair`] | decisions on drift repair |
//! | what is known of the cluster, what each event wakes | [`world`], `watches` | "Field Indexing", "Event-Driven Architecture" |
//!
//! Owner references do the cleaning up: the namespace owns its binding, the binding owns the resources, and the garbage
//! collector removes what has lost its owner.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::action::{Action, Outcome};
use crate::engine::backoff::Backoff;
use crate::engine::driver::{Driver, Next, Reconcile, Settings, Verdict};
use crate::engine::machine::{Deadline, Event, Machine, Note, Step};
use crate::engine::recorder::Recorder;
use crate::object::ObjectRef;
use crate::random::Random;
use crate::time::Now;

pub mod binding;
pub mod class;
pub mod content;
pub mod drift;
pub mod names;
pub mod namespace;
pub mod plan;
mod recording;
pub mod repair;
pub mod status;
mod watches;
pub mod world;

use world::World;

/// How long a failing key is left alone: half a second, doubled up to five minutes.
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_mins(5) };

/// The verdict where the cache turned out to lag behind the cluster. The watch usually wakes the key before it is tried
/// again; where it lags for long, asking again and again would not help it.
fn lagging() -> Verdict {
    Verdict::because("the cache lags behind the cluster")
}

/// How the operator is set up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Config {
    /// How many keys are reconciled at a time.
    pub concurrency: usize,
    /// How often every key is looked at again.
    pub resync: Duration,
    /// Names this process in Kubernetes Events.
    pub instance: String,
    /// From which all jitter and generated names follow.
    pub seed: u64,
}

/// What is reconciled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// A class, by name.
    Class(String),
    /// A namespace, by name: does it have the binding that its label asks for?
    Namespace(String),
    /// The binding of a namespace: are its resources there?
    Binding(String),
}

/// What a pass waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// Of the reconcile of a class.
    Class(class::Stage),
    /// Of the reconcile of a namespace.
    Namespace(namespace::Stage),
    /// Of the reconcile of a binding.
    Binding(binding::Stage),
}

/// The operator's state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Operator {
    driver: Driver<Key, Stage>,
    controller: Controller,
}

/// What decides: the known world, and what follows from a decision besides the pass's own actions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Controller {
    world: World,
    recorder: Recorder,
    random: Random,
    // Handed on in the step that they arose in.
    #[serde(skip)]
    woken: Vec<Key>,
    #[serde(skip)]
    requests: Vec<Action>,
    #[serde(skip)]
    notes: Vec<Note>,
}

impl Operator {
    /// An operator that knows nothing yet.
    pub fn new(config: Config) -> Self {
        let settings = Settings {
            concurrency: config.concurrency,
            resync: config.resync,
            backoff: BACKOFF,
            seed: config.seed,
        };
        let controller = Controller {
            world: World::default(),
            recorder: Recorder::new(NAME, config.instance),
            random: Random::from_seed(config.seed.wrapping_add(1)),
            woken: Vec::new(),
            requests: Vec::new(),
            notes: Vec::new(),
        };
        Self { driver: Driver::new(settings), controller }
    }

    fn enqueue_all(&mut self) {
        let world = &self.controller.world;
        let classes = world.classes.iter().map(|(name, _)| Key::Class(name.clone()));
        let namespaces = world.namespaces.iter().map(|(name, _)| Key::Namespace(name.clone()));
        let bindings = world.bindings.iter().map(|(name, _)| Key::Binding(name.clone()));
        let keys: Vec<Key> = classes.chain(namespaces).chain(bindings).collect();
        for key in keys {
            self.driver.enqueue(key);
        }
    }

    /// Hands on what the controller left besides the pass's own actions.
    fn flush(&mut self, step: &mut Step) {
        for key in self.controller.woken.drain(..) {
            // Who begins to lead looks at everything; until then nothing needs to be remembered.
            if self.driver.is_leading() {
                self.driver.enqueue(key);
            }
        }
        for action in std::mem::take(&mut self.controller.requests) {
            step.requests.push(self.driver.request(action));
        }
        step.requests.extend(self.controller.recorder.requests(|action| self.driver.request(action)));
        step.notes.append(&mut self.controller.notes);
    }
}

/// The machine's name.
const NAME: &str = lockstep_crds::namespaceclass::CONTROLLER;

impl Machine for Operator {
    fn name(&self) -> &'static str {
        NAME
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let mut step = Step::default();
        match event {
            Event::Started => self.controller.start(),
            Event::LeadershipChanged { leading } => {
                self.driver.set_leading(leading);
                if leading {
                    self.enqueue_all();
                }
            }
            Event::ListStarted { kind } => self.controller.list_started(&kind),
            Event::ListCompleted { kind } => self.controller.list_completed(&kind),
            Event::Observed { kind, object } => self.controller.observed(&kind, &object),
            Event::Vanished { kind, object } => self.controller.vanished(&kind, &object),
            Event::WatchFailed { kind, failure } => self.controller.watch_failed(&kind, failure),
            Event::Finished { id, outcome } => {
                self.controller.recorder.finished(id, &outcome);
                self.driver.finish(&mut self.controller, id, outcome, now, &mut step);
            }
            Event::Woke => {}
        }
        if self.driver.is_resync_due(now) {
            self.controller.unwatch_unused(now);
            self.enqueue_all();
        }
        self.flush(&mut step);
        // A pass may wake other keys, which may run in the same step.
        while self.controller.world.is_synced() && self.driver.can_run(now) {
            self.driver.run(&mut self.controller, now, &mut step);
            self.flush(&mut step);
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        self.driver.deadline()
    }

    fn queue_depths(&self) -> Vec<(&'static str, usize)> {
        let mut depths = [("class", 0), ("namespace", 0), ("binding", 0)];
        for key in self.driver.waiting() {
            let index = match key {
                Key::Class(_) => 0,
                Key::Namespace(_) => 1,
                Key::Binding(_) => 2,
            };
            depths[index].1 += 1;
        }
        depths.to_vec()
    }

    fn is_synced(&self) -> bool {
        self.controller.world.is_synced()
    }
}

impl Reconcile for Controller {
    type Key = Key;
    type Stage = Stage;

    fn reconciler(key: &Key) -> &'static str {
        match key {
            Key::Class(_) => "class",
            Key::Namespace(_) => "namespace",
            Key::Binding(_) => "binding",
        }
    }

    fn object(key: &Key) -> ObjectRef {
        match key {
            Key::Class(name) => ObjectRef::cluster(&names::class(), name),
            Key::Namespace(name) => ObjectRef::cluster(&names::namespace(), name),
            Key::Binding(name) => ObjectRef::namespaced(&names::binding(), name, name),
        }
    }

    fn begin(&mut self, key: &Key, now: Now) -> Next<Stage> {
        match key {
            Key::Class(name) => self.begin_class(name),
            Key::Namespace(name) => self.begin_namespace(name, now),
            Key::Binding(name) => self.begin_binding(name, now),
        }
    }

    fn resume(&mut self, key: &Key, stage: Stage, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let name = match key {
            Key::Class(name) | Key::Namespace(name) | Key::Binding(name) => name,
        };
        match stage {
            Stage::Class(stage) => self.resume_class(name, stage, outcomes, now),
            Stage::Namespace(stage) => self.resume_namespace(name, stage, outcomes),
            Stage::Binding(stage) => self.resume_binding(name, stage, outcomes, now),
        }
    }
}
