//! The state of a Sentinel, and its requests in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockstep_crds::sentinel::SentinelConfigStatus;
use lockstep_engine::action::{Action, ActionId, Request};
use lockstep_engine::broker::Broker;
use lockstep_engine::machine::Step;
use lockstep_engine::object::ObjectRef;
use lockstep_engine::random::Random;
use lockstep_engine::time::Monotonic;

use super::cycle::{Batch, Cycle};
use super::event::Ids;
use super::fleet::Flaw;
use super::link::Link;
use super::loader::{self, Loaded, Loader};
use super::metrics::Shard;
use super::pager::Progress;
use super::rules::ExpressionError;
use super::status::Conditions;

/// The settings of a Sentinel.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The namespace of its SentinelConfig.
    pub namespace: String,
    /// The name of its SentinelConfig.
    pub config: String,
    /// Whether each decision is logged, and not only the result of a cycle.
    pub logs_decisions: bool,
    /// Whether each cycle is a trace, with the publications of its events as spans.
    pub traces: bool,
    /// The seed of event ids, traces and all jitter.
    pub seed: u64,
}

/// The state of a Sentinel.
#[derive(Debug, Clone)]
pub struct Sentinel {
    pub(super) settings: Settings,
    pub(super) loader: Loader,
    pub(super) conditions: Conditions,
    /// The broker, once its URL and credentials are known.
    pub(super) broker: Option<Arc<Broker>>,
    pub(super) link: Link,
    pub(super) cycle: Option<Cycle>,
    pub(super) cycles: u64,
    /// The progress of the last poll, from which the next one continues.
    pub(super) progress: Progress,
    pub(super) next_poll: Monotonic,
    /// The end of the pause that the API of the loaded configuration has asked for, in a cycle that has ended.
    pub(super) pause: Monotonic,
    /// When it last took a step.
    pub(super) stepped: Monotonic,
    pub(super) asked: BTreeMap<ActionId, Asked>,
    next_id: u64,
    pub(super) ids: Ids,
    pub(super) random: Random,
    /// Whether new work may start; false at the end.
    pub(super) is_acting: bool,
    /// The malformed resources of the last cycle.
    pub(super) malformed: BTreeSet<Flaw>,
    /// The failures of expressions of the loaded configuration that were reported.
    pub(super) failures: BTreeSet<ExpressionError>,
    /// Shards that were watched before and still have events in flight.
    pub(super) former: Vec<Shard>,
    /// Whether a list was ever read, maybe without some pages.
    pub(super) has_polled: bool,
    /// Whether the broker was ever connected.
    pub(super) has_connected: bool,
}

/// The purpose of a request.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    Watch,
    Secret,
    Connect,
    Page { cycle: u64, url: String },
    Publish(Publication),
    Status(Box<SentinelConfigStatus>),
}

/// Events in flight to the broker.
#[derive(Debug, Clone)]
pub(super) struct Publication {
    pub(super) cycle: u64,
    pub(super) batch: Batch,
    pub(super) loaded: Arc<Loaded>,
    /// The connection over which they are sent, as [`Link::up`] identifies it.
    pub(super) connection: ActionId,
}

impl Sentinel {
    /// Returns a Sentinel with empty state.
    pub fn new(settings: Settings) -> Self {
        Self {
            random: Random::from_seed(settings.seed),
            settings,
            loader: Loader::default(),
            conditions: Conditions::default(),
            broker: None,
            link: Link::default(),
            cycle: None,
            cycles: 0,
            progress: Progress::default(),
            next_poll: Monotonic::START,
            pause: Monotonic::START,
            stepped: Monotonic::START,
            asked: BTreeMap::new(),
            next_id: 1,
            ids: Ids::default(),
            is_acting: false,
            malformed: BTreeSet::new(),
            failures: BTreeSet::new(),
            former: Vec::new(),
            has_polled: false,
            has_connected: false,
        }
    }

    pub(super) fn object(&self) -> ObjectRef {
        ObjectRef::namespaced(&loader::kind(), &self.settings.namespace, &self.settings.config)
    }

    pub(super) fn shard(&self) -> Shard {
        self.loader.loaded.as_ref().map(|loaded| loaded.shard.clone()).unwrap_or_default()
    }

    /// Sends a request, and returns its id, which the answer carries.
    pub(super) fn ask(&mut self, action: Action, asked: Asked, step: &mut Step) -> ActionId {
        let id = ActionId(self.next_id);
        self.next_id += 1;
        self.asked.insert(id, asked);
        step.requests.push(Request { id, action });
        id
    }

    /// Ends the metrics of shards that are not watched any more, once nothing is left to be counted.
    pub(super) fn forget(&mut self, step: &mut Step) {
        let is_counted = |shard: &Shard| {
            let of_shard =
                |asked: &Asked| matches!(asked, Asked::Publish(sent) if sent.loaded.shard == *shard);
            self.asked.values().any(of_shard)
        };
        let current = self.shard();
        let over = self.former.extract_if(.., |shard| !is_counted(shard));
        step.notes.extend(over.flat_map(|shard| shard.forgotten(&current)));
    }
}
