//! The state of the connection to the broker.

use std::time::Duration;

use lockstep_engine::action::ActionId;
use lockstep_engine::backoff::Backoff;
use lockstep_engine::random::Random;
use lockstep_engine::time::Monotonic;

/// The backoff after a connection failed or was lost.
const RECONNECT: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// The connection to the broker.
#[derive(Debug, Clone, Default)]
pub(super) struct Link {
    /// The request that opened the connection, while it is up. What is sent over a connection has it too: a late answer may be
    /// about an earlier connection, even to the same broker.
    pub(super) up: Option<ActionId>,
    /// Whether there were failures since it was last up.
    pub(super) is_troubled: bool,
    /// Whether the broker has refused all events since it last confirmed one. It may accept connections nevertheless.
    pub(super) is_refusing: bool,
    /// The request in flight to connect. Answers of earlier ones are about another broker or configuration, and are ignored.
    pub(super) asking: Option<ActionId>,
    /// Consecutive failures or losses since it last worked. A user who can connect may still not be permitted to publish.
    failures: u32,
    not_before: Monotonic,
}

impl Link {
    /// Returns the connection to another broker. Until it is up, the condition of the former one stands.
    pub(super) fn to_another(&self) -> Self {
        Self { is_troubled: self.is_troubled, ..Self::default() }
    }

    /// Records that it works.
    pub(super) fn works(&mut self) {
        self.failures = 0;
    }

    /// Records that a connection failed or was lost: the next one waits.
    pub(super) fn lost(&mut self, now: Monotonic, random: &mut Random) {
        self.up = None;
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + RECONNECT.delay(self.failures, random);
    }

    /// Returns when to connect, unless the link is up or a connection is being made.
    pub(super) fn due(&self) -> Option<Monotonic> {
        (self.up.is_none() && self.asking.is_none()).then_some(self.not_before)
    }
}
