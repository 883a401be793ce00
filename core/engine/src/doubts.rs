//! Answers that are believed only once they were given for a while.
//!
//! "Not served" comes from whatever answers a path that is not known: an API server that is starting or has not seen a CRD yet
//! (kubernetes/kubernetes#71218: for one request; #104342: objects were deleted because of it), or a proxy. Only a `NotFound` is the
//! API server's word that an object does not exist.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pairs;
use super::time::Monotonic;

/// For how long an answer must be repeated until it is believed.
pub const BELIEVED_AFTER: Duration = Duration::from_mins(1);

/// After this time without a request, the answer is a new one. Requests that fail are repeated sooner.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// When the same doubtful answer was given first and last, by what it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent, bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de> + Ord"))]
pub struct Doubts<K> {
    #[serde(with = "pairs")]
    given: BTreeMap<K, (Monotonic, Monotonic)>,
}

impl<K> Default for Doubts<K> {
    fn default() -> Self {
        Self { given: BTreeMap::new() }
    }
}

impl<K: Ord> Doubts<K> {
    /// Records the answer. Returns whether it is believed now.
    pub fn believes(&mut self, about: K, now: Monotonic) -> bool {
        let (first, last) = self.given.entry(about).or_insert((now, now));
        if now.since(*last) > FORGOTTEN_AFTER {
            *first = now;
        }
        *last = now;
        last.since(*first) >= BELIEVED_AFTER
    }

    /// Returns whether the answer was believed when it was given last.
    pub fn is_believed(&self, about: &K) -> bool {
        self.given.get(about).is_some_and(|(first, last)| last.since(*first) >= BELIEVED_AFTER)
    }

    /// Returns whether the answer was not believed yet when it was given last.
    pub fn is_doubted(&self, about: &K) -> bool {
        self.given.contains_key(about) && !self.is_believed(about)
    }

    /// Records another answer.
    pub fn end(&mut self, about: &K) {
        self.given.remove(about);
    }

    /// Records another answer about everything but these.
    pub fn keep(&mut self, is_doubtful: impl Fn(&K) -> bool) {
        self.given.retain(|about, _| is_doubtful(about));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::START + Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_is_believed_after_a_minute_without_another() {
        let mut doubts = Doubts::default();
        assert!(!doubts.believes("a", at(100)));
        assert!(!doubts.believes("b", at(110)));
        assert!(!doubts.believes("a", at(159)));
        assert!(!doubts.is_believed(&"a"));
        assert!(doubts.believes("a", at(160)));
        assert!(doubts.is_believed(&"a"));
        doubts.end(&"a");
        assert!(!doubts.believes("a", at(165)));
        assert!(doubts.believes("b", at(170)));
        doubts.keep(|about| *about == "a");
        assert!(!doubts.believes("b", at(180)));
        assert!(doubts.believes("a", at(225)));
        assert!(!doubts.believes("a", at(826)));
    }
}
