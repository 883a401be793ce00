//! Refused watches of a kind without which a controller can decide nothing.

use serde::{Deserialize, Serialize};

use crate::action::{ErrorKind, Failure};

/// Fewer refusals in a row may come from one member of the control plane that is starting.
const ATTEMPTS: u32 = 3;

/// How often in a row a watch was refused, and the first refusal. It is for refusals that the server repeats until its configuration
/// changes, and for failures of a first list; other failures end by themselves.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Refusals(Option<(u32, Failure)>);

impl Refusals {
    /// Counts a refusal. Returns whether there now are enough to report the first one.
    pub fn count(&mut self, failure: Failure) -> bool {
        let (count, _) = self.0.get_or_insert((0, failure));
        *count = count.saturating_add(1);
        *count == ATTEMPTS
    }

    /// Counts a failure of the first list of a kind. One object that can't be decrypted makes every list fail; failures because of load
    /// end by themselves. Returns whether there are enough to report this one.
    pub fn count_of_first_list(&mut self, failure: &Failure) -> bool {
        if matches!(failure.class, ErrorKind::Throttled | ErrorKind::Gone) {
            return false;
        }
        self.count(failure.clone());
        self.reported().is_some()
    }

    /// Records that the kind is watched again. Returns whether the refusals were enough to report them.
    pub fn end(&mut self) -> bool {
        let was_reported = self.reported().is_some();
        self.0 = None;
        was_reported
    }

    /// Returns the first refusal, if there were enough to report it.
    pub fn reported(&self) -> Option<&Failure> {
        self.0.as_ref().filter(|(count, _)| *count >= ATTEMPTS).map(|(_, failure)| failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_because_of_load_do_not_count() {
        let mut refusals = Refusals::default();
        let mut count = |class: ErrorKind| refusals.count_of_first_list(&Failure::new(class, class.name()));
        assert_eq!(
            [ErrorKind::Unavailable, ErrorKind::Throttled, ErrorKind::Gone].map(&mut count),
            [false; 3]
        );
        assert_eq!(
            [ErrorKind::Unknown, ErrorKind::Unavailable, ErrorKind::Unknown].map(&mut count),
            [false, true, true]
        );
    }

    #[test]
    fn the_first_refusal_is_reported_once_after_three_in_a_row() {
        let mut refusals = Refusals::default();
        let mut count = |message: &str| refusals.count(Failure::new(ErrorKind::Forbidden, message));
        assert_eq!(["a", "b", "c", "d"].map(&mut count), [false, false, true, false]);
        assert_eq!(refusals.reported().map(|first| &*first.message), Some("a"));
        assert!(refusals.end());
        assert_eq!(refusals.reported().map(|first| &*first.message), None);
        assert!(!refusals.count(Failure::new(ErrorKind::Invalid, "e")) && !refusals.end());
    }
}
