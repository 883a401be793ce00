//! Counts the namespaces that classes leave.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The namespaces that classes are about to be removed from. They are counted at each change, because a class may leave thousands
/// of namespaces at once, and each of them asks how many there are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Departures {
    /// The class that leaves each namespace.
    classes: BTreeMap<String, String>,
    /// The number of namespaces that each class leaves.
    counts: BTreeMap<String, usize>,
}

impl Departures {
    /// Returns how many namespaces a class leaves.
    pub(super) fn count(&self, class: &str) -> usize {
        self.counts.get(class).copied().unwrap_or(0)
    }

    /// Records which class leaves a namespace, if one does.
    pub(super) fn set(&mut self, namespace: &str, class: Option<String>) {
        if self.classes.get(namespace) == class.as_ref() {
            return;
        }
        if let Some(before) = self.classes.remove(namespace) {
            let rest = self.count(&before) - 1;
            if rest == 0 {
                self.counts.remove(&before)
            } else {
                self.counts.insert(before, rest)
            };
        }
        if let Some(class) = class {
            *self.counts.entry(class.clone()).or_default() += 1;
            self.classes.insert(namespace.to_owned(), class);
        }
    }
}
