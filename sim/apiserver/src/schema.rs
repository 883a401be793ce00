//! Types of objects: fields, merge strategies of lists and maps, defaults, pruning and validation.
//!
//! A [`Schema`] is an arena of nodes that refer to each other by index, so that recursive types (`JSONSchemaProps`) need no
//! special handling. It is parsed either from a custom resource definition or from the OpenAPI components of the built-in kinds.
//! Both give the same nodes, so the code that uses them (patches, field ownership, validation) exists only once.

mod compiled;
mod cost;
mod defaults;
mod embedded;
mod escape;
mod lists;
mod macros;
mod meta;
pub(crate) mod node;
pub(crate) mod path;
mod place;
mod prune;
mod ratchet;
mod read;
mod rule;
mod rules;
mod structural;
mod typing;
mod validate;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::cause::Cause;
use node::{Arena, At};

/// The type of a whole object. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schema {
    arena: Arc<Arena>,
}

impl Schema {
    /// Parses the `openAPIV3Schema` of one CRD version.
    ///
    /// # Errors
    /// The causes for which the server refuses the schema; their fields start with `openAPIV3Schema`, to which the server adds
    /// `spec.validation.` when all versions have the same schema, `spec.versions[0].schema.` otherwise.
    pub fn from_crd(open_api_v3_schema: &Value) -> Result<Self, Vec<Cause>> {
        let arena = compiled::once(open_api_v3_schema, || {
            let causes = structural::check(open_api_v3_schema, "openAPIV3Schema");
            if causes.is_empty() { Ok(read::custom_resource(open_api_v3_schema)) } else { Err(causes) }
        })?;
        Ok(Self { arena })
    }

    /// Parses the type `name` from the `components.schemas` of an OpenAPI v3 document.
    pub fn from_open_api(components: &Map<String, Value>, name: &str) -> Option<Self> {
        read::component(components, name).map(|arena| Self { arena: Arc::new(arena) })
    }

    /// Sets absent fields that have a default.
    pub fn apply_defaults(&self, object: &mut Value) {
        defaults::apply(self.root(), object, 0);
    }

    /// Removes fields that are not in the schema and returns their paths (`spec.unknown`), in order.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(self.root(), object)
    }

    /// Removes nulls that the schema does not allow and for which it has no default, as decoding a custom resource does before
    /// defaulting.
    pub fn drop_nulls(&self, object: &mut Value) {
        defaults::drop_nulls(self.root(), object, 0);
    }

    /// Validates an object; `old` is the stored one on update, for transition rules.
    ///
    /// The causes are those of values, of embedded objects, of list keys and of rules, in that order. The caller validates the
    /// metadata.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = validate::values(self.root(), object, old);
        causes.extend(embedded::causes(self.root(), object));
        self.validate_rest(object, old, causes)
    }

    /// Validates an update through the status endpoint, which checks only the values of `status`.
    pub fn validate_status(&self, object: &Value, old: &Value) -> Vec<Cause> {
        let causes = validate::status(self.root(), object, old);
        self.validate_rest(object, Some(old), causes)
    }

    fn validate_rest(&self, object: &Value, old: Option<&Value>, mut causes: Vec<Cause>) -> Vec<Cause> {
        if old.is_none_or(|old| lists::causes(self.root(), old).is_empty()) {
            causes.extend(lists::causes(self.root(), object));
        }
        let keeps_from_rules = ["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"];
        let is_blocked =
            causes.iter().any(|cause| keeps_from_rules.iter().any(|kind| cause.reason.ends_with(kind)));
        if !is_blocked {
            causes.extend(rules::broken(self.root(), object, old));
        } else if self.arena.has_rules {
            causes.push(Cause::invalid(
                "<nil>",
                &Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors \
                 to complete validation",
            ));
        }
        causes
    }

    /// Returns whether the schema is that of a built-in kind.
    pub(crate) fn is_built_in(&self) -> bool {
        self.arena.built_in
    }

    /// Returns the empty object of the type, with the fields that the server's structs always have.
    pub(crate) fn empty_object(&self) -> Value {
        self.completed(Value::Object(Map::new()))
    }

    /// Returns the object with the fields that the server's structs always have.
    pub(crate) fn completed(&self, mut object: Value) -> Value {
        if self.is_built_in() {
            defaults::complete(self.root(), &mut object, 0);
        }
        object
    }

    /// Returns the metadata of objects inside of the object, with their paths.
    pub(crate) fn embedded_metadata(&self, object: &Value) -> Vec<(String, Value)> {
        embedded::metadata(self.root(), object)
    }

    /// Prunes and defaults a merged custom resource; nulls are kept, because it is not decoded again.
    pub(crate) fn settle(&self, object: &mut Value) {
        if !self.is_built_in() {
            self.prune(object);
            self.apply_defaults(object);
        }
    }

    /// Returns the type of the object as a whole.
    pub(crate) fn root(&self) -> At<'_> {
        At { arena: &self.arena, id: self.arena.root }
    }
}

#[cfg(test)]
mod tests;
