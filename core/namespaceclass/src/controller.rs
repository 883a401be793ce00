//! The state of the operator, and the changes of it that several reconciles make.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, Answer as _, ErrorKind, Outcome, Scope, WatchCommand};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::{Amount, Measure, Note};
use lockstep_engine::object::Kind;
use lockstep_engine::operator::Outbox;
use lockstep_engine::scheduler::Verdict;
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

use super::model::{BindingIndex, Namespace};
use super::names;
use super::store::{Resources, Store};

/// The backoff of a failing key: half a second, doubled up to five minutes.
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_mins(5) };

/// The minimum time for which a kind is watched after a pass over a namespace last needed it. It is longer than a request of
/// an earlier leader can be in progress. Such a request may create an object that no class lists by then.
const LINGER: Duration = Duration::from_mins(5);

/// Returns the verdict for a cache that is behind the cluster. The watch usually enqueues the key before it is retried. If
/// the watch is behind for long, frequent retries would not help.
pub(super) fn lagging() -> Verdict {
    Verdict::because("the cache lags behind the cluster")
}

/// The keys that the operator reconciles.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// A class, by name.
    Class(String),
    /// A namespace, by name. Its reconcile ensures that it has the binding that its label requests.
    Namespace(String),
    /// The binding of a namespace. Its reconcile ensures that the resources exist.
    Binding(String),
}

/// The state of the operator, on which its decisions depend, and its output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Controller {
    /// The cached state.
    pub(super) store: Store,
    pub(super) outbox: Outbox<Key>,
}

impl Controller {
    pub(super) fn wake_bindings_of(&mut self, class: &str) {
        let namespaces = self.store.bindings.keys_by(&BindingIndex::Class(class.to_owned()));
        self.outbox.woken.extend(namespaces.map(|namespace| Key::Binding(namespace.clone())));
    }

    /// Counts the namespaces whose label names a class that does not exist.
    pub(super) fn set_unresolved(&mut self, name: &str, is_unresolved: bool) {
        let unresolved = &mut self.store.unresolved;
        let is_new = if is_unresolved { unresolved.insert(name.to_owned()) } else { unresolved.remove(name) };
        if is_new {
            self.outbox.notes.push(Note::Measured(Measure {
                metric: names::UNRESOLVED_METRIC.into(),
                labels: Vec::new(),
                by: Amount::Set(unresolved.len() as u64),
            }));
        }
    }

    /// Stores a namespace that was read. Enqueues its binding if that gives a variable another value. Returns whether it is newer
    /// than the known one.
    pub(super) fn absorb_namespace(&mut self, name: &str, namespace: Namespace) -> bool {
        let differs = self.store.reads_differently(name, &namespace);
        let is_newer = self.store.namespaces.absorb(name.to_owned(), namespace);
        if is_newer && differs {
            self.outbox.woken.push(Key::Binding(name.to_owned()));
        }
        is_newer
    }

    /// Stores the kinds that API versions serve. An API version that is not served has no kinds. One whose discovery failed
    /// is discovered again later.
    pub(super) fn learn(&mut self, asked: &BTreeSet<String>, outcomes: Vec<Outcome>, now: Now) {
        for (api_version, outcome) in asked.iter().zip(outcomes) {
            match outcome.kinds() {
                Ok(kinds) => self.store.kinds.learn(api_version, kinds),
                Err(failure) if failure.class == ErrorKind::KindNotServed => {
                    self.store.kinds.miss(api_version, now);
                }
                Err(failure) => {
                    self.store.kinds.fail(api_version, failure);
                    continue;
                }
            }
            self.unwatch_gone(api_version);
        }
    }

    /// Watches a kind unless it is watched already: metadata only, and only objects that carry our label. Returns whether
    /// decisions about the kind can be made yet.
    pub(super) fn watch_resources(&mut self, kind: &Arc<Kind>, now: Now) -> bool {
        if let Some(resources) = self.store.resources.get_mut(kind) {
            resources.needed = now.monotonic;
            return resources.is_settled();
        }
        let resources = Resources { needed: now.monotonic, ..Resources::default() };
        self.store.resources.insert(Arc::clone(kind), resources);
        let scope =
            Scope { selector: names::CLASS_LABEL.to_owned(), metadata_only: true, ..Scope::default() };
        self.outbox.requests.push(Action::Watch(WatchCommand::Start { kind: Arc::clone(kind), scope }));
        false
    }

    /// Ends the watches of kinds that no class contains any more, once no request for them can be in progress.
    pub(super) fn unwatch_unused(&mut self, now: Now) {
        let in_use = self.store.kinds_in_use();
        let is_unused = |(kind, resources): &(&Arc<Kind>, &Resources)| {
            !in_use.contains(*kind) && now.monotonic.since(resources.needed) >= LINGER
        };
        let unused = self.store.resources.iter().filter(is_unused);
        self.unwatch(unused.map(|(kind, _)| Arc::clone(kind)).collect());
    }

    /// Ends the watches of kinds that neither they nor discovery find any more. A kind that comes back is then watched at
    /// once. The old watch, which has long failed, would retry much later.
    pub(super) fn unwatch_gone(&mut self, api_version: &str) {
        let kinds = &self.store.kinds;
        let is_gone = |(kind, resources): &(&Arc<Kind>, &Resources)| {
            kind.api_version() == api_version
                && resources.is_missed
                && kinds.find(api_version, &kind.kind).as_ref() != Some(*kind)
        };
        let gone = self.store.resources.iter().filter(is_gone);
        self.unwatch(gone.map(|(kind, _)| Arc::clone(kind)).collect());
    }

    fn unwatch(&mut self, kinds: Vec<Arc<Kind>>) {
        for kind in kinds {
            self.store.resources.remove(&kind);
            self.outbox.requests.push(Action::Watch(WatchCommand::Stop { kind }));
        }
    }
}
