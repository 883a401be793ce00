//! The source and the destination that Argo CD has compared, in a form in which two of them can be compared.

use lockstep_engine::digest::digest;
use serde_json::Value;

use super::trim::kept;

/// Returns a comparison with a digest of the chart's values instead of the values, if Argo CD reports them.
pub fn compared(compared: &Value) -> Value {
    let mut kept = kept(compared, &["source", "destination"]);
    if let Some(values) = compared.pointer("/source/helm/valuesObject") {
        kept["values"] = digest_of_values(values).into();
    }
    kept
}

/// Returns a digest of values in the form that Argo CD reports: without nulls, which its merge patch omits, and with numbers
/// as 64-bit floats, which round integers beyond 2^53.
pub fn digest_of_values(values: &Value) -> String {
    fn repeated(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(_, value)| !value.is_null());
                kept.map(|(field, value)| (field.clone(), repeated(value))).collect()
            }
            Value::Array(items) => items.iter().map(repeated).collect(),
            // The addition of zero changes -0.0, which an API server stores as 0, to 0.0.
            Value::Number(number) => {
                number.as_f64().map_or_else(|| value.clone(), |float| (float + 0.0).into())
            }
            other => other.clone(),
        }
    }
    digest(&repeated(values))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    proptest::proptest! {
        /// Go writes a float with the fewest digits that distinguish it from others, as Rust does, and no exponent below 1e21.
        #[test]
        fn an_integer_and_what_argo_cd_makes_of_it_have_one_digest(integer: i64) {
            #[expect(clippy::cast_precision_loss, reason = "that is what Argo CD does")]
            let rounded: Value = serde_json::from_str(&format!("{}", integer as f64)).unwrap();
            let values = |number: Value| json!({ "a": [{ "b": number }] });
            proptest::prop_assert_eq!(
                digest_of_values(&values(json!(integer))),
                digest_of_values(&values(rounded))
            );
        }
    }
}
