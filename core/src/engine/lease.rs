//! Leader election by a Lease, as a machine of its own.
//!
//! ```text
//!            taken by another                 renewed
//!   ┌─────┐ ────────────────▶ ┌─────────┐    ┌──────┐
//!   │ read│                   │ standby │    │ lead │
//!   └─────┘ ◀──────────────── └─────────┘    └──────┘
//!      │      every RETRY                    ▲    │ not renewed for RENEW_DEADLINE, found in
//!      └── free, ours or expired: write ─────┘    │ other hands, or told to step down
//!                                                 ▼
//!                                              over (the process ends)
//! ```
//!
//! Whether another's lease has expired is judged by our monotonic clock alone: it has if its resource version has not
//! changed for a whole [`LEASE_DURATION`] since we first saw it. What other clocks wrote into it does not matter. A leader counts its
//! time from when a renewal was *sent*, so it stops before anyone else may start. Where its clock stood still meanwhile, as
//! that of a paused machine does, somebody else has started: it stops as soon as it finds another in the lease.
//!
//! A request without an answer is given up after [`PATIENCE`], and the lease is read anew: one connection that died without a
//! word must not cost the leadership. What came of a write that was given up is for that read to tell; its own answer, should it still
//! come, counts for nothing.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::action::{Action, ActionId, Class, Failure, Outcome, Request, Success};
use super::machine::{Deadline, Event, Machine, Note, Step};
use crate::object::{Kind, ObjectRef, metadata};
use crate::time::{Monotonic, Now};

mod record;

/// How long a lease holds without a sign of its holder (client-go's default).
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader tries to renew before it gives up (client-go's default).
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The pause between two tries (client-go's default).
pub const RETRY: Duration = Duration::from_secs(2);
/// How long an answer is awaited (client-go's default: half of the time that a leader tries).
pub const PATIENCE: Duration = Duration::from_secs(5);

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
    /// What the last try met, if it did not end well.
    trouble: Option<Failure>,
    /// The leader that was told last.
    behind: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Standby,
    /// Leads; the last renewal that was granted had been sent at this time.
    Leading(Monotonic),
    /// Steps down, and gives the lease back once it is known how that stands.
    Leaving,
    /// Gave the lease up for good.
    Over,
}

#[derive(Debug)]
struct InFlight {
    id: ActionId,
    /// What is asked for, in a word.
    action: &'static str,
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
            trouble: None,
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
        self.send(Action::Get { target: self.lease.clone(), metadata_only: false }, now, step);
    }

    /// Writes ourselves into the lease: creates it, takes it, or renews it.
    fn claim(&mut self, now: Now, step: &mut Step) {
        let target = self.lease.clone();
        let held = self.seen.as_ref().map(|(lease, _)| &**lease);
        let manifest = Arc::new(record::claimed(held, &target, &self.identity, now));
        let action = match held {
            Some(_) => Action::Update { target, manifest },
            None => Action::Create { target, manifest },
        };
        self.send(action, now, step);
    }

    /// Steps down, and sees to it that the lease is given back if it is ours, or may become so by a write on its way.
    fn leave(&mut self, now: Now, step: &mut Step) {
        let leading = matches!(self.phase, Phase::Leading(_));
        if leading {
            step.notes.push(Note::LeadershipChanged { leading: false });
        }
        let under_way = self.in_flight.as_ref().map(|flight| flight.write);
        match (self.phase, under_way, self.seen.clone()) {
            (Phase::Leaving | Phase::Over, ..) => {}
            // Whatever is sent beside it can only be refused, or be overtaken by it.
            (_, Some(true), _) => self.phase = Phase::Leaving,
            // It was to be read because nobody knew how it stands. Who steps down may not hear of reads begun before.
            (Phase::Leading(_), Some(false), _) => {
                self.phase = Phase::Leaving;
                self.read(now, step);
            }
            (Phase::Leading(_), None, Some((lease, _))) => self.free(&lease, now, step),
            (Phase::Standby | Phase::Leading(_), ..) => self.phase = Phase::Over,
        }
    }

    /// Gives the lease back, which is the last thing done.
    fn free(&mut self, lease: &Value, now: Now, step: &mut Step) {
        let manifest = Arc::new(record::freed(lease, now));
        self.send(Action::Update { target: self.lease.clone(), manifest }, now, step);
        self.phase = Phase::Over;
    }

    /// Leads no longer.
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

    /// Whether the lease as seen may be claimed.
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
        match outcome {
            // Granted, but so long ago that others may have taken over since.
            Ok(Success::Object(lease))
                if flight.write && now.monotonic.since(flight.sent) >= RENEW_DEADLINE =>
            {
                self.observe(lease, now);
            }
            Ok(Success::Object(lease)) if flight.write => {
                self.observe(lease, now);
                self.trouble = None;
                if self.phase == Phase::Standby {
                    step.notes.push(Note::LeadershipChanged { leading: true });
                }
                self.phase = Phase::Leading(flight.sent);
            }
            Ok(Success::Object(lease)) => {
                self.observe(Arc::clone(&lease), now);
                let holder = record::holder(&lease);
                if matches!(self.phase, Phase::Leading(_)) && holder != self.identity {
                    // However little time has passed for us: it was long enough for another.
                    self.end(&format!("is held by {holder:?}"), step);
                } else if self.is_free(now) {
                    self.claim(now, step);
                } else {
                    self.stand_by(holder, step);
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
            Err(failure) if failure.class == Class::NotFound && self.seen.is_some() => self.seen = None,
            Err(failure) => {
                self.failed(flight.action, failure, step);
                // The shell gives up as soon as this machine would.
                if now.monotonic.since(flight.sent) >= PATIENCE {
                    self.read(now, step);
                }
            }
            Ok(
                Success::Done
                | Success::Kinds(_)
                | Success::Objects(_)
                | Success::Document(_)
                | Success::Oversized { .. }
                | Success::Image(_)
                | Success::Published(_),
            ) => {}
        }
    }

    /// An answer while stepping down.
    fn left(&mut self, flight: &InFlight, outcome: Outcome, now: Now, step: &mut Step) {
        match outcome {
            Ok(Success::Object(lease)) if record::holder(&lease) == self.identity => {
                self.free(&lease, now, step);
            }
            // Perhaps it was carried out all the same.
            Err(_) if flight.write => self.read(now, step),
            Ok(_) | Err(_) => self.phase = Phase::Over,
        }
    }

    fn stand_by(&mut self, holder: &str, step: &mut Step) {
        self.trouble = None;
        if self.behind != holder {
            holder.clone_into(&mut self.behind);
            let message = format!("standing by: {} is held by {holder:?}", self.name_of_lease());
            step.notes.push(Note::Log { debug: false, message });
        }
    }

    /// Tells of a failure, unless the try before met one of the same class.
    fn failed(&mut self, action: &str, failure: Failure, step: &mut Step) {
        if self.trouble.as_ref().is_none_or(|before| before.class != failure.class) {
            let remedy = match failure.class {
                Class::Forbidden => "this process has to be allowed to get, create and update it",
                Class::NotFound => "its namespace has to exist",
                Class::AlreadyExists
                | Class::Conflict
                | Class::Invalid
                | Class::Gone
                | Class::Throttled
                | Class::Unavailable
                | Class::Unknown => "it is tried again",
            };
            let message = format!("cannot {action} {}: {failure}; {remedy}", self.name_of_lease());
            step.notes.push(Note::Warning { message });
        }
        self.trouble = Some(failure);
    }

    fn name_of_lease(&self) -> String {
        format!("the Lease {}/{}", self.lease.namespace.as_deref().unwrap_or_default(), self.lease.name)
    }

    fn tick(&mut self, now: Now, step: &mut Step) {
        match self.phase {
            Phase::Leading(renewed) if now.monotonic.since(renewed) >= RENEW_DEADLINE => {
                let met = self.trouble.as_ref().map(ToString::to_string);
                let met = met.unwrap_or_else(|| "no answer came in time".to_owned());
                return self.end(&format!("was not renewed for {} s: {met}", RENEW_DEADLINE.as_secs()), step);
            }
            Phase::Standby | Phase::Leading(_) => {}
            Phase::Leaving | Phase::Over => return,
        }
        match &self.in_flight {
            Some(flight) if now.monotonic.since(flight.sent) >= PATIENCE => {
                let (action, message) = (flight.action, format!("no answer within {} s", PATIENCE.as_secs()));
                self.failed(action, Failure::new(Class::Unknown, message), step);
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
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        let give_up = match self.phase {
            Phase::Leading(renewed) => {
                Some(Deadline { at: renewed + RENEW_DEADLINE, reason: "renew deadline" })
            }
            Phase::Standby => None,
            Phase::Leaving | Phase::Over => return None,
        };
        let next = match &self.in_flight {
            Some(flight) => Deadline { at: flight.sent + PATIENCE, reason: "no answer" },
            None => Deadline { at: self.next_try, reason: "lease" },
        };
        give_up.into_iter().chain([next]).min_by_key(|deadline| deadline.at)
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
