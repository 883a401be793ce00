//! Checks the types of rules, as far as they follow from the schema.
//!
//! ```text
//!   source ──► expression without macros, positions ──► types of all parts ──► errors, with their place in the source
//! ```
//!
//! A part with an error has the type [`Type::Unknown`], which fits everywhere, so that each mistake is reported once.

mod functions;
mod kinds;
mod literals;
mod source;

use std::collections::BTreeMap;
use std::rc::Rc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use serde_json::{Map, Value};

pub(super) use self::functions::Overload;
pub(super) use self::kinds::Type;
use self::kinds::{BOOL, INT, STRING};
use self::source::Source;

/// What the server says about an expression that it refuses.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not compile: the errors with excerpts of the source.
    Compilation(String),
    /// Its result has another type than the server wants.
    Result,
}

/// The variables of the rules at one place of a schema.
#[derive(Debug, Clone)]
pub(super) struct Variables<'s> {
    this: Type<'s>,
    old: Type<'s>,
}

impl<'s> Variables<'s> {
    /// Returns the variables of rules about values of a schema; none if rules can't use such values.
    pub(super) fn of(schema: &'s Map<String, Value>, is_root: bool, has_optional_old: bool) -> Option<Self> {
        let this = Type::of(schema, is_root, "selfType")?;
        let old = if has_optional_old { Type::Optional(Rc::new(this.clone())) } else { this.clone() };
        Some(Self { this, old })
    }
}

/// An expression without macros, with the types of its parts by their ids.
#[derive(Debug)]
pub(super) struct Checked<'s> {
    pub(super) expression: IdedExpr,
    types: BTreeMap<u64, Type<'s>>,
    calls: BTreeMap<u64, Call>,
}

/// A call of a function.
#[derive(Debug)]
pub(super) struct Call {
    /// The name, with that of a package.
    pub(super) name: String,
    /// Whether it is called on a value; otherwise the target of the expression is a package, or there is none.
    pub(super) is_member: bool,
    pub(super) overloads: Vec<&'static Overload>,
}

impl<'s> Checked<'s> {
    /// Returns the type of an expression.
    pub(super) fn type_of(&self, id: u64) -> &Type<'s> {
        self.types.get(&id).unwrap_or(&Type::Unknown)
    }

    /// Returns the function that an expression calls; none for operators with a type of their own.
    pub(super) fn call(&self, id: u64) -> Option<&Call> {
        self.calls.get(&id)
    }
}

/// Checks a rule, whose result must be a boolean.
pub(super) fn check_rule<'s>(source: &str, variables: &Variables<'s>) -> Result<Checked<'s>, Refusal> {
    check(source, variables, &BOOL)
}

/// Checks the expression of a message, whose result must be a string.
pub(super) fn check_message<'s>(source: &str, variables: &Variables<'s>) -> Result<Checked<'s>, Refusal> {
    check(source, variables, &STRING)
}

fn check<'s>(source: &str, variables: &Variables<'s>, wanted: &Type<'_>) -> Result<Checked<'s>, Refusal> {
    let (expression, source) = Source::parse(source).map_err(Refusal::Compilation)?;
    let locals = vec![("self", variables.this.clone()), ("oldSelf", variables.old.clone())];
    let mut checker = Checker { locals, ..Checker::default() };
    let result = checker.infer(&expression);
    let Checker { errors, literals, types, calls, .. } = checker;
    // Literals are checked only if all types are correct.
    let errors = if errors.is_empty() { literals } else { errors };
    if !errors.is_empty() {
        return Err(Refusal::Compilation(source.describe(errors)));
    }
    if result != Type::Unknown && result != *wanted {
        return Err(Refusal::Result);
    }
    Ok(Checked { expression, types, calls })
}

#[derive(Default)]
struct Checker<'e, 's> {
    locals: Vec<(&'e str, Type<'s>)>,
    /// Ids of expressions, with what is wrong there.
    errors: Vec<(u64, String)>,
    /// Ids of literals that no call can take, with what is wrong.
    literals: Vec<(u64, String)>,
    /// The types of the expressions so far, by their ids.
    types: BTreeMap<u64, Type<'s>>,
    /// The calls so far, by the ids of their expressions.
    calls: BTreeMap<u64, Call>,
}

/// Names of types, which are values in the language.
const TYPE_NAMES: [&str; 15] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "type",
    "null_type",
    "optional_type",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "net.IP",
    "net.CIDR",
];

impl<'e, 's> Checker<'e, 's> {
    fn report(&mut self, id: u64, message: String) -> Type<'s> {
        self.errors.push((id, message));
        Type::Unknown
    }

    fn infer(&mut self, expression: &'e IdedExpr) -> Type<'s> {
        let found = self.found(expression);
        self.types.insert(expression.id, found.clone());
        found
    }

    fn found(&mut self, expression: &'e IdedExpr) -> Type<'s> {
        match &expression.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => BOOL,
                LiteralValue::Bytes(_) => Type::Simple("bytes"),
                LiteralValue::Double(_) => Type::Simple("double"),
                LiteralValue::Int(_) => INT,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => STRING,
                LiteralValue::UInt(_) => Type::Simple("uint"),
            },
            Expr::Ident(name) => self.variable(expression.id, name),
            Expr::Select(select) => {
                if let Some(name) = qualified(expression)
                    && TYPE_NAMES.contains(&name.as_str())
                {
                    return Type::Kind;
                }
                let operand = self.infer(&select.operand);
                let field = self.field(expression.id, &operand, &select.field);
                if select.test { BOOL } else { field }
            }
            Expr::Call(call) => self.call(expression.id, call),
            Expr::List(list) => {
                let items: Vec<(u64, Type<'s>)> =
                    list.elements.iter().map(|item| (item.id, self.infer(item))).collect();
                Type::List(Rc::new(self.common(items)))
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        keys.push((entry.key.id, self.infer(&entry.key)));
                        values.push((entry.value.id, self.infer(&entry.value)));
                    }
                }
                Type::Map(Rc::new(self.common(keys)), Rc::new(self.common(values)))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Type::Unknown,
        }
    }

    fn variable(&mut self, id: u64, name: &'e str) -> Type<'s> {
        if let Some((_, known)) = self.locals.iter().rev().find(|(local, _)| *local == name) {
            return known.clone();
        }
        if TYPE_NAMES.contains(&name) {
            return Type::Kind;
        }
        self.report(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn field(&mut self, id: u64, operand: &Type<'s>, name: &str) -> Type<'s> {
        match operand.field(name) {
            Ok(Some(field)) => field,
            Ok(None) => self.report(id, format!("undefined field '{name}'")),
            Err(()) => self.report(id, format!("type '{operand}' does not support field selection")),
        }
    }

    /// Returns the type of all elements of a literal, which must be the same.
    fn common(&mut self, elements: Vec<(u64, Type<'s>)>) -> Type<'s> {
        let mut common = Type::Unknown;
        for (id, element) in elements {
            if common == Type::Unknown {
                common = element;
            } else if !functions::are_joinable(&common, &element) {
                self.report(id, format!("expected type '{common}' but found '{element}'"));
            }
        }
        common
    }

    fn call(&mut self, id: u64, call: &'e CallExpr) -> Type<'s> {
        self.literals.extend(literals::check(call));
        if let (operators::OPT_SELECT, [operand, name]) = (call.func_name.as_str(), call.args.as_slice()) {
            return self.optional_field(id, operand, name);
        }
        if [operators::LOGICAL_AND, operators::LOGICAL_OR].contains(&call.func_name.as_str()) {
            return self.logical(&call.args);
        }
        let Some(target) = &call.target else {
            let arguments: Vec<_> = call.args.iter().map(|argument| self.infer(argument)).collect();
            return self.apply(id, &call.func_name, &call.func_name, &arguments, false);
        };
        let full_name = qualified(target).map(|target| format!("{target}.{}", call.func_name));
        if let Some(name) = full_name.filter(|name| functions::exists(name)) {
            let arguments: Vec<_> = call.args.iter().map(|argument| self.infer(argument)).collect();
            return self.apply(id, &name, &name, &arguments, false);
        }
        let mut arguments = vec![self.infer(target)];
        arguments.extend(call.args.iter().map(|argument| self.infer(argument)));
        self.apply(id, &call.func_name, &format!(".{}", call.func_name), &arguments, true)
    }

    fn logical(&mut self, operands: &'e [IdedExpr]) -> Type<'s> {
        let mut result = BOOL;
        for operand in operands {
            let found = self.infer(operand);
            if !functions::are_joinable(&BOOL, &found) {
                result = self.report(operand.id, format!("expected type 'bool' but found '{found}'"));
            }
        }
        result
    }

    fn optional_field(&mut self, id: u64, operand: &'e IdedExpr, name: &'e IdedExpr) -> Type<'s> {
        let operand = self.infer(operand);
        let Expr::Literal(LiteralValue::String(name)) = &name.expr else { return Type::Unknown };
        match self.field(id, &operand, name.inner()) {
            optional @ (Type::Optional(_) | Type::Unknown) => optional,
            field => Type::Optional(Rc::new(field)),
        }
    }

    fn apply(&mut self, id: u64, name: &str, key: &str, arguments: &[Type<'s>], is_member: bool) -> Type<'s> {
        if let Some(resolution) = functions::resolve(key, arguments) {
            let call = Call { name: name.to_owned(), is_member, overloads: resolution.overloads };
            self.calls.insert(id, call);
            return resolution.result;
        }
        if !functions::exists(name) && !functions::exists(&format!(".{name}")) {
            return self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        }
        let mut shown: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let target = if is_member { format!("{}.", shown.remove(0)) } else { String::new() };
        let signature = format!("{target}({})", shown.join(", "));
        self.report(id, format!("found no matching overload for '{name}' applied to '{signature}'"))
    }

    fn comprehension(&mut self, comprehension: &'e ComprehensionExpr) -> Type<'s> {
        let range = self.infer(&comprehension.iter_range);
        let (key, value) = match &range {
            Type::List(item) => (INT, (**item).clone()),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn => (Type::Dyn, Type::Dyn),
            Type::Unknown => (Type::Unknown, Type::Unknown),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(comprehension.iter_range.id, message);
                (Type::Unknown, Type::Unknown)
            }
        };
        let start = self.infer(&comprehension.accu_init);
        let known = self.locals.len();
        self.locals.push((&comprehension.accu_var, start));
        if let Some(second) = &comprehension.iter_var2 {
            self.locals.extend([(comprehension.iter_var.as_str(), key), (second, value)]);
        } else {
            // With one variable, a loop over a map has its keys.
            let item = if matches!(range, Type::Map(..)) { key } else { value };
            self.locals.push((&comprehension.iter_var, item));
        }
        self.infer(&comprehension.loop_cond);
        // An empty list gets the type of its items with the first step.
        let step = self.infer(&comprehension.loop_step);
        self.locals.truncate(known);
        self.locals.push((&comprehension.accu_var, step));
        let result = self.infer(&comprehension.result);
        self.locals.truncate(known);
        result
    }
}

/// Returns the name that an expression spells, such as `net.IP`.
fn qualified(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{}", qualified(&select.operand)?, select.field))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
