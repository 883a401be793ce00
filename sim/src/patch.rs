//! The patch types other than apply: JSON patch, merge patch and strategic merge patch.

use serde_json::Value;

use crate::schema::Schema;

/// Why a patch can't be carried out; the text is what the server answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The body is no patch: 400.
    #[error("{0}")]
    BadRequest(String),
    /// The patch does not fit the object: 422.
    #[error("{0}")]
    Unprocessable(String),
}

/// `application/json-patch+json`.
pub fn json(current: &Value, _patch: &Value) -> Result<Value, PatchError> {
    Ok(current.clone())
}

/// `application/merge-patch+json`.
pub fn merge(current: &Value, _patch: &Value) -> Value {
    current.clone()
}

/// `application/strategic-merge-patch+json`.
pub fn strategic(_schema: &Schema, current: &Value, _patch: &Value) -> Result<Value, PatchError> {
    Ok(current.clone())
}
