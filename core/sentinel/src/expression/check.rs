//! Checks the tree of an expression: its variables, its functions and its cost.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};

use super::functions::{self, ITEMS_MAX, RESOURCE};

/// What an expression needs.
pub(super) struct Checked {
    /// The maximum number of nodes that one evaluation visits, without those that the check adds.
    pub(super) steps: u64,
    /// The paths of the resource's fields that it reads.
    pub(super) fields: BTreeSet<String>,
}

/// Why an expression is refused, and the word to look for.
pub(super) struct Fault {
    pub(super) word: String,
    pub(super) cause: String,
}

impl Fault {
    fn new(word: &str, cause: impl Into<String>) -> Self {
        Self { word: word.to_owned(), cause: cause.into() }
    }
}

/// Operators, and the function that macros consist of. The negative sign of other values than literals is not among them: in the
/// library the negation of the smallest integer overflows.
const OPERATORS: [&str; 17] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::INDEX,
    operators::IN,
];

/// Checks an expression of these variables, and corrects four kinds of nodes: macros iterate as [`functions::ITEMS`] defines it, a
/// field of a value that is no map is an error (for the library it is `false`), and durations that are added, subtracted or
/// converted to text are limited as [`functions::ADDED`] and [`functions::SHOWN`] define it.
pub(super) fn check(tree: &mut IdedExpr, variables: &[&str]) -> Result<Checked, Fault> {
    let mut walk = Walk { variables, locals: Vec::new(), fields: BTreeSet::new() };
    let steps = walk.steps(tree)?;
    Ok(Checked { steps, fields: walk.fields })
}

struct Walk<'a> {
    variables: &'a [&'a str],
    /// The variables of the macros around a node.
    locals: Vec<String>,
    fields: BTreeSet<String>,
}

impl Walk<'_> {
    fn steps(&mut self, node: &mut IdedExpr) -> Result<u64, Fault> {
        if let Some(length) = self.reads_field(node) {
            (0..length).fold(node, |node, _| index(node));
            return Ok(1 + length);
        }
        match &mut node.expr {
            Expr::Literal(_) => Ok(1),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(_) => Ok(1 + self.steps(index(node))?),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.sum(&mut list.elements),
            Expr::Map(map) => {
                let entries = map.entries.iter_mut().filter_map(|entry| match &mut entry.expr {
                    EntryExpr::MapEntry(entry) => Some([&mut entry.key, &mut entry.value]),
                    EntryExpr::StructField(_) => None,
                });
                self.sum(entries.flatten())
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            // The library panics on these.
            Expr::Struct(message) => {
                Err(Fault::new(&message.type_name, "there are no message types; write a map"))
            }
            Expr::Unspecified => Err(Fault::new("", "no expression")),
        }
    }

    fn sum<'n>(&mut self, nodes: impl IntoIterator<Item = &'n mut IdedExpr>) -> Result<u64, Fault> {
        nodes.into_iter().try_fold(1_u64, |sum, node| Ok(sum.saturating_add(self.steps(node)?)))
    }

    fn variable(&self, name: &str) -> Result<u64, Fault> {
        if self.locals.iter().any(|local| local == name) {
            return Ok(1);
        }
        match name {
            // A resource may have megabytes; only named fields are kept.
            RESOURCE => Err(Fault::new(name, "name a field of the resource, such as resource.spec")),
            _ if self.variables.contains(&name) => Ok(1),
            _ => {
                let known = self.variables.join(", ");
                Err(Fault::new(name, format!("unknown variable {name:?}; the variables are {known}")))
            }
        }
    }

    /// Returns the length of the path if a selection is a field of the resource, and records the path.
    fn reads_field(&mut self, node: &IdedExpr) -> Option<u64> {
        let mut path = Vec::new();
        let mut node = node;
        while let Expr::Select(select) = &node.expr {
            path.push(select.field.as_str());
            node = &select.operand;
        }
        let is_local = || self.locals.iter().any(|local| local == RESOURCE);
        let is_field =
            !path.is_empty() && matches!(&node.expr, Expr::Ident(name) if name == RESOURCE) && !is_local();
        if !is_field {
            return None;
        }
        path.reverse();
        self.fields.insert(path.join("."));
        Some(path.len() as u64)
    }

    fn call(&mut self, call: &mut CallExpr) -> Result<u64, Fault> {
        let name = call.func_name.as_str();
        let is_macro_condition = name == operators::NOT_STRICTLY_FALSE;
        if name == operators::NEGATE {
            return Err(Fault::new(
                "-",
                "no negative sign before a value that is no literal; write 0 - value",
            ));
        }
        if !(OPERATORS.contains(&name) || is_macro_condition || functions::NAMES.contains(&name)) {
            let known = functions::NAMES.join(", ");
            return Err(Fault::new(name, format!("unknown function {name:?}; the functions are {known}")));
        }
        let steps = self.sum(call.target.as_deref_mut().into_iter().chain(&mut call.args))?;
        let limited = match call.func_name.as_str() {
            operators::ADD | operators::SUBSTRACT => call.args.last_mut().zip(Some(functions::ADDED)),
            "string" => call.target.as_deref_mut().or(call.args.first_mut()).zip(Some(functions::SHOWN)),
            _ => None,
        };
        if let Some((node, function)) = limited {
            wrap(node, function);
        }
        Ok(steps)
    }

    fn comprehension(&mut self, node: &mut ComprehensionExpr) -> Result<u64, Fault> {
        let once = self.sum([&mut node.iter_range, &mut node.accu_init])?;
        let outside = self.locals.len();
        self.locals.extend([node.accu_var.clone(), node.iter_var.clone()]);
        self.locals.extend(node.iter_var2.clone());
        let each = self.sum([&mut node.loop_cond, &mut node.loop_step])?;
        let result = self.steps(&mut node.result)?;
        self.locals.truncate(outside);
        wrap(&mut node.iter_range, functions::ITEMS);
        Ok(once.saturating_add(each.saturating_mul(ITEMS_MAX as u64)).saturating_add(result))
    }
}

/// Replaces a node by a call of a function with it.
fn wrap(node: &mut IdedExpr, function: &str) {
    let args = vec![std::mem::take(node)];
    node.expr = Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args });
}

/// Replaces the selection of a field by an index, and returns the operand. The test of `has` stays as it is.
fn index(node: &mut IdedExpr) -> &mut IdedExpr {
    if let Expr::Select(select) = &mut node.expr
        && !select.test
    {
        let field = LiteralValue::String(select.field.as_str().into());
        let field = IdedExpr { expr: Expr::Literal(field), ..IdedExpr::default() };
        let args = vec![std::mem::take(&mut *select.operand), field];
        node.expr = Expr::Call(CallExpr { func_name: operators::INDEX.to_owned(), target: None, args });
    }
    match &mut node.expr {
        Expr::Select(select) => &mut select.operand,
        Expr::Call(call) => &mut call.args[0],
        _ => unreachable!("a selection"),
    }
}
