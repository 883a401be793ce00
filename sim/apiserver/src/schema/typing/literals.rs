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
        "timestamp" => TIME.is_match(text) && is_time(text),
        _ => true,
    };
    (!is_valid).then(|| (literal.id, format!("invalid {} argument", call.func_name)))
}

fn is_time(text: &str) -> bool {
    // The last day is beyond the range of the library's timestamps.
    let is_last_day =
        || text.starts_with("9999-12-31") && text[..19].parse::<jiff::civil::DateTime>().is_ok();
    text.parse::<jiff::Timestamp>().is_ok() || is_last_day()
}
