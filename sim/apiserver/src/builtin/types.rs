//! The Go types behind the built-in kinds, for decoding and encoding.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use super::resource::Resource;

const TYPES: &str = include_str!("../../schemas/types.json");

/// The type of a field or list item.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Bool,
    Integer { name: &'static str, min: i64, max: i64 },
    Float,
    String,
    Bytes,
    Pointer(Box<Self>),
    List(Box<Self>),
    Map { key: &'static str, value: Box<Self> },
    Named(&'static str),
}

/// A field of a struct.
#[derive(Debug)]
pub(super) struct Field {
    /// Name of the embedded struct with the field, followed by a dot; empty if the struct has the field itself.
    pub(super) embedded: String,
    pub(super) shape: Shape,
    pub(super) omit_empty: bool,
    pub(super) omit_zero: bool,
    /// What is written if the field is absent, once that was needed; none if it is omitted.
    pub(super) absent: OnceLock<Option<Value>>,
}

/// The definition of a named type.
#[derive(Debug)]
pub(super) enum Definition {
    Struct(BTreeMap<&'static str, Field>),
    Alias(Shape),
    /// A type with its own decoder and encoder.
    Custom,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Struct(#[serde(borrow)] BTreeMap<&'static str, &'static str>),
    Text(&'static str),
}

#[derive(Deserialize)]
struct File {
    #[serde(borrow)]
    kinds: BTreeMap<&'static str, &'static str>,
    #[serde(borrow)]
    types: BTreeMap<&'static str, Entry>,
}

struct Types {
    kinds: BTreeMap<&'static str, &'static str>,
    definitions: BTreeMap<&'static str, Definition>,
}

fn types() -> &'static Types {
    static TABLE: OnceLock<Types> = OnceLock::new();
    TABLE.get_or_init(|| {
        let file: File = serde_json::from_str(TYPES).expect("the checked-in types are well-formed");
        let definitions = file.types.into_iter().map(|(name, entry)| (name, definition(entry))).collect();
        Types { kinds: file.kinds, definitions }
    })
}

fn definition(entry: Entry) -> Definition {
    match entry {
        Entry::Struct(fields) => {
            Definition::Struct(fields.into_iter().map(|(name, text)| (name, field(text))).collect())
        }
        Entry::Text("custom") => Definition::Custom,
        Entry::Text(text) => Definition::Alias(shape(text)),
    }
}

fn field(text: &'static str) -> Field {
    let (embedded, rest) = text.rsplit_once('/').unwrap_or(("", text));
    let bare = rest.trim_end_matches(['?', '!']);
    let marks = &rest[bare.len()..];
    Field {
        embedded: if embedded.is_empty() {
            String::new()
        } else {
            format!("{}.", embedded.replace('/', "."))
        },
        shape: shape(bare),
        omit_empty: marks.contains('?'),
        omit_zero: marks.contains('!'),
        absent: OnceLock::new(),
    }
}

fn shape(text: &'static str) -> Shape {
    let boxed = |rest| Box::new(shape(rest));
    match text {
        "bool" => return Shape::Bool,
        "string" => return Shape::String,
        "float64" | "float32" => return Shape::Float,
        "[]uint8" => return Shape::Bytes,
        "int" | "int64" => return Shape::Integer { name: text, min: i64::MIN, max: i64::MAX },
        "int32" => return Shape::Integer { name: text, min: i32::MIN.into(), max: i32::MAX.into() },
        "uint16" => return Shape::Integer { name: text, min: 0, max: u16::MAX.into() },
        _ => {}
    }
    if let Some(rest) = text.strip_prefix('*') {
        return Shape::Pointer(boxed(rest));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return Shape::List(boxed(rest));
    }
    match text.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        Some((key, value)) => Shape::Map { key, value: boxed(value) },
        None => Shape::Named(text),
    }
}

/// Returns the name of the type of a kind.
pub(super) fn of_resource(resource: &Resource) -> Option<&'static str> {
    let Resource { group, version, kind, .. } = resource;
    let key =
        if group.is_empty() { format!("{version}/{kind}") } else { format!("{group}/{version}/{kind}") };
    types().kinds.get(key.as_str()).copied()
}

/// Returns the definition of a name.
pub(super) fn lookup(name: &str) -> Option<&'static Definition> {
    types().definitions.get(name)
}

/// Returns the fields of a struct that are encoded as null if they are empty; none if it is not a struct.
pub(super) fn held_if_null(name: &str) -> Option<Vec<&'static str>> {
    let Some(Definition::Struct(fields)) = lookup(name) else { return None };
    let is_held = |field: &Field| match &field.shape {
        Shape::Pointer(_) | Shape::List(_) | Shape::Map { .. } => !field.omit_empty,
        Shape::Named(name) => match lookup(name) {
            Some(Definition::Alias(Shape::List(_) | Shape::Map { .. })) => !field.omit_empty,
            // A time is a struct, which is never empty.
            Some(Definition::Custom) => name.ends_with("Time"),
            _ => false,
        },
        _ => false,
    };
    let held = fields.iter().filter(|(_, field)| is_held(field) && !field.omit_zero);
    Some(held.map(|(name, _)| *name).collect())
}

/// Returns the last component of a name: `Container` of `io.k8s.api.core.v1.Container`.
pub(super) fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Returns a type in Go's notation: `v1.Container` for a name, `map[string]string` and the like for the rest.
pub(super) fn go_name(shape: &Shape) -> String {
    match shape {
        Shape::Bool => "bool".to_owned(),
        Shape::Integer { name, .. } => (*name).to_owned(),
        Shape::Float => "float64".to_owned(),
        Shape::String => "string".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Pointer(inner) => format!("*{}", go_name(inner)),
        Shape::List(item) => format!("[]{}", go_name(item)),
        Shape::Map { key, value } => format!("map[{}]{}", go_name(&self::shape(key)), go_name(value)),
        Shape::Named(name) => {
            let mut parts = name.rsplitn(3, '.');
            let (kind, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            format!("{package}.{kind}")
        }
    }
}
