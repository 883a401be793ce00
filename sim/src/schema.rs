//! Types of objects: what fields there are, how lists and maps merge, defaults, pruning and validation.
//!
//! A [`Schema`] is an arena of nodes that refer to each other by index, so that recursive types (`JSONSchemaProps`)
//! need no special care. It is read either from a custom resource definition or from the OpenAPI components of the
//! built-in kinds; both end in the same nodes, so that everything above (patches, field ownership, validation) is
//! written once.

mod defaults;
mod meta;
pub(crate) mod node;
mod prune;
mod read;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::cause::Cause;
use node::{Arena, Node, NodeId};

/// The deepest nesting that any walk over a value follows; the JSON reader in front refuses deeper bodies.
pub(crate) const DEPTH_MAX: usize = 256;

/// The type of a whole object. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schema {
    arena: Arc<Arena>,
}

/// A node of a schema together with the arena that resolves what it refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) id: NodeId,
}

impl<'a> At<'a> {
    /// The node itself.
    pub(crate) fn node(self) -> &'a Node {
        self.arena.node(self.id)
    }

    /// Another node of the same schema.
    pub(crate) fn to(self, id: NodeId) -> At<'a> {
        At { arena: self.arena, id }
    }

    /// The declared field of that name.
    pub(crate) fn field(self, name: &str) -> Option<At<'a>> {
        self.node().fields.get(name).map(|&id| self.to(id))
    }

    /// The type of the value under a key: the declared field, else that of the other keys.
    pub(crate) fn child(self, name: &str) -> Option<At<'a>> {
        self.field(name).or_else(|| self.node().element.map(|id| self.to(id)))
    }

    /// The type of a list's items.
    pub(crate) fn items(self) -> Option<At<'a>> {
        self.node().items.map(|id| self.to(id))
    }
}

impl Schema {
    /// Reads the `openAPIV3Schema` of one CRD version.
    pub fn from_crd(open_api_v3_schema: &Value) -> Result<Self, Vec<Cause>> {
        Ok(Self { arena: Arc::new(read::custom_resource(open_api_v3_schema)) })
    }

    /// Reads the type `name` out of the `components.schemas` of an OpenAPI v3 document.
    pub fn from_open_api(components: &Map<String, Value>, name: &str) -> Option<Self> {
        read::component(components, name).map(|arena| Self { arena: Arc::new(arena) })
    }

    /// Fills in absent fields that have a default.
    pub fn apply_defaults(&self, object: &mut Value) {
        defaults::apply(self.root(), object, 0);
    }

    /// Removes fields that the schema does not know and returns their paths (`spec.unknown`), in order.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(self.root(), object)
    }

    /// Removes nulls that the schema allows neither as a value nor has a default for, as decoding a custom resource
    /// does before defaulting.
    pub fn drop_nulls(&self, object: &mut Value) {
        defaults::drop_nulls(self.root(), object, 0);
    }

    /// Judges an object; `old` is the stored one on update, for transition rules.
    pub fn validate(&self, _object: &Value, _old: Option<&Value>) -> Vec<Cause> {
        Vec::new()
    }

    /// Whether the schema is that of a kind which the server holds in code.
    pub(crate) fn is_built_in(&self) -> bool {
        self.arena.built_in
    }

    /// The type of the object as a whole.
    pub(crate) fn root(&self) -> At<'_> {
        At { arena: &self.arena, id: self.arena.root }
    }
}
