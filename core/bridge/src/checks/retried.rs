//! Requests that fail and are retried.

use lockstep_engine::action::Failure;

/// Returns the message of a condition with the cause of the last failure. Most such requests succeed at the next attempt, so they change
/// neither status nor reason (decision 31).
pub fn retried(message: &str, failure: &Failure) -> String {
    format!("{message} (the last attempt failed: {failure}; it is retried)")
}
