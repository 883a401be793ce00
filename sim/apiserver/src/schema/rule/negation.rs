//! The negation of numbers, which in the library panics or wraps at the smallest integer.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, operators};
use kube_cel::cel::{ExecutionError, Value as CelValue};

/// The name of the function that replaces the operator. No rule can call it.
pub(in crate::schema) const NAME: &str = "@negated";

/// Replaces the operator by the function everywhere in an expression.
pub(super) fn replace(expression: &mut IdedExpr) {
    match &mut expression.expr {
        Expr::Call(call) => {
            if call.func_name == operators::NEGATE {
                NAME.clone_into(&mut call.func_name);
            }
            call.target.iter_mut().for_each(|target| replace(target));
            call.args.iter_mut().for_each(replace);
        }
        Expr::Comprehension(parts) => {
            replace(&mut parts.iter_range);
            replace(&mut parts.accu_init);
            replace(&mut parts.loop_cond);
            replace(&mut parts.loop_step);
            replace(&mut parts.result);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(replace),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    replace(&mut entry.key);
                    replace(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => replace(&mut select.operand),
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

/// Returns the negated number.
#[expect(clippy::needless_pass_by_value, reason = "the library calls it with values")]
pub(in crate::schema) fn negated(value: CelValue) -> Result<CelValue, ExecutionError> {
    match value {
        CelValue::Int(integer) => integer.checked_neg().map(CelValue::Int).ok_or(ExecutionError::Overflow(
            "minus",
            CelValue::Int(integer),
            CelValue::Null,
        )),
        CelValue::Float(float) => Ok(CelValue::Float(-float)),
        CelValue::Duration(duration) => Ok(CelValue::Duration(-duration)),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}
