//! Checks the types of rules, as far as they follow from the schema.
//!
//! ```text
//!   source ──► expression, positions ──► types of all parts ──► errors, with their place in the source
//! ```
//!
//! A part with an error has the type [`Type::Unknown`], which fits everywhere, so that each mistake is reported once.

mod functions;
mod kinds;
mod literals;
mod source;

use std::rc::Rc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use serde_json::{Map, Value};

use self::kinds::{BOOL, INT, STRING, Type};
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

/// Checks a rule, whose result must be a boolean.
pub(super) fn check_rule(source: &str, variables: &Variables<'_>) -> Result<(), Refusal> {
    check(source, variables, &BOOL)
}

/// Checks the expression of a message, whose result must be a string.
pub(super) fn check_message(source: &str, variables: &Variables<'_>) -> Result<(), Refusal> {
    check(source, variables, &STRING)
}

fn check(source: &str, variables: &Variables<'_>, wanted: &Type<'_>) -> Result<(), Refusal> {
    let (expression, source) = Source::parse(source).map_err(Refusal::Compilation)?;
    let locals = vec![("self", variables.this.clone()), ("oldSelf", variables.old.clone())];
    let mut checker = Checker { locals, errors: Vec::new(), literals: Vec::new() };
    let result = checker.infer(&expression);
    // Literals are checked only if all types are correct.
    let errors = if checker.errors.is_empty() { checker.literals } else { checker.errors };
    if !errors.is_empty() {
        return Err(Refusal::Compilation(source.describe(errors)));
    }
    if result == Type::Unknown || result == *wanted { Ok(()) } else { Err(Refusal::Result) }
}

struct Checker<'e, 's> {
    locals: Vec<(&'e str, Type<'s>)>,
    /// Ids of expressions, with what is wrong there.
    errors: Vec<(u64, String)>,
    /// Ids of literals that no call can take, with what is wrong.
    literals: Vec<(u64, String)>,
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

/// Macros that the parser does not expand: their arguments declare variables.
const UNEXPANDED: [&str; 9] = [
    "all",
    "exists",
    "exists_one",
    "existsOne",
    "transformList",
    "transformMap",
    "transformMapEntry",
    "optMap",
    "optFlatMap",
];

impl<'e, 's> Checker<'e, 's> {
    fn report(&mut self, id: u64, message: String) -> Type<'s> {
        self.errors.push((id, message));
        Type::Unknown
    }

    fn infer(&mut self, expression: &'e IdedExpr) -> Type<'s> {
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
        if call.target.is_some() && call.args.len() >= 2 && UNEXPANDED.contains(&call.func_name.as_str()) {
            return Type::Unknown;
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
        if let Some(result) = functions::call(key, arguments) {
            return result;
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
        let item = match &range {
            Type::List(item) => (**item).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Dyn => Type::Dyn,
            Type::Unknown => Type::Unknown,
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(comprehension.iter_range.id, message)
            }
        };
        let start = self.infer(&comprehension.accu_init);
        let known = self.locals.len();
        self.locals.push((&comprehension.accu_var, start));
        self.locals.push((&comprehension.iter_var, item));
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
