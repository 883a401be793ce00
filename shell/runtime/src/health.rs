//! Whether a driver's loop still runs, without a request to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockstep_engine::time::Monotonic;

/// How long a loop with pending work may run no turn.
pub const STALLED_AFTER: Duration = Duration::from_mins(1);

/// The state that one driver reports after every turn.
#[derive(Debug, Clone)]
pub struct Health {
    controller: &'static str,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// Milliseconds at which a loop without a turn counts as stuck; [`IDLE`] if only events can wake it.
    stuck_at: AtomicU64,
    synced: AtomicBool,
}

const IDLE: u64 = u64::MAX;

impl Health {
    /// Creates the state: healthy and not yet synced.
    pub fn new(controller: &'static str) -> Self {
        Self {
            controller,
            state: Arc::new(State { stuck_at: AtomicU64::new(IDLE), synced: AtomicBool::new(false) }),
        }
    }

    /// Returns the controller's name.
    pub fn controller(&self) -> &'static str {
        self.controller
    }

    /// Returns whether the controller has listed what its decisions depend on.
    pub fn is_synced(&self) -> bool {
        self.state.synced.load(Ordering::Relaxed)
    }

    /// Returns whether the loop has run in time.
    pub fn is_alive(&self, now: Monotonic) -> bool {
        millis(now) < self.state.stuck_at.load(Ordering::Relaxed)
    }

    /// Records that an event woke the loop. It must finish a turn within its patience, if it has one, otherwise within
    /// [`STALLED_AFTER`].
    pub(crate) fn woken(&self, now: Monotonic, patience: Option<Duration>) {
        let stuck_at = now + patience.unwrap_or(STALLED_AFTER);
        self.state.stuck_at.store(millis(stuck_at), Ordering::Relaxed);
    }

    /// Records a turn of the loop at `now`. The next turn is due at the deadline, if there is one; or before its patience ends,
    /// if it has one.
    pub(crate) fn turned(
        &self,
        now: Monotonic,
        deadline: Option<Monotonic>,
        patience: Option<Duration>,
        synced: bool,
    ) {
        let stuck_at = match patience {
            Some(patience) => Some(now + patience),
            None => deadline.map(|deadline| deadline + STALLED_AFTER),
        };
        self.state.stuck_at.store(stuck_at.map_or(IDLE, millis), Ordering::Relaxed);
        self.state.synced.store(synced, Ordering::Relaxed);
    }
}

fn millis(at: Monotonic) -> u64 {
    u64::try_from(at.elapsed().as_millis()).unwrap_or(IDLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_elapsed(Duration::from_secs(seconds))
    }

    #[test]
    fn an_idle_loop_is_alive_and_an_overdue_one_is_not() {
        let health = Health::new("test");
        assert!(health.is_alive(at(1_000_000)));
        health.woken(at(100), None);
        assert!(health.is_alive(at(159)));
        assert!(!health.is_alive(at(160)));
        health.turned(at(100), Some(at(1_000)), None, true);
        assert!(health.is_alive(at(1_059)));
        assert!(!health.is_alive(at(1_060)));
        health.turned(at(1_000), None, None, true);
        assert!(health.is_alive(at(1_000_000)));
        assert!(health.is_synced());
        health.turned(at(1_000), Some(at(2_000)), Some(Duration::from_secs(15)), true);
        assert!(health.is_alive(at(1_014)));
        assert!(!health.is_alive(at(1_015)));
        health.woken(at(1_015), Some(Duration::from_secs(15)));
        assert!(health.is_alive(at(1_029)));
        assert!(!health.is_alive(at(1_030)));
    }
}
