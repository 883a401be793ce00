//! The delays of the external systems.

use std::time::Duration;

/// The delays of an external system: each is drawn between a minimum and a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Delay of an ordinary step, such as the next component of a control plane.
    pub step: (Duration, Duration),
    /// Delay of a slow step, such as the teardown of a control plane.
    pub teardown: (Duration, Duration),
}

impl Pace {
    /// For interactive use: a control plane is ready in about ten seconds.
    pub const BRISK: Self = Self {
        step: (Duration::from_millis(300), Duration::from_millis(1500)),
        teardown: (Duration::from_secs(2), Duration::from_secs(5)),
    };
    /// For explorations, in which the systems start again whenever they act: no step waits.
    pub const AT_ONCE: Self =
        Self { step: (Duration::ZERO, Duration::ZERO), teardown: (Duration::ZERO, Duration::ZERO) };
    /// For simulations: a control plane is ready within three minutes, and is torn down within two more.
    pub const SLOW: Self = Self {
        step: (Duration::from_millis(100), Duration::from_secs(20)),
        teardown: (Duration::from_secs(10), Duration::from_mins(2)),
    };
}
