//! The versions in which the managers of an object own fields.

use serde_json::Value;

use super::registry::Version;
use super::scope::Scope;
use super::strategy;
use crate::builtin;
use crate::managed::{Converted, Versions};

impl Versions for Scope {
    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Option<Converted<'_>>, String> {
        let Some((object, version)) = self.resource.converted(object, from, to) else {
            if self.resource.is_custom() {
                return Err(format!("request to convert CR to an invalid group/version: {to}"));
            }
            return Ok(None);
        };
        let Some(schema) = version.schema() else { return Ok(None) };
        Ok(Some(Converted { object: schema.completed(object), schema, reset: self.reset_in(version) }))
    }
}

impl Scope {
    /// Returns the fields of another version that the endpoint never changes. The main endpoint of a custom resource knows only
    /// those of its own version.
    fn reset_in(&self, version: &Version) -> &'static [&'static str] {
        if let Some(resource) = version.builtin_resource() {
            return builtin::reset_fields(resource, self.tracked_subresource());
        }
        let is_active = version.served || version.storage;
        if self.subresource == "status" && is_active && version.has_subresource("status") {
            return strategy::reset_fields(self);
        }
        &[]
    }
}
