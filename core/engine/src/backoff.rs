//! Exponential backoff for each key, with seeded jitter. It only computes delays: it does not sleep.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pairs;
use crate::random::Random;

/// The upper bound on an honoured `Retry-After`. A proxy in maintenance may ask for hours, and be back in a minute.
pub const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// The bounds of an exponential backoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// The longest delay after the first failure.
    pub initial: Duration,
    /// The longest delay of all.
    pub max: Duration,
}

impl Backoff {
    /// Returns the longest delay after the given number of failures in a row: the initial one, doubled with each.
    pub fn ceiling(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.initial.saturating_mul(1 << doublings).min(self.max)
    }

    /// Returns the delay after the given number of failures in a row. It is between three quarters of the ceiling and the
    /// ceiling, so that keys that failed together are not retried together.
    pub fn delay(&self, failures: u32, random: &mut Random) -> Duration {
        let ceiling = self.ceiling(failures);
        let quarter = u64::try_from(ceiling.as_millis() / 4).unwrap_or(u64::MAX);
        ceiling.saturating_sub(Duration::from_millis(random.below(quarter.saturating_add(1))))
    }
}

/// The consecutive failures of each key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de> + Ord"))]
pub struct Backoffs<K> {
    policy: Backoff,
    #[serde(with = "pairs")]
    failures: BTreeMap<K, u32>,
}

impl<K: Ord + Clone> Backoffs<K> {
    /// Returns an empty record of failures.
    pub fn new(policy: Backoff) -> Self {
        Self { policy, failures: BTreeMap::new() }
    }

    /// Counts a failure of a key and returns the delay before its retry. A policy of the key's own replaces the default one.
    pub fn fail(&mut self, key: &K, policy: Option<Backoff>, random: &mut Random) -> Duration {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        *failures = failures.saturating_add(1);
        policy.unwrap_or(self.policy).delay(*failures, random)
    }

    /// Resets the failures of a key.
    pub fn reset(&mut self, key: &K) {
        self.failures.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(5) };

    #[test]
    fn delays_double_up_to_the_maximum_and_success_starts_over() {
        let ceilings: Vec<u64> = (1..=11).map(|failures| POLICY.ceiling(failures).as_secs()).collect();
        assert_eq!(ceilings, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let mut backoffs = Backoffs::new(POLICY);
        let mut random = Random::from_seed(1);
        for _ in 0..100 {
            backoffs.fail(&"key", None, &mut random);
        }
        assert!(backoffs.fail(&"key", None, &mut random) >= Duration::from_secs(225));
        backoffs.reset(&"key");
        assert!(backoffs.fail(&"key", None, &mut random) <= Duration::from_secs(1));
    }

    proptest! {
        #[test]
        fn jitter_keeps_between_three_quarters_and_all(failures in 1u32..1000, seed: u64) {
            let delay = POLICY.delay(failures, &mut Random::from_seed(seed));
            let ceiling = POLICY.ceiling(failures);
            prop_assert!(delay <= ceiling && delay >= ceiling * 3 / 4);
        }
    }
}
