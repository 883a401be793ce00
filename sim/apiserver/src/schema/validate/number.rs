//! Bounds of numbers.

use serde_json::{Number, Value};

use super::finding::{Finding, Origin, Verdict};
use crate::cause::text;
use crate::schema::node::{Checks, Kind, Node};
use crate::schema::place::Place;

/// Checks range, factor and bounds.
pub(super) fn check(
    origin: Origin<'_>,
    node: &Node,
    checks: &Checks,
    number: &Number,
    path: Place<'_>,
    verdict: &mut Verdict,
) {
    let float = number.as_f64().unwrap_or_default();
    let range = Range::of(node);
    // An integer is compared exactly with the range of 64 bits, which contains it.
    let is_exact = number.is_i64() && range.format != Some("int32");
    if let Some(text) = range.violation("Checked", float, path).filter(|_| !is_exact) {
        verdict.push(origin.general(text));
    }
    let value = Value::Number(number.clone());
    let bound = |what: &str, bound: f64| range.violation(what, bound, path).map(|text| origin.general(text));
    let mut push = |finding: Option<Finding>| finding.into_iter().for_each(|finding| verdict.push(finding));
    if let Some(factor) = checks.multiple_of {
        let unfit = bound("MultipleOf", factor);
        let factor = as_compared(number, factor, unfit.is_some());
        push(unfit);
        if factor <= 0.0 {
            let text =
                format!("factor MultipleOf declared for {path} must be positive: {}", text::float(factor));
            push(Some(origin.invalid(path, &Value::from(0), text)));
        } else if !is_multiple(float, factor) {
            let text = format!("{path} in body should be a multiple of {}", text::float(factor));
            push(Some(origin.invalid(path, &value, text)));
        }
    }
    if let Some(min) = checks.minimum {
        let unfit = bound("Minimum boundary", min);
        let min = as_compared(number, min, unfit.is_some());
        push(unfit);
        if below(float, min, checks.exclusive_minimum) {
            let or_equal = if checks.exclusive_minimum { "" } else { "or equal to " };
            let text = format!("{path} in body should be greater than {or_equal}{}", text::float(min));
            push(Some(origin.invalid(path, &value, text)));
        }
    }
    if let Some(max) = checks.maximum {
        let unfit = bound("Maximum boundary", max);
        let max = as_compared(number, max, unfit.is_some());
        push(unfit);
        if below(-float, -max, checks.exclusive_maximum) {
            let or_equal = if checks.exclusive_maximum { "" } else { "or equal to " };
            let text = format!("{path} in body should be less than {or_equal}{}", text::float(max));
            push(Some(origin.invalid(path, &value, text)));
        }
    }
}

/// Returns whether a float is an integer that JSON can represent exactly.
pub(super) fn is_json_integer(float: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    float.fract() == 0.0 && float.abs() <= MAX
}

/// Integers are compared with the integer value of a bound, unless the bound does not fit the type.
fn as_compared(number: &Number, bound: f64, unfit: bool) -> f64 {
    if number.is_i64() && !unfit { bound.trunc() } else { bound }
}

fn below(value: f64, bound: f64, exclusive: bool) -> bool {
    value < bound || (exclusive && value <= bound)
}

fn is_multiple(value: f64, factor: f64) -> bool {
    let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
    (quotient - quotient.round()).abs() < 1e-9
}

/// The range of the type and format.
struct Range {
    kind: &'static str,
    format: Option<&'static str>,
}

impl Range {
    fn of(node: &Node) -> Self {
        let format = node.format.as_deref();
        match node.kind {
            Kind::Integer => Self {
                kind: "integer",
                format: [Some("int32"), Some("int64")].into_iter().find(|known| *known == format).flatten(),
            },
            Kind::Number => Self {
                kind: "number",
                format: [Some("float"), Some("double")].into_iter().find(|known| *known == format).flatten(),
            },
            _ => Self { kind: "", format: None },
        }
    }

    fn violation(&self, what: &str, value: f64, path: Place<'_>) -> Option<String> {
        let fits = match (self.kind, self.format) {
            ("integer", Some("int32")) => {
                value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value)
            }
            // 2^63 is the first float that exceeds every 64-bit integer; its negative is refused, too.
            ("integer", _) => value.fract() == 0.0 && value.abs() < 9.223_372_036_854_776e18,
            ("number", Some("float")) => value.abs() <= f64::from(f32::MAX),
            _ => true,
        };
        (!fits).then(|| match self.format {
            Some(format) => {
                format!("{what} value must be of type {} with format {format} in {path}", self.kind)
            }
            None => format!("{what} value must be of type {} (default format) in {path}", self.kind),
        })
    }
}
