//! The result of reading one object.

use lockstep_engine::action::Failure;

/// The result of reading one object; `None` if it does not exist.
pub type Lookup<T> = Result<Option<T>, Failure>;
