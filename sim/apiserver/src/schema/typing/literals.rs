//! The arguments that must be valid already when a rule is compiled: regular expressions, durations and times.

use std::sync::LazyLock;

use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue};
use regex::Regex;

static DURATION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$").expect("a constant expression")
});
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$").expect("a constant expression")
});

/// Returns the error of a call with a literal that the function can't take, and the id of the literal.
pub(super) fn check(call: &CallExpr) -> Option<(u64, String)> {
    let literal = call.args.first()?;
    let Expr::Literal(LiteralValue::String(text)) = &literal.expr else { return None };
    let is_valid = match call.func_name.as_str() {
        "matches" => Regex::new(text).is_ok(),
        "duration" => DURATION.is_match(text),
        "timestamp" => TIME.is_match(text) && text.parse::<jiff::Timestamp>().is_ok(),
        _ => true,
    };
    (!is_valid).then(|| (literal.id, format!("invalid {} argument", call.func_name)))
}
