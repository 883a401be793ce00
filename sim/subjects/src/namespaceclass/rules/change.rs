//! The change of a moment that invariants look at.

use lockstep_sim::cluster::{Author, Change, What};
use lockstep_sim::invariant::Moment;

/// Returns the change that a process made in a namespace, if the entry is one.
pub(super) fn change_of_process<'a>(moment: &'a Moment<'_>) -> Option<(usize, &'a Change, &'a str)> {
    match &moment.entry.what {
        What::Changed(change) => match (change.by, change.object.namespace.as_deref()) {
            (Author::Process(process), Some(namespace)) => Some((process, change, namespace)),
            _ => None,
        },
        _ => None,
    }
}
