//! The values of fields and comparisons.

use std::borrow::Cow;
use std::cmp::Ordering;

use jiff::Timestamp;

/// A value of a field, or one that a search compares with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Text(Cow<'a, str>),
    Number(i64),
    Time(Timestamp),
}

impl Value<'_> {
    /// Compares a field's value with a wanted one. A text is compared with a number as a number.
    pub(crate) fn compare(&self, wanted: &Value<'_>) -> Option<Ordering> {
        match (self, wanted) {
            (Self::Text(text), Value::Text(wanted)) => Some(text.cmp(wanted)),
            (Self::Text(text), Value::Number(wanted)) => Some(text.parse::<i64>().ok()?.cmp(wanted)),
            (Self::Number(number), Value::Number(wanted)) => Some(number.cmp(wanted)),
            (Self::Time(time), Value::Time(wanted)) => Some(time.cmp(wanted)),
            _ => None,
        }
    }
}
