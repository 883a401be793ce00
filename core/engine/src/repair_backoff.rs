//! Limits how often an object is repaired. If another writer keeps changing it, a controller must not spin, and must report it.
//!
//! The first repair of each object happens at once. While repairs of one object follow one another closely, each waits twice as
//! long as the one before. The count starts from zero after a quiet time of twice the next delay and at least half a minute, or
//! when the object is to have other content. Repairs of other objects do not affect this.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::time::Monotonic;

/// The delays between repairs that follow one another closely.
const WAITS: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_mins(5) };
/// The minimum quiet time. A controller that learns of each change seconds late repairs only so often, without any backoff.
const QUIET_MIN: Duration = Duration::from_secs(30);
/// After this many repairs in a row, it is reported that another client keeps changing the object.
const CONTESTED_AFTER: u32 = 4;

/// Returns what is reported of an object that another client keeps changing.
pub fn contested(object: &str) -> String {
    format!(
        "another client or an admission webhook keeps changing or removing {object}, so it is repaired every five minutes at worst; \
         stop that client (metadata.managedFields names the writers)"
    )
}

/// The objects that were repaired recently. A key identifies an object and its content.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RepairBackoff<K> {
    rows: Vec<Row<K>>,
}

impl<K> Default for RepairBackoff<K> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

/// The repairs of one object that followed one another closely.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row<K> {
    #[serde(rename = "entry")]
    key: K,
    #[serde(rename = "drift_backoff")]
    repairs: u32,
    last: Monotonic,
    /// Whether it could not be written in the last pass. That is no repair: it is reported and retried like every failure.
    failed: bool,
}

impl<K> Row<K> {
    /// Returns the delay until the next repair is allowed.
    fn wait(&self, now: Monotonic) -> Option<Duration> {
        left(WAITS.ceiling(self.repairs), now.since(self.last))
    }

    /// Returns the quiet time that is left until the next repair counts as a first one again.
    fn unsettled(&self, now: Monotonic) -> Option<Duration> {
        left((WAITS.ceiling(self.repairs) * 2).max(QUIET_MIN), now.since(self.last))
    }
}

impl<K: PartialEq> RepairBackoff<K> {
    /// Records a pass: the objects that it repaired, and those that it could not write.
    pub fn take_in(&mut self, repaired: Vec<K>, failed: &[K], now: Monotonic) {
        for row in &mut self.rows {
            row.failed = failed.contains(&row.key);
        }
        for key in repaired {
            if let Some(row) = self.rows.iter_mut().find(|row| row.key == key) {
                row.repairs = row.repairs.saturating_add(1);
                row.last = now;
            } else {
                self.rows.push(Row { key, repairs: 1, last: now, failed: false });
            }
        }
    }

    /// Removes the objects that have been quiet for long enough, and those with a key that is not kept. `keep` may change a key.
    /// Returns whether any are left.
    pub fn settle(&mut self, now: Monotonic, mut keep: impl FnMut(&mut K) -> bool) -> bool {
        self.rows.retain_mut(|row| keep(&mut row.key) && row.unsettled(now).is_some());
        !self.rows.is_empty()
    }

    /// Returns the delay until the next repair of an object is allowed.
    pub fn wait(&self, key: &K, now: Monotonic) -> Option<Duration> {
        self.rows.iter().find(|row| row.key == *key && !row.failed)?.wait(now)
    }

    /// Returns the objects that another client keeps changing, and for how much longer each is reported.
    pub fn contested(&self, now: Monotonic) -> impl Iterator<Item = (&K, Duration)> {
        let contested = self.rows.iter().filter(|row| row.repairs >= CONTESTED_AFTER);
        contested.filter_map(move |row| Some((&row.key, row.unsettled(now)?)))
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

    fn is_contested(backoff: &RepairBackoff<&str>, now: Monotonic) -> bool {
        backoff.contested(now).next().is_some()
    }

    #[test]
    fn repairs_in_a_row_wait_longer_and_longer() {
        let mut backoff = RepairBackoff::default();
        let (mut now, mut waits) = (at(0), Vec::new());
        for _ in 0..12 {
            backoff.take_in(vec!["a"], &[], now);
            let wait = backoff.wait(&"a", now).expect("waits");
            waits.push(wait.as_millis() / 500);
            now = now + wait;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        assert!(is_contested(&backoff, now));
        assert!(backoff.settle(now, |_| true));
        assert!(!backoff.settle(now + Duration::from_mins(5), |_| true), "it was quiet");
    }

    #[test]
    fn what_is_not_kept_starts_from_zero_and_another_key_keeps_the_count() {
        let mut backoff = RepairBackoff::default();
        backoff.take_in(vec!["a", "b"], &[], at(0));
        let keep = |key: &mut &str| {
            let is_kept = *key == "a";
            *key = "c";
            is_kept
        };
        assert!(backoff.settle(at(0), keep));
        assert_eq!(["a", "b"].map(|key| backoff.wait(&key, at(0))), [None, None]);
        assert!(backoff.wait(&"c", at(0)).is_some());
    }

    #[test]
    fn an_edit_now_and_then_is_repaired_at_once() {
        let mut backoff = RepairBackoff::default();
        for minute in 0..20 {
            backoff.settle(at(minute * 60), |_| true);
            backoff.take_in(vec!["a"], &[], at(minute * 60));
            assert!(!is_contested(&backoff, at(minute * 60)));
            assert_eq!(backoff.wait(&"a", at(minute * 60 + 1)), None);
        }
    }

    #[test]
    fn a_fight_that_is_noticed_late_slows_down_as_well() {
        let mut backoff = RepairBackoff::default();
        let (mut now, mut repairs) = (at(0), 0);
        while now < at(600) {
            backoff.settle(now, |_| true);
            if backoff.wait(&"a", now).is_none() {
                backoff.take_in(vec!["a"], &[], now);
                repairs += 1;
            }
            now = now + Duration::from_millis(2100);
        }
        assert!(is_contested(&backoff, now));
        assert!(repairs <= 12, "{repairs} repairs in ten minutes");
    }

    #[test]
    fn a_fight_over_one_object_holds_up_no_other() {
        let mut backoff = RepairBackoff::default();
        for minute in 0..10 {
            backoff.take_in(vec!["a"], &[], at(minute * 60));
        }
        assert_eq!(backoff.wait(&"b", at(540)), None);
        backoff.take_in(vec!["b"], &[], at(541));
        assert_eq!(backoff.wait(&"b", at(541)), Some(Duration::from_millis(500)));
        assert_eq!(backoff.wait(&"a", at(541)), Some(Duration::from_secs(255)), "nor restarts it");
        let contested: Vec<&str> = backoff.contested(at(541)).map(|(key, _)| *key).collect();
        assert_eq!(contested, ["a"]);
        assert!(backoff.settle(at(580), |_| true));
        assert!(!backoff.settle(at(580), |key| *key == "b"), "b was quiet, and a is not kept");
    }

    #[test]
    fn what_fails_is_tried_again_and_counts_when_it_is_repaired() {
        let mut backoff = RepairBackoff::default();
        backoff.take_in(vec!["a"], &[], at(0));
        assert!(backoff.wait(&"a", at(0)).is_some());
        backoff.take_in(Vec::new(), &["a"], at(0));
        assert_eq!(backoff.wait(&"a", at(0)), None);
        backoff.take_in(vec!["a"], &[], at(0));
        assert_eq!(backoff.wait(&"a", at(0)), Some(Duration::from_secs(1)));
    }
}
