//! Retries and their backoff.
//!
//! Source: "Requeue Strategy", "Rate Limiting".

use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::scheduler::Verdict;

/// The default backoff of a failing bridge, for failures without a backoff of their own ("Rate Limiting").
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };

/// Permission denied, or the CRD is missing: people have to fix that ("Requeue Strategy", "Permanent Errors").
pub const DENIED: Backoff = Backoff { initial: Duration::from_secs(30), max: Duration::from_mins(5) };

/// The API server is not available ("Requeue Strategy").
pub const UNAVAILABLE: Backoff = Backoff { initial: Duration::from_secs(5), max: Duration::from_mins(1) };

/// The delay until the namespace of a control plane that another client has created, or that is being deleted, is read again.
pub const NAMESPACE: Duration = Duration::from_secs(30);

/// The backoff of failed status writes ("Requeue Strategy").
pub const STATUS: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };

/// Returns a retry after a failure, with the backoff for its class.
pub fn after(reason: impl Into<String>, failure: &Failure) -> Verdict {
    let user_error = failure.class == ErrorKind::Invalid;
    Verdict::Retry { reason: reason.into(), backoff: Some(backoff(failure.class)), within: None, user_error }
}

fn backoff(class: ErrorKind) -> Backoff {
    match class {
        ErrorKind::Forbidden | ErrorKind::NotFound | ErrorKind::KindNotServed | ErrorKind::Invalid => DENIED,
        ErrorKind::AlreadyExists
        | ErrorKind::Conflict
        | ErrorKind::Gone
        | ErrorKind::Throttled
        | ErrorKind::Unavailable
        | ErrorKind::Unknown => UNAVAILABLE,
    }
}
