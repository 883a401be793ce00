//! Parses schemas from JSON.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::meta;
use super::node::{
    Arena, Checks, DEDUCED, DEPTH_MAX, Extra, Kind, ListType, MapType, Node, NodeId, PatchMeta, Pattern,
    UNTYPED,
};
use super::rule;

/// Parses a CRD version's `openAPIV3Schema`, with the implicit type and object metadata.
pub(super) fn custom_resource(schema: &Value) -> Arena {
    let mut reader = Reader::new(None);
    let root = reader.inline(schema, false, 0);
    reader.finish();
    reader.embed(root);
    reader.arena.root = root;
    reader.arena
}

/// Parses one component of an OpenAPI v3 document with all components to which it refers.
pub(super) fn component(components: &Map<String, Value>, name: &str) -> Option<Arena> {
    components.get(name)?;
    let mut reader = Reader::new(Some(components));
    let root = reader.reference(name, 0);
    reader.finish();
    reader.arena.root = root;
    Some(reader.arena)
}

struct Reader<'a> {
    arena: Arena,
    components: Option<&'a Map<String, Value>>,
    known: BTreeMap<String, NodeId>,
    /// Nodes that refer to a component and add properties to it: (the node, the component, the properties).
    overrides: Vec<(NodeId, NodeId, &'a Map<String, Value>)>,
    object_meta: Option<NodeId>,
}

impl<'a> Reader<'a> {
    fn new(components: Option<&'a Map<String, Value>>) -> Self {
        Self {
            arena: Arena::new(components.is_some()),
            components,
            known: BTreeMap::new(),
            overrides: Vec::new(),
            object_meta: None,
        }
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.arena.nodes.push(node);
        self.arena.nodes.len() - 1
    }

    /// Returns the node of a component, which is parsed on first use.
    fn reference(&mut self, name: &str, depth: usize) -> NodeId {
        if let Some(&id) = self.known.get(name) {
            return id;
        }
        let Some(schema) = self.components.and_then(|all| all.get(name)) else { return DEDUCED };
        let id = self.push(Node::default());
        self.known.insert(name.to_owned(), id);
        let mut node = match well_known(name) {
            Some(node) => node,
            None => self.node(schema, false, depth + 1),
        };
        if name.ends_with(".rbac.v1.Role") || name.ends_with(".rbac.v1.ClusterRole") {
            // The only list that need not be set and that the server still returns as null.
            node.checks.get_or_insert_default().required.push("rules".to_owned());
        }
        self.arena.nodes[id] = node;
        id
    }

    /// Parses an inline schema or a reference to a component.
    fn inline(&mut self, schema: &'a Value, preserve: bool, depth: usize) -> NodeId {
        if depth > DEPTH_MAX {
            return DEDUCED;
        }
        if let Some((name, site)) = referred(schema) {
            let target = self.reference(name, depth);
            let says_more = ["default", "x-kubernetes-map-type", "x-kubernetes-patch-strategy", "nullable"];
            return match site.filter(|site| says_more.iter().any(|key| site.contains_key(*key))) {
                Some(site) => {
                    let id = self.push(Node::default());
                    self.overrides.push((id, target, site));
                    id
                }
                None => target,
            };
        }
        let node = self.node(schema, preserve, depth);
        let id = self.push(node);
        if self.components.is_none() && self.arena.nodes[id].embedded {
            self.embed(id);
        }
        id
    }

    /// Adds the fields that every object has.
    fn embed(&mut self, id: NodeId) {
        let metadata = if let Some(id) = self.object_meta {
            id
        } else {
            let id = meta::object_meta(&mut self.arena);
            self.object_meta = Some(id);
            id
        };
        let string = self.push(Node { kind: Kind::String, ..Node::default() });
        let node = &mut self.arena.nodes[id];
        node.own_metadata = node.fields.insert("metadata".to_owned(), metadata);
        for name in ["apiVersion", "kind"] {
            node.fields.entry(name.to_owned()).or_insert_with(|| {
                node.implicit.push(name);
                string
            });
        }
        if node.element == Some(DEDUCED) && !node.preserve && node.extra == Extra::Absent {
            // With declared fields, the object is no longer free-form.
            node.element = None;
        }
    }

    /// Copies components to the nodes that add properties to them.
    fn finish(&mut self) {
        for (id, target, site) in std::mem::take(&mut self.overrides) {
            let mut node = self.arena.nodes[target].clone();
            // An empty object is the zero value of every type.
            let fits = |default: &&Value| node.kind == Kind::Object || !default.is_object();
            if let Some(default) = site.get("default").filter(fits) {
                node.default = Some(default.clone());
            }
            node.map = map_type(site).or(node.map);
            if site.contains_key("x-kubernetes-patch-strategy") {
                node.patch = patch_meta(site);
            }
            node.nullable |= flag(site, "nullable");
            self.arena.nodes[id] = node;
        }
    }

    fn node(&mut self, schema: &'a Value, preserve: bool, depth: usize) -> Node {
        let Some(schema) = schema.as_object() else {
            return Node { element: Some(DEDUCED), items: Some(UNTYPED), ..Node::default() };
        };
        let own_preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
        // For merging, descendants of a node that keeps unknown fields keep them too.
        let preserve = preserve || own_preserve;
        let kind = schema.get("type").and_then(Value::as_str).map_or(Kind::Any, Kind::named);
        let mut fields = BTreeMap::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            fields.insert(name.clone(), self.inline(property, preserve, depth + 1));
        }
        let extra = match schema.get("additionalProperties") {
            None | Some(Value::Null) => Extra::Absent,
            Some(Value::Bool(allowed)) => Extra::Allowed(*allowed),
            Some(extra) => Extra::Of(self.inline(extra, preserve, depth + 1)),
        };
        let element = match extra {
            Extra::Absent => (preserve || fields.is_empty()).then_some(DEDUCED),
            Extra::Allowed(allowed) => allowed.then_some(DEDUCED),
            Extra::Of(id) => Some(id),
        };
        let items = match schema.get("items") {
            Some(items) if items.is_object() => self.inline(items, preserve, depth + 1),
            _ => UNTYPED,
        };
        let rules: Vec<Value> = array(schema, "x-kubernetes-validations").cloned().collect();
        // The server also has the rules of built-in kinds in code, and validates with that code.
        let rules = if self.arena.built_in { Vec::new() } else { rules };
        self.arena.has_rules |= !rules.is_empty();
        let embedded = flag(schema, "x-kubernetes-embedded-resource");
        self.arena.has_embedded |= embedded;
        Node {
            kind,
            format: text(schema, "format"),
            nullable: flag(schema, "nullable"),
            int_or_string: flag(schema, "x-kubernetes-int-or-string"),
            embedded,
            preserve: own_preserve,
            fields,
            own_metadata: None,
            implicit: Vec::new(),
            extra,
            element,
            items: Some(items),
            list: list_type(schema),
            map: map_type(schema),
            patch: patch_meta(schema),
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            checks: self.checks(schema, depth).map(Box::new),
            rules: rule::Rules::read(&rules),
            satisfied: rule::Satisfied::default(),
        }
    }

    fn checks(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Option<Checks> {
        const KEYS: [&str; 18] = [
            "enum",
            "maximum",
            "minimum",
            "multipleOf",
            "maxLength",
            "minLength",
            "pattern",
            "maxItems",
            "minItems",
            "uniqueItems",
            "maxProperties",
            "minProperties",
            "required",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "exclusiveMaximum",
        ];
        if !KEYS.iter().any(|key| schema.contains_key(*key)) {
            return None;
        }
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        let count = |key: &str| schema.get(key).and_then(Value::as_i64);
        let pattern = text(schema, "pattern").filter(|source| !source.is_empty());
        Some(Checks {
            enumeration: array(schema, "enum").cloned().collect(),
            maximum: number("maximum"),
            exclusive_maximum: flag(schema, "exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: flag(schema, "exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            pattern: pattern.map(|source| Pattern { regex: Regex::new(&source).ok(), source }),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            unique_items: flag(schema, "uniqueItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            required: array(schema, "required").filter_map(Value::as_str).map(str::to_owned).collect(),
            all_of: self.alternatives(schema, "allOf", depth),
            any_of: self.alternatives(schema, "anyOf", depth),
            one_of: self.alternatives(schema, "oneOf", depth),
            not: schema.get("not").map(|not| self.inline(not, false, depth + 1)),
        })
    }

    fn alternatives(&mut self, schema: &'a Map<String, Value>, key: &str, depth: usize) -> Vec<NodeId> {
        array(schema, key).map(|alternative| self.inline(alternative, false, depth + 1)).collect()
    }
}

/// Returns types that the server hard-codes because their schemas are incomplete.
fn well_known(name: &str) -> Option<Node> {
    if name.ends_with(".api.resource.Quantity") {
        return Some(Node { kind: Kind::Scalar, ..Node::default() });
    }
    if name.ends_with(".pkg.runtime.RawExtension") {
        return Some(Arena::new(true).nodes.swap_remove(UNTYPED));
    }
    None
}

/// Returns the component to which a schema refers, and the keys beside the reference.
fn referred(schema: &Value) -> Option<(&str, Option<&Map<String, Value>>)> {
    let site = schema.as_object()?;
    let direct = site.get("$ref");
    let reference = match direct {
        Some(reference) => reference,
        None => match site.get("allOf")?.as_array()?.as_slice() {
            [only] => only.get("$ref")?,
            _ => return None,
        },
    };
    let name = reference.as_str()?.rsplit('/').next()?;
    Some((name, Some(site)))
}

fn flag(schema: &Map<String, Value>, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn text(schema: &Map<String, Value>, key: &str) -> Option<String> {
    schema.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn array<'v>(schema: &'v Map<String, Value>, key: &str) -> std::slice::Iter<'v, Value> {
    schema.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice).iter()
}

fn map_type(schema: &Map<String, Value>) -> Option<MapType> {
    match schema.get("x-kubernetes-map-type")?.as_str()? {
        "atomic" => Some(MapType::Atomic),
        "granular" => Some(MapType::Granular),
        _ => None,
    }
}

fn list_type(schema: &Map<String, Value>) -> Option<ListType> {
    if let Some(list) = schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        let keys = || array(schema, "x-kubernetes-list-map-keys").filter_map(Value::as_str);
        return match list {
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map(keys().map(str::to_owned).collect())),
            _ => Some(ListType::Atomic),
        };
    }
    let patch = patch_meta(schema);
    match (patch.merge, patch.merge_key) {
        (true, Some(key)) => Some(ListType::Map(vec![key])),
        (true, None) => Some(ListType::Set),
        (false, _) => None,
    }
}

fn patch_meta(schema: &Map<String, Value>) -> PatchMeta {
    let mut patch =
        PatchMeta { merge_key: text(schema, "x-kubernetes-patch-merge-key"), ..PatchMeta::default() };
    for strategy in text(schema, "x-kubernetes-patch-strategy").unwrap_or_default().split(',') {
        match strategy {
            "merge" => patch.merge = true,
            "retainKeys" => patch.retain_keys = true,
            "replace" => patch.replace = true,
            _ => {}
        }
    }
    patch
}
