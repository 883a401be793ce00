//! The limits of rules and of whole schemas.

use serde_json::{Map, Value};

use super::declaration::{Declaration, REQUEST_BYTES_MAX};
use crate::cause::Cause;

/// The maximum cost of a rule, for all values that it is evaluated for.
const RULE_MAX: u64 = 10_000_000;
/// The maximum cost of all rules of a schema.
const SCHEMA_MAX: u64 = 100_000_000;
/// The number of rules that are named if the rules of a schema cost too much.
const NAMED_MAX: usize = 4;

/// The maximum number of values of a schema in an object.
#[derive(Debug, Clone, Copy)]
pub(in crate::schema) struct Occurrences(Option<u64>);

impl Occurrences {
    /// The number of objects.
    pub(in crate::schema) const ONE: Self = Self(Some(1));

    /// Returns the number for the schemas below one with this number.
    pub(in crate::schema) fn below(self, schema: &Map<String, Value>) -> Self {
        let limit =
            |key: &str| schema.get(key).and_then(Value::as_i64).map(|limit| limit.max(0).cast_unsigned());
        let values = match schema.get("type").and_then(Value::as_str) {
            Some("array") => limit("maxItems"),
            Some("object") if schema.get("additionalProperties").is_some_and(|extra| !extra.is_null()) => {
                limit("maxProperties")
            }
            _ => Some(1),
        };
        Self(self.0.zip(values).map(|(here, each)| here.saturating_mul(each)))
    }

    /// Returns the cost of a rule for all values. Without a limit, the size of a request limits their number.
    pub(in crate::schema) fn cost(self, each: u64, schema: Declaration<'_>) -> u64 {
        let in_request = || (REQUEST_BYTES_MAX / schema.min_bytes().saturating_add(1)).cast_unsigned();
        each.saturating_mul(self.0.unwrap_or_else(in_request))
    }
}

/// The costs of the rules of a schema so far.
#[derive(Debug, Default)]
pub(in crate::schema) struct Budget {
    total: u64,
    /// The fields of the most expensive rules, with their costs.
    expensive: Vec<(String, u64)>,
}

impl Budget {
    /// Adds the cost of the rule or message in a field.
    pub(in crate::schema) fn add(&mut self, field: &str, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_MAX / 100 {
            self.expensive.push((field.to_owned(), cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED_MAX);
        }
    }

    /// Returns the causes if all rules of the schema in a field together cost too much.
    pub(in crate::schema) fn causes(self, field: &str) -> Vec<Cause> {
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let Some(total) = exceeded(field, what, self.total, SCHEMA_MAX) else { return Vec::new() };
        let detail =
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let named = self.expensive.into_iter().map(|(field, _)| Cause::forbidden(field, detail));
        named.chain([total]).collect()
    }
}

/// Returns the cause if the rule or message in a field costs too much.
pub(in crate::schema) fn above_limit(field: &str, what: &str, cost: u64) -> Option<Cause> {
    exceeded(field, what, cost, RULE_MAX)
}

#[expect(clippy::cast_precision_loss, reason = "messages have few digits")]
fn exceeded(field: &str, what: &str, cost: u64, max: u64) -> Option<Cause> {
    if cost <= max {
        return None;
    }
    let factor = cost as f64 / max as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    let detail = format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    );
    Some(Cause::forbidden(field, &detail))
}
