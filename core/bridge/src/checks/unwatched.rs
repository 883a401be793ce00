//! Findings about objects that can't be watched.

use lockstep_engine::action::{Class, Failure};
use lockstep_engine::conditions::Status;

use crate::model::source::Source;
use crate::names::reason;

/// Returns the status, reason and message of a condition about objects that can't be watched.
pub fn unwatched(source: Source, failure: &Failure) -> (Status, &'static str, String) {
    let kind = source.kind();
    let mut message = format!("{}s can't be watched ({})", kind.kind, failure.message);
    if failure.class == Class::Forbidden {
        message = format!("{message}; grant the operator list and watch on {}", kind.plural);
    }
    (Status::Unknown, reason::WATCH_FAILED, message)
}
