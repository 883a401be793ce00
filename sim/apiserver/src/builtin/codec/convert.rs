//! The number conversions of the reader of untyped objects, and its errors for values of the wrong type.

use serde_json::{Number, Value};

use crate::builtin::types::{self, Definition, Shape};
use crate::cause::text;

/// Returns a number as an integer, if it is whole.
pub(crate) fn whole(number: &Number) -> Option<i64> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < BOUND)?;
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the bounds")]
        Some(float as i64)
    })
}

/// Wraps an integer to the bits of a smaller type.
pub(super) fn wrapped(integer: i64, min: i64, max: i64) -> i64 {
    let (min, max) = (i128::from(min), i128::from(max));
    let wrapped = (i128::from(integer) - min).rem_euclid(max - min + 1) + min;
    i64::try_from(wrapped).expect("between two integers of 64 bits")
}

/// Returns why a value can't be converted to a type.
pub(super) fn refusal(value: &Value, wanted: &Shape) -> String {
    let found = match value {
        Value::Object(_) => "map",
        Value::Array(_) => "slice",
        other => text::type_name(other),
    };
    match resolved(wanted) {
        None => format!("cannot restore struct from: {found}"),
        Some(Shape::Map { .. }) => format!("cannot restore map from {found}"),
        Some(Shape::List(_) | Shape::Bytes) => format!("cannot restore slice from {found}"),
        Some(shape) => {
            let name = types::go_name(wanted);
            let convertible = match shape {
                Shape::String => found == "int64",
                Shape::Integer { .. } => found == "float64",
                _ => false,
            };
            if convertible {
                format!("cannot convert {found} to {name}")
            } else {
                format!("unrecognized type: {}", types::go_name(shape))
            }
        }
    }
}

/// Returns the shape behind names and pointers; none for a struct.
fn resolved(shape: &Shape) -> Option<&Shape> {
    match shape {
        Shape::Pointer(inner) => resolved(inner),
        Shape::Named(name) => match types::lookup(name) {
            Some(Definition::Alias(shape)) => resolved(shape),
            Some(Definition::Struct(_) | Definition::Custom) | None => None,
        },
        other => Some(other),
    }
}
