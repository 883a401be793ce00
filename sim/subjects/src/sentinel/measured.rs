//! The metrics that a step changes.

use lockstep_engine::machine::{Amount, Note, Step};

/// Returns by how much a metric changed in a step.
pub(super) fn measured(step: &Step, metric: &str, label: Option<&str>) -> Option<u64> {
    let moved = step.notes.iter().filter_map(|note| match note {
        Note::Measured(measure) if measure.metric == metric => {
            let fits = label.is_none_or(|label| measure.labels.last().is_some_and(|last| last == label));
            match measure.by {
                Amount::Add(by) if fits => Some(by),
                Amount::Observe(_) => Some(1),
                _ => None,
            }
        }
        _ => None,
    });
    moved.reduce(|a, b| a + b)
}
