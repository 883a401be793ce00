//! Expressions in the Common Expression Language (CEL), compiled once and evaluated for each resource.
//!
//! The library evaluates them. This module adds what a shard needs from them: the same result in every process, a bound on the
//! cost, and errors that name no content of a resource. An expression reads no clock: the time is one of its variables.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::parser::Parser;
pub use kube_cel::cel::{Context, Value};
use kube_cel::cel::{ExecutionError, ParseErrors};
use lockstep_engine::conditions::cut;

mod check;
pub mod functions;
pub mod value;

/// The maximum length of an expression, in bytes.
const SOURCE_MAX_BYTES: usize = 1024;
/// The maximum length of the cause of an error, in bytes.
const CAUSE_MAX_BYTES: usize = 160;

/// A compiled expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    tree: IdedExpr,
    /// The maximum number of nodes that one evaluation visits, without those that the check adds.
    pub steps: u64,
    /// The paths of the resource's fields that it reads.
    pub fields: BTreeSet<String>,
}

impl Expression {
    /// Compiles an expression of these variables. The error has the position and the cause.
    pub fn compile(source: &str, variables: &[&str]) -> Result<Self, String> {
        if source.len() > SOURCE_MAX_BYTES {
            return Err(format!("1:1: longer than {SOURCE_MAX_BYTES} bytes"));
        }
        let mut tree = Parser::default().parse(source).map_err(|errors| syntax(&errors))?;
        let checked = check::check(&mut tree, variables).map_err(|fault| {
            let (line, column) = position(source, &fault.word);
            format!("{line}:{column}: {}", fault.cause)
        })?;
        Ok(Self { tree, steps: checked.steps, fields: checked.fields })
    }

    /// Evaluates it. The error is the cause, without values of the resource.
    pub fn evaluate(&self, scope: &Context<'_>) -> Result<Value, String> {
        let value = Value::resolve(&self.tree, scope).map_err(|error| cause(&error))?;
        value::check(&value)?;
        Ok(value)
    }
}

fn syntax(errors: &ParseErrors) -> String {
    let Some(error) = errors.errors.first() else { return "1:1: no expression".to_owned() };
    // The parser lists everything that could follow.
    let message = error.msg.split(" expecting ").next().unwrap_or_default();
    cut(format!("{}:{}: {message}", error.pos.0, error.pos.1), CAUSE_MAX_BYTES)
}

/// Returns the line and the column of the first occurrence of a word; the beginning, if the word is not in the source.
fn position(source: &str, word: &str) -> (usize, usize) {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole = |(at, _): &(usize, &str)| {
        !source[..*at].ends_with(is_part) && !source[at + word.len()..].starts_with(is_part)
    };
    let at = source.match_indices(word).find(is_whole).map_or(0, |(at, _)| at);
    let before = &source[..at];
    let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Returns the cause of a failed evaluation. The texts of the library show values, and maps in an order that differs from
/// process to process.
fn cause(error: &ExecutionError) -> String {
    let cause = match error {
        ExecutionError::NoSuchKey(key) => format!("no such key {key:?}"),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        ExecutionError::FunctionError { function, .. } if function == functions::ITEMS => {
            format!("a macro iterates over no list or map, or over more than {} items", functions::ITEMS_MAX)
        }
        ExecutionError::FunctionError { function, .. } => {
            format!("{function}() does not accept its argument")
        }
        _ => "operator or function does not support these types".to_owned(),
    };
    cut(cause, CAUSE_MAX_BYTES)
}

#[cfg(test)]
mod tests;
