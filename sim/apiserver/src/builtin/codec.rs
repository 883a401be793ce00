//! Decodes an object to the Go types and encodes it again. Wrongly typed fields are errors, unknown ones are dropped and
//! reported, and fields are omitted or filled in as Go does.

use serde_json::{Map, Value};

use super::quantity::Quantity;
use super::resource::Resource;
use super::types::{self, Definition, Field, Shape};
use super::{encoding, time};
use crate::cause::text;

pub(crate) use self::convert::whole;

mod convert;

/// The result of decoding an object.
pub(super) struct Decoded {
    /// The encoded object.
    pub(super) object: Value,
    /// Paths of unknown fields, in order.
    pub(super) unknown: Vec<String>,
    /// The first error.
    pub(super) error: Option<String>,
}

/// The origin of an object: the server's two readers differ in what they accept, and in their messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// A JSON document: a whole number must be written as one.
    #[default]
    Document,
    /// An untyped object, as after a patch: whole floats are integers, and integers that don't fit wrap.
    Untyped,
}

/// Decodes and encodes a whole object.
pub(super) fn round_trip(resource: &Resource, object: &Value, source: Source) -> Option<Decoded> {
    let name = types::of_resource(resource)?;
    let mut reader = Reader { source, ..Reader::default() };
    let object = reader.named(name, object);
    Some(Decoded { object, unknown: reader.unknown, error: reader.fatal.or(reader.error) })
}

/// Decodes and encodes the metadata of an object.
pub(super) fn metadata(metadata: &Value) -> Result<Value, String> {
    const TYPE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let mut reader = Reader::default();
    let read = reader.named(TYPE, metadata);
    reader.fatal.or(reader.error).map_or(Ok(read), Err)
}

#[derive(Default)]
struct Reader {
    source: Source,
    /// The fields down to the current one with their JSON names, as in errors: without indices and keys.
    fields: Vec<(&'static Field, &'static str)>,
    /// The struct with the innermost of [`Self::fields`].
    holder: &'static str,
    /// The exact path, as in reports of unknown fields.
    place: String,
    unknown: Vec<String>,
    error: Option<String>,
    /// An error of a type with its own decoder, which ends the decoding immediately.
    fatal: Option<String>,
}

impl Reader {
    fn value(&mut self, shape: &Shape, value: &Value) -> Value {
        match shape {
            Shape::Pointer(_) if value.is_null() => Value::Null,
            Shape::Pointer(inner) => self.value(inner, value),
            Shape::Named(name) => self.named(name, value),
            Shape::List(item) => self.list(shape, item, value),
            Shape::Map { value: entry, .. } => self.map(shape, entry, value),
            _ => self.scalar(shape, shape, value),
        }
    }

    fn named(&mut self, name: &'static str, value: &Value) -> Value {
        let named = Shape::Named(name);
        match types::lookup(name) {
            Some(Definition::Struct(fields)) => self.structure(name, fields, value),
            Some(Definition::Alias(Shape::List(item))) => self.list(&named, item, value),
            Some(Definition::Alias(Shape::Map { value: entry, .. })) => self.map(&named, entry, value),
            Some(Definition::Alias(shape)) => self.scalar(shape, &named, value),
            Some(Definition::Custom) | None => self.custom(name, value),
        }
    }

    fn structure(
        &mut self,
        name: &'static str,
        fields: &'static std::collections::BTreeMap<&'static str, Field>,
        value: &Value,
    ) -> Value {
        let empty = Map::new();
        let given = match value {
            Value::Object(given) => given,
            Value::Null => &empty,
            _ => {
                self.mismatch(value, &Shape::Named(name));
                &empty
            }
        };
        let mut written = Map::new();
        for (key, value) in given {
            if let Some((key, field)) = fields.get_key_value(key.as_str()) {
                self.field(name, key, field, value, &mut written);
            } else {
                let outer = self.enter(key);
                self.unknown.push(self.place.clone());
                self.place.truncate(outer);
            }
        }
        for (key, field) in fields.iter().filter(|(key, _)| !given.contains_key(**key)) {
            if let Some(value) = absent(field) {
                written.insert((*key).to_owned(), value.clone());
            }
        }
        Value::Object(written)
    }

    fn field(
        &mut self,
        holder: &'static str,
        key: &'static str,
        field: &'static Field,
        value: &Value,
        written: &mut Map<String, Value>,
    ) {
        let outer = (self.holder, self.enter(key));
        self.holder = types::short(holder);
        self.fields.push((field, key));
        let read = self.value(&field.shape, value);
        self.fields.pop();
        self.place.truncate(outer.1);
        self.holder = outer.0;
        if !left_out(field, &read) {
            written.insert(key.to_owned(), read);
        }
    }

    /// Appends a key to the path, and returns the length to which it must be truncated again.
    fn enter(&mut self, key: &str) -> usize {
        let outer = self.place.len();
        if outer > 0 {
            self.place.push('.');
        }
        self.place.push_str(key);
        outer
    }

    fn list(&mut self, whole: &Shape, item: &Shape, value: &Value) -> Value {
        let Value::Array(items) = value else {
            self.expect_null(value, whole);
            return Value::Null;
        };
        if items.is_empty() {
            return Value::Null;
        }
        let outer = self.place.len();
        let read = items.iter().enumerate().map(|(index, given)| {
            self.place.push('[');
            self.place.push_str(&index.to_string());
            self.place.push(']');
            let read = self.value(item, given);
            self.place.truncate(outer);
            read
        });
        Value::Array(read.collect())
    }

    fn map(&mut self, whole: &Shape, entry: &Shape, value: &Value) -> Value {
        let Value::Object(entries) = value else {
            self.expect_null(value, whole);
            return Value::Null;
        };
        if entries.is_empty() {
            return Value::Null;
        }
        let mut read = Map::new();
        for (key, given) in entries {
            let outer = self.enter(key);
            read.insert(key.clone(), self.value(entry, given));
            self.place.truncate(outer);
        }
        Value::Object(read)
    }

    /// Decodes a plain value; `reported` is the type in an error.
    fn scalar(&mut self, shape: &Shape, reported: &Shape, value: &Value) -> Value {
        match (shape, value) {
            (Shape::Bool, Value::Bool(_))
            | (Shape::String, Value::String(_))
            | (Shape::Float, Value::Number(_)) => value.clone(),
            (Shape::Bytes, Value::String(text)) => match encoding::check(text) {
                Ok(canonical) => Value::from(canonical),
                Err(position) => {
                    let decoding =
                        if self.source == Source::Untyped { "error decoding from json: " } else { "" };
                    self.save(format!("{decoding}illegal base64 data at input byte {position}"));
                    zero(shape)
                }
            },
            (Shape::Bytes, Value::Array(items)) => {
                let byte = Shape::Integer { name: "uint8", min: 0, max: u8::MAX.into() };
                let bytes = items.iter().map(|item| self.scalar(&byte, &byte, item).as_u64());
                let bytes: Vec<u8> =
                    bytes.map(|byte| byte.and_then(|byte| byte.try_into().ok()).unwrap_or(0)).collect();
                encoding::encode(&bytes).into()
            }
            (Shape::Integer { min, max, .. }, Value::Number(number)) if self.source == Source::Untyped => {
                if let Some(integer) = whole(number) {
                    convert::wrapped(integer, *min, *max).into()
                } else {
                    self.mismatch(value, reported);
                    zero(shape)
                }
            }
            (Shape::Integer { min, max, .. }, Value::Number(number)) => match number.as_i64() {
                Some(integer) if (*min..=*max).contains(&integer) => value.clone(),
                _ => {
                    self.save_mismatch(&format!("number {number}"), &types::go_name(reported));
                    zero(shape)
                }
            },
            _ => {
                self.expect_null(value, reported);
                zero(shape)
            }
        }
    }

    fn custom(&mut self, name: &'static str, value: &Value) -> Value {
        match (types::short(name), value) {
            ("Quantity", _) => self.quantity(value),
            ("IntOrString", Value::String(_)) => value.clone(),
            ("IntOrString", Value::Null) => Value::from(0),
            ("IntOrString", Value::Number(number)) => {
                let integer = match self.source {
                    Source::Document => number.as_i64(),
                    Source::Untyped => whole(number),
                };
                let fits = integer.filter(|integer| i32::try_from(*integer).is_ok());
                if fits.is_none() {
                    self.fail_mismatch(&format!("number {number}"), "int32");
                }
                fits.map_or_else(|| value.clone(), Value::from)
            }
            ("IntOrString", _) => {
                self.fail_mismatch(text::json_type(value), "int32");
                Value::Null
            }
            ("Time" | "MicroTime", Value::Null) => Value::Null,
            ("Time", Value::String(text)) => self.time(time::seconds(text)),
            ("MicroTime", Value::String(text)) => self.time(time::micros(text)),
            ("Time" | "MicroTime", _) => {
                self.fail_mismatch(text::json_type(value), "string");
                Value::Null
            }
            _ => value.clone(),
        }
    }

    fn quantity(&mut self, value: &Value) -> Value {
        let text = match value {
            Value::Null => return Value::from("0"),
            Value::String(text) => text.trim().to_owned(),
            other => other.to_string(),
        };
        match Quantity::parse(&text) {
            Ok(quantity) => Value::from(quantity.to_string()),
            Err(error) => {
                self.fatal.get_or_insert_with(|| error.to_string());
                Value::Null
            }
        }
    }

    fn time(&mut self, read: Result<String, String>) -> Value {
        match read {
            Ok(text) => Value::from(text),
            Err(error) => {
                self.fatal.get_or_insert(error);
                Value::Null
            }
        }
    }

    fn expect_null(&mut self, value: &Value, reported: &Shape) {
        if !value.is_null() {
            self.mismatch(value, reported);
        }
    }

    fn mismatch(&mut self, value: &Value, reported: &Shape) {
        if self.source == Source::Untyped {
            return self.save(convert::refusal(value, reported));
        }
        self.save_mismatch(text::json_type(value), &types::go_name(reported));
    }

    fn save_mismatch(&mut self, what: &str, of_type: &str) {
        let text = self.mismatch_text(what, of_type);
        self.save(text);
    }

    fn fail_mismatch(&mut self, what: &str, of_type: &str) {
        let text = self.mismatch_text(what, of_type);
        self.fatal.get_or_insert(text);
    }

    fn mismatch_text(&self, what: &str, of_type: &str) -> String {
        if self.fields.is_empty() || self.source == Source::Untyped {
            return format!("json: cannot unmarshal {what} into Go value of type {of_type}");
        }
        let fields = self.fields.iter().map(|(field, key)| format!(".{}{key}", field.embedded));
        let path: String = fields.collect();
        format!("json: cannot unmarshal {what} into Go struct field {}{path} of type {of_type}", self.holder)
    }

    fn save(&mut self, error: String) {
        if self.fatal.is_none() {
            self.error.get_or_insert(error);
        }
    }
}

/// Returns what is written if a field is absent.
fn absent(field: &'static Field) -> Option<&'static Value> {
    let absent = field.absent.get_or_init(|| {
        let read = Reader::default().value(&field.shape, &Value::Null);
        (!left_out(field, &read)).then_some(read)
    });
    absent.as_ref()
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => Value::from(false),
        Shape::Integer { .. } | Shape::Float => Value::from(0),
        Shape::String | Shape::Bytes => Value::from(""),
        _ => Value::Null,
    }
}

/// Returns whether Go omits a field with this value: structs are kept with any content, and so are pointers to zeros.
fn left_out(field: &Field, value: &Value) -> bool {
    if is_custom(&field.shape) {
        // Types with their own decoder are structs too, so only an absent time can be omitted.
        return field.omit_zero && value.is_null();
    }
    let empty = match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    };
    let is_pointer = matches!(field.shape, Shape::Pointer(_));
    (field.omit_empty || field.omit_zero) && empty && (value.is_null() || !is_pointer)
}

fn is_custom(shape: &Shape) -> bool {
    matches!(shape, Shape::Named(name) if matches!(types::lookup(name), Some(Definition::Custom)))
}
