//! The patch types other than apply: JSON patch, merge patch and strategic merge patch.

mod error;
mod json;
mod merge;
mod order;
mod strategic;

use serde_json::Value;

pub use self::error::PatchError;
use crate::schema::Schema;

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
