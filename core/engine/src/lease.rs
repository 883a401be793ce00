//! Leader election by a Lease, as a machine of its own.
//!
//! ```text
//!            held by another                  renewed
//!   ┌─────┐ ────────────────▶ ┌─────────┐    ┌──────┐
//!   │ read│                   │ standby │    │ lead │
//!   └─────┘ ◀──────────────── └─────────┘    └──────┘
//!      │      every RETRY                    ▲    │ not renewed for RENEW_DEADLINE, found to be
//!      └── free, ours or expired: write ─────┘    │ held by another, or asked to step down
//!                                                 ▼
//!                                              over (the process ends)
//! ```
//!
//! Only our monotonic clock decides whether another's lease has expired: it has if its resource version has not changed for a
//! whole [`LEASE_DURATION`] since we first saw it. The times that other clocks wrote into it do not matter. A leader counts
//! its time from when a renewal was *sent*, so it stops before another process may start. If its clock stopped in the
//! meantime, as that of a paused virtual machine does, another process may have started. So it stops as soon as it reads
//! another holder in the lease.
//!
//! A request without an answer is abandoned after [`PATIENCE`], and the lease is read again: a single dead connection must
//! not end the leadership. That read shows the result of an abandoned write. If the write's own answer still arrives, it is
//! ignored.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::action::{Action, ActionId, Answer as _, ErrorKind, Failure, KubeRequest, Outcome, Request};
use super::machine::{
    Amount, Deadline, DeadlineReason, Event, Machine, Measure, Metric, MetricKind, Note, Step,
};
use crate::object::{Kind, ObjectRef, metadata};
use crate::time::{Monotonic, Now};

mod record;

/// How long a lease is valid without a renewal (client-go's default).
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader tries to renew before it gives up (client-go's default).
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The pause between two attempts (client-go's default).
pub const RETRY: Duration = Duration::from_secs(2);
/// The timeout of a request (client-go's default: half of the time for which a leader tries to renew).
pub const PATIENCE: Duration = Duration::from_secs(5);

/// client-go's metric of an election.
const STATUS: &str = "leader_election_master_status";

/// The election, from the viewpoint of one candidate.
#[derive(Debug)]
pub struct Election {
    lease: ObjectRef,
    identity: String,
    phase: Phase,
    /// The lease as last seen, and when it was first seen at its resource version.
    seen: Option<(Arc<Value>, Monotonic)>,
    in_flight: Option<InFlight>,
    next_try: Monotonic,
    next_id: u64,
    /// The failure of the last attempt, if it failed.
    problem: Option<Failure>,
    /// The leader that was logged last.
    behind: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Standby,
    /// Leads; the last successful renewal was sent at this time.
    Leading(Monotonic),
    /// Steps down, and releases the lease once the state of the lease is known.
    Leaving,
    /// Has given up the lease for good.
    Over,
}

#[derive(Debug)]
struct InFlight {
    id: ActionId,
    /// A short name of the action.
    action: &'static str,
    write: bool,
    sent: Monotonic,
}

impl Election {
    /// Returns a candidate named `identity` for the lease `namespace/name`.
    pub fn new(namespace: &str, name: &str, identity: String) -> Self {
        let kind = Kind::known("coordination.k8s.io", "v1", "Lease", "leases", true);
        Self {
            lease: ObjectRef::namespaced(&kind, namespace, name),
            identity,
            phase: Phase::Standby,
            seen: None,
            in_flight: None,
            next_try: Monotonic::START,
            next_id: 0,
            problem: None,
            behind: String::new(),
        }
    }

    fn send(&mut self, action: Action, now: Now, step: &mut Step) {
        self.next_id += 1;
        let id = ActionId(self.next_id);
        let (name, write) = (action.name(), action.is_write());
        self.in_flight = Some(InFlight { id, action: name, write, sent: now.monotonic });
        step.requests.push(Request { id, action });
    }

    fn read(&mut self, now: Now, step: &mut Step) {
        self.send(
            Action::Kube(KubeRequest::Get { target: self.lease.clone(), metadata_only: false }),
            now,
            step,
        );
    }

    fn leads(&self) -> bool {
        matches!(self.phase, Phase::Leading(_))
    }

    /// Writes our identity into the lease: creates it, takes it, or renews it.
    fn claim(&mut self, now: Now, step: &mut Step) {
        let target = self.lease.clone();
        let held = self.seen.as_ref().map(|(lease, _)| &**lease);
        let manifest = Arc::new(record::claimed(held, &target, &self.identity, LEASE_DURATION, now));
        let action = match held {
            Some(_) => Action::Kube(KubeRequest::Update { target, manifest }),
            None => Action::Kube(KubeRequest::Create { target, manifest }),
        };
        self.send(action, now, step);
    }

    /// Steps down, and releases the lease if it is ours, or may become ours by a write in flight.
    fn leave(&mut self, now: Now, step: &mut Step) {
        if self.leads() {
            step.notes.push(Note::LeadershipChanged { leading: false });
        }
        let under_way = self.in_flight.as_ref().map(|flight| flight.write);
        match (self.phase, under_way, self.seen.clone()) {
            (Phase::Leaving | Phase::Over, ..) => {}
            // Any request that is sent now could only be refused, or arrive before this write.
            (_, Some(true), _) => self.phase = Phase::Leaving,
            // The read was sent because the state of the lease was unknown. A process that steps down may not get the answers
            // of earlier reads.
            (Phase::Leading(_), Some(false), _) => {
                self.phase = Phase::Leaving;
                self.read(now, step);
            }
            (Phase::Leading(_), None, Some((lease, _))) => self.free(&lease, now, step),
            (Phase::Standby | Phase::Leading(_), ..) => self.phase = Phase::Over,
        }
    }

    /// Releases the lease. This is the last action.
    fn free(&mut self, lease: &Value, now: Now, step: &mut Step) {
        let manifest = Arc::new(record::freed(lease, now));
        self.send(Action::Kube(KubeRequest::Update { target: self.lease.clone(), manifest }), now, step);
        self.phase = Phase::Over;
    }

    /// Ends the leadership.
    fn end(&mut self, why: &str, step: &mut Step) {
        step.notes
            .push(Note::Warning { message: format!("leadership ends: {} {why}", self.name_of_lease()) });
        step.notes.push(Note::LeadershipChanged { leading: false });
        self.phase = Phase::Over;
    }

    fn observe(&mut self, lease: Arc<Value>, now: Now) {
        let same = self.seen.as_ref().is_some_and(|(before, _)| {
            metadata(before, "resourceVersion") == metadata(&lease, "resourceVersion")
        });
        let since = match &self.seen {
            Some((_, since)) if same => *since,
            _ => now.monotonic,
        };
        self.seen = Some((lease, since));
    }

    /// Returns whether the lease as last seen may be claimed.
    fn is_free(&self, now: Now) -> bool {
        let Some((lease, since)) = &self.seen else { return true };
        let holder = record::holder(lease);
        holder.is_empty() || holder == self.identity || now.monotonic.since(*since) >= LEASE_DURATION
    }

    fn finished(&mut self, id: ActionId, outcome: Outcome, now: Now, step: &mut Step) {
        let Some(flight) = self.in_flight.take_if(|flight| flight.id == id) else { return };
        self.next_try = now.monotonic + RETRY;
        match self.phase {
            Phase::Standby | Phase::Leading(_) => self.answered(&flight, outcome, now, step),
            Phase::Leaving => self.left(&flight, outcome, now, step),
            Phase::Over => {}
        }
    }

    fn answered(&mut self, flight: &InFlight, outcome: Outcome, now: Now, step: &mut Step) {
        match outcome.object() {
            // It was granted, but so long ago that another process may have become leader since.
            Ok(lease) if flight.write && now.monotonic.since(flight.sent) >= RENEW_DEADLINE => {
                self.observe(lease, now);
            }
            Ok(lease) if flight.write => {
                self.observe(lease, now);
                self.problem = None;
                if self.phase == Phase::Standby {
                    step.notes.push(Note::LeadershipChanged { leading: true });
                }
                self.phase = Phase::Leading(flight.sent);
            }
            Ok(lease) => {
                self.observe(Arc::clone(&lease), now);
                let holder = record::holder(&lease);
                if matches!(self.phase, Phase::Leading(_)) && holder != self.identity {
                    // However little time has passed by our clock, it was long enough for another process.
                    self.end(&format!("is held by {holder:?}"), step);
                } else if self.is_free(now) {
                    self.claim(now, step);
                } else {
                    self.stand_by(holder, step);
                }
            }
            Err(failure) if failure.class == ErrorKind::NotFound && !flight.write => {
                self.seen = None;
                self.claim(now, step);
            }
            // Another client wrote in between, or perhaps our own write whose answer was lost: the lease is read again at
            // once. A conflict without a lease is a namespace that is being deleted, which takes time.
            Err(failure)
                if failure.class == ErrorKind::AlreadyExists
                    || (failure.class == ErrorKind::Conflict && self.seen.is_some()) =>
            {
                self.read(now, step);
            }
            // The lease was deleted while we held it: this counts as not renewed.
            Err(failure) if failure.class == ErrorKind::NotFound && self.seen.is_some() => self.seen = None,
            Err(failure) => {
                self.failed(flight.action, failure, step);
                // The shell's timeout ends a request at the same time as this machine would.
                if now.monotonic.since(flight.sent) >= PATIENCE {
                    self.read(now, step);
                }
            }
        }
    }

    /// Processes an answer while stepping down.
    fn left(&mut self, flight: &InFlight, outcome: Outcome, now: Now, step: &mut Step) {
        match outcome.object() {
            Ok(lease) if record::holder(&lease) == self.identity => {
                self.free(&lease, now, step);
            }
            // It may have taken effect all the same.
            Err(_) if flight.write => self.read(now, step),
            Ok(_) | Err(_) => self.phase = Phase::Over,
        }
    }

    fn stand_by(&mut self, holder: &str, step: &mut Step) {
        self.problem = None;
        if self.behind != holder {
            holder.clone_into(&mut self.behind);
            let message = format!("standing by: {} is held by {holder:?}", self.name_of_lease());
            step.notes.push(Note::info(message));
        }
    }

    /// Reports a failure, unless the previous attempt failed with one of the same class.
    fn failed(&mut self, action: &str, failure: Failure, step: &mut Step) {
        if self.problem.as_ref().is_none_or(|before| before.class != failure.class) {
            let remedy = match failure.class {
                ErrorKind::Forbidden => "this process has to be allowed to get, create and update it",
                ErrorKind::NotFound => "its namespace has to exist",
                ErrorKind::KindNotServed => "the API server has to serve Leases",
                ErrorKind::AlreadyExists
                | ErrorKind::Conflict
                | ErrorKind::Invalid
                | ErrorKind::Gone
                | ErrorKind::Throttled
                | ErrorKind::Unavailable
                | ErrorKind::Unknown => "it is tried again",
            };
            let message = format!("cannot {action} {}: {failure}; {remedy}", self.name_of_lease());
            step.notes.push(Note::Warning { message });
        }
        self.problem = Some(failure);
    }

    fn name_of_lease(&self) -> String {
        format!("the Lease {}/{}", self.lease.namespace.as_deref().unwrap_or_default(), self.lease.name)
    }

    fn tick(&mut self, now: Now, step: &mut Step) {
        match self.phase {
            Phase::Leading(renewed) if now.monotonic.since(renewed) >= RENEW_DEADLINE => {
                let met = self.problem.as_ref().map(ToString::to_string);
                let met = met.unwrap_or_else(|| "no answer came in time".to_owned());
                return self.end(&format!("was not renewed for {} s: {met}", RENEW_DEADLINE.as_secs()), step);
            }
            Phase::Standby | Phase::Leading(_) => {}
            Phase::Leaving | Phase::Over => return,
        }
        match &self.in_flight {
            Some(flight) if now.monotonic.since(flight.sent) >= PATIENCE => {
                let (action, message) = (flight.action, format!("no answer within {} s", PATIENCE.as_secs()));
                self.failed(action, Failure::new(ErrorKind::Unknown, message), step);
                self.read(now, step);
            }
            None if now.monotonic >= self.next_try => match self.phase {
                Phase::Leading(_) if self.seen.is_some() => self.claim(now, step),
                _ => self.read(now, step),
            },
            Some(_) | None => {}
        }
    }
}

impl Machine for Election {
    fn name(&self) -> &'static str {
        "election"
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let mut step = Step::default();
        let (starts, led) = (event == Event::Started, self.leads());
        match event {
            Event::Finished { id, outcome } => self.finished(id, outcome, now, &mut step),
            Event::LeadershipChanged { leading: false } => self.leave(now, &mut step),
            Event::Started
            | Event::TimerFired
            | Event::LeadershipChanged { leading: true }
            | Event::ListStarted { .. }
            | Event::ListCompleted { .. }
            | Event::Applied { .. }
            | Event::Deleted { .. }
            | Event::WatchFailed { .. } => {}
        }
        self.tick(now, &mut step);
        if starts || self.leads() != led {
            let labels = vec![self.lease.name.clone()];
            let by = Amount::Set(self.leads().into());
            step.notes.push(Note::Measured(Measure { metric: Cow::Borrowed(STATUS), labels, by }));
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        let give_up = match self.phase {
            Phase::Leading(renewed) => Some(Deadline {
                at: renewed + RENEW_DEADLINE,
                reason: DeadlineReason::Work("renew deadline"),
            }),
            Phase::Standby => None,
            Phase::Leaving | Phase::Over => return None,
        };
        let next = match &self.in_flight {
            Some(flight) => {
                Deadline { at: flight.sent + PATIENCE, reason: DeadlineReason::Work("no answer") }
            }
            None => Deadline { at: self.next_try, reason: DeadlineReason::Work("lease") },
        };
        give_up.into_iter().chain([next]).min_by_key(|deadline| deadline.at)
    }

    fn is_synced(&self) -> bool {
        true
    }

    fn metrics(&self) -> &'static [Metric] {
        &[Metric {
            name: STATUS,
            help: "Whether this process holds the lease (1) or not (0).",
            labels: &["name"],
            kind: MetricKind::Gauge,
        }]
    }
}

#[cfg(test)]
mod tests;
