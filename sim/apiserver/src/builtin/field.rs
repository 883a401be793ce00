//! Field paths and field errors, with the real server's messages.

use std::fmt;

use serde_json::Value;

use crate::cause::Cause;

/// The path of one field, such as `spec.ports[0].port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(String);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Path {
    /// Returns a field of the object itself.
    pub fn root(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns a field of this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    /// Returns an item of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// Returns the entry of this map under `key`.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// Returns the error for a malformed value.
    pub fn invalid(&self, value: impl Into<Value>, detail: &str) -> Cause {
        self.invalid_as(&value.into().to_string(), detail)
    }

    /// Returns the error for a missing value.
    pub fn required(&self, detail: &str) -> Cause {
        self.cause("FieldValueRequired", with_detail("Required value", detail))
    }

    /// Returns the error for a value that is not allowed here.
    pub fn forbidden(&self, detail: &str) -> Cause {
        self.cause("FieldValueForbidden", with_detail("Forbidden", detail))
    }

    /// Returns the error for a duplicate of a value that must be unique.
    pub fn duplicate(&self, value: impl Into<Value>) -> Cause {
        self.duplicate_as(&value.into().to_string())
    }

    /// Returns the error for a reference to a missing object.
    pub fn not_found(&self, value: impl Into<Value>) -> Cause {
        self.cause("FieldValueNotFound", format!("Not found: {}", value.into()))
    }

    /// Returns the error for an unsupported value.
    pub fn not_supported(&self, value: impl Into<Value>, supported: &[&str]) -> Cause {
        self.not_supported_as(&value.into().to_string(), supported)
    }

    /// Returns the error for a value with too many bytes.
    pub fn too_long(&self, bytes_max: usize) -> Cause {
        self.cause("FieldValueTooLong", format!("Too long: may not be more than {bytes_max} bytes"))
    }

    /// Returns the error for a list with too many items.
    pub fn too_many(&self, items: usize, items_max: usize) -> Cause {
        self.cause("FieldValueTooMany", format!("Too many: {items}: must have at most {items_max} items"))
    }

    /// Like [`Self::invalid`], with the given text for the value in the message.
    pub fn invalid_as(&self, shown: &str, detail: &str) -> Cause {
        self.cause("FieldValueInvalid", with_detail(&format!("Invalid value: {shown}"), detail))
    }

    /// Like [`Self::duplicate`], with the given text for the value in the message.
    pub fn duplicate_as(&self, shown: &str) -> Cause {
        self.cause("FieldValueDuplicate", format!("Duplicate value: {shown}"))
    }

    /// Like [`Self::not_supported`], with the given text for the value in the message.
    pub fn not_supported_as(&self, shown: &str, supported: &[&str]) -> Cause {
        let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {shown}: supported values: {}", quoted.join(", "));
        self.cause("FieldValueNotSupported", message)
    }

    /// Returns one error for each message.
    pub fn all_invalid<'a>(
        &'a self,
        value: &'a str,
        messages: Vec<String>,
    ) -> impl Iterator<Item = Cause> + use<'a> {
        messages.into_iter().map(move |message| self.invalid(value, &message))
    }

    fn cause(&self, reason: &'static str, message: String) -> Cause {
        Cause { reason, field: self.0.clone(), message }
    }
}

fn with_detail(what: &str, detail: &str) -> String {
    if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") }
}
