//! Counts the namespaces that classes leave.

use std::collections::BTreeMap;

use lockstep_engine::pairs;
use serde::{Deserialize, Serialize};

/// How a namespace with a binding to a class counts for the removal guard of the class, if it does not simply have the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Departure {
    /// The class is about to be removed from it.
    Leaving,
    /// It does not count: it does not control the binding, or the binding is being deleted already.
    Ignored,
}

/// The namespaces that classes are about to be removed from, and those that do not count. They are counted at each change, because a
/// class may leave thousands of namespaces at once, and each of them asks how many there are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Departures {
    /// How each of these namespaces counts for which class.
    namespaces: BTreeMap<String, (String, Departure)>,
    /// The number of namespaces that count for each class in each of these ways.
    #[serde(with = "pairs")]
    counts: BTreeMap<(String, Departure), usize>,
}

impl Departures {
    /// Returns how many namespaces count for a class in this way.
    pub(super) fn count(&self, class: &str, departure: Departure) -> usize {
        self.counts.get(&(class.to_owned(), departure)).copied().unwrap_or(0)
    }

    /// Records how a namespace counts for which class; `None` if it has no binding, or simply has the class.
    pub(super) fn set(&mut self, namespace: &str, counted: Option<(String, Departure)>) {
        if self.namespaces.get(namespace) == counted.as_ref() {
            return;
        }
        if let Some(before) = self.namespaces.remove(namespace) {
            let rest = self.count(&before.0, before.1) - 1;
            if rest == 0 {
                self.counts.remove(&before)
            } else {
                self.counts.insert(before, rest)
            };
        }
        if let Some(counted) = counted {
            *self.counts.entry(counted.clone()).or_default() += 1;
            self.namespaces.insert(namespace.to_owned(), counted);
        }
    }
}
