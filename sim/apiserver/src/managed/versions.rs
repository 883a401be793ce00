//! The versions of a kind. Each entry of the managed fields has fields of one of them.

use std::fmt::Debug;

use serde_json::Value;

use crate::schema::Schema;

/// The versions of the kind of an object.
pub trait Versions: Debug {
    /// Converts an object between two versions. Returns none if the kind has no such version: its managers then own nothing.
    ///
    /// # Errors
    /// Why the server can't convert the object.
    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Option<Converted<'_>>, String>;
}

/// A converted object and its type.
#[derive(Debug)]
pub struct Converted<'a> {
    /// The object.
    pub object: Value,
    /// The type of the version.
    pub schema: &'a Schema,
    /// The fields of the version that the endpoint never changes.
    pub reset: &'static [&'static str],
}

/// The versions of a kind that has only the version of the request.
#[derive(Debug)]
pub struct OneVersion;

impl Versions for OneVersion {
    fn convert(&self, _: &Value, _: &str, _: &str) -> Result<Option<Converted<'_>>, String> {
        Ok(None)
    }
}
