//! The HyperFleet Sentinel: polls the resources of a shard, and publishes a reconcile event for each whose backoff has
//! expired.
//!
//! This crate contains the decisions and the texts of the controller, and nothing else: its API types are in `lockstep-crds`, what
//! other controllers could use is in `lockstep-engine`, and its simulation is in `lockstep-subjects`. It does no I/O and reads no
//! clock.
//!
//! ```text
//!  SentinelConfig ──▶ load ──▶ cycle: page ──▶ evaluate ──▶ publish ──▶ confirmed      ──▶ again after the poll interval
//!                                └─ next page, while events are published ─┘
//! ```
//!
//! | what | where | source in the specification |
//! | --- | --- | --- |
//! | configuration, Secret, reload | `load`, [`loader`], [`config`], [`selector`] | "Config Loader" |
//! | requests to the API, and its answers | [`fleet`], [`resource`], [`pager`], [`unvisited`] | "Resource Watcher" |
//! | whether a resource is due | [`decision`] | "Decision Engine" |
//! | expressions of the configuration | [`rules`], [`expression`] | |
//! | the event | [`event`] | "Message Publisher" |
//! | one cycle: visit, publish, retry | [`cycle`], `visit`, `publish`, `link` | "Main Reconciler" |
//! | metrics, conditions | [`metrics`], [`status`], `report` | "Metrics and Observability" |
//! | state, requests in flight | `state` | |
//! | traits for the live page | `recording` | |
//!
//! No state is stored beyond the process: the next process reads from the fleet which resources are due.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, ActionId, Outcome, Scope, WatchCommand};
use lockstep_engine::conditions::Status;
use lockstep_engine::machine::{
    Deadline, DeadlineReason, Event, Machine, Metric, Note, Step, WorkQueue, Workload,
};
use lockstep_engine::time::{Monotonic, Now};
use lockstep_engine::trace::Trace;

pub mod config;
pub mod cycle;
pub mod decision;
pub mod event;
pub mod expression;
pub mod fleet;
mod link;
mod load;
pub mod loader;
pub mod metrics;
pub mod pager;
mod publish;
mod recording;
mod report;
pub mod resource;
pub mod rules;
pub mod selector;
mod state;
pub mod status;
pub mod unvisited;
mod visit;

use cycle::Cycle;
use metrics::operation;
pub use recording::TRAITS;
use state::Asked;
pub use state::{Sentinel, Settings};

/// The minimum time without a step before it counts as stuck, so that a busy machine does not count as stuck.
const PATIENCE_MIN: Duration = Duration::from_secs(10);

/// The machine's name.
const NAME: &str = lockstep_crds::sentinel::CONTROLLER;

impl Sentinel {
    fn finished(&mut self, id: ActionId, outcome: Outcome, now: Now, step: &mut Step) {
        match self.asked.remove(&id) {
            None | Some(Asked::Watch) => {}
            Some(Asked::Secret) => self.secret_read(id, outcome, now, step),
            Some(Asked::Connect) => self.connected(id, outcome, now, step),
            Some(Asked::Page { cycle, url }) => self.fetched(cycle, &url, outcome, now, step),
            Some(Asked::Publish(publication)) => {
                self.published(publication, outcome, now, step);
                self.forget(step);
            }
            Some(Asked::Status(status)) => self.status_written(*status, outcome, now, step),
        }
    }

    /// Starts all work that may start now.
    fn proceed(&mut self, now: Now, step: &mut Step) {
        self.retry_config(now, step);
        self.read_secret(now, step);
        self.begin_cycle(now);
        self.connect(now, step);
        self.visit(now, step);
        self.fetch(now, step);
        self.publish(now, step);
        self.end_cycle(now, step);
        self.write_status(now, step);
    }

    fn begin_cycle(&mut self, now: Now) {
        let Some(loaded) = self.loader.loaded.as_ref().filter(|_| self.cycle.is_none()) else { return };
        if self.next_poll <= now.monotonic {
            self.cycles += 1;
            let progress = std::mem::take(&mut self.progress);
            let trace = self.settings.traces.then(|| Trace::begin(&mut self.random));
            self.cycle = Some(Cycle::new(self.cycles, Arc::clone(loaded), progress, trace, now.monotonic));
            // This detects a connection that broke while nothing was sent.
            self.link.up = None;
        }
    }

    fn end_cycle(&mut self, now: Now, step: &mut Step) {
        // While the broker was out of reach, `Publishing` needs to know whether it still is.
        let is_awaited = self.link.is_troubled && self.link.asking.is_some();
        let Some(mut cycle) = self.cycle.take_if(|cycle| cycle.is_done() && !is_awaited) else { return };
        self.progress = cycle.pager.progress();
        let loaded = &cycle.loaded;
        let took = now.monotonic.since(cycle.began);
        self.pause = cycle.pager.pause();
        self.next_poll = (now.monotonic + loaded.config.poll_interval).max(cycle.pager.not_before());
        step.notes.push(loaded.shard.took(took));
        if self.link.up.is_some() && cycle.tally.failed == 0 {
            // Without due events there is no confirmation that would reset the failures.
            self.link_worked(now, step);
        }
        let finding = self.publishing(Some(&cycle));
        let failure = (finding.status == Status::False).then(|| finding.message.clone());
        step.notes.extend(cycle.take_span(now.monotonic, failure));
        self.malformed = cycle.malformed;
        let tally = cycle.tally;
        self.find(finding, now, step);
        // Source: "Main Reconciler", step 2: the log names the shard.
        let shard = match cycle.loaded.shard.shard.as_str() {
            "" => String::new(),
            shard => format!(" of shard {shard}"),
        };
        let message = format!(
            "cycle {}{shard} took {} ms: {} resources, {} published, {} skipped (ready), {} skipped (not ready), {} given up, {} malformed",
            cycle.number,
            took.as_millis(),
            tally.resources,
            tally.published,
            tally.skipped_ready,
            tally.skipped_not_ready,
            tally.failed,
            tally.malformed
        );
        // Cycles without any work happen every few seconds.
        let is_quiet = tally.published == 0 && tally.failed == 0 && tally.malformed == 0;
        step.notes.push(if is_quiet { Note::debug(message) } else { Note::info(message) });
        self.conditions.cycle_ended(tally);
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
                self.ask(
                    Action::Watch(WatchCommand::Start { kind: loader::kind(), scope }),
                    Asked::Watch,
                    &mut step,
                );
            }
            Event::LeadershipChanged { leading } => {
                if leading && !self.is_acting {
                    self.take_over(now, &mut step);
                }
                self.is_acting = leading;
                // At the end the trace does not wait for events in flight: the publications of a trace need their cycle.
                let cycle = self.cycle.as_mut().filter(|_| !leading);
                step.notes.extend(cycle.and_then(|cycle| cycle.take_span(now.monotonic, None)));
            }
            Event::ListStarted { .. } => self.list_started(),
            Event::ListCompleted { .. } => self.list_completed(now, &mut step),
            Event::Applied { object, .. } => self.observe(&object, now, &mut step),
            Event::Deleted { .. } => self.missing(now, &mut step),
            Event::WatchFailed { .. } => {
                step.notes.push(self.shard().count_of(metrics::API_ERRORS, operation::CONFIG_LOAD, 1));
            }
            Event::Finished { id, outcome } => self.finished(id, outcome, now, &mut step),
            Event::TimerFired => {}
        }
        // At the end no new work starts; events in flight are still counted.
        if self.is_acting {
            self.proceed(now, &mut step);
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        if !self.is_acting {
            return None;
        }
        let due = |name| move |at: Monotonic| Deadline { at, reason: DeadlineReason::Work(name) };
        let config = self.loader.next_due().map(due("configuration"));
        let secret = self.secret_due().map(due("secret"));
        let status = self.conditions.due().map(due("status"));
        let work = match &self.cycle {
            None => self.loader.loaded.as_ref().map(|_| due("poll")(self.next_poll)),
            Some(cycle) => cycle.next_due(self.link.up.is_some()).map(due("cycle")),
        };
        let link = self.link_due().map(due("connect"));
        // A machine that waits for slow answers must show that it is not stuck.
        let pulse = self.loader.loaded.as_ref().map(|l| due("pulse")(self.stepped + l.config.poll_interval));
        [config, secret, status, work, link, pulse].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    fn workload(&self) -> Workload {
        let waiting = self.cycle.as_ref().map_or(0, Cycle::held);
        Workload {
            queues: vec![WorkQueue { name: "event", waiting, running: Vec::new() }],
            concurrency: None,
        }
    }

    /// A standby has nothing to poll or to connect: it is ready once it knows its configuration. So a rolling update does not wait for
    /// the leader to end.
    fn is_synced(&self) -> bool {
        let is_standby = !self.is_acting && self.cycles == 0;
        if is_standby { self.loader.loaded.is_some() } else { self.has_polled && self.has_connected }
    }

    fn metrics(&self) -> &'static [Metric] {
        metrics::ALL
    }

    fn patience(&self) -> Option<Duration> {
        // A standby only waits.
        let loaded = self.loader.loaded.as_ref().filter(|_| self.is_acting)?;
        let poll_interval = loaded.config.poll_interval;
        Some(poll_interval.saturating_mul(3).max(PATIENCE_MIN))
    }
}

#[cfg(test)]
mod tests;
