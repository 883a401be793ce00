//! The clocks that machines get readings of.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lockstep_engine::time::{Monotonic, Now, Wall};
use tokio::time::Instant;

/// Reads both clocks: the monotonic time since the process started, and the wall clock.
#[derive(Clone)]
pub struct Clock {
    start: Instant,
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("start", &self.start).finish_non_exhaustive()
    }
}

impl Clock {
    /// Starts the monotonic clock, which uses the clock of the runtime. The wall clock is read from `wall`: in a process it is
    /// [`Timestamp::now`], in a simulation the wall clock of a host.
    pub fn start(wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { start: Instant::now(), wall: Arc::new(wall) }
    }

    /// Reads both clocks.
    pub fn now(&self) -> Now {
        Now { wall: Wall::from_timestamp((self.wall)()), monotonic: self.monotonic() }
    }

    /// Reads the monotonic clock.
    pub fn monotonic(&self) -> Monotonic {
        Monotonic::from_elapsed(self.start.elapsed())
    }

    /// Returns the runtime's instant for a reading. A reading that is too far ahead becomes a year from now.
    pub fn instant(&self, at: Monotonic) -> Instant {
        const FAR: Duration = Duration::from_hours(365 * 24);
        self.start + at.elapsed().min(self.start.elapsed() + FAR)
    }
}
