//! The estimate of an expression, part by part.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    operators,
};

use super::declaration::Declaration;
use super::operand::{Entries, Invocation, Operand, declared};
use super::path::{INDICES, ITEMS, KEYS, Path, VALUES};
use super::size::Size;
use super::{language, library};
use crate::schema::typing::{Checked, Type};

/// The cost of reading a variable or a field.
const ACCESS: u64 = 1;
/// The cost of creating a list.
const LIST: u64 = 10;
/// The cost of creating a map.
const MAP: u64 = 30;
/// The cost of creating an object.
const OBJECT: u64 = 40;

/// Estimates the maximum cost of an expression. What is known of its parts is kept by their ids.
pub(super) struct Estimator<'c, 's> {
    checked: &'c Checked<'s>,
    schema: Declaration<'s>,
    locals: Vec<Local<'c>>,
    paths: BTreeMap<u64, Path>,
    sizes: BTreeMap<u64, Size>,
    entries: BTreeMap<u64, Entries>,
}

/// A variable of a macro.
struct Local<'c> {
    name: &'c str,
    path: Path,
    size: Option<Size>,
    entries: Option<Entries>,
}

impl<'c, 's> Estimator<'c, 's> {
    /// Creates the estimator of an expression about values of a schema.
    pub(super) fn new(checked: &'c Checked<'s>, schema: Declaration<'s>) -> Self {
        let (paths, sizes, entries) = Default::default();
        Self { checked, schema, locals: Vec::new(), paths, sizes, entries }
    }

    /// Returns the cost of an expression. The order of evaluation matters, because estimates of sizes are kept.
    pub(super) fn cost(&mut self, expression: &'c IdedExpr) -> u64 {
        let id = expression.id;
        match &expression.expr {
            Expr::Literal(_) | Expr::Unspecified => 0,
            Expr::Ident(name) => {
                let path = self.local(name).map_or_else(Path::variable, |local| local.path.clone());
                self.paths.insert(id, path);
                ACCESS
            }
            // The name of a type in a package is one variable.
            Expr::Select(_) if *self.checked.type_of(id) == Type::Kind => {
                self.paths.insert(id, Path::variable());
                ACCESS
            }
            Expr::Select(select) => self.selection(id, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => self.list(id, list),
            Expr::Map(map) => self.map(id, map),
            Expr::Struct(_) => OBJECT,
            Expr::Comprehension(parts) if is_binding(parts) => self.binding(expression, parts),
            Expr::Comprehension(parts) => self.comprehension(expression, parts),
        }
    }

    fn selection(&mut self, id: u64, select: &'c SelectExpr) -> u64 {
        let operand = self.cost(&select.operand);
        if select.test {
            return operand;
        }
        let path = self.path(&select.operand).join(&select.field);
        self.paths.insert(id, path);
        match self.checked.type_of(select.operand.id) {
            Type::Map(..) | Type::Object(_) => operand.saturating_add(ACCESS),
            _ => operand,
        }
    }

    fn list(&mut self, id: u64, list: &'c ListExpr) -> u64 {
        let (mut cost, mut values) = (LIST, None);
        for element in &list.elements {
            cost = cost.saturating_add(self.cost(element));
            values = Some(joined(values, self.known_size(element)));
        }
        let value = values.unwrap_or(Size::exact(0));
        self.entries.insert(id, Entries { is_list: true, key: Size::exact(1), value });
        cost
    }

    fn map(&mut self, id: u64, map: &'c MapExpr) -> u64 {
        let (mut cost, mut keys, mut values) = (MAP, None, None);
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            cost = cost.saturating_add(self.cost(&entry.key));
            cost = cost.saturating_add(self.cost(&entry.value));
            keys = Some(joined(keys, self.known_size(&entry.key)));
            values = Some(joined(values, self.known_size(&entry.value)));
        }
        let (key, value) = (keys.unwrap_or(Size::exact(0)), values.unwrap_or(Size::exact(0)));
        self.entries.insert(id, Entries { is_list: false, key, value });
        cost
    }

    fn call(&mut self, expression: &'c IdedExpr, call: &'c CallExpr) -> u64 {
        let id = expression.id;
        let arguments: Vec<_> = call.args.iter().map(|argument| self.operand(argument)).collect();
        let costs = arguments.iter().fold(0, |sum: u64, argument| sum.saturating_add(argument.cost));
        match (call.func_name.as_str(), arguments.as_slice()) {
            ("dyn", [argument]) => {
                self.copy_sizes(id, argument.expression);
                return costs.saturating_add(1);
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR, _) => return costs,
            (operators::OPT_SELECT, _) => return costs.saturating_add(1),
            (operators::CONDITIONAL, [condition, one, other]) => {
                self.sizes.insert(id, one.computed().or(other.computed()));
                if let Some((one, other)) = one.entries.zip(other.entries) {
                    self.entries.insert(id, one.or(other));
                }
                return condition.cost.saturating_add(one.cost.max(other.cost));
            }
            _ => {}
        }
        let Some(called) = self.checked.call(id) else { return 0 };
        let target = call.target.as_deref().filter(|_| called.is_member).map(|target| self.operand(target));
        let (mut cost, mut size) = (0, None);
        for &overload in &called.overloads {
            let invocation = Invocation {
                name: &called.name,
                overload,
                target: target.as_ref(),
                arguments: &arguments,
                schema: self.schema,
            };
            let estimate = library::estimate(&invocation).unwrap_or_else(|| language::estimate(&invocation));
            cost = cost.max(estimate.cost);
            if let Some(entries) = estimate.entries {
                self.entries.insert(id, entries);
            }
            size = estimate.size.map_or(size, |this| Some(joined(size, this)));
            if called.name == operators::INDEX
                && let Some(step) = step_of_index(invocation.parameter(0))
                && let Some(indexed) = call.args.first()
            {
                size = self.entries(indexed).map(|entries| entries.value);
                let path = self.path(indexed).join(step);
                self.paths.insert(id, path);
            }
            size = size.or_else(|| self.size(expression));
        }
        if let Some(size) = size {
            self.sizes.insert(id, size);
        }
        let operands = costs.saturating_add(target.map_or(0, |target| target.cost));
        operands.saturating_add(cost)
    }

    fn operand(&mut self, expression: &'c IdedExpr) -> Operand<'c, 's> {
        let cost = self.cost(expression);
        let (path, size, entries) = (self.path(expression), self.size(expression), self.entries(expression));
        Operand { expression, kind: self.checked.type_of(expression.id), path, size, entries, cost }
    }

    /// Returns the cost of an expression that is evaluated with a variable.
    fn binding(&mut self, expression: &'c IdedExpr, parts: &'c ComprehensionExpr) -> u64 {
        let range = self.cost(&parts.iter_range);
        let value = self.cost(&parts.accu_init);
        let known = self.locals.len();
        self.bind(&parts.accu_var, &parts.accu_init);
        let result = self.cost(&parts.result);
        self.locals.truncate(known);
        self.copy_sizes(expression.id, &parts.result);
        range.saturating_add(value).saturating_add(result)
    }

    fn comprehension(&mut self, expression: &'c IdedExpr, parts: &'c ComprehensionExpr) -> u64 {
        let range = self.cost(&parts.iter_range);
        let start = self.cost(&parts.accu_init);
        let known = self.locals.len();
        self.bind(&parts.accu_var, &parts.accu_init);
        self.iterate(parts);
        let condition = self.cost(&parts.loop_cond);
        let step = self.cost(&parts.loop_step);
        self.locals.truncate(known + 1);
        let result = self.cost(&parts.result);
        self.locals.truncate(known);
        let elements = self.known_size(&parts.iter_range);
        match &parts.accu_init.expr {
            Expr::Literal(_) => {
                if let Some(size) = self.size(&parts.accu_init) {
                    self.sizes.insert(expression.id, size);
                }
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(expression.id, elements);
                if let Some(entries) = self.entries(&parts.loop_step) {
                    self.entries.insert(expression.id, entries);
                }
            }
            _ => {}
        }
        let each = condition.saturating_add(step);
        let loops = elements.max.saturating_mul(each);
        range.saturating_add(start).saturating_add(result).saturating_add(loops)
    }

    /// Declares a variable with the value of an expression.
    fn bind(&mut self, name: &'c str, value: &'c IdedExpr) {
        let (path, entries, size) = (self.path(value), self.entries(value), self.size(value));
        self.locals.push(Local { name, path, size, entries });
    }

    /// Declares the variables of a loop.
    fn iterate(&mut self, parts: &'c ComprehensionExpr) {
        let range = &parts.iter_range;
        let (path, entries) = (self.path(range), self.entries(range));
        let is_list = match &entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(range.id), Type::List(_)),
        };
        let (key, value) = (entries.map(|entries| entries.key), entries.map(|entries| entries.value));
        let mut declare = |name: &'c str, step: &str, size: Option<Size>| {
            self.locals.push(Local { name, path: path.join(step), size, entries: None });
        };
        match (&parts.iter_var2, is_list) {
            (None, true) => declare(&parts.iter_var, ITEMS, value),
            (None, false) => declare(&parts.iter_var, KEYS, key),
            (Some(second), true) => {
                declare(&parts.iter_var, INDICES, key);
                declare(second, ITEMS, value);
            }
            (Some(second), false) => {
                declare(&parts.iter_var, KEYS, key);
                declare(second, VALUES, value);
            }
        }
    }

    fn local(&self, name: &str) -> Option<&Local<'c>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expression: &IdedExpr) -> Path {
        let local = if let Expr::Ident(name) = &expression.expr { self.local(name) } else { None };
        let path = local.map(|local| &local.path).or_else(|| self.paths.get(&expression.id));
        path.cloned().unwrap_or_default()
    }

    fn entries(&self, expression: &IdedExpr) -> Option<Entries> {
        let local =
            || if let Expr::Ident(name) = &expression.expr { self.local(name)?.entries } else { None };
        self.entries.get(&expression.id).copied().or_else(local)
    }

    fn known_size(&mut self, expression: &IdedExpr) -> Size {
        self.size(expression).unwrap_or(Size::UNKNOWN)
    }

    /// Returns the size of the value of an expression; none if nothing is known.
    fn size(&mut self, expression: &IdedExpr) -> Option<Size> {
        if let Some(size) = self.sizes.get(&expression.id) {
            return Some(*size);
        }
        if let Some(size) = written_size(&expression.expr) {
            return Some(size);
        }
        if let Some(size) = declared(self.schema, &self.path(expression).steps()) {
            self.sizes.insert(expression.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expression.id)) {
            return Some(Size::exact(1));
        }
        if let Expr::Ident(name) = &expression.expr { self.local(name)?.size } else { None }
    }

    fn copy_sizes(&mut self, id: u64, from: &IdedExpr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(id, size);
        }
        if let Some(entries) = self.entries(from) {
            self.entries.insert(id, entries);
        }
    }
}

/// Returns whether a loop only declares a variable.
fn is_binding(parts: &ComprehensionExpr) -> bool {
    let is_empty = matches!(&parts.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    let is_false = |value: &LiteralValue| matches!(value, LiteralValue::Boolean(flag) if !*flag.inner());
    is_empty && matches!(&parts.loop_cond.expr, Expr::Literal(value) if is_false(value))
}

fn joined(known: Option<Size>, other: Size) -> Size {
    known.map_or(other, |known| known.or(other))
}

fn step_of_index(parameter: &str) -> Option<&'static str> {
    match parameter {
        "list(A)" => Some(ITEMS),
        "map(A,B)" => Some(VALUES),
        _ => None,
    }
}

/// Returns the size that the source of an expression shows.
fn written_size(expr: &Expr) -> Option<Size> {
    let size = match expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().chars().count(),
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len(),
        Expr::Literal(_) => 1,
        Expr::List(list) => list.elements.len(),
        Expr::Map(map) => map.entries.len(),
        _ => return None,
    };
    u64::try_from(size).ok().map(Size::exact)
}

/// Returns whether all values of a type have the same size.
fn is_scalar(kind: &Type<'_>) -> bool {
    const SCALARS: [&str; 6] =
        ["bool", "int", "uint", "double", "google.protobuf.Duration", "google.protobuf.Timestamp"];
    match kind {
        Type::Simple(name) => SCALARS.contains(name),
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
