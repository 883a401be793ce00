//! Groups objects that are not ready for the same reason.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::row::Row;

/// Objects of one kind with the same reason and message of a condition.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Cause {
    pub(super) count: usize,
    pub(super) kind: String,
    pub(super) reason: String,
    pub(super) message: String,
    /// `namespace/name` of each.
    pub(super) objects: Vec<String>,
}

/// Returns the causes, those of most objects first.
pub(super) fn group(rows: &[Row]) -> Vec<Cause> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<String>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.is_ready()) {
        groups.entry((&row.kind, &row.reason, &row.message)).or_default().push(row.title());
    }
    let causes = groups.into_iter().map(|((kind, reason, message), objects)| Cause {
        count: objects.len(),
        kind: kind.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        objects,
    });
    let mut causes: Vec<Cause> = causes.collect();
    causes.sort_by_key(|cause| Reverse(cause.count));
    causes
}
