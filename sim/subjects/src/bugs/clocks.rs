//! Mistakes in the handling of time.

use std::time::Duration;

use lockstep_engine::machine::{Deadline, DeadlineReason, Note, Step};
use lockstep_engine::time::{Monotonic, Now, Wall};
use lockstep_sim::bugs::{Bug, Flaw, plant};

use super::common::HOST;

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "backoff_by_wall_clock",
        sentence: "Delays are measured by the wall clock, which jumps.",
        controller: HOST,
        plant: plant::<WallClock>,
        garble: None,
    },
    Bug {
        name: "milliseconds_for_seconds",
        sentence: "Delays are a hundred times too short, so repeated failures cause a hot loop.",
        controller: HOST,
        plant: plant::<FastClock>,
        garble: None,
    },
    Bug {
        name: "requeues_are_dropped",
        sentence: "A key that failed is not retried before the next resync.",
        controller: HOST,
        plant: plant::<NoRequeue>,
        garble: None,
    },
    Bug {
        name: "nothing_is_timed",
        sentence: "The timer of the machine never fires: no retries, no resync.",
        controller: HOST,
        plant: plant::<NoDeadline>,
        garble: None,
    },
];

/// The difference between the time that the machine uses as monotonic and the real monotonic time.
#[derive(Default)]
struct WallClock {
    first: Option<Wall>,
    ahead: Duration,
    behind: Duration,
}

impl Flaw for WallClock {
    fn now(&mut self, now: Now) -> Now {
        let first = *self.first.get_or_insert(now.wall);
        // Enough room for a clock that jumps backwards.
        let reported = Duration::from_hours(48) + (now.wall - first);
        let reported = reported.saturating_sub(first - now.wall);
        let real = now.monotonic.elapsed();
        (self.ahead, self.behind) = (reported.saturating_sub(real), real.saturating_sub(reported));
        Now { monotonic: Monotonic::from_elapsed(reported), ..now }
    }

    fn deadline(&self, deadline: Option<Deadline>) -> Option<Deadline> {
        let real = |at: Monotonic| (at.elapsed() + self.behind).saturating_sub(self.ahead);
        deadline.map(|deadline| Deadline { at: Monotonic::from_elapsed(real(deadline.at)), ..deadline })
    }
}

#[derive(Default)]
struct FastClock;

impl Flaw for FastClock {
    /// The machine measures wrong durations. They are corrected in its notes; otherwise they would reveal the bug.
    fn step(&mut self, step: &mut Step) {
        for note in &mut step.notes {
            if let Note::Reconciled { took, .. } = note {
                *took /= 100;
            }
        }
    }

    fn now(&mut self, now: Now) -> Now {
        Now { monotonic: Monotonic::from_elapsed(now.monotonic.elapsed() * 100), ..now }
    }

    fn deadline(&self, deadline: Option<Deadline>) -> Option<Deadline> {
        let real = |at: Monotonic| Monotonic::from_elapsed(at.elapsed() / 100 + Duration::from_millis(1));
        deadline.map(|deadline| Deadline { at: real(deadline.at), ..deadline })
    }
}

#[derive(Default)]
struct NoRequeue;

impl Flaw for NoRequeue {
    fn deadline(&self, deadline: Option<Deadline>) -> Option<Deadline> {
        let resync = Duration::from_mins(10);
        deadline.map(|deadline| match deadline.reason {
            DeadlineReason::Requeue => {
                let resyncs = deadline.at.elapsed().as_secs() / resync.as_secs() + 1;
                let next = resync * u32::try_from(resyncs).unwrap_or(u32::MAX);
                Deadline { at: Monotonic::from_elapsed(next), reason: DeadlineReason::Resync }
            }
            _ => deadline,
        })
    }
}

#[derive(Default)]
struct NoDeadline;

impl Flaw for NoDeadline {
    fn deadline(&self, _: Option<Deadline>) -> Option<Deadline> {
        None
    }
}
