//! One cycle: it visits every resource of the shard once, and publishes every due one.
//!
//! ```text
//!  page ──▶ evaluate ──▶ ready ──▶ in flight ──▶ confirmed
//!                          ▲            │
//!                          └─ retrying ◀┘ refused or not confirmed; given up after a few attempts
//! ```
//!
//! Pages are fetched while earlier ones are still published, as long as not too many events are held. Source: HyperFleet
//! Sentinel, "Main Reconciler".

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockstep_crds::sentinel::LastCycle;
use lockstep_engine::backoff::Backoff;
use lockstep_engine::broker::CloudEvent;
use lockstep_engine::document::Fields;
use lockstep_engine::machine::Note;
use lockstep_engine::random::Random;
use lockstep_engine::time::Monotonic;
use lockstep_engine::trace::{Span, Trace};

use super::fleet::Flaw;
use super::loader::Loaded;
use super::pager::{Pager, Progress};
use super::resource::Resource;
use super::unvisited::Unvisited;

/// The maximum number of events in one request.
const BATCH: usize = 100;
/// The maximum number of events in flight.
const WINDOW: usize = 2000;
/// While this many events are held, no further page is fetched.
const HELD_MAX: usize = 3000;
/// An event is given up after this many attempts.
const ATTEMPTS: u32 = 5;
/// The backoff of an event that the broker refused.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(5) };

/// Events that are sent together.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The events.
    pub events: Arc<[CloudEvent]>,
    /// The number of earlier attempts to send them.
    pub attempts: u32,
}

/// A cycle in progress.
#[derive(Debug, Clone)]
pub struct Cycle {
    /// Identifies the cycle.
    pub number: u64,
    /// When it began.
    pub began: Monotonic,
    /// The configuration of the cycle.
    pub loaded: Arc<Loaded>,
    /// The position in the list.
    pub pager: Pager,
    /// The fields of each page that are kept.
    pub keep: Arc<Fields>,
    /// Whether the failure or the delay of the poll was counted and logged.
    pub has_failed: bool,
    /// Whether a page has been requested.
    pub is_fetching: bool,
    /// The counts so far.
    pub tally: LastCycle,
    /// The malformed resources.
    pub malformed: BTreeSet<Flaw>,
    /// The description of the first of these.
    pub example: Option<String>,
    /// Resources of the last page that were not visited yet.
    pub unvisited: Unvisited,
    /// Whether the end of the list was reported.
    pub is_listed: bool,
    /// Its trace, if traces are recorded and it was not reported yet.
    pub trace: Option<Trace>,
    ready: VecDeque<Batch>,
    retrying: BTreeMap<(Monotonic, u64), Batch>,
    retries: u64,
    in_flight: usize,
    held: usize,
}

/// The result for events that were not confirmed.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// They are sent again.
    Retry,
    /// They were sent the maximum number of times.
    GiveUp,
}

impl Cycle {
    /// Returns a cycle that begins where the previous one stopped reading the list.
    pub fn new(
        number: u64,
        loaded: Arc<Loaded>,
        progress: Progress,
        trace: Option<Trace>,
        now: Monotonic,
    ) -> Self {
        Self {
            number,
            began: now,
            pager: Pager::resumed(loaded.config.dialect, progress),
            keep: loaded.config.fields(),
            loaded,
            has_failed: false,
            is_fetching: false,
            tally: LastCycle::default(),
            malformed: BTreeSet::new(),
            example: None,
            unvisited: Unvisited::default(),
            is_listed: false,
            trace,
            ready: VecDeque::new(),
            retrying: BTreeMap::new(),
            retries: 0,
            in_flight: 0,
            held: 0,
        }
    }

    /// Returns whether everything was visited and no events are left to publish.
    pub fn is_done(&self) -> bool {
        self.pager.is_done() && !self.is_fetching && self.unvisited.is_empty() && self.held == 0
    }

    /// Returns whether the whole list was read and the selector matches none of it.
    pub fn selects_nothing(&self) -> bool {
        let is_empty = self.tally.resources == 0 && self.tally.malformed == 0;
        self.pager.is_complete() && is_empty && !self.loaded.config.selector.is_empty()
    }

    /// Returns whether there is room for a page.
    pub fn has_room(&self) -> bool {
        !self.is_fetching && self.unvisited.is_empty() && self.held < HELD_MAX
    }

    /// Returns the next resources to visit. A page may be as long as the whole list, and events are much larger than the
    /// resources that they are made from.
    pub fn visit(&mut self) -> Option<Vec<Resource>> {
        let has_more = self.held < HELD_MAX && !self.unvisited.is_empty();
        has_more.then(|| self.unvisited.take(BATCH, self.loaded.config.parser()))
    }

    /// Adds events that are due.
    pub fn push(&mut self, events: Vec<CloudEvent>) {
        self.held += events.len();
        let mut events = events.into_iter();
        loop {
            let batch: Arc<[CloudEvent]> = events.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return;
            }
            self.ready.push_back(Batch { events: batch, attempts: 0 });
        }
    }

    /// Returns the next events to send.
    pub fn take(&mut self, now: Monotonic) -> Option<Batch> {
        while let Some(entry) = self.retrying.first_entry().filter(|entry| entry.key().0 <= now) {
            self.ready.push_front(entry.remove());
        }
        let next = self.ready.front()?.events.len();
        if self.in_flight > 0 && self.in_flight + next > WINDOW {
            return None;
        }
        self.in_flight += next;
        self.ready.pop_front()
    }

    /// Records that the broker was not connected: nothing was sent, and the batch will be sent once the broker is connected
    /// again.
    pub fn unsent(&mut self, batch: Batch) {
        self.in_flight -= batch.events.len();
        self.ready.push_front(batch);
    }

    /// Records that this many events were confirmed.
    pub fn confirmed(&mut self, events: usize) {
        self.in_flight -= events;
        self.held -= events;
        self.tally.published += events as u64;
    }

    /// Records that some events of a batch were not confirmed.
    pub fn unconfirmed(
        &mut self,
        events: Vec<CloudEvent>,
        attempts: u32,
        now: Monotonic,
        random: &mut Random,
    ) -> AfterFailure {
        let attempts = attempts + 1;
        self.in_flight -= events.len();
        if attempts >= ATTEMPTS {
            self.held -= events.len();
            self.tally.failed += events.len() as u64;
            return AfterFailure::GiveUp;
        }
        self.retries += 1;
        let at = now + BACKOFF.delay(attempts, random);
        self.retrying.insert((at, self.retries), Batch { events: events.into(), attempts });
        AfterFailure::Retry
    }

    /// Returns when the next work is due, given whether events can be sent.
    pub fn next_due(&self, is_connected: bool) -> Option<Monotonic> {
        let page = self.pager.next().filter(|_| self.has_room()).map(|(_, not_before)| not_before);
        let retry = self.retrying.first_key_value().filter(|_| is_connected).map(|((at, _), _)| *at);
        page.into_iter().chain(retry).min()
    }

    /// Returns the span of the cycle for its trace, once.
    pub fn take_span(&mut self, now: Monotonic, failure: Option<String>) -> Option<Note> {
        let LastCycle { resources, published, skipped_ready, skipped_not_ready, failed, malformed } =
            self.tally;
        let shard = &self.loaded.shard;
        let attributes = [
            ("hyperfleet.resource_type", shard.resource_type.as_str().into()),
            ("hyperfleet.shard", shard.shard.as_str().into()),
            ("hyperfleet.resources", resources.into()),
            ("hyperfleet.published", published.into()),
            ("hyperfleet.skipped", (skipped_ready + skipped_not_ready).into()),
            ("hyperfleet.given_up", failed.into()),
            ("hyperfleet.malformed", malformed.into()),
        ];
        let attributes = attributes.map(|(key, value)| (Cow::Borrowed(key), value));
        Some(Note::Traced(Span {
            traceparent: self.trace.take()?.first(),
            name: Cow::Borrowed("sentinel.poll"),
            took: now.since(self.began),
            attributes: attributes.into(),
            failure,
        }))
    }

    /// Returns the number of events that wait or are in flight.
    pub fn held(&self) -> usize {
        self.held
    }
}
