//! The costs of the functions and operators of the language.

use kube_cel::cel::common::ast::operators;

use super::operand::{Entries, Estimate, Invocation, Operand};
use super::size::Size;

/// The cost of visiting one character.
pub(super) const TRAVERSAL: f64 = 0.1;
/// The cost of one character of a regular expression, for each character of the text.
pub(super) const PATTERN: f64 = 0.25;

/// Returns the cost of a call: 1, unless it depends on sizes.
pub(super) fn estimate(call: &Invocation<'_, '_, '_>) -> Estimate {
    let is_text = ["string", "bytes"].contains(&call.parameter(0));
    let target = call.target.map(Operand::computed);
    match (call.name, target, call.arguments) {
        ("format", Some(text), _) => Estimate::of(text.cost(TRAVERSAL)),
        ("startsWith" | "endsWith", Some(_), [part]) => Estimate::of(part.computed().cost(TRAVERSAL)),
        ("matches", Some(text), [pattern]) => Estimate::of(matching(text, pattern.computed())),
        ("contains", Some(text), [part]) => {
            let part = part.computed().cost(TRAVERSAL);
            Estimate::of(text.cost(TRAVERSAL).saturating_mul(part))
        }
        ("bytes", None, [text]) if call.parameter(0) == "string" => {
            let size = text.computed();
            Estimate::sized(size.cost(TRAVERSAL), Size { min: size.min, max: size.max.wrapping_mul(4) })
        }
        ("string", None, [bytes]) if call.parameter(0) == "bytes" => {
            let size = bytes.computed();
            Estimate::sized(size.cost(TRAVERSAL), Size { min: size.min / 4, max: size.max })
        }
        ("strings.quote", None, [text]) => {
            let size = text.computed();
            // Each character may need a backslash.
            let max = size.max.wrapping_mul(2).wrapping_add(2);
            Estimate::sized(size.cost(TRAVERSAL), Size { min: size.min.wrapping_add(2), max })
        }
        (operators::IN, None, [_, list]) if call.parameter(1).starts_with("list") => {
            Estimate::of(list.computed().cost(1.0))
        }
        (operators::ADD, None, [one, other]) if is_text || call.parameter(0).starts_with("list") => {
            let size = one.computed().plus(other.computed());
            let cost = if is_text { size.cost(TRAVERSAL) } else { 1 };
            let entries = one.entries.zip(other.entries).map(|(one, other)| Entries::or(one, other));
            Estimate { cost, size: Some(size), entries }
        }
        (operators::EQUALS | operators::NOT_EQUALS, None, [one, other]) => comparison(one, other),
        (
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
            None,
            [one, other],
        ) if is_text => comparison(one, other),
        _ => Estimate::of(1),
    }
}

/// Returns the cost of the search for a regular expression.
pub(super) fn matching(text: Size, pattern: Size) -> u64 {
    // An empty text counts as well.
    text.plus(Size::exact(1)).cost(TRAVERSAL).saturating_mul(pattern.cost(PATTERN))
}

/// Returns the cost of a comparison, which visits the shorter value.
fn comparison(one: &Operand<'_, '_>, other: &Operand<'_, '_>) -> Estimate {
    let max = one.computed().max.min(other.computed().max);
    Estimate::of(Size { min: 0, max }.cost(TRAVERSAL))
}
