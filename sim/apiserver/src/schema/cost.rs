//! Estimates the cost of rules, and refuses rules that cost too much.
//!
//! ```text
//!   types, schema ──► cost of one evaluation ──► times the number of values ──► limits of rules and of the schema
//! ```
//!
//! The estimate is the maximum over all objects that the schema allows. So it depends on `maxItems`, `maxProperties` and
//! `maxLength`. Without them, the size of a request limits the size of a value.

mod budget;
mod declaration;
mod estimator;
mod language;
mod library;
mod operand;
mod path;
mod size;

use super::typing::Checked;

pub(super) use self::budget::{Budget, Occurrences, above_limit};
pub(super) use self::declaration::Declaration;

/// Returns the estimated cost of an expression about values of a schema.
pub(super) fn estimate(checked: &Checked<'_>, schema: Declaration<'_>) -> u64 {
    estimator::Estimator::new(checked, schema).cost(&checked.expression)
}

#[cfg(test)]
mod tests;
