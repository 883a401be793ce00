//! The fleet, the broker and the adapters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use lockstep_engine::action::{Action, BrokerRequest, ErrorKind, Failure, Fetch, Outcome, Success};
use lockstep_engine::broker::{Broker, CloudEvent};
use lockstep_engine::document::Fields;
use lockstep_engine::random::Random;
use lockstep_external::hyperfleet::damage::Damage;
use lockstep_external::hyperfleet::{Dialect, HyperFleet, Kind, Labels, Release, Resource};
use lockstep_sim::cluster::ExternalSystems;
use serde_json::json;

use super::condensed::Condensed;
use super::names::PASSWORD;

/// A host of the API.
pub(super) struct Place {
    pub(super) url: &'static str,
    pub(super) dialect: Dialect,
    pub(super) release: Release,
    /// Maximum number of items of a page; none if every list is one page, and then any list can be read.
    pub(super) largest_page: Option<usize>,
}

/// For each dialect, one host has lists with many pages, so that any page may fail. Another has lists with few pages or only one.
/// The last host runs an earlier release.
pub(super) const HOSTS: [Place; 5] = [
    place("http://labels.fleet", Dialect::Documented, Release::V0_3_1, Some(25)),
    place("http://search.fleet", Dialect::Released, Release::V0_3_1, Some(25)),
    place("http://whole.fleet", Dialect::Documented, Release::V0_3_1, None),
    place("http://wide.fleet", Dialect::Released, Release::V0_3_1, Some(100)),
    place("http://older.fleet", Dialect::Released, Release::V0_3_0, Some(25)),
];

const fn place(url: &'static str, dialect: Dialect, release: Release, largest_page: Option<usize>) -> Place {
    Place { url, dialect, release, largest_page }
}

/// Maximum size of a page that is read, scaled to these small fleets. A page of ordinary resources fits, and some large ones.
const PAGE_MAX_BYTES: usize = 200_000;
/// Size of the specification of a large resource, and of one that can't be read even on its own.
const LARGE_BYTES: usize = 70_000;
const HUGE_BYTES: usize = 250_000;
/// Initial number of resources: more than the largest page.
const RESOURCES: usize = 130;

fn start() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// All systems outside Kubernetes.
#[derive(Debug, Clone)]
pub(super) struct Beyond {
    /// The same fleet on each host.
    fleets: [HyperFleet; 5],
    pub(super) broker: BrokerState,
    /// Pending reports of adapters: the resource, and whether it is ready.
    reports: BTreeMap<(Timestamp, u64), (String, bool)>,
    /// Faults of the next answers of the API.
    pub(super) damage: VecDeque<Damage>,
    /// Resources that the API can't read until a time: every page that would contain one of them fails.
    pub(super) unreadable: (BTreeSet<String>, Timestamp),
    /// Resources with a large specification.
    large: Vec<String>,
    condensed: Condensed,
    /// When the broker last accepted an event for a resource.
    pub(super) taken: BTreeMap<String, Timestamp>,
    /// Chance; none in a small world, where adapters do not report by themselves and what was sent always arrives.
    random: Option<Random>,
    counter: u64,
}

/// The broker and its faults.
#[derive(Debug, Clone)]
pub(super) struct BrokerState {
    /// The password that it accepts.
    pub(super) password: String,
    /// Until when it is unreachable.
    pub(super) down_until: Timestamp,
    /// Until when it refuses events, or breaks the connection at each.
    pub(super) takes_nothing_until: Timestamp,
    /// How many more events it refuses.
    pub(super) nacks: u64,
    /// After how many more events the connection breaks.
    pub(super) breaks_after: Option<u64>,
    connected: BTreeSet<usize>,
}

impl Beyond {
    pub(super) fn new() -> Self {
        let start = start();
        let mut beyond = Self::empty(Some(Random::from_seed(7)));
        for number in 0..RESOURCES {
            beyond.create(if number % 5 == 0 { "eu-west" } else { "us-east" }, start);
        }
        let ids: Vec<String> = beyond.resources().map(|resource| resource.id.clone()).collect();
        for id in ids {
            if beyond.below(10) > 0 {
                beyond.report(&id, true, start);
            }
        }
        beyond
    }

    /// Returns systems with a few resources and without chance.
    pub(super) fn small(resources: usize) -> Self {
        let mut beyond = Self::empty(None);
        for _ in 0..resources {
            beyond.create("us-east", start());
        }
        beyond
    }

    fn empty(random: Option<Random>) -> Self {
        let start = start();
        let fleet = |host: Place| {
            let mut fleet = HyperFleet::new(host.dialect, 7);
            fleet.release(host.release);
            match host.largest_page {
                Some(items) => fleet.limit_pages(items),
                None => fleet.forget_pages(),
            }
            fleet
        };
        Self {
            fleets: HOSTS.map(fleet),
            broker: BrokerState {
                password: PASSWORD.to_owned(),
                down_until: start,
                takes_nothing_until: start,
                nacks: 0,
                breaks_after: None,
                connected: BTreeSet::new(),
            },
            reports: BTreeMap::new(),
            damage: VecDeque::new(),
            unreadable: (BTreeSet::new(), start),
            large: Vec::new(),
            condensed: Condensed::default(),
            taken: BTreeMap::new(),
            random,
            counter: 0,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.as_mut().map_or(0, |random| random.below(limit))
    }

    /// Returns the resources in the specification's dialect.
    pub(super) fn resources(&self) -> impl ExactSizeIterator<Item = &Resource> {
        self.fleets[0].resources(Kind::Cluster)
    }

    /// Returns a random resource.
    pub(super) fn any(&self, random: &mut Random) -> Option<String> {
        let index = usize::try_from(random.below(self.resources().len() as u64)).ok()?;
        Some(self.resources().nth(index)?.id.clone())
    }

    pub(super) fn create(&mut self, region: &str, now: Timestamp) {
        self.counter += 1;
        let labels = Arc::new(Labels::from([("region".to_owned(), region.to_owned())]));
        for fleet in &mut self.fleets {
            fleet.create(&format!("cluster-{}", self.counter), Arc::clone(&labels), now);
        }
    }

    pub(super) fn remove(&mut self, id: &str) {
        for fleet in &mut self.fleets {
            fleet.remove(id);
        }
    }

    pub(super) fn label(&mut self, id: &str, region: &str, now: Timestamp) {
        let labels = Arc::new(Labels::from([("region".to_owned(), region.to_owned())]));
        for fleet in &mut self.fleets {
            fleet.set_labels(id, Arc::clone(&labels), now);
        }
    }

    pub(super) fn report(&mut self, id: &str, ready: bool, now: Timestamp) {
        for fleet in &mut self.fleets {
            fleet.report(id, ready, now);
        }
    }

    /// Gives exactly these resources a large specification.
    pub(super) fn enlarge(&mut self, ids: Vec<String>, is_huge: bool, now: Timestamp) {
        let former = std::mem::take(&mut self.large);
        self.specify(&former, 0, now);
        self.specify(&ids, if is_huge { HUGE_BYTES } else { LARGE_BYTES }, now);
        self.large = ids;
    }

    fn specify(&mut self, ids: &[String], bytes: usize, now: Timestamp) {
        let spec = json!({ "manifest": "x".repeat(bytes) });
        for fleet in &mut self.fleets {
            for id in ids {
                fleet.set_spec(id, spec.clone(), now);
            }
        }
    }

    /// Ends all faults. Resources may still be large, but each can be read.
    pub(super) fn heal(&mut self, now: Timestamp) {
        let large = self.large.clone();
        self.specify(&large, LARGE_BYTES, now);
        self.damage.clear();
        self.unreadable.0.clear();
        (self.broker.down_until, self.broker.takes_nothing_until) = (now, now);
        (self.broker.nacks, self.broker.breaks_after) = (0, None);
        PASSWORD.clone_into(&mut self.broker.password);
    }

    /// Cuts all connections to the broker.
    pub(super) fn cut(&mut self) {
        self.broker.connected.clear();
    }

    fn advance(&mut self, now: Timestamp) {
        while let Some(entry) = self.reports.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), (id, ready)) = entry.remove_entry();
            self.report(&id, ready, at);
        }
    }

    fn fetch(&mut self, url: &str, keep: &Arc<Fields>, now: Timestamp) -> Outcome {
        let found = HOSTS.iter().position(|host| url.starts_with(host.url));
        let Some(index) = found else { return Err(Failure::new(ErrorKind::Unavailable, "no such host")) };
        let request = http::Request::get(&url[HOSTS[index].url.len()..]).body(Bytes::new());
        let Ok(request) = request else { return Err(Failure::new(ErrorKind::Invalid, "no such path")) };
        let mut answer = self.fleets[index].handle(&request, now);
        if self.holds_unreadable(answer.body(), now) {
            answer = Damage::ServerError(500).inflict(answer);
        }
        if let Some(damage) = self.damage.pop_front() {
            answer = damage.inflict(answer);
        }
        let seconds = answer
            .headers()
            .get(http::header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let failure = |class| {
            Err(Failure {
                retry_after: seconds.map(Duration::from_secs),
                ..Failure::new(class, answer.status().as_str())
            })
        };
        match answer.status().as_u16() {
            200 if HOSTS[index].largest_page.is_some() && answer.body().len() > PAGE_MAX_BYTES => {
                // Some answers are slow.
                let is_late = answer.body().len().is_multiple_of(2);
                Ok(Success::Oversized { why: "the answer is too long".to_owned(), is_late })
            }
            200 => {
                let chunk = 1 + usize::try_from(self.below(2000)).unwrap_or(0);
                match self.condensed.document(url, answer.body(), keep, chunk) {
                    Some(document) => Ok(Success::Document(document)),
                    None => failure(ErrorKind::Invalid),
                }
            }
            401 | 403 => failure(ErrorKind::Forbidden),
            404 => failure(ErrorKind::NotFound),
            429 => failure(ErrorKind::Throttled),
            500.. => failure(ErrorKind::Unavailable),
            _ => failure(ErrorKind::Invalid),
        }
    }

    fn holds_unreadable(&self, page: &[u8], now: Timestamp) -> bool {
        let (unreadable, until) = &self.unreadable;
        if now >= *until {
            return false;
        }
        let page = std::str::from_utf8(page).unwrap_or_default();
        unreadable.iter().any(|id| page.contains(id.as_str()))
    }

    fn connect(&mut self, process: usize, broker: &Broker, now: Timestamp) -> Outcome {
        let Broker::RabbitMq { url, .. } = broker else {
            return Err(Failure::new(ErrorKind::Invalid, "there is no such broker"));
        };
        if now < self.broker.down_until {
            return Err(Failure::new(ErrorKind::Unavailable, "connection refused"));
        }
        if !url.reveal().contains(&self.broker.password) {
            return Err(Failure::new(ErrorKind::Forbidden, "access refused"));
        }
        self.broker.connected.insert(process);
        Ok(Success::Done)
    }

    fn publish(&mut self, process: usize, events: &[CloudEvent], now: Timestamp) -> Outcome {
        if now < self.broker.down_until {
            self.broker.connected.clear();
        }
        if !self.broker.connected.contains(&process) {
            return Err(Failure::new(ErrorKind::Unavailable, "there is no connection"));
        }
        Ok(Success::Published(events.iter().map(|event| self.take(event, now)).collect()))
    }

    fn take(&mut self, event: &CloudEvent, now: Timestamp) -> Result<(), Failure> {
        if now < self.broker.takes_nothing_until
            && let Err(refusal) = self.refusal()
        {
            return Err(refusal);
        }
        if self.broker.connected.is_empty() {
            // Some of the messages sent just before still arrive.
            if self.below(2) == 0 {
                self.deliver(event, now);
            }
            return Err(Failure::new(ErrorKind::Unknown, "the connection was lost"));
        }
        if let Some(left) = &mut self.broker.breaks_after {
            if *left == 0 {
                self.broker.breaks_after = None;
                self.broker.connected.clear();
                return self.take(event, now);
            }
            *left -= 1;
        }
        if self.broker.nacks > 0 {
            self.broker.nacks -= 1;
            return Err(Failure::new(ErrorKind::Unavailable, "nack"));
        }
        self.deliver(event, now);
        Ok(())
    }

    /// Returns why the broker does not take an event now. RabbitMQ closes the channel. Pub/Sub keeps the connection: without a permission,
    /// without a topic (which an account that may only publish can't see when it connects), and without quota. An exhausted quota leaves
    /// room for some events.
    fn refusal(&mut self) -> Result<(), Failure> {
        match self.broker.takes_nothing_until.as_second() % 4 {
            0 => Err(Failure::new(ErrorKind::Forbidden, "the account may not publish to this topic")),
            1 if self.below(3) == 0 => Ok(()),
            1 => Err(Failure::new(ErrorKind::Throttled, "the quota is exhausted")),
            2 => Err(Failure::new(ErrorKind::NotFound, "there is no such topic")),
            _ => {
                self.broker.connected.clear();
                Err(Failure::new(ErrorKind::Unknown, "the broker closed the channel: ACCESS_REFUSED"))
            }
        }
    }

    /// Delivers an event to the adapters: they answer most events with a report soon.
    fn deliver(&mut self, event: &CloudEvent, now: Timestamp) {
        let id = event.data["id"].as_str().unwrap_or_default().to_owned();
        self.taken.insert(id.clone(), now);
        if self.below(4) > 0 {
            self.counter += 1;
            let delay = Duration::from_millis(200 + self.below(3000));
            let ready = self.below(3) > 0;
            self.reports.insert((now.saturating_add(delay).unwrap_or(now), self.counter), (id, ready));
        }
    }
}

impl ExternalSystems for Beyond {
    fn serves(&self, action: &Action) -> bool {
        matches!(action, Action::Http(_) | Action::Broker(_))
    }

    fn carry_out(&mut self, process: usize, action: &Action, now: Timestamp) -> Outcome {
        self.advance(now);
        match action {
            Action::Http(Fetch { url, keep, .. }) => self.fetch(url, keep, now),
            Action::Broker(BrokerRequest::Connect { broker }) => self.connect(process, broker, now),
            Action::Broker(BrokerRequest::Publish { events, .. }) => self.publish(process, events, now),
            other => Err(Failure::new(ErrorKind::Invalid, other.name())),
        }
    }

    fn died(&mut self, process: usize) {
        self.broker.connected.remove(&process);
    }
}
