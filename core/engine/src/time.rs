//! The two readings of time that every step gets.
//!
//! [`Monotonic`] never jumps and is used for delays, deadlines and backoff. [`Wall`] is used for timestamps in objects and
//! for people. It may jump in either direction, so it schedules nothing. This is the only module that converts between forms
//! of time.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Both clocks at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// For comparing with and writing timestamps.
    pub wall: Wall,
    /// For backoff, deadlines and requeues.
    pub monotonic: Monotonic,
}

/// Milliseconds since the process (or the simulation) began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Monotonic(u64);

impl Monotonic {
    /// The beginning.
    pub const START: Self = Self(0);

    /// Returns the instant that is `elapsed` after the beginning, truncated to milliseconds.
    pub fn from_elapsed(elapsed: Duration) -> Self {
        Self(millis(elapsed))
    }

    /// Returns the time since the beginning.
    pub const fn elapsed(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// Returns the time since `earlier`; zero if that is in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Monotonic {
    type Output = Self;

    fn add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(millis(delay)))
    }
}

impl fmt::Debug for Monotonic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{}.{:03}s", self.0 / 1000, self.0 % 1000)
    }
}

/// Milliseconds since the Unix epoch, according to the local clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Wall(i64);

impl Wall {
    /// Converts a timestamp, truncated to milliseconds.
    pub fn from_timestamp(timestamp: Timestamp) -> Self {
        Self(timestamp.as_millisecond())
    }

    /// Returns this reading as a timestamp. A reading outside the range of timestamps becomes the nearest one in the range.
    pub fn timestamp(self) -> Timestamp {
        let nearest_end = if self.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::from_millisecond(self.0).unwrap_or(nearest_end)
    }

    /// Returns this reading in whole seconds, the resolution of `metav1.Time`.
    pub fn timestamp_seconds(self) -> Timestamp {
        let nearest_end = if self.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::from_second(self.0.div_euclid(1000)).unwrap_or(nearest_end)
    }
}

impl Sub for Wall {
    type Output = Duration;

    /// Returns how much later this is than `earlier`; zero if it is earlier.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Debug for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.timestamp())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_beyond_the_range_stays_at_its_end() {
        let end = Monotonic::START + Duration::MAX;
        assert_eq!(end + Duration::from_secs(1), end);
        assert_eq!(Monotonic::START.since(end), Duration::ZERO);
    }

    #[test]
    fn a_clock_beyond_the_calendar_reads_as_its_end() {
        assert_eq!(Wall(i64::MAX).timestamp(), Timestamp::MAX);
        assert_eq!(Wall(i64::MIN).timestamp_seconds(), Timestamp::MIN);
    }

    #[test]
    fn seconds_round_down_before_the_epoch_too() {
        assert_eq!(Wall(-1).timestamp_seconds().as_second(), -1);
    }
}
