//! How often a namespace is repaired: a fight with another writer must neither spin nor stay untold.
//!
//! A repair is an apply of what the status says is applied already: somebody changed or removed it. The first comes at
//! once. While repairs follow one another closely, each waits twice as long as the one before; after a quiet time of
//! twice the last wait it all begins anew.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::backoff::Backoff;
use crate::time::Monotonic;

/// The waits between repairs that follow one another closely.
const WAITS: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_mins(5) };
/// From this many repairs in a row on, the binding says that somebody keeps changing its resources.
const CONTESTED_AFTER: u32 = 4;

/// The repairs of one namespace that followed one another closely.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Repairs {
    in_a_row: u32,
    last: Monotonic,
}

impl Repairs {
    /// Counts a repair.
    pub fn count(before: Option<Self>, now: Monotonic) -> Self {
        let in_a_row = before.filter(|before| before.unsettled(now).is_some()).map_or(0, |b| b.in_a_row);
        Self { in_a_row: in_a_row.saturating_add(1), last: now }
    }

    /// How long the next repair must wait.
    pub fn wait(&self, now: Monotonic) -> Option<Duration> {
        left(WAITS.ceiling(self.in_a_row), now.since(self.last))
    }

    /// How long it must stay quiet until the next repair is a first one again.
    pub fn unsettled(&self, now: Monotonic) -> Option<Duration> {
        left(WAITS.ceiling(self.in_a_row) * 2, now.since(self.last))
    }

    /// Whether it is worth telling.
    pub fn is_contested(&self) -> bool {
        self.in_a_row >= CONTESTED_AFTER
    }
}

fn left(whole: Duration, passed: Duration) -> Option<Duration> {
    whole.checked_sub(passed).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::START + Duration::from_secs(seconds)
    }

    #[test]
    fn repairs_in_a_row_wait_longer_and_longer() {
        let mut repairs = Repairs::count(None, at(0));
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = repairs.wait(repairs.last).expect("waits");
            waits.push(wait.as_millis() / 500);
            repairs = Repairs::count(Some(repairs), repairs.last + wait);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        assert!(repairs.is_contested());
    }

    #[test]
    fn an_edit_now_and_then_is_repaired_at_once() {
        let mut repairs = None;
        for minute in 0..20 {
            let counted = Repairs::count(repairs, at(minute * 60));
            assert!(!counted.is_contested());
            assert_eq!(counted.wait(at(minute * 60 + 1)), None);
            repairs = Some(counted);
        }
    }
}
