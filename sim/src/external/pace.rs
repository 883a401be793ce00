//! How long things take in the worlds.

use std::time::Duration;

/// How slow a world is: each time is drawn anew between the two that are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// For an ordinary step, such as the next component of a control plane.
    pub step: (Duration, Duration),
    /// For what takes long: taking a control plane down.
    pub teardown: (Duration, Duration),
}

impl Pace {
    /// For people who watch: a control plane stands in about ten seconds.
    pub const BRISK: Self = Self {
        step: (Duration::from_millis(300), Duration::from_millis(1500)),
        teardown: (Duration::from_secs(2), Duration::from_secs(5)),
    };
    /// For simulations: a control plane stands within three minutes, and is taken down within two more.
    pub const SLOW: Self = Self {
        step: (Duration::from_millis(100), Duration::from_secs(20)),
        teardown: (Duration::from_secs(10), Duration::from_mins(2)),
    };
}
