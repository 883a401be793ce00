//! What is known of the operands of a call.

use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue};

use super::declaration::Declaration;
use super::path::{ITEMS, Path};
use super::size::Size;
use crate::schema::typing::{Overload, Type};

/// The keys and values of a list or map that an expression creates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entries {
    pub(super) is_list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

impl Entries {
    /// Returns the entries of one of two lists or maps.
    pub(super) fn or(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.or(other.key), value: self.value.or(other.value) }
    }
}

/// An operand, as it was when it was evaluated.
#[derive(Debug)]
pub(super) struct Operand<'c, 's> {
    pub(super) expression: &'c IdedExpr,
    pub(super) kind: &'c Type<'s>,
    pub(super) path: Path,
    pub(super) size: Option<Size>,
    pub(super) entries: Option<Entries>,
    /// The cost of its evaluation.
    pub(super) cost: u64,
}

impl Operand<'_, '_> {
    /// Returns the size, as far as the estimator knew it.
    pub(super) fn computed(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }

    /// Returns the integer that the operand is; none if it is no literal.
    pub(super) fn integer(&self) -> Option<i64> {
        match &self.expression.expr {
            Expr::Literal(LiteralValue::Int(integer)) => Some(*integer.inner()),
            _ => None,
        }
    }
}

/// A call of one overload of a function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Invocation<'i, 'c, 's> {
    pub(super) name: &'i str,
    pub(super) overload: &'static Overload,
    pub(super) target: Option<&'i Operand<'c, 's>>,
    pub(super) arguments: &'i [Operand<'c, 's>],
    pub(super) schema: Declaration<'s>,
}

impl Invocation<'_, '_, '_> {
    /// Returns the size of an operand. The libraries ask the schema again.
    pub(super) fn size(&self, operand: &Operand<'_, '_>) -> Size {
        operand.size.or_else(|| declared(self.schema, &operand.path.steps())).unwrap_or(Size::UNKNOWN)
    }

    /// Returns the size of the items of a list.
    pub(super) fn item_size(&self, list: &Operand<'_, '_>) -> Size {
        if list.path.is_empty() {
            return Size::UNKNOWN;
        }
        let mut steps = list.path.steps();
        steps.push(ITEMS.to_owned());
        declared(self.schema, &steps).unwrap_or(Size::UNKNOWN)
    }

    /// Returns the type of an argument of the overload.
    pub(super) fn parameter(&self, index: usize) -> &'static str {
        self.overload.arguments.get(index).copied().unwrap_or_default()
    }
}

/// Returns the size of the value at a path; none if it is not in the schema.
pub(super) fn declared(schema: Declaration<'_>, steps: &[String]) -> Option<Size> {
    let (_, below) = steps.split_first()?;
    let found = schema.find(below.iter().map(String::as_str))?;
    Some(Size { min: 0, max: found.max_size() })
}

/// The cost of a call without that of its operands, and what is known of the result.
#[derive(Debug)]
pub(super) struct Estimate {
    pub(super) cost: u64,
    pub(super) size: Option<Size>,
    pub(super) entries: Option<Entries>,
}

impl Estimate {
    pub(super) fn of(cost: u64) -> Self {
        Self { cost, size: None, entries: None }
    }

    pub(super) fn sized(cost: u64, size: Size) -> Self {
        Self { cost, size: Some(size), entries: None }
    }
}
