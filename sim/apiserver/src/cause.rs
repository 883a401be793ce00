//! Field errors, as in `details.causes` of a `Status`.

pub(crate) mod text;

pub use self::text::json as json_in_html;

use std::fmt;

use serde_json::Value;

/// Describes why one field of an object was refused.
///
/// `Display` gives the form in the summary message, `field: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason, such as `FieldValueInvalid` or `FieldValueRequired`.
    pub reason: &'static str,
    /// The path of the field, such as `spec.ports[0].port`.
    pub field: String,
    /// What is wrong, such as `Invalid value: 0: must be between 1 and 65535, inclusive`.
    pub message: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Cause {
    /// Returns the error for a malformed value.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::with_value("FieldValueInvalid", "Invalid value", field.into(), value, detail)
    }

    /// Returns the error for a value of the wrong type.
    pub fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::with_value("FieldValueTypeInvalid", "Invalid value", field.into(), value, detail)
    }

    /// Returns the error for a missing value.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::plain("FieldValueRequired", "Required value", field.into(), detail)
    }

    /// Returns the error for a well-formed value that is not permitted.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::plain("FieldValueForbidden", "Forbidden", field.into(), detail)
    }

    /// Returns the error for a duplicate of a value that must be unique.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::with_value("FieldValueDuplicate", "Duplicate value", field.into(), value, "")
    }

    /// Returns the error for a value outside of an enumeration.
    pub fn unsupported<S: AsRef<str>>(field: impl Into<String>, value: &Value, supported: &[S]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| text::quote(value.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::with_value("FieldValueNotSupported", "Unsupported value", field.into(), value, &detail)
    }

    /// Returns the error for a string that is too long; the message does not contain the value.
    pub fn too_long(field: impl Into<String>, max: i64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::plain(
            "FieldValueTooLong",
            "Too long",
            field.into(),
            &format!("may not be more than {max} {unit}"),
        )
    }

    /// Returns the error for a list or map with too many entries.
    pub fn too_many(field: impl Into<String>, actual: usize, max: i64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let message = format!("Too many: {actual}: must have at most {max} {unit}");
        Self { reason: "FieldValueTooMany", field: field.into(), message }
    }

    fn with_value(reason: &'static str, what: &str, field: String, value: &Value, detail: &str) -> Self {
        let mut message = format!("{what}: {}", text::bad_value(value));
        if !detail.is_empty() {
            message.push_str(": ");
            message.push_str(detail);
        }
        Self { reason, field, message }
    }

    fn plain(reason: &'static str, what: &str, field: String, detail: &str) -> Self {
        let message = if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") };
        Self { reason, field, message }
    }
}
