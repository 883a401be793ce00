//! Field errors, as a `Status` carries them in `details.causes`.

use std::fmt;

/// Why one field of an object was refused.
///
/// `Display` gives the form that the summary message uses, `field: message`.
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
