//! The keyed work queue: one entry for each key, one reconcile in flight for each key, and at most N keys at a time.
//!
//! A key that is added while its reconcile is in flight is remembered and becomes ready when that one is done. A delayed key
//! becomes ready at its time, or at once when it is added without delay. A held key does not become ready before its hold
//! ends, however it is added. The time that a key waits counts from when it was added, or from when its delay ended.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pairs;
use crate::time::Monotonic;

/// A queue of keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de> + Ord"))]
pub struct Queue<K> {
    concurrency: usize,
    ready: VecDeque<K>,
    /// Since when each ready key waits.
    #[serde(with = "pairs")]
    ready_since: BTreeMap<K, Monotonic>,
    delayed: BTreeSet<(Monotonic, K)>,
    #[serde(with = "pairs")]
    due: BTreeMap<K, Monotonic>,
    #[serde(with = "pairs")]
    held: BTreeMap<K, Monotonic>,
    in_flight: BTreeSet<K>,
    /// When each key was added whose reconcile is in flight.
    #[serde(with = "pairs")]
    added_in_flight: BTreeMap<K, Monotonic>,
}

impl<K: Ord + Clone> Queue<K> {
    /// Returns a queue that permits `concurrency` keys in flight at a time (at least one).
    pub fn new(concurrency: usize) -> Self {
        Self {
            concurrency: concurrency.max(1),
            ready: VecDeque::new(),
            ready_since: BTreeMap::new(),
            delayed: BTreeSet::new(),
            due: BTreeMap::new(),
            held: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            added_in_flight: BTreeMap::new(),
        }
    }

    /// Makes a key ready, or ready again once its reconcile in flight is done.
    pub fn add(&mut self, key: K, now: Monotonic) {
        if self.in_flight.contains(&key) {
            self.cancel_delay(&key);
            self.added_in_flight.entry(key).or_insert(now);
        } else if let Some(until) = self.held.get(&key) {
            self.add_at(key, *until);
        } else {
            self.make_ready(key, now);
        }
    }

    /// Makes a key ready at an instant; of two instants the earlier counts. A key that is ready already stays so.
    pub fn add_at(&mut self, key: K, at: Monotonic) {
        let at = self.held.get(&key).map_or(at, |until| at.max(*until));
        let sooner = self.due.get(&key).is_some_and(|due| *due <= at);
        if self.ready_since.contains_key(&key) || self.added_in_flight.contains_key(&key) || sooner {
            return;
        }
        self.cancel_delay(&key);
        self.due.insert(key.clone(), at);
        self.delayed.insert((at, key));
    }

    /// Keeps a key whose reconcile is in flight from becoming ready before an instant, however it is added.
    pub fn hold(&mut self, key: K, until: Monotonic) {
        assert!(self.in_flight.contains(&key), "what is ready can't be held");
        self.held.insert(key.clone(), until);
        if let Some(at) = self.due.get(&key).copied() {
            self.cancel_delay(&key);
            self.add_at(key, at);
        }
    }

    /// Takes the next ready key, if there is one and the limit permits it, with the time that it waited; it is in flight until
    /// [`Queue::done`].
    pub fn take(&mut self, now: Monotonic) -> Option<(K, Duration)> {
        self.release_due(now);
        if !self.has_room() {
            return None;
        }
        let key = self.ready.pop_front()?;
        let since = self.ready_since.remove(&key).unwrap_or(now);
        self.in_flight.insert(key.clone());
        Some((key, now.since(since)))
    }

    /// Returns the maximum number of keys in flight.
    pub fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// Returns whether another key may be in flight.
    pub fn has_room(&self) -> bool {
        self.in_flight.len() < self.concurrency
    }

    /// Returns whether [`Queue::take`] would return a key.
    pub fn can_take(&self, now: Monotonic) -> bool {
        let waits = !self.ready.is_empty() || self.next_due().is_some_and(|at| at <= now);
        waits && self.has_room()
    }

    /// Ends the reconcile of a key.
    pub fn done(&mut self, key: &K) {
        assert!(self.in_flight.remove(key), "a reconcile ends once");
        if let Some(since) = self.added_in_flight.remove(key) {
            self.add(key.clone(), since);
        }
    }

    /// Returns when the next delayed key becomes ready.
    pub fn next_due(&self) -> Option<Monotonic> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// Returns the keys that wait for a free slot: ready, or added while in flight. Delayed keys are not included.
    pub fn waiting(&self) -> impl Iterator<Item = &K> {
        self.ready.iter().chain(self.added_in_flight.keys())
    }

    fn make_ready(&mut self, key: K, since: Monotonic) {
        self.cancel_delay(&key);
        if let Entry::Vacant(entry) = self.ready_since.entry(key.clone()) {
            entry.insert(since);
            self.ready.push_back(key);
        }
    }

    fn release_due(&mut self, now: Monotonic) {
        while let Some((at, _)) = self.delayed.first()
            && *at <= now
            && let Some((at, key)) = self.delayed.pop_first()
        {
            self.due.remove(&key);
            self.held.remove(&key);
            self.add(key, at);
        }
    }

    fn cancel_delay(&mut self, key: &K) {
        if let Some(at) = self.due.remove(key) {
            self.delayed.remove(&(at, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::START + Duration::from_secs(seconds)
    }

    fn taken(queue: &mut Queue<&'static str>, now: Monotonic) -> Option<&'static str> {
        queue.take(now).map(|(key, _)| key)
    }

    #[test]
    fn a_key_waits_once() {
        let mut queue = Queue::new(5);
        queue.add("a", at(0));
        queue.add("a", at(0));
        assert_eq!(taken(&mut queue, at(0)), Some("a"));
        assert_eq!(taken(&mut queue, at(0)), None);
    }

    #[test]
    fn a_key_added_in_flight_comes_again_after_it() {
        let mut queue = Queue::new(5);
        queue.add("a", at(0));
        queue.take(at(0));
        queue.add("a", at(0));
        assert_eq!(taken(&mut queue, at(0)), None, "one reconcile a key");
        queue.done(&"a");
        assert_eq!(taken(&mut queue, at(0)), Some("a"));
    }

    #[test]
    fn an_event_cuts_a_delay_short() {
        let mut queue = Queue::new(5);
        queue.add_at("a", at(60));
        queue.add("a", at(0));
        assert_eq!(taken(&mut queue, at(0)), Some("a"));
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn of_two_delays_the_earlier_counts() {
        let mut queue = Queue::new(5);
        queue.add_at("a", at(60));
        queue.add_at("a", at(30));
        queue.add_at("a", at(90));
        assert_eq!(queue.next_due(), Some(at(30)));
        assert_eq!(taken(&mut queue, at(29)), None);
        assert_eq!(taken(&mut queue, at(30)), Some("a"));
    }

    #[test]
    fn a_key_that_waits_already_gets_no_delay() {
        let mut queue = Queue::new(5);
        queue.add("a", at(0));
        queue.add_at("a", at(60));
        assert_eq!(queue.next_due(), None, "it is ready");
        assert_eq!(taken(&mut queue, at(0)), Some("a"));
        queue.add("a", at(0));
        queue.add_at("a", at(60));
        assert_eq!(queue.next_due(), None, "it was added while its reconcile is in flight");
        queue.done(&"a");
        assert_eq!(taken(&mut queue, at(0)), Some("a"));
        queue.done(&"a");
        assert_eq!(taken(&mut queue, at(60)), None, "once each time that it was added");
    }

    #[test]
    fn a_delayed_key_does_not_lengthen_the_queue() {
        let mut queue = Queue::new(1);
        queue.add("a", at(0));
        queue.add("b", at(0));
        queue.add_at("c", at(60));
        queue.take(at(0));
        queue.add("a", at(0));
        assert_eq!(queue.waiting().collect::<Vec<_>>(), [&"b", &"a"]);
        queue.take(at(60));
        queue.done(&"a");
        queue.take(at(60));
        assert_eq!(queue.waiting().collect::<Vec<_>>(), [&"c", &"a"]);
    }

    #[test]
    fn the_wait_counts_from_the_first_add_or_from_the_end_of_the_delay() {
        let waited = |queue: &mut Queue<&'static str>, second| {
            queue.take(at(second)).map(|(_, waited)| waited.as_secs())
        };
        let mut queue = Queue::new(1);
        queue.add("a", at(1));
        queue.add("a", at(2));
        queue.add_at("b", at(4));
        assert_eq!(waited(&mut queue, 3), Some(2));
        queue.add("a", at(5));
        queue.done(&"a");
        assert_eq!(waited(&mut queue, 10), Some(5), "a, which was added in flight");
        queue.done(&"a");
        assert_eq!(waited(&mut queue, 10), Some(6), "b, which was due at 4");
    }

    #[test]
    fn a_held_key_waits_however_it_is_added() {
        let mut queue = Queue::new(5);
        queue.add("a", at(0));
        queue.take(at(0));
        queue.add_at("a", at(10));
        queue.hold("a", at(30));
        queue.add("a", at(0));
        queue.done(&"a");
        queue.add("a", at(0));
        queue.add_at("a", at(20));
        assert_eq!(queue.next_due(), Some(at(30)));
        assert!(!queue.can_take(at(29)));
        assert_eq!(taken(&mut queue, at(29)), None);
        assert_eq!(taken(&mut queue, at(30)), Some("a"));
        queue.done(&"a");
        queue.add("a", at(0));
        assert_eq!(taken(&mut queue, at(30)), Some("a"), "a hold ends once");
        assert!(queue.held.is_empty());
    }

    #[test]
    fn an_event_brings_a_delay_forward_to_the_end_of_the_hold() {
        let mut queue = Queue::new(5);
        queue.add("a", at(0));
        queue.take(at(0));
        queue.hold("a", at(30));
        queue.done(&"a");
        queue.add_at("a", at(300));
        assert_eq!(queue.next_due(), Some(at(300)));
        queue.add("a", at(0));
        assert_eq!(queue.next_due(), Some(at(30)));
    }

    proptest! {
        #[test]
        fn no_key_is_lost_and_the_limit_holds(operations in proptest::collection::vec((0u8..5, 0u8..6), 1..200)) {
            let mut queue = Queue::new(2);
            let mut owed = BTreeSet::new();
            let mut in_flight = BTreeSet::new();
            let mut held = BTreeMap::new();
            for (second, (operation, key)) in (0u64..).zip(operations) {
                match operation {
                    0 => { queue.add(key, at(second)); owed.insert(key); }
                    1 => { queue.add_at(key, at(second + 3)); owed.insert(key); }
                    2 => if let Some((key, waited)) = queue.take(at(second)) {
                        prop_assert!(waited <= Duration::from_secs(second));
                        prop_assert!(in_flight.insert(key), "one reconcile a key");
                        prop_assert!(held.get(&key).is_none_or(|until| *until <= second), "held");
                        owed.remove(&key);
                    },
                    3 => if let Some(key) = in_flight.first() {
                        queue.hold(*key, at(second + 5));
                        held.insert(*key, second + 5);
                    },
                    _ => if let Some(key) = in_flight.pop_first() { queue.done(&key); },
                }
                prop_assert!(in_flight.len() <= 2);
            }
            while let Some(key) = in_flight.pop_first() { queue.done(&key); }
            while let Some((key, _)) = queue.take(at(10_000)) { owed.remove(&key); queue.done(&key); }
            prop_assert!(owed.is_empty(), "lost: {owed:?}");
        }
    }
}
