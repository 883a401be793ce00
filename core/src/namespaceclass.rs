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
//! | what is known of the cluster | [`world`] | "Field Indexing" |
//!
//! Owner references do the cleaning up: the namespace owns its binding, the binding owns the resources, and the garbage
//! collector removes what has lost its owner.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::engine::action::{Action, Class as FailureClass, Failure, Outcome, Scope};
use crate::engine::backoff::Backoff;
use crate::engine::driver::{Driver, Next, Reconcile, Settings, Verdict};
use crate::engine::machine::{Deadline, Event, Machine, Note, Step};
use crate::engine::recorder::{Occurrence, Recorder};
use crate::object::{Kind, ObjectRef, metadata, resource_version};
use crate::random::Random;
use crate::time::Now;

pub mod binding;
pub mod class;
pub mod content;
pub mod drift;
pub mod names;
pub mod namespace;
pub mod plan;
pub mod repair;
pub mod status;
pub mod world;

use world::{Binding, Class, Namespace, Resources, World};

/// How long a failing key is left alone: half a second, doubled up to five minutes.
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_mins(5) };

/// How soon a key is looked at again when the cache turned out to lag behind the cluster. The watch usually wakes it first.
pub const LAG: Duration = Duration::from_secs(1);

/// How the operator is set up.
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A class, by name.
    Class(String),
    /// A namespace, by name: does it have the binding that its label asks for?
    Namespace(String),
    /// The binding of a namespace: are its resources there?
    Binding(String),
}

/// What a pass waits for.
#[derive(Debug)]
pub enum Stage {
    /// Of the reconcile of a class.
    Class(class::Stage),
    /// Of the reconcile of a namespace.
    Namespace(namespace::Stage),
    /// Of the reconcile of a binding.
    Binding(binding::Stage),
}

/// The operator's state.
#[derive(Debug)]
pub struct Operator {
    driver: Driver<Key, Stage>,
    controller: Controller,
}

/// What decides: the known world, and what follows from a decision besides the pass's own actions.
#[derive(Debug)]
pub struct Controller {
    world: World,
    recorder: Recorder,
    random: Random,
    woken: Vec<Key>,
    requests: Vec<Action>,
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
            self.driver.enqueue(key);
        }
        for action in std::mem::take(&mut self.controller.requests) {
            step.requests.push(self.driver.request(action));
        }
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
                self.driver.finish(&mut self.controller, id, outcome, now, &mut step);
            }
            Event::Woke => {}
        }
        if self.driver.is_resync_due(now) {
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

impl Controller {
    fn start(&mut self) {
        for (kind, metadata_only) in
            [(names::namespace(), true), (names::class(), false), (names::binding(), false)]
        {
            let scope = Scope { selector: String::new(), metadata_only };
            self.requests.push(Action::Watch { kind, scope });
        }
    }

    fn list_started(&mut self, kind: &Arc<Kind>) {
        match Watched::of(kind) {
            Watched::Namespaces => self.world.namespaces.start_list(),
            Watched::Classes => self.world.classes.start_list(),
            Watched::Bindings => self.world.bindings.start_list(),
            Watched::Resources => {
                if let Some(resources) = self.world.resources.get_mut(kind) {
                    resources.cache.start_list();
                }
            }
        }
    }

    fn list_completed(&mut self, kind: &Arc<Kind>) {
        match Watched::of(kind) {
            Watched::Namespaces => {
                let gone = self.world.namespaces.complete_list();
                self.woken.extend(gone.into_iter().map(Key::Namespace));
            }
            Watched::Classes => {
                let gone = self.world.classes.complete_list();
                self.woken.extend(gone.into_iter().map(Key::Class));
            }
            Watched::Bindings => {
                let gone = self.world.bindings.complete_list();
                self.woken.extend(gone.into_iter().map(Key::Namespace));
            }
            Watched::Resources => {
                let Some(resources) = self.world.resources.get_mut(kind) else { return };
                let was_settled = resources.cache.is_synced() && resources.refused.is_none();
                resources.refused = None;
                for (namespace, _) in resources.cache.complete_list() {
                    self.woken.push(Key::Binding(namespace));
                }
                if !was_settled {
                    self.wake_bindings_using(kind);
                }
            }
        }
    }

    fn observed(&mut self, kind: &Arc<Kind>, object: &Arc<Value>) {
        let name = metadata(object, "name").to_owned();
        match Watched::of(kind) {
            Watched::Namespaces => {
                if self.world.namespaces.observe(name.clone(), Namespace::read(object)) {
                    self.woken.push(Key::Namespace(name.clone()));
                    // Its binding may have waited for the namespace to be known.
                    if self.world.bindings.get(&name).is_some() {
                        self.woken.push(Key::Binding(name));
                    }
                }
            }
            Watched::Classes => {
                if self.world.classes.observe(name.clone(), Class::read(object)) {
                    self.woken.push(Key::Class(name));
                }
            }
            Watched::Bindings => {
                let namespace = metadata(object, "namespace").to_owned();
                // One binding a namespace, named like it; any other name is not ours to act upon.
                if name == namespace && self.world.bindings.observe(name.clone(), Binding::read(object)) {
                    self.woken.push(Key::Namespace(name.clone()));
                    self.woken.push(Key::Binding(name));
                }
            }
            Watched::Resources => {
                if self.world.observe_resource(kind, object) {
                    self.woken.push(Key::Binding(metadata(object, "namespace").to_owned()));
                }
            }
        }
    }

    fn vanished(&mut self, kind: &Arc<Kind>, object: &Value) {
        let name = metadata(object, "name").to_owned();
        let version = resource_version(object);
        match Watched::of(kind) {
            Watched::Namespaces => {
                self.world.namespaces.vanish(&name, version);
            }
            Watched::Classes => {
                if self.world.classes.vanish(&name, version) {
                    self.woken.push(Key::Class(name));
                }
            }
            Watched::Bindings => {
                if metadata(object, "namespace") == name && self.world.bindings.vanish(&name, version) {
                    self.world.repairs.remove(&name);
                    self.woken.push(Key::Namespace(name));
                }
            }
            Watched::Resources => {
                let key = world::resource_key(object);
                let Some(resources) = self.world.resources.get_mut(kind) else { return };
                if resources.cache.vanish(&key, version) {
                    self.woken.push(Key::Binding(key.0));
                }
            }
        }
    }

    fn watch_failed(&mut self, kind: &Arc<Kind>, failure: Failure) {
        if self.world.refuse(kind, failure) {
            // Perhaps the kind is gone altogether: ask again before its classes are judged anew.
            self.world.kinds.forget(&kind.api_version());
            self.wake_classes_using(kind);
            self.wake_bindings_using(kind);
        }
    }

    fn wake_bindings_of(&mut self, class: &str) {
        let class = class.to_owned();
        let namespaces = self.world.bindings.keys_by(&class);
        self.woken.extend(namespaces.map(|namespace| Key::Binding(namespace.clone())));
    }

    fn wake_bindings_using(&mut self, kind: &Kind) {
        for class in self.classes_using(kind) {
            self.wake_bindings_of(&class);
        }
    }

    fn wake_classes_using(&mut self, kind: &Kind) {
        let classes = self.classes_using(kind);
        self.woken.extend(classes.into_iter().map(Key::Class));
    }

    fn classes_using(&self, kind: &Kind) -> Vec<String> {
        let uses =
            |resolved: &&world::Resolved| resolved.content.entries.iter().any(|entry| *entry.kind == *kind);
        let using = self.world.resolved.iter().filter(|(_, resolved)| uses(resolved));
        using.map(|(class, _)| class.clone()).collect()
    }

    /// Watches a kind, metadata only and only what carries our label, unless it is watched already. Returns whether
    /// decisions about the kind can be made yet.
    fn watch_resources(&mut self, kind: &Arc<Kind>) -> bool {
        if let Some(resources) = self.world.resources.get(kind) {
            return resources.is_settled();
        }
        self.world.resources.insert(Arc::clone(kind), Resources::default());
        let scope = Scope { selector: names::CLASS_LABEL.to_owned(), metadata_only: true };
        self.requests.push(Action::Watch { kind: Arc::clone(kind), scope });
        false
    }

    /// Ends the watches of kinds that no class holds any more.
    fn unwatch_unused(&mut self) {
        let in_use = self.world.kinds_in_use();
        let unused: Vec<Arc<Kind>> =
            self.world.resources.keys().filter(|kind| !in_use.contains(*kind)).cloned().collect();
        for kind in unused {
            self.world.resources.remove(&kind);
            self.requests.push(Action::Unwatch { kind });
        }
    }

    fn tell(&mut self, occurrence: Occurrence, now: Now) {
        self.requests.extend(self.recorder.record(occurrence, now, &mut self.random));
    }
}

/// What follows from the removal of a binding. Its end wakes its namespace; until then nothing is taken for granted.
fn removed(outcomes: Vec<Outcome>) -> Next<Stage> {
    match outcomes.into_iter().next() {
        Some(Err(failure)) if failure.class != FailureClass::NotFound => {
            Next::Done(Verdict::retry("removing the binding", &failure))
        }
        _ => Next::Done(Verdict::Requeue(LAG)),
    }
}

/// What a watch of a kind is for.
enum Watched {
    Namespaces,
    Classes,
    Bindings,
    Resources,
}

impl Watched {
    fn of(kind: &Kind) -> Self {
        match (kind.group.as_str(), kind.kind.as_str()) {
            ("", "Namespace") => Self::Namespaces,
            (lockstep_crds::namespaceclass::GROUP, "NamespaceClass") => Self::Classes,
            (lockstep_crds::namespaceclass::GROUP, "NamespaceClassBinding") => Self::Bindings,
            _ => Self::Resources,
        }
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
