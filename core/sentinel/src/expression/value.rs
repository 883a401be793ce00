//! Values of expressions: from JSON, to JSON, and their limits.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map};
use serde_json::{Number, Value as Json};

/// The maximum size of a value in bytes, roughly.
const VALUE_MAX_BYTES: usize = 16 << 10;
/// The size of a value without its content.
const VALUE_BYTES: usize = 16;
/// The maximum length of a duration: a century.
const DURATION_MAX_DAYS: i64 = 36_525;

/// Returns the value of a JSON document.
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::Int(value),
            (None, Some(value)) => Value::UInt(value),
            (None, None) => Value::Float(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::String(Arc::new(text.clone())),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(from_json).collect())),
        Json::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (Key::from(key.as_str()), from_json(value)));
            Value::Map(Map { map: Arc::new(fields.collect()) })
        }
    }
}

/// Returns the JSON document of a value.
pub fn to_json(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::UInt(value) => Json::from(*value),
        Value::Float(value) => {
            Json::Number(Number::from_f64(*value).ok_or("an infinite number has no JSON form")?)
        }
        Value::String(text) => Json::String(text.to_string()),
        Value::Timestamp(time) => Json::String(time.to_rfc3339()),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Value::Map(map) => {
            let fields = map.map.iter().map(|(key, value)| Ok((key.to_string(), to_json(value)?)));
            Json::Object(fields.collect::<Result<_, String>>()?)
        }
        _ => return Err(format!("a {} has no JSON form; convert it with string()", name(value))),
    })
}

/// Returns the name of a value's type.
pub fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Timestamp(_) => "timestamp",
        Value::Duration(_) => "duration",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        _ => "value of another type",
    }
}

/// Checks the limits of a value.
pub(super) fn check(value: &Value) -> Result<(), &'static str> {
    let mut left = VALUE_MAX_BYTES;
    let fits = fits(value, &mut left);
    fits.then_some(()).ok_or("a value is larger than 16 KiB, or a duration longer than a century")
}

fn fits(value: &Value, left: &mut usize) -> bool {
    let content = match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    let Some(rest) = left.checked_sub(VALUE_BYTES + content) else { return false };
    *left = rest;
    match value {
        Value::Duration(duration) => duration.num_days().abs() <= DURATION_MAX_DAYS,
        Value::List(items) => items.iter().all(|item| fits(item, left)),
        Value::Map(map) => map.map.iter().all(|(key, value)| {
            let key = if let Key::String(key) = key { key.len() } else { 0 };
            let Some(rest) = left.checked_sub(key) else { return false };
            *left = rest;
            fits(value, left)
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use kube_cel::cel::{Context, Program};
    use serde_json::json;

    use super::*;

    fn evaluated(expression: &str) -> Value {
        Program::compile(expression).expect(expression).execute(&Context::default()).expect(expression)
    }

    #[test]
    fn values_have_a_json_form_and_a_type() {
        for (expression, expected, of) in [
            ("null", json!(null), "null"),
            ("true", json!(true), "bool"),
            ("-1", json!(-1), "int"),
            ("1u", json!(1), "uint"),
            ("1.5", json!(1.5), "double"),
            ("'a'", json!("a"), "string"),
            ("timestamp('2026-01-01T00:00:00Z')", json!("2026-01-01T00:00:00+00:00"), "timestamp"),
            ("[1, 'a']", json!([1, "a"]), "list"),
            ("{'a': [true]}", json!({ "a": [true] }), "map"),
        ] {
            let value = evaluated(expression);
            assert_eq!((to_json(&value), name(&value)), (Ok(expected), of), "{expression}");
        }
        let all = json!({ "a": [null, false, -1, u64::MAX, 1.5, "b"] });
        assert_eq!(to_json(&from_json(&all)), Ok(all));
        for (expression, of) in [("b'a'", "bytes"), ("duration('1h')", "duration")] {
            let refused = to_json(&evaluated(expression)).expect_err("it has no JSON form");
            assert!(refused.contains(of), "{refused}");
        }
    }

    #[test]
    fn large_values_are_refused_however_they_are_nested() {
        let text = |bytes: usize| Value::String(Arc::new("a".repeat(bytes)));
        let list = |items: Vec<Value>| Value::List(Arc::new(items));
        let at_most = VALUE_MAX_BYTES - VALUE_BYTES;
        assert!(check(&text(at_most)).is_ok() && check(&text(at_most + 1)).is_err());
        assert!(check(&Value::Bytes(Arc::new(vec![0; at_most + 1]))).is_err());
        assert!(check(&list(vec![text(at_most / 2), text(at_most / 2 - 2 * VALUE_BYTES)])).is_ok());
        assert!(check(&list(vec![text(at_most / 2), text(at_most / 2)])).is_err());
        assert!(check(&from_json(&json!({ "a": "b".repeat(at_most) }))).is_err());
        assert!(check(&from_json(&json!({ ("a".repeat(at_most)): "b" }))).is_err());
        assert!(check(&evaluated("duration('1h')")).is_ok());
        let century = |days: i64| evaluated(&format!("duration('{}h')", days * 24));
        assert!(
            check(&century(DURATION_MAX_DAYS)).is_ok() && check(&century(-DURATION_MAX_DAYS - 1)).is_err()
        );
    }
}
