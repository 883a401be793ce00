//! Leader election by a Lease, as a machine of its own.
//!
//! ```text
//!            taken by another                 renewed
//!   ┌─────┐ ────────────────▶ ┌─────────┐    ┌──────┐
//!   │ read│                   │ standby │    │ lead │
//!   └─────┘ ◀──────────────── └─────────┘    └──────┘
//!      │      every RETRY                    ▲    │ not renewed for RENEW_DEADLINE,
//!      └── free, ours or expired: write ─────┘    │ or told to step down
//!                                                 ▼
//!                                              over (the process ends)
//! ```
//!
//! Whether another's lease has expired is judged by our monotonic clock alone: it has if its resource version has not
//! changed for a whole [`LEASE_DURATION`] since we first saw it. What other clocks wrote into it does not matter. A leader counts its
//! time from when a renewal was *sent*, so it stops before anyone else may start.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::action::{Action, ActionId, Class, Outcome, Request, Success};
use super::machine::{Deadline, Event, Machine, Note, Step};
use super::recorder::micro_time;
use crate::object::{Kind, ObjectRef, metadata};
use crate::time::{Monotonic, Now};

/// How long a lease holds without a sign of its holder (client-go's default).
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader tries to renew before it gives up (client-go's default).
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The pause between two tries (client-go's default).
pub const RETRY: Duration = Duration::from_secs(2);

/// The election, seen from one candidate.
#[derive(Debug)]
pub struct Election {
    lease: ObjectRef,
    identity: String,
    phase: Phase,
    /// The lease as last seen, and when its record last changed.
    seen: Option<(Arc<Value>, Monotonic)>,
    in_flight: Option<InFlight>,
    next_try: Monotonic,
    next_id: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Standby,
    /// Leads; the last renewal that was granted had been sent at this time.
    Leading(Monotonic),
    /// Gave the lease up for good.
    Over,
}

#[derive(Debug)]
struct InFlight {
    id: ActionId,
    write: bool,
    sent: Monotonic,
}

impl Election {
    /// A candidate named `identity` for the lease `namespace/name`.
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
        }
    }

    fn send(&mut self, action: Action, now: Now, step: &mut Step) {
        self.next_id += 1;
        let id = ActionId(self.next_id);
        self.in_flight = Some(InFlight { id, write: action.is_write(), sent: now.monotonic });
        step.requests.push(Request { id, action });
    }

    fn read(&mut self, now: Now, step: &mut Step) {
        self.send(Action::Get { target: self.lease.clone(), metadata_only: false }, now, step);
    }

    /// Writes ourselves into the lease: creates it, takes it, or renews it.
    fn claim(&mut self, now: Now, step: &mut Step) {
        let held = self.seen.as_ref().map(|(lease, _)| Arc::clone(lease));
        let manifest = Arc::new(self.claimed(held.as_deref(), now));
        let target = self.lease.clone();
        let action = match held {
            Some(_) => Action::Update { target, manifest },
            None => Action::Create { target, manifest },
        };
        self.send(action, now, step);
    }

    fn claimed(&self, held: Option<&Value>, now: Now) -> Value {
        let time = micro_time(now);
        let mut lease = held.cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": self.lease.kind.api_version(),
                "kind": self.lease.kind.kind,
                "metadata": { "namespace": self.lease.namespace, "name": self.lease.name },
                "spec": { "leaseTransitions": 0 },
            })
        });
        let ours = lease["spec"]["holderIdentity"] == self.identity.as_str();
        if !ours {
            let before = lease["spec"]["leaseTransitions"].as_i64().unwrap_or(0);
            lease["spec"]["leaseTransitions"] = json!(if held.is_some() { before + 1 } else { 0 });
            lease["spec"]["acquireTime"] = json!(time);
        }
        lease["spec"]["holderIdentity"] = json!(self.identity);
        lease["spec"]["leaseDurationSeconds"] = json!(LEASE_DURATION.as_secs());
        lease["spec"]["renewTime"] = json!(time);
        lease
    }

    /// Gives the lease back, so that the next leader need not wait for it to expire.
    fn release(&mut self, now: Now, step: &mut Step) {
        if let (Phase::Leading(_), Some((lease, _))) = (self.phase, &self.seen) {
            let mut freed = Value::clone(lease);
            freed["spec"]["holderIdentity"] = json!("");
            freed["spec"]["leaseDurationSeconds"] = json!(1);
            freed["spec"]["renewTime"] = json!(micro_time(now));
            let action = Action::Update { target: self.lease.clone(), manifest: Arc::new(freed) };
            self.send(action, now, step);
        }
        self.end(step);
    }

    fn end(&mut self, step: &mut Step) {
        if matches!(self.phase, Phase::Leading(_)) {
            step.notes.push(Note::LeadershipChanged { leading: false });
        }
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

    /// Whether the lease as seen may be claimed.
    fn is_free(&self, now: Now) -> bool {
        let Some((lease, since)) = &self.seen else { return true };
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        holder.is_empty() || holder == self.identity || now.monotonic.since(*since) >= LEASE_DURATION
    }

    fn finished(&mut self, id: ActionId, outcome: Outcome, now: Now, step: &mut Step) {
        let Some(flight) = self.in_flight.take_if(|flight| flight.id == id) else { return };
        if self.phase == Phase::Over {
            return;
        }
        self.next_try = now.monotonic + RETRY;
        match outcome {
            // Granted, but so long ago that others may have taken over since.
            Ok(Success::Object(lease))
                if flight.write && now.monotonic.since(flight.sent) >= RENEW_DEADLINE =>
            {
                self.observe(lease, now);
            }
            Ok(Success::Object(lease)) if flight.write => {
                self.observe(lease, now);
                if self.phase == Phase::Standby {
                    step.notes.push(Note::LeadershipChanged { leading: true });
                }
                self.phase = Phase::Leading(flight.sent);
            }
            Ok(Success::Object(lease)) => {
                self.observe(lease, now);
                if self.is_free(now) {
                    self.claim(now, step);
                }
            }
            Err(failure) if failure.class == Class::NotFound && !flight.write => {
                self.seen = None;
                self.claim(now, step);
            }
            // Someone wrote in between, or perhaps our own write whose answer was lost: look again at once.
            Err(failure) if failure.class == Class::Conflict || failure.class == Class::AlreadyExists => {
                self.read(now, step);
            }
            // The lease was deleted under us: as good as not renewed.
            Err(failure) if failure.class == Class::NotFound => self.seen = None,
            Ok(
                Success::Done
                | Success::Kinds(_)
                | Success::Objects(_)
                | Success::Document(_)
                | Success::Image(_)
                | Success::Published(_),
            )
            | Err(_) => {}
        }
    }

    fn tick(&mut self, now: Now, step: &mut Step) {
        if let Phase::Leading(renewed) = self.phase
            && now.monotonic.since(renewed) >= RENEW_DEADLINE
        {
            self.end(step);
        }
        if self.phase == Phase::Over || self.in_flight.is_some() || now.monotonic < self.next_try {
            return;
        }
        match self.phase {
            Phase::Leading(_) if self.seen.is_some() => self.claim(now, step),
            Phase::Leading(_) | Phase::Standby | Phase::Over => self.read(now, step),
        }
    }
}

impl Machine for Election {
    fn name(&self) -> &'static str {
        "election"
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let mut step = Step::default();
        match event {
            Event::Finished { id, outcome } => self.finished(id, outcome, now, &mut step),
            Event::LeadershipChanged { leading: false } => self.release(now, &mut step),
            Event::Started
            | Event::Woke
            | Event::LeadershipChanged { leading: true }
            | Event::ListStarted { .. }
            | Event::ListCompleted { .. }
            | Event::Observed { .. }
            | Event::Vanished { .. }
            | Event::WatchFailed { .. } => {}
        }
        self.tick(now, &mut step);
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        let give_up = match self.phase {
            Phase::Leading(renewed) => {
                Some(Deadline { at: renewed + RENEW_DEADLINE, reason: "renew deadline" })
            }
            Phase::Standby => None,
            Phase::Over => return None,
        };
        let retry = self.in_flight.is_none().then_some(Deadline { at: self.next_try, reason: "lease" });
        give_up.into_iter().chain(retry).min_by_key(|deadline| deadline.at)
    }

    fn queue_depths(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    fn is_synced(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[path = "lease/tests.rs"]
mod tests;
