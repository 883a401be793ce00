//! The HyperFleet Sentinel: polls the resources of a shard, and publishes a reconcile event for each whose backoff has
//! expired.
//!
//! ```text
//!  SentinelConfig ──▶ load ──▶ cycle: page ──▶ evaluate ──▶ publish ──▶ confirmed      ──▶ again after the poll interval
//!                                └─ next page, while events are published ─┘
//! ```
//!
//! | what | where | source in the specification |
//! | --- | --- | --- |
//! | configuration, Secret, reload | [`load`], [`config`], [`selector`] | "Config Loader" |
//! | what the API is asked and answers | [`fleet`], [`pager`] | "Resource Watcher" |
//! | whether a resource is due | [`decision`] | "Decision Engine" |
//! | the event | [`event`] | "Message Publisher" |
//! | one cycle: visit, publish, retry | [`cycle`] and [`Sentinel::step`] | "Main Reconciler" |
//! | metrics, conditions | [`metrics`], [`status`] | "Metrics and Observability" |
//!
//! Nothing here is kept beyond the process: the next one finds in the fleet what is due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockstep_crds::sentinel::SentinelConfigStatus;

use crate::engine::action::{Action, ActionId, Class, Failure, Outcome, Request, Scope, Success};
use crate::engine::backoff::Backoff;
use crate::engine::broker::{Broker, CloudEvent};
use crate::engine::machine::{Deadline, Event, Machine, Metric, Note, Step};
use crate::object::ObjectRef;
use crate::random::Random;
use crate::time::{Monotonic, Now};

pub mod config;
pub mod cycle;
pub mod decision;
pub mod event;
pub mod fleet;
pub mod load;
pub mod metrics;
pub mod pager;
pub mod selector;
pub mod status;

use cycle::{Batch, Cycle, Fate};
use decision::Decision;
use event::Ids;
use load::{Loaded, Loader};
use metrics::{Shard, operation};
use pager::Setback;
use status::{Conditions, Finding};

/// How long the broker is left alone after a connection failed or was lost.
const RECONNECT: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// The least time that it may go without a step: busy machines are not taken for stuck ones.
const PATIENCE_MIN: Duration = Duration::from_secs(10);

/// The machine's name.
const NAME: &str = lockstep_crds::sentinel::CONTROLLER;

/// How a Sentinel is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The namespace of its SentinelConfig.
    pub namespace: String,
    /// The name of its SentinelConfig.
    pub config: String,
    /// Whether each decision is told, not only what a cycle came to.
    pub tells_decisions: bool,
    /// Whether each event begins a trace.
    pub traces: bool,
    /// From which event ids, traces and all jitter follow.
    pub seed: u64,
}

/// The state of a Sentinel.
#[derive(Debug)]
pub struct Sentinel {
    settings: Settings,
    loader: Loader,
    conditions: Conditions,
    /// The broker, once everything about it is known.
    broker: Option<Arc<Broker>>,
    link: Link,
    cycle: Option<Cycle>,
    cycles: u64,
    next_poll: Monotonic,
    stepped: Monotonic,
    asked: BTreeMap<ActionId, Asked>,
    last_id: u64,
    ids: Ids,
    random: Random,
    /// Whether anything new may be begun; false at the end.
    is_acting: bool,
    /// What was wrong with resources in the last cycle.
    malformed: BTreeSet<String>,
    /// Whether a list was ever read to its end.
    has_polled: bool,
    /// Whether the broker was ever connected.
    has_connected: bool,
}

/// The connection to the broker.
#[derive(Debug, Default)]
struct Link {
    is_up: bool,
    is_asking: bool,
    failures: u32,
    not_before: Monotonic,
}

/// What an answer is for.
#[derive(Debug)]
enum Asked {
    Watch,
    Secret,
    Connect(Arc<Broker>),
    Page { cycle: u64 },
    Publish { cycle: u64, batch: Batch, loaded: Arc<Loaded> },
    Status(Box<SentinelConfigStatus>),
}

impl Sentinel {
    /// A Sentinel that knows nothing yet.
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
            next_poll: Monotonic::START,
            stepped: Monotonic::START,
            asked: BTreeMap::new(),
            last_id: 0,
            ids: Ids::default(),
            is_acting: false,
            malformed: BTreeSet::new(),
            has_polled: false,
            has_connected: false,
        }
    }

    fn object(&self) -> ObjectRef {
        ObjectRef::namespaced(&load::kind(), &self.settings.namespace, &self.settings.config)
    }

    fn shard(&self) -> Shard {
        self.loader.loaded.as_ref().map(|loaded| loaded.shard.clone()).unwrap_or_default()
    }

    fn ask(&mut self, action: Action, asked: Asked, step: &mut Step) {
        self.last_id += 1;
        let id = ActionId(self.last_id);
        self.asked.insert(id, asked);
        step.requests.push(Request { id, action });
    }

    fn finished(&mut self, id: ActionId, outcome: Outcome, now: Now, step: &mut Step) {
        match self.asked.remove(&id) {
            None | Some(Asked::Watch) => {}
            Some(Asked::Secret) => self.secret_read(outcome, now, step),
            Some(Asked::Connect(broker)) => self.connected(&broker, outcome, now, step),
            Some(Asked::Page { cycle }) => self.fetched(cycle, outcome, now, step),
            Some(Asked::Publish { cycle, batch, loaded }) => {
                self.published(cycle, batch, &loaded, outcome, now, step);
            }
            Some(Asked::Status(status)) => self.status_written(*status, outcome, now, step),
        }
    }

    /// Begins whatever may begin now.
    fn proceed(&mut self, now: Now, step: &mut Step) {
        self.retry_config(now, step);
        self.read_secret(now, step);
        self.begin_cycle(now);
        self.connect(now, step);
        self.fetch(now, step);
        self.publish(now, step);
        self.end_cycle(now, step);
        self.write_status(now, step);
    }

    fn begin_cycle(&mut self, now: Now) {
        let Some(loaded) = self.loader.loaded.as_ref().filter(|_| self.cycle.is_none()) else { return };
        if self.next_poll <= now.monotonic {
            self.cycles += 1;
            self.cycle = Some(Cycle::new(self.cycles, Arc::clone(loaded), now.monotonic));
            // A connection that broke while nothing was sent is found out here.
            self.link.is_up &= self.link.is_asking;
        }
    }

    /// Connects, and makes sure at the beginning of each cycle that the connection still stands.
    fn connect(&mut self, now: Now, step: &mut Step) {
        let Some(broker) = self.broker.clone() else { return };
        if self.cycle.is_none()
            || self.link.is_up
            || self.link.is_asking
            || self.link.not_before > now.monotonic
        {
            return;
        }
        self.link.is_asking = true;
        let action = Action::Connect { broker: Arc::clone(&broker) };
        self.ask(action, Asked::Connect(broker), step);
    }

    fn connected(&mut self, broker: &Arc<Broker>, outcome: Outcome, now: Now, step: &mut Step) {
        if self.broker.as_ref() != Some(broker) {
            return;
        }
        self.link.is_asking = false;
        match outcome {
            Ok(_) => {
                (self.link.is_up, self.link.failures) = (true, 0);
                self.has_connected = true;
                let message = format!("connected to {}", broker.name());
                self.find(Finding::valid(status::BROKER_CONNECTED, "Connected", message), now, step);
            }
            Err(failure) => {
                let reason = match failure.class {
                    Class::Forbidden => "CredentialsRefused",
                    Class::Invalid | Class::NotFound => "ConfigurationRefused",
                    _ => "ConnectionFailed",
                };
                self.lose_link(now, step);
                self.trouble(Finding::broken(status::BROKER_CONNECTED, reason, failure.message), now, step);
                // The credentials may have been replaced.
                if matches!(
                    self.loader.loaded.as_ref().map(|l| &l.config.target),
                    Some(config::Target::InSecret { .. })
                ) {
                    self.broker = None;
                }
            }
        }
    }

    fn lose_link(&mut self, now: Now, step: &mut Step) {
        self.link.is_up = false;
        self.link.failures = self.link.failures.saturating_add(1);
        self.link.not_before = now.monotonic + RECONNECT.delay(self.link.failures, &mut self.random);
        step.notes.push(self.shard().count(metrics::BROKER_ERRORS, 1));
        self.find(self.publishing(true, 0), now, step);
    }

    /// Whether all that is due gets published, given what the last cycle came to.
    fn publishing(&self, is_complete: bool, failed: u64) -> Finding {
        let broken = |reason, message: String| Finding::broken(status::PUBLISHING, reason, message);
        if failed > 0 {
            let next = "the next cycle publishes what is still due";
            broken("EventsGivenUp", format!("{failed} events of the last cycle were given up; {next}"))
        } else if self.link.failures > 0 {
            broken("NotConnected", "nothing is published until the broker is connected".to_owned())
        } else if !is_complete {
            broken("FleetNotListed", "what the last poll did not bring was not published".to_owned())
        } else {
            let message = "every due event of the last cycle was confirmed";
            Finding::valid(status::PUBLISHING, "AllConfirmed", message)
        }
    }

    fn fetch(&mut self, now: Now, step: &mut Step) {
        let Some(cycle) = self.cycle.as_mut().filter(|cycle| cycle.has_room()) else { return };
        let Some((place, _)) = cycle.pager.next().filter(|(_, not_before)| *not_before <= now.monotonic)
        else {
            return;
        };
        let config = &cycle.loaded.config;
        let url = fleet::url(&config.url, config.dialect, config.resource_type, &config.selector, place);
        let action = Action::Fetch { url, timeout: config.timeout };
        cycle.is_fetching = true;
        let asked = Asked::Page { cycle: cycle.number };
        self.ask(action, asked, step);
    }

    fn fetched(&mut self, number: u64, outcome: Outcome, now: Now, step: &mut Step) {
        let Some(mut cycle) = self.cycle.take_if(|cycle| cycle.number == number) else { return };
        cycle.is_fetching = false;
        let dialect = cycle.loaded.config.dialect;
        let page = match outcome {
            Ok(Success::Document(text)) => {
                let page = fleet::read(&text, dialect);
                let page = page.and_then(|mut page| cycle.pager.took(&mut page).map(|()| page));
                page.map_err(|problem| (Some("InvalidAnswer"), Failure::new(Class::Unknown, problem)))
            }
            Ok(_) => Err((Some("InvalidAnswer"), Failure::new(Class::Unknown, "the answer is no document"))),
            Err(failure) => Err((None, failure)),
        };
        match page {
            Ok(page) => self.visit(&mut cycle, page, now, step),
            Err((reason, failure)) => self.page_failed(&mut cycle, reason, &failure, now, step),
        }
        if cycle.pager.is_complete() {
            step.notes.push(cycle.loaded.shard.pending(cycle.tally.resources));
        }
        self.cycle = Some(cycle);
    }

    fn page_failed(
        &mut self,
        cycle: &mut Cycle,
        reason: Option<&'static str>,
        failure: &Failure,
        now: Now,
        step: &mut Step,
    ) {
        step.notes.push(cycle.loaded.shard.count_of(metrics::API_ERRORS, operation::FETCH_RESOURCES, 1));
        let setback = if cycle.pager.is_done() {
            Setback::GivenUp
        } else {
            cycle.pager.failed(failure, now.monotonic, &mut self.random)
        };
        let what = match setback {
            Setback::Again => "a page could not be read and is asked for again",
            Setback::PassedOver => "a page could not be read several times and is passed over",
            Setback::GivenUp => "the list could not be read; the next poll tries again",
        };
        let message = format!("{what}: {failure}");
        if setback == Setback::Again {
            step.notes.push(Note::Warning { message });
            return;
        }
        let reason = reason.unwrap_or(match failure.class {
            Class::Forbidden => "Forbidden",
            Class::Invalid | Class::NotFound | Class::Gone => "RequestRefused",
            Class::Throttled => "Throttled",
            _ => "Unreachable",
        });
        self.trouble(Finding::broken(status::FLEET_REACHABLE, reason, message), now, step);
    }

    /// Decides on each resource of a page.
    fn visit(&mut self, cycle: &mut Cycle, page: fleet::Page, now: Now, step: &mut Step) {
        let loaded = Arc::clone(&cycle.loaded);
        let config = &loaded.config;
        let mut due = Vec::with_capacity(page.resources.len());
        let (mut ready, mut not_ready) = (0_usize, 0_usize);
        for resource in page.resources {
            // What the server could not filter is filtered here.
            if resource.labels.as_ref().is_some_and(|labels| !config.selector.matches(labels)) {
                continue;
            }
            cycle.tally.resources += 1;
            let decision = decision::evaluate(&resource, &config.backoffs, now.wall);
            if self.settings.tells_decisions {
                step.notes.push(Note::Told { debug: true, message: told(&resource, decision) });
            }
            match decision {
                Decision::Publish => {
                    let id = self.ids.next(now.wall, &mut self.random);
                    let trace = self.settings.traces.then(|| event::traceparent(&mut self.random));
                    due.push(event::reconcile(resource, config.resource_type, id, trace, now.wall));
                }
                Decision::Skip { .. } if resource.is_ready => ready += 1,
                Decision::Skip { .. } => not_ready += 1,
            }
        }
        cycle.tally.skipped_ready += ready as u64;
        cycle.tally.skipped_not_ready += not_ready as u64;
        for (state, skipped) in [("ready", ready), ("not_ready", not_ready)] {
            if skipped > 0 {
                step.notes.push(loaded.shard.count_of(metrics::SKIPPED, state, skipped));
            }
        }
        if !page.malformed.is_empty() {
            cycle.tally.malformed += page.malformed.len() as u64;
            step.notes.push(loaded.shard.count(metrics::MALFORMED, page.malformed.len()));
            for problem in page.malformed {
                // What was told in the last cycle is known.
                if !self.malformed.contains(&problem) {
                    let message = format!("a resource is left out because it can't be understood: {problem}");
                    step.notes.push(Note::Warning { message });
                }
                cycle.malformed.insert(problem);
            }
        }
        cycle.push(due);
    }

    fn publish(&mut self, now: Now, step: &mut Step) {
        let Some(broker) = self.broker.clone().filter(|_| self.link.is_up) else { return };
        while let Some(cycle) = &mut self.cycle
            && let Some(batch) = cycle.take(now.monotonic)
        {
            let loaded = Arc::clone(&cycle.loaded);
            if batch.attempts > 0 {
                step.notes.push(loaded.shard.count(metrics::REPUBLISHED, batch.events.len()));
            }
            let action = Action::Publish { broker: Arc::clone(&broker), events: Arc::clone(&batch.events) };
            let asked = Asked::Publish { cycle: cycle.number, batch, loaded };
            self.ask(action, asked, step);
        }
    }

    fn published(
        &mut self,
        number: u64,
        batch: Batch,
        loaded: &Loaded,
        outcome: Outcome,
        now: Now,
        step: &mut Step,
    ) {
        let results = match outcome {
            // None was sent.
            Err(Failure { class: Class::Unavailable, .. }) => {
                self.link_lost(loaded, now, step);
                if let Some(cycle) = self.cycle.as_mut().filter(|cycle| cycle.number == number) {
                    cycle.unsent(batch);
                }
                return;
            }
            Ok(Success::Published(results)) => results,
            Ok(_) => Vec::new(),
            Err(failure) => vec![Err(failure); batch.events.len()],
        };
        let mut left: Vec<CloudEvent> = Vec::new();
        let mut why: Option<Failure> = None;
        let mut results = results.into_iter();
        for event in &*batch.events {
            let silence = || Err(Failure::new(Class::Unknown, "no answer for this event"));
            if let Err(failure) = results.next().unwrap_or_else(silence) {
                left.push(event.clone());
                // That the connection broke says most.
                if why.as_ref().is_none_or(|why| why.class != Class::Unknown) {
                    why = Some(failure);
                }
            }
        }
        let confirmed = batch.events.len() - left.len();
        if confirmed > 0 {
            step.notes.push(loaded.shard.count(metrics::PUBLISHED, confirmed));
        }
        if why.as_ref().is_some_and(|why| why.class == Class::Unknown) {
            self.link_lost(loaded, now, step);
        }
        let Some(cycle) = self.cycle.as_mut().filter(|cycle| cycle.number == number) else { return };
        cycle.confirmed(confirmed);
        let Some(why) = why else { return };
        let first = left[0].data["id"].as_str().unwrap_or_default().to_owned();
        let count = left.len();
        let message = match cycle.unconfirmed(left, batch.attempts, now.monotonic, &mut self.random) {
            Fate::Again => {
                format!("{} not confirmed and will be sent again (the first: {first}): {why}", were(count))
            }
            Fate::GivenUp => {
                step.notes.push(loaded.shard.count(metrics::BROKER_ERRORS, count));
                format!("{} given up for this cycle (the first: {first}): {why}", were(count))
            }
        };
        step.notes.push(Note::Warning { message });
    }

    /// The connection that stood does not stand any more.
    fn link_lost(&mut self, loaded: &Loaded, now: Now, step: &mut Step) {
        let is_ours = self
            .loader
            .loaded
            .as_deref()
            .is_some_and(|current| current.config.target == loaded.config.target);
        if is_ours && self.link.is_up {
            self.lose_link(now, step);
            let message = "the connection to the broker was lost";
            self.trouble(Finding::broken(status::BROKER_CONNECTED, "ConnectionLost", message), now, step);
        }
    }

    fn end_cycle(&mut self, now: Now, step: &mut Step) {
        let Some(cycle) = self.cycle.take_if(|cycle| cycle.is_done()) else { return };
        self.malformed = cycle.malformed;
        let loaded = &cycle.loaded;
        let took = now.monotonic.since(cycle.began);
        self.next_poll = now.monotonic + loaded.config.poll_interval;
        step.notes.push(loaded.shard.took(took));
        let tally = cycle.tally;
        if cycle.pager.is_complete() {
            self.has_polled = true;
            let finding = match tally.malformed {
                0 => Finding::valid(
                    status::FLEET_REACHABLE,
                    "FleetListed",
                    "the last poll brought the whole list",
                ),
                n => Finding::valid(
                    status::FLEET_REACHABLE,
                    "MalformedResources",
                    format!(
                        "the last poll brought the whole list, but {n} of its resources can't be understood; the log names them"
                    ),
                ),
            };
            self.find(finding, now, step);
        }
        let finding = self.publishing(cycle.pager.is_complete(), tally.failed);
        self.find(finding, now, step);
        let message = format!(
            "cycle {} took {} ms: {} resources, {} published, {} skipped (ready), {} skipped (not ready), {} given up, {} malformed",
            cycle.number,
            took.as_millis(),
            tally.resources,
            tally.published,
            tally.skipped_ready,
            tally.skipped_not_ready,
            tally.failed,
            tally.malformed
        );
        // Cycles in which nothing happens come every few seconds.
        let is_quiet = tally.published == 0 && tally.failed == 0 && tally.malformed == 0;
        step.notes.push(Note::Told { debug: is_quiet, message });
        self.tell_cycle(tally);
    }
}

/// A number of events, as the beginning of a sentence.
fn were(events: usize) -> String {
    if events == 1 { "1 event was".to_owned() } else { format!("{events} events were") }
}

/// A decision in words.
fn told(resource: &fleet::Resource, decision: Decision) -> String {
    let state = if resource.is_ready { "ready" } else { "not ready" };
    match decision {
        Decision::Publish => format!("{}: {}, {state}", resource.id, decision::BACKOFF_EXPIRED),
        Decision::Skip { until } => {
            format!("{}: skipped, {state}, its backoff expires at {until}", resource.id)
        }
    }
}

impl Machine for Sentinel {
    fn name(&self) -> &'static str {
        NAME
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let mut step = Step::default();
        self.stepped = now.monotonic;
        match event {
            Event::Started => {
                let scope = Scope {
                    namespace: Some(self.settings.namespace.clone()),
                    name: Some(self.settings.config.clone()),
                    ..Scope::default()
                };
                self.ask(Action::Watch { kind: load::kind(), scope }, Asked::Watch, &mut step);
            }
            Event::LeadershipChanged { leading } => self.is_acting = leading,
            Event::ListStarted { .. } => self.list_started(),
            Event::ListCompleted { .. } => self.list_completed(now, &mut step),
            Event::Observed { object, .. } => self.observe(&object, now, &mut step),
            Event::Vanished { .. } => self.missing(now, &mut step),
            Event::WatchFailed { .. } => {
                step.notes.push(self.shard().count_of(metrics::API_ERRORS, operation::CONFIG_LOAD, 1));
            }
            Event::Finished { id, outcome } => self.finished(id, outcome, now, &mut step),
            Event::Woke => {}
        }
        // At the end nothing new is begun; what is in flight is still counted.
        if self.is_acting {
            self.proceed(now, &mut step);
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        if !self.is_acting {
            return None;
        }
        let due = |reason: &'static str| move |at: Monotonic| Deadline { at, reason };
        let config = self.loader.next_due().map(due("configuration"));
        let secret = self.loader.secret_due(self.needed_secret().is_some()).map(due("secret"));
        let status = self.status_due().map(due("status"));
        let work = match &self.cycle {
            None => self.loader.loaded.as_ref().map(|_| due("poll")(self.next_poll)),
            Some(cycle) => cycle.next_due(self.link.is_up).map(due("cycle")),
        };
        let is_lost =
            self.cycle.is_some() && self.broker.is_some() && !self.link.is_up && !self.link.is_asking;
        let link = is_lost.then(|| due("connect")(self.link.not_before));
        // Who waits for slow answers shows that it still turns.
        let pulse = self.loader.loaded.as_ref().map(|l| due("pulse")(self.stepped + l.config.poll_interval));
        [config, secret, status, work, link, pulse].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    fn queue_depths(&self) -> Vec<(&'static str, usize)> {
        vec![("event", self.cycle.as_ref().map_or(0, Cycle::held))]
    }

    fn is_synced(&self) -> bool {
        self.has_polled && self.has_connected
    }

    fn metrics(&self) -> &'static [Metric] {
        metrics::ALL
    }

    fn patience(&self) -> Option<Duration> {
        let poll_interval = self.loader.loaded.as_ref()?.config.poll_interval;
        Some(poll_interval.saturating_mul(3).max(PATIENCE_MIN))
    }
}

#[cfg(test)]
#[path = "sentinel/tests.rs"]
mod tests;
