//! The costs of the functions for lists and sets, and of those of Kubernetes.

use kube_cel::cel::common::ast::operators;

use super::language::{PATTERN, TRAVERSAL, matching};
use super::operand::{Estimate, Invocation, Operand};
use super::size::{Size, scaled};
use crate::schema::typing::Type;

/// The cost of the call of a function that creates a list.
const LIST: u64 = 1 + 10;
/// The number of bytes of the longest address.
const ADDRESS: Size = Size { min: 4, max: 16 };
/// The length of the regular expression of a format, which is not known.
const FORMAT_PATTERN: f64 = 128.0;
/// The maximum length of the name of a format.
const FORMAT_NAME: u64 = 64;

/// Returns the cost of a call; none if it is like that of a function of the language.
pub(super) fn estimate(call: &Invocation<'_, '_, '_>) -> Option<Estimate> {
    lists(call).or_else(|| texts(call)).or_else(|| parsed(call))
}

fn lists(call: &Invocation<'_, '_, '_>) -> Option<Estimate> {
    let created = |factor: f64, size: Size| Estimate::sized(size.cost(factor).saturating_add(LIST), size);
    let sorted = |keys: Size| {
        let is_text = ["list(string)", "list(bytes)"].contains(call.overload.arguments.last().unwrap_or(&""));
        created(if is_text { 2.0 + TRAVERSAL } else { 2.0 }, keys.times(keys))
    };
    let sets = |one: &Operand<'_, '_>, other: &Operand<'_, '_>, factor: f64| {
        Estimate::of(call.size(one).times(call.size(other)).cost(factor).saturating_add(1))
    };
    Some(match (call.name, call.target.map(|target| call.size(target)), call.arguments) {
        ("sets.contains" | "sets.intersects", None, [one, other]) => sets(one, other, 1.0),
        ("sets.equivalent", None, [one, other]) => sets(one, other, 2.0),
        ("slice", Some(list), [start, end]) => {
            let length = position(end, list.max).wrapping_sub(position(start, 0));
            created(1.0, Size::exact(length))
        }
        ("lists.range", None, [end]) => created(1.0, Size::exact(position(end, u64::MAX))),
        ("reverse" | "flatten", Some(list), []) => created(1.0, list),
        ("flatten", Some(list), [depth]) => created(to_float(position(depth, u64::MAX)), list),
        ("distinct", Some(list), []) => created(2.0, list.times(list)),
        ("sort", Some(list), []) => sorted(list),
        ("@sortByAssociatedKeys", Some(_), [keys]) => sorted(call.size(keys)),
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(size), _) => {
            Estimate::of(search(call, call.target?, size))
        }
        ("join", Some(size), _) => {
            let text = joined(call, call.target?, size);
            Estimate::sized(text.cost(TRAVERSAL), text)
        }
        _ => return None,
    })
}

/// Returns the non-negative literal that an operand is, or a default.
fn position(operand: &Operand<'_, '_>, default: u64) -> u64 {
    operand.integer().map_or(default, |integer| integer.max(0).cast_unsigned())
}

#[expect(clippy::cast_precision_loss, reason = "the server calculates with floats as well")]
fn to_float(depth: u64) -> f64 {
    depth as f64
}

/// Returns the type of the elements of a list, or of another type with parameters.
fn element<'k, 's>(kind: &'k Type<'s>) -> Option<&'k Type<'s>> {
    match kind {
        Type::List(element) | Type::Optional(element) | Type::Map(element, _) => Some(element),
        _ => None,
    }
}

/// Returns the cost of a function that visits a list, with the characters of its items, or a string.
fn search(call: &Invocation<'_, '_, '_>, target: &Operand<'_, '_>, size: Size) -> u64 {
    match element(target.kind) {
        Some(Type::Simple("string" | "bytes")) => {
            size.max.saturating_mul(call.item_size(target).cost(TRAVERSAL).saturating_add(1))
        }
        Some(_) => size.max,
        None => size.cost(TRAVERSAL),
    }
}

fn joined(call: &Invocation<'_, '_, '_>, target: &Operand<'_, '_>, list: Size) -> Size {
    let items = match element(target.kind) {
        Some(_) => list.times(call.item_size(target)),
        None => Size::exact(0),
    };
    let Some(separator) = call.arguments.first() else { return items };
    let gaps = Size { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
    items.plus(call.size(separator).times(gaps))
}

fn texts(call: &Invocation<'_, '_, '_>) -> Option<Estimate> {
    let same = |size: Size| Estimate::sized(size.cost(TRAVERSAL), size);
    let rebuilt = |from: Size, to: Size| Estimate::sized(from.cost(2.0 * TRAVERSAL), to);
    let target = call.target.map(|target| call.size(target));
    Some(match (call.name, target, call.arguments) {
        ("url" | "jsonpatch.escapeKey", _, [text]) => same(call.size(text)),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => same(text),
        ("replace", Some(text), [former, new, ..]) => {
            rebuilt(text, replaced(text, call.size(former), call.size(new)))
        }
        ("split", Some(text), arguments) => {
            let limit = arguments.get(1).and_then(Operand::integer).map(i64::cast_unsigned);
            rebuilt(text, Size { min: 0, max: limit.unwrap_or(text.max) })
        }
        ("find" | "findAll", Some(text), [pattern, ..]) => {
            Estimate::sized(matching(text, call.size(pattern)), Size { min: 0, max: text.max })
        }
        _ => return None,
    })
}

/// Returns the size of a text after replacements.
fn replaced(text: Size, former: Size, new: Size) -> Size {
    // An empty text is found between all characters, and everything else is kept.
    let (longest, kept_of_longest) = if former.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= former.min {
        (0, text.max)
    } else {
        (quotient(text.max, former.min), 0)
    };
    let (shortest, kept_of_shortest) = if former.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if former.max <= new.min {
        (0, text.min)
    } else {
        (quotient(text.min, former.max), 0)
    };
    let replacements = Size { min: shortest, max: longest }.times(new);
    replacements.plus(Size { min: kept_of_shortest, max: kept_of_longest })
}

/// Returns a quotient, rounded up.
fn quotient(one: u64, other: u64) -> u64 {
    scaled(1, to_float(one) / to_float(other))
}

fn parsed(call: &Invocation<'_, '_, '_>) -> Option<Estimate> {
    let first = call.arguments.first().map(|argument| call.size(argument));
    let comparison = ADDRESS.plus(ADDRESS).cost(TRAVERSAL);
    let text = |size: Size| if call.parameter(1) == "string" { size.cost(TRAVERSAL) } else { 0 };
    Some(Estimate::of(match (call.name, call.target, first) {
        (
            "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" | "ip",
            None,
            Some(size),
        ) => size.cost(TRAVERSAL),
        ("ip.isCanonical", None, Some(size)) => size.cost(2.0 * TRAVERSAL),
        ("containsIP", Some(_), Some(size)) => comparison.saturating_add(text(size)),
        ("containsCIDR", Some(_), Some(size)) => {
            let masked = ADDRESS.cost(TRAVERSAL) + 1;
            (comparison + masked).saturating_add(text(size))
        }
        ("validate", Some(_), Some(size)) => scaled(size.cost(TRAVERSAL), FORMAT_PATTERN * PATTERN),
        (operators::EQUALS, None, Some(_)) => equality(call.arguments)?,
        _ => return None,
    }))
}

/// Returns the cost of a comparison of values of Kubernetes' types; none for other types.
fn equality(operands: &[Operand<'_, '_>]) -> Option<u64> {
    let [one, other] = operands else { return None };
    match (one.kind, other.kind) {
        (Type::Simple(kind), Type::Simple(same)) if kind == same => match *kind {
            "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => Some(1),
            "kubernetes.NamedFormat" => Some(scaled(FORMAT_NAME, TRAVERSAL)),
            "kubernetes.URL" => Some(scaled(other.size.map_or(1, |size| size.max), TRAVERSAL)),
            _ => None,
        },
        _ => None,
    }
}
