//! The clocks that machines are given readings of.

use std::time::Duration;

use jiff::Timestamp;
use lockstep_core::time::{Monotonic, Now, Wall};
use tokio::time::Instant;

/// Reads both clocks: monotonic time since the process began, and the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts monotonic time here.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Reads both clocks.
    pub fn now(&self) -> Now {
        Now { wall: Wall::from_timestamp(Timestamp::now()), monotonic: self.monotonic() }
    }

    /// Reads the monotonic clock.
    pub fn monotonic(&self) -> Monotonic {
        Monotonic::from_elapsed(self.start.elapsed())
    }

    /// The runtime's instant for a reading; readings too far ahead for it become a year from the start.
    pub fn instant(&self, at: Monotonic) -> Instant {
        const FAR: Duration = Duration::from_hours(365 * 24);
        self.start + at.elapsed().min(FAR)
    }
}
