//! Drives one machine: passes events to it, executes its requests, and wakes it at its deadline.

mod inbox;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use lockstep_engine::action::{Action, Request, Success, WatchCommand};
use lockstep_engine::machine::{Event, Machine, Step};
use lockstep_engine::object::Kind;
use lockstep_engine::recorder;
use lockstep_engine::time::Monotonic;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::execute::{self, Executor, RandomBytes};
use crate::health::Health;
use crate::observe::Observer;
use crate::publish::Publisher;
use crate::run::inbox::{Inbox, Watches};
use crate::run::requests::Requests;
use crate::shutdown::Shutdown;
use crate::spans::Spans;

pub use inbox::Handle;

/// How often the queues are measured while a machine is busy.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);

/// The options of a driver.
#[derive(Debug, Clone)]
pub struct Options {
    /// The maximum number of requests in flight. Others wait in the order in which they were requested.
    pub max_in_flight: usize,
    /// How long an answer of the API server may take; after that the outcome is unknown.
    pub timeout: Duration,
    /// What generates the random values of Secrets: the operating system by default. A simulation needs the same values in each
    /// run of a seed.
    pub random: RandomBytes,
    /// How long to wait for requests in flight at shutdown.
    pub grace: Duration,
    /// The last event of the machine, at shutdown. The requests that it and later answers lead to are still executed within the grace
    /// period. Without it, only writes of Events are.
    pub final_event: Option<Event>,
    /// Keeps the connection to the message broker, for machines that publish.
    pub publisher: Publisher,
    /// Exports the spans of published events, and of everything else that belongs to traces.
    pub spans: Option<Spans>,
    /// The kinds of objects that the machine has conditions on, for metrics. The machine watches them.
    pub conditions_of: Vec<Arc<Kind>>,
    /// The seed of the jitter for retries of failed watches.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_in_flight: 64,
            timeout: execute::TIMEOUT,
            random: execute::random,
            grace: Duration::from_secs(5),
            final_event: None,
            publisher: Publisher::default(),
            spans: None,
            conditions_of: Vec::new(),
            seed: 0,
        }
    }
}

/// A machine with everything that drives it.
pub struct Driver {
    machine: Box<dyn Machine + Send>,
    clock: Clock,
    observer: Observer,
    options: Options,
    health: Health,
    inbox: Inbox,
    watches: Watches,
    requests: Requests,
    /// When the queues were last measured.
    counted: Monotonic,
    /// Whether a step may have changed the queues since then.
    is_outdated: bool,
    /// Whether the machine was synced after its last step.
    is_synced: bool,
    /// Whether only writes of Events begin, because the process ends.
    only_events: bool,
}

impl Driver {
    /// Creates a driver of a machine that uses the client.
    pub fn new(
        machine: Box<dyn Machine + Send>,
        client: Client,
        clock: Clock,
        observer: Observer,
        options: Options,
    ) -> Self {
        let name = machine.name();
        let publisher = options.publisher.clone().exporting(options.spans.clone());
        let executor = Executor::new(client, name).answered_within(options.timeout);
        let executor = executor.generating_with(options.random).publishing_with(publisher);
        let observer = observer.exporting(options.spans.clone());
        let inbox = Inbox::new();
        Self {
            clock,
            health: Health::new(name),
            watches: Watches::new(executor.client().clone(), options.seed, &inbox),
            requests: Requests::new(
                Arc::new(executor),
                observer.clone(),
                name,
                options.max_in_flight,
                &inbox,
            ),
            counted: Monotonic::START,
            is_outdated: false,
            // A machine with nothing to list is synced from the beginning, which needs no log line.
            is_synced: machine.is_synced(),
            only_events: false,
            machine,
            observer,
            options,
            inbox,
        }
    }

    /// Returns a handle that sends the machine events of the process, such as a change of leadership.
    pub fn handle(&self) -> Handle {
        self.inbox.handle()
    }

    /// Returns whether the loop runs and the machine is synced.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Drives the machine until shutdown is requested, then waits for the writes in flight.
    pub async fn run(mut self, mut shutdown: Shutdown) {
        let name = self.machine.name();
        debug!(controller = name, "started");
        self.turn(Event::Started);
        let mut woke = false;
        loop {
            let deadline = self.machine.deadline();
            let wake_at = deadline.map(|deadline| self.clock.instant(deadline.at));
            // A stream of events must not delay an overdue deadline, nor a deadline the events.
            let overdue = !woke && wake_at.is_some_and(|at| at <= Instant::now());
            let measure_at = self.is_outdated.then(|| self.clock.instant(self.counted + COUNT_INTERVAL));
            let event = tokio::select! {
                biased;
                () = shutdown.requested() => break,
                () = std::future::ready(()), if overdue => Event::TimerFired,
                event = self.inbox.next(&mut self.watches) => event,
                () = sleep_until(wake_at) => Event::TimerFired,
                () = sleep_until(measure_at) => {
                    self.measure(self.clock.now().monotonic);
                    continue;
                }
            };
            woke = event == Event::TimerFired;
            if let (true, Some(deadline)) = (woke, deadline) {
                debug!(controller = name, reason = deadline.reason.name(), "woke");
            }
            self.turn(event);
        }
        self.finish().await;
        debug!(controller = name, "stopped");
    }

    fn turn(&mut self, event: Event) {
        let name = self.machine.name();
        let now = self.clock.now();
        self.health.woken(now.monotonic, self.machine.patience());
        match &event {
            Event::Finished { id, .. } => self.requests.ended(*id),
            Event::WatchFailed { kind, failure } => self.observer.watch_failed(name, kind, failure),
            Event::Started
            | Event::LeadershipChanged { .. }
            | Event::ListStarted { .. }
            | Event::ListCompleted { .. }
            | Event::Applied { .. }
            | Event::Deleted { .. }
            | Event::TimerFired => {}
        }
        let is_observed = matches!(event, Event::Applied { .. });
        self.count_conditions(&event);
        let Step { requests, notes } = self.machine.step(event, now);
        for note in notes {
            self.observer.note(name, note);
        }
        for request in requests {
            if !self.only_events || recorder::is_record(&request.action) {
                self.carry_out(request);
            }
        }
        // Measuring the queues takes time that grows with their length, so it may lag while the machine is busy.
        let is_at_rest = self.requests.is_empty() && !is_observed;
        if is_at_rest || now.monotonic.since(self.counted) >= COUNT_INTERVAL {
            self.measure(now.monotonic);
        } else {
            self.is_outdated = true;
        }
        let is_synced = self.machine.is_synced();
        if is_synced && !self.is_synced {
            info!(controller = name, "synced: every kind that is watched has been listed");
        }
        self.is_synced = is_synced;
        let deadline = self.machine.deadline().map(|deadline| deadline.at);
        self.health.turned(now.monotonic, deadline, self.machine.patience(), is_synced);
    }

    fn measure(&mut self, now: Monotonic) {
        self.counted = now;
        self.is_outdated = false;
        self.observer.workload(self.machine.name(), &self.machine.workload(), now);
    }

    fn count_conditions(&self, event: &Event) {
        let (Event::ListStarted { kind }
        | Event::ListCompleted { kind }
        | Event::Applied { kind, .. }
        | Event::Deleted { kind, .. }) = event
        else {
            return;
        };
        if self.options.conditions_of.contains(kind) {
            self.observer.watched(event);
        }
    }

    fn carry_out(&mut self, Request { id, action }: Request) {
        match action {
            Action::Watch(WatchCommand::Start { kind, scope }) => self.watches.start(kind, scope),
            Action::Watch(WatchCommand::Stop { kind }) => self.watches.stop(&kind),
            Action::Kube(_) | Action::Http(_) | Action::Registry(_) | Action::Broker(_) => {
                return self.requests.push(Request { id, action });
            }
        }
        self.inbox.answer(Event::Finished { id, outcome: Ok(Success::Done) });
    }

    /// Delivers the final event and the answers to writes in flight: the machine announces what they changed. The next process would
    /// not, because it finds the status as written already. It also finds the remaining work in the cluster, so requests that have
    /// not started are dropped, except for writes of Events.
    async fn finish(&mut self) {
        let end = Instant::now() + self.options.grace;
        self.watches.stop_all();
        self.requests.wind_down();
        match self.options.final_event.take() {
            Some(event) => self.turn(event),
            None => self.only_events = true,
        }
        while !self.requests.is_empty() {
            let Ok(event) = tokio::time::timeout_at(end, self.inbox.next(&mut self.watches)).await else {
                let left = self.requests.len();
                warn!(controller = self.machine.name(), left, "stopped without the answers to some requests");
                return;
            };
            match event {
                Event::Finished { .. } => self.turn(event),
                Event::Started
                | Event::LeadershipChanged { .. }
                | Event::ListStarted { .. }
                | Event::ListCompleted { .. }
                | Event::Applied { .. }
                | Event::Deleted { .. }
                | Event::WatchFailed { .. }
                | Event::TimerFired => {}
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
