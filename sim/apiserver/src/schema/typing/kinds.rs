//! The types of expressions.

use std::fmt;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::schema::escape::escape;
use crate::schema::node::DEPTH_MAX;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::schema) enum Type<'s> {
    /// Not known here, as after an error: fits everywhere.
    Unknown,
    /// Known only when the expression is evaluated.
    Dyn,
    Null,
    /// A scalar or another type without parameters, by its name in the language.
    Simple(&'static str),
    List(Rc<Type<'s>>),
    Map(Rc<Type<'s>>, Rc<Type<'s>>),
    Optional(Rc<Type<'s>>),
    /// The type of types.
    Kind,
    Object(Object<'s>),
    /// A parameter in the signature of a function.
    Parameter(usize),
    /// Any number, in the signature of a function.
    Number,
}

/// An object with declared fields.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::schema) struct Object<'s> {
    name: String,
    schema: &'s Map<String, Value>,
    has_metadata: bool,
}

pub(super) const BOOL: Type<'static> = Type::Simple("bool");
pub(super) const INT: Type<'static> = Type::Simple("int");
pub(super) const STRING: Type<'static> = Type::Simple("string");

impl<'s> Type<'s> {
    /// Returns the type of values of a schema; none if expressions can't use such values.
    pub(super) fn of(schema: &'s Map<String, Value>, is_root: bool, name: &str) -> Option<Self> {
        Self::at_depth(schema, is_root, name, 0)
    }

    fn at_depth(schema: &'s Map<String, Value>, is_root: bool, name: &str, depth: usize) -> Option<Self> {
        let flag = |key: &str| schema.get(key) == Some(&Value::Bool(true));
        let below = |key: &str, suffix: &str| {
            let inner = schema.get(key)?.as_object()?;
            let embedded = inner.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
            Self::at_depth(inner, embedded, &format!("{name}.{suffix}"), depth + 1).map(Rc::new)
        };
        if depth > DEPTH_MAX {
            return None;
        }
        if flag("x-kubernetes-int-or-string") {
            return Some(Type::Dyn);
        }
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        Some(match text("type") {
            "array" => Type::List(below("items", "@idx")?),
            "object" if schema.get("additionalProperties").is_some_and(Value::is_object) => {
                Type::Map(Rc::new(STRING), below("additionalProperties", "@elem")?)
            }
            "object" => Type::Object(Object { name: name.to_owned(), schema, has_metadata: is_root }),
            "string" => Type::Simple(match text("format") {
                "byte" => "bytes",
                "duration" => "google.protobuf.Duration",
                "date" | "date-time" => "google.protobuf.Timestamp",
                _ => "string",
            }),
            "boolean" => BOOL,
            "number" => Type::Simple("double"),
            "integer" => INT,
            _ => return None,
        })
    }

    /// Returns the type of a field; none if the type has no such field.
    pub(super) fn field(&self, name: &str) -> Result<Option<Type<'s>>, ()> {
        match self {
            Type::Unknown => Ok(Some(Type::Unknown)),
            Type::Dyn => Ok(Some(Type::Dyn)),
            Type::Map(_, value) => Ok(Some((**value).clone())),
            Type::Optional(inner) => Ok(inner.field(name)?.map(|field| Type::Optional(Rc::new(field)))),
            Type::Object(object) => Ok(object.field(name)),
            _ => Err(()),
        }
    }

    /// Returns whether the type takes null: it is not a scalar.
    pub(super) fn is_nullable(&self) -> bool {
        match self {
            Type::Object(_) => true,
            Type::Simple(name) => name.contains('.'),
            _ => false,
        }
    }
}

impl<'s> Object<'s> {
    fn field(&self, name: &str) -> Option<Type<'s>> {
        if self.has_metadata {
            match name {
                "apiVersion" | "kind" => return Some(STRING),
                "metadata" => return Some(object_meta(&self.name)),
                _ => {}
            }
        }
        let properties = self.schema.get("properties")?.as_object()?;
        let (_, property) = properties.iter().find(|(key, _)| escape(key) == name)?;
        let property = property.as_object()?;
        let embedded = property.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
        Type::of(property, embedded, &format!("{}.{name}", self.name))
    }
}

/// Returns the type of an object's metadata, as far as rules may use it.
fn object_meta<'s>(parent: &str) -> Type<'s> {
    static META: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(|| {
        let string = serde_json::json!({"type": "string"});
        let fields = serde_json::json!({"name": string, "generateName": string});
        Map::from_iter([("properties".to_owned(), fields)])
    });
    Type::Object(Object { name: format!("{parent}.metadata"), schema: &META, has_metadata: false })
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Unknown | Type::Dyn | Type::Parameter(_) | Type::Number => f.write_str("dyn"),
            Type::Null => f.write_str("null"),
            Type::Simple("google.protobuf.Duration") => f.write_str("duration"),
            Type::Simple("google.protobuf.Timestamp") => f.write_str("timestamp"),
            Type::Simple(name) => f.write_str(name),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Optional(inner) => write!(f, "optional_type({inner})"),
            Type::Kind => f.write_str("type"),
            Type::Object(object) => f.write_str(&object.name),
        }
    }
}
