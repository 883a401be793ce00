//! The result of reading one object.

use std::sync::Arc;

use lockstep_engine::action::{Class, Failure, Outcome, Success};
use serde_json::Value;

/// The result of reading one object; `None` if it does not exist.
pub type Lookup<T> = Result<Option<T>, Failure>;

/// Returns the result of a read.
pub fn lookup(outcome: Outcome) -> Lookup<Arc<Value>> {
    match outcome {
        Ok(Success::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(Failure::new(Class::Unknown, "the server's answer is no object")),
        Err(failure) if failure.class == Class::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}
