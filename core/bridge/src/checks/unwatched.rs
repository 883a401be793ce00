//! Findings about objects that can't be watched.

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::conditions::Status;
use lockstep_engine::object::Kind;

use crate::model::source::Source;
use crate::names::{self, reason};
use crate::store::Store;

/// Returns the status, reason and message of a condition about objects that can't be watched.
pub fn unwatched(source: Source, failure: &Failure) -> (Status, &'static str, String) {
    (Status::Unknown, reason::WATCH_FAILED, message(&source.kind(), "", failure))
}

/// Returns the message that bridges can't be watched any more, if that is so.
pub fn unwatched_bridges(store: &Store) -> Option<String> {
    let effect = ", so changes of this DPFHCPBridge are not noticed";
    store.refusals.reported().map(|failure| message(&names::bridge(), effect, failure))
}

fn message(kind: &Kind, effect: &str, failure: &Failure) -> String {
    let message = format!("{}s can't be watched ({}){effect}", kind.kind, failure.message);
    if failure.class == ErrorKind::Forbidden {
        return format!("{message}; grant the operator list and watch on {}", kind.plural);
    }
    message
}
