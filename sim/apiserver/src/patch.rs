//! The patch types other than apply: JSON patch, merge patch and strategic merge patch.

mod json;
mod merge;
mod order;
mod strategic;

use serde_json::Value;

use crate::schema::Schema;

/// Describes why a patch can't be applied; the text is the server's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The body is not a patch: 400.
    #[error("{0}")]
    BadRequest(String),
    /// The patch does not match the object: 422.
    #[error("{0}")]
    Unprocessable(String),
    /// The patch has more operations than are allowed: 413.
    #[error("{0}")]
    TooLarge(String),
    /// The server fails on the patch: 500.
    #[error("{0}")]
    Internal(String),
}

/// Applies a patch of type `application/json-patch+json`.
pub fn json(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    json::apply(current, patch)
}

/// Applies a patch of type `application/merge-patch+json`.
pub fn merge(current: &Value, patch: &Value) -> Value {
    merge::apply(current, patch)
}

/// Applies a patch of type `application/strategic-merge-patch+json`.
pub fn strategic(schema: &Schema, current: &Value, patch: &Value) -> Result<Value, PatchError> {
    strategic::apply(schema, current, patch)
}

#[cfg(test)]
mod tests;
