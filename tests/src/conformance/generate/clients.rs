//! The clients of generated sequences.

use crate::conformance::scenario::Step;

/// The clients. The name of a client is also its field manager, unless a request names another one.
pub(super) const CLIENTS: [&str; 3] = ["one", "two", "three"];

/// Makes one client send the steps.
pub(super) fn of_client((client, steps): (&'static str, Vec<Step>)) -> Vec<Step> {
    steps.into_iter().map(|step| Step { client, ..step }).collect()
}
