//! The values in rules.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as CelValue};
use serde_json::Value;

use crate::cause::text;
use crate::schema::escape::escape;
use crate::schema::node::{At, DEPTH_MAX, Extra, Kind};

/// Converts a value by its type: numbers of type `number` are floats, dates and durations are not strings, and declared fields
/// have names that are valid in the language.
pub(super) fn convert(functions: &Context<'static>, at: At<'_>, value: &Value, depth: usize) -> CelValue {
    if depth > DEPTH_MAX {
        return CelValue::Null;
    }
    let node = at.node();
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(bool) => CelValue::Bool(*bool),
        Value::Number(number) => match number.as_i64().filter(|_| node.kind != Kind::Number) {
            Some(integer) => CelValue::Int(integer),
            None => CelValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(string) => {
            parsed(functions, node.format.as_deref().filter(|_| !node.int_or_string), string)
        }
        Value::Array(list) => {
            let items = list.iter().map(|item| match at.items() {
                Some(items) => convert(functions, items, item, depth + 1),
                None => CelValue::Null,
            });
            CelValue::List(Arc::new(items.collect()))
        }
        Value::Object(map) => {
            // Keys of maps are data; only names of fields are escaped.
            let is_map = !matches!(node.extra, Extra::Absent | Extra::Allowed(false));
            let entries = map.iter().filter_map(|(key, value)| {
                let field = at.field(key);
                let child = field.or_else(|| at.child(key))?;
                // A null field counts as absent.
                if value.is_null() && field.is_some() {
                    return None;
                }
                let name = if is_map && field.is_none() { key.clone() } else { escape(key) };
                Some((Key::String(Arc::new(name)), convert(functions, child, value, depth + 1)))
            });
            let map: HashMap<Key, CelValue> = entries.collect();
            CelValue::Map(Map { map: Arc::new(map) })
        }
    }
}

/// Returns what is wrong with a value of another type than rules expect. Such values were stored before the schema changed.
pub(super) fn misfit(at: At<'_>, value: &Value) -> Option<String> {
    let actual = text::type_name(value);
    if at.node().int_or_string && !(value.is_string() || value.is_i64()) {
        let expected = "invalid data, expected XIntOrString value to be either a string or integer";
        return Some(expected.to_owned());
    }
    let expected = match (at.node().kind, value) {
        (Kind::String, Value::String(_))
        | (Kind::Boolean, Value::Bool(_))
        | (Kind::Number, Value::Number(_))
        | (Kind::Object, Value::Object(_))
        | (Kind::Array, Value::Array(_))
        | (Kind::Any | Kind::Scalar, _) => return None,
        (Kind::Integer, Value::Number(number)) if number.is_i64() => return None,
        (Kind::Object, _) => {
            return Some("invalid data, expected a map for the provided schema with type=object".to_owned());
        }
        (Kind::Array, _) => {
            return Some(
                "invalid data, expected an array for the provided schema with type=array".to_owned(),
            );
        }
        (Kind::String, _) => "string",
        (Kind::Boolean, _) => "bool",
        (Kind::Integer, _) => "int",
        (Kind::Number, _) => "float",
    };
    Some(format!("invalid data, expected {expected}, got {actual}"))
}

/// Returns an optional value, for rules that also run when there is no old value.
pub(super) fn optional(functions: &Context<'static>, value: Option<CelValue>) -> CelValue {
    match value {
        Some(value) => call(functions, &OPTIONAL_OF, Some(value)),
        None => call(functions, &OPTIONAL_NONE, None),
    }
    .unwrap_or(CelValue::Null)
}

fn parsed(functions: &Context<'static>, format: Option<&str>, string: &str) -> CelValue {
    let plain = || CelValue::String(Arc::new(string.to_owned()));
    match format {
        Some("date-time" | "datetime") => call(functions, &TIMESTAMP, Some(plain())).unwrap_or_else(plain),
        Some("date") => {
            let midnight = CelValue::String(Arc::new(format!("{string}T00:00:00Z")));
            call(functions, &TIMESTAMP, Some(midnight)).unwrap_or_else(plain)
        }
        Some("duration") => call(functions, &DURATION, Some(plain())).unwrap_or_else(plain),
        Some("byte") => match base64::engine::general_purpose::STANDARD.decode(string) {
            Ok(bytes) => CelValue::Bytes(Arc::new(bytes)),
            Err(_) => plain(),
        },
        _ => plain(),
    }
}

/// An expression of this module over `x`, compiled once: compilation takes longer than evaluation.
type Expression = LazyLock<Option<Program>>;

static OPTIONAL_OF: Expression = LazyLock::new(|| Program::compile("optional.of(x)").ok());
static OPTIONAL_NONE: Expression = LazyLock::new(|| Program::compile("optional.none()").ok());
static TIMESTAMP: Expression = LazyLock::new(|| Program::compile("timestamp(x)").ok());
static DURATION: Expression = LazyLock::new(|| Program::compile("duration(x)").ok());

fn call(functions: &Context<'static>, expression: &Expression, value: Option<CelValue>) -> Option<CelValue> {
    let program = expression.as_ref()?;
    let mut scope = functions.new_inner_scope();
    if let Some(value) = value {
        scope.add_variable_from_value("x", value);
    }
    program.execute(&scope).ok()
}
