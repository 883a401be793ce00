//! The nodes of a schema: each is the type of one path in an object.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use super::place::Place;
use super::rule::{Rules, Satisfied};

/// Maximum depth of any traversal of a value; the JSON reader refuses deeper bodies.
pub(crate) const DEPTH_MAX: usize = 256;

/// The index of a node in its arena.
pub(crate) type NodeId = usize;

/// Accepts anything: maps merge field by field, lists are atomic.
pub(crate) const DEDUCED: NodeId = 0;
/// Accepts anything and is never traversed.
pub(crate) const UNTYPED: NodeId = 1;

/// All nodes of one schema.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
    pub(crate) built_in: bool,
    /// Whether any node has rules.
    pub(crate) has_rules: bool,
    /// Whether any node is an embedded object.
    pub(crate) has_embedded: bool,
}

impl Arena {
    /// Returns an arena with only the two common types.
    pub(crate) fn new(built_in: bool) -> Self {
        let deduced =
            Node { element: Some(DEDUCED), items: Some(UNTYPED), preserve: true, ..Node::default() };
        let untyped = Node {
            element: Some(UNTYPED),
            items: Some(UNTYPED),
            map: Some(MapType::Atomic),
            preserve: true,
            ..Node::default()
        };
        Self { nodes: vec![deduced, untyped], root: DEDUCED, built_in, has_rules: false, has_embedded: false }
    }

    /// Returns the node with an index; ids must be from this arena.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }
}

/// A node of a schema together with the arena that resolves its references.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) id: NodeId,
}

impl<'a> At<'a> {
    /// Returns the node itself.
    pub(crate) fn node(self) -> &'a Node {
        self.arena.node(self.id)
    }

    /// Returns another node of the same schema.
    pub(crate) fn to(self, id: NodeId) -> At<'a> {
        At { arena: self.arena, id }
    }

    /// Returns the declared field of that name.
    pub(crate) fn field(self, name: &str) -> Option<At<'a>> {
        self.node().fields.get(name).map(|&id| self.to(id))
    }

    /// Returns the type of the value under a key: the declared field, or else that of the other keys.
    pub(crate) fn child(self, name: &str) -> Option<At<'a>> {
        self.field(name).or_else(|| self.node().element.map(|id| self.to(id)))
    }

    /// Returns the type of the value under a key, if the schema's author declared it.
    pub(crate) fn declared(self, name: &str) -> Option<At<'a>> {
        let node = self.node();
        if name == "metadata" && (node.embedded || self.id == self.arena.root) && !self.arena.built_in {
            return node.own_metadata.map(|id| self.to(id));
        }
        if node.implicit.contains(&name) {
            return None;
        }
        self.field(name).or(match node.extra {
            Extra::Of(id) => Some(self.to(id)),
            Extra::Absent | Extra::Allowed(_) => None,
        })
    }

    /// Returns the path of the value under a key: a key of a map is in brackets, a field follows a dot.
    pub(super) fn place_of<'p>(self, place: &'p Place<'p>, key: &'p str) -> Place<'p> {
        let node = self.node();
        let is_key = matches!(node.extra, Extra::Of(_)) && !node.fields.contains_key(key);
        if is_key { Place::Key(place, key) } else { Place::Field(place, key) }
    }

    /// Returns the type of a list's items.
    pub(crate) fn items(self) -> Option<At<'a>> {
        self.node().items.map(|id| self.to(id))
    }
}

/// The JSON type that a node accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    /// No type is given: any value.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// Any scalar, such as a quantity.
    Scalar,
}

impl Kind {
    /// Returns the name in schemas.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Any | Kind::Scalar => "",
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
        }
    }

    /// Returns the kind with that name.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "object" => Kind::Object,
            "array" => Kind::Array,
            "string" => Kind::String,
            "integer" => Kind::Integer,
            "number" => Kind::Number,
            "boolean" => Kind::Boolean,
            _ => Kind::Any,
        }
    }
}

/// `x-kubernetes-list-type` with its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListType {
    Atomic,
    Set,
    Map(Vec<String>),
}

/// `x-kubernetes-map-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapType {
    Atomic,
    Granular,
}

/// How strategic merge patches handle a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PatchMeta {
    /// Lists are merged, by the key or as a set of scalars.
    pub(crate) merge: bool,
    /// Fields absent from a map's patch may be cleared (`$retainKeys`).
    pub(crate) retain_keys: bool,
    /// Maps are replaced as a whole.
    pub(crate) replace: bool,
    /// The field that identifies a list's items.
    pub(crate) merge_key: Option<String>,
}

/// `additionalProperties`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Extra {
    #[default]
    Absent,
    Allowed(bool),
    Of(NodeId),
}

/// One path in an object.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a keyword of the schema")]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) format: Option<String>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) embedded: bool,
    pub(crate) preserve: bool,
    pub(crate) fields: BTreeMap<String, NodeId>,
    /// The requirements of a CRD's author for `metadata`, which has a fixed type.
    pub(crate) own_metadata: Option<NodeId>,
    /// Fields that every object has and that the author of the CRD did not declare.
    pub(crate) implicit: Vec<&'static str>,
    pub(crate) extra: Extra,
    /// The type of undeclared keys for merging; none if undeclared keys are not allowed.
    pub(crate) element: Option<NodeId>,
    pub(crate) items: Option<NodeId>,
    pub(crate) list: Option<ListType>,
    pub(crate) map: Option<MapType>,
    pub(crate) patch: PatchMeta,
    pub(crate) default: Option<Value>,
    pub(crate) checks: Option<Box<Checks>>,
    /// `x-kubernetes-validations`.
    pub(crate) rules: Arc<Rules>,
    pub(crate) satisfied: Satisfied,
}

impl Node {
    /// Returns the names of the required fields.
    pub(crate) fn required(&self) -> &[String] {
        self.checks.as_deref().map_or(&[], |checks| &checks.required)
    }
}

/// Value validations of one node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checks {
    pub(crate) enumeration: Vec<Value>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) unique_items: bool,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Vec<String>,
    pub(crate) all_of: Vec<NodeId>,
    pub(crate) any_of: Vec<NodeId>,
    pub(crate) one_of: Vec<NodeId>,
    pub(crate) not: Option<NodeId>,
}

/// A regular expression and its source, which messages quote.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) source: String,
    /// None if it does not compile.
    pub(crate) regex: Option<Regex>,
}
