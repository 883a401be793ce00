//! Types of objects: what fields there are, how lists and maps merge, defaults, pruning and validation.

use serde_json::{Map, Value};

use crate::cause::Cause;

/// The type of a whole object. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schema;

impl Schema {
    /// Reads the `openAPIV3Schema` of one CRD version.
    pub fn from_crd(_open_api_v3_schema: &Value) -> Result<Self, Vec<Cause>> {
        Ok(Self)
    }

    /// Reads the type `name` out of the `components.schemas` of an OpenAPI v3 document.
    pub fn from_open_api(_components: &Map<String, Value>, _name: &str) -> Option<Self> {
        Some(Self)
    }

    /// Fills in absent fields that have a default.
    pub fn apply_defaults(&self, _object: &mut Value) {}

    /// Removes fields that the schema does not know and returns their paths (`spec.unknown`), in order.
    pub fn prune(&self, _object: &mut Value) -> Vec<String> {
        Vec::new()
    }

    /// Judges an object; `old` is the stored one on update, for transition rules.
    pub fn validate(&self, _object: &Value, _old: Option<&Value>) -> Vec<Cause> {
        Vec::new()
    }
}
