//! Evaluates the rules of a schema (`x-kubernetes-validations`).
//!
//! The expressions are evaluated by kube-cel's functions. Traversal, the matching of old and new values, and messages are
//! implemented here, because the server matches list items by key and has its own messages.

mod loops;
mod matches;
mod types;
mod values;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;

use super::node::{At, DEPTH_MAX, Kind};
use super::place::Place;
use super::ratchet::{matching, unchanged};
use super::rule::{Program, Rule, negation};
use crate::cause::Cause;

/// Maximum length of a message expression's result, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

thread_local! {
    /// All functions, registered once.
    static FUNCTIONS: Context<'static> = {
        let mut functions = Context::default().with_all();
        functions.add_function("matches", matches::matches);
        functions.add_function(negation::NAME, negation::negated);
        types::register(&mut functions);
        loops::register(&mut functions);
        functions
    };
}

/// The correlation for validation ratcheting: the nearest node with a known old value, and whether that is this one.
#[derive(Clone, Copy)]
struct Match<'a> {
    nearest: Option<(At<'a>, &'a Value, &'a Value)>,
    is_here: bool,
}

impl<'a> Match<'a> {
    fn lets_pass(self) -> bool {
        self.nearest.is_some_and(|(at, old, new)| unchanged(at, old, new, 0))
    }

    fn below(self, at: At<'a>, old: Option<&'a Value>, new: &'a Value) -> Self {
        if !self.is_here {
            return self;
        }
        match old {
            Some(old) => Self { nearest: Some((at, old, new)), is_here: true },
            None => Self { is_here: false, ..self },
        }
    }
}

/// Returns the causes of the rules that an object violates.
pub(super) fn broken(root: At<'_>, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    if !root.arena.has_rules {
        return Vec::new();
    }
    let mut causes = Vec::new();
    FUNCTIONS.with(|functions| {
        let correlation = Match { nearest: old.map(|old| (root, old, object)), is_here: old.is_some() };
        let mut walk = Walk { functions, causes: &mut causes };
        walk.value(root, object, old, correlation, Place::Root, 0);
    });
    causes
}

struct Walk<'w> {
    functions: &'w Context<'static>,
    causes: &'w mut Vec<Cause>,
}

impl Walk<'_> {
    fn value<'a>(
        &mut self,
        at: At<'a>,
        value: &'a Value,
        old: Option<&'a Value>,
        correlation: Match<'a>,
        path: Place<'_>,
        depth: usize,
    ) {
        if value.is_null() || depth > DEPTH_MAX {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(at, value, old, correlation, path);
        if let Some(checks) = &at.node().checks {
            for &id in &checks.all_of {
                let inner = Match { is_here: false, ..correlation };
                self.value(at.to(id), value, old, inner, path, depth + 1);
            }
        }
        match value {
            Value::Array(list) => {
                let Some(items) = at.items() else { return };
                for (index, item) in list.iter().enumerate() {
                    let old = old.and_then(|old| matching(at, old, item));
                    let correlation = correlation.below(items, old, item);
                    self.value(items, item, old, correlation, Place::Item(&path, index), depth + 1);
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    let Some(child) = at.declared(key) else { continue };
                    let old = old.and_then(|old| old.get(key));
                    let below = at.place_of(&path, key);
                    self.value(child, value, old, correlation.below(child, old, value), below, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn rules(
        &mut self,
        at: At<'_>,
        value: &Value,
        old: Option<&Value>,
        correlation: Match<'_>,
        path: Place<'_>,
    ) {
        let rules = &at.node().rules;
        let uses_old = |rule: &Rule| rule.uses_old || rule.optional_old || rule.message_program.is_some();
        if rules.is_empty() {
            return;
        }
        let old = old.filter(|_| rules.iter().any(uses_old)).map(|old| rules.of_old.part(old));
        let (read, old) = (rules.of_self.part(value), old.as_deref());
        if at.node().satisfied.contains(&read, old) {
            return;
        }
        let (before, mut is_excused) = (self.causes.len(), false);
        let current = values::convert(self.functions, at, &read, 0);
        let former = old.map(|old| values::convert(self.functions, at, old, 0));
        let kind = Value::from(at.node().kind.name());
        let field = || if path.is_empty() { "<nil>".to_owned() } else { path.to_string() };
        for rule in rules.iter() {
            let program = match &rule.program {
                Ok(program) => program,
                Err(error) => {
                    self.causes.push(Cause::invalid(field(), &kind, &format!("rule compile error: {error}")));
                    continue;
                }
            };
            if rule.uses_old && former.is_none() && !rule.optional_old {
                continue;
            }
            if let Some(error) = values::misfit(at, value).filter(|_| rule.uses_self) {
                let detail = format!("{error} evaluating rule: {}", rule.name());
                self.causes.push(Cause::invalid(field(), &kind, &detail));
                continue;
            }
            let mut scope = self.functions.new_inner_scope();
            scope.add_variable_from_value("self", current.clone());
            if rule.optional_old {
                scope.add_variable_from_value("oldSelf", values::optional(self.functions, former.clone()));
            } else if let Some(former) = &former {
                scope.add_variable_from_value("oldSelf", former.clone());
            }
            match program.execute(&scope) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => {
                    is_excused = true;
                    if rule.uses_old || !correlation.lets_pass() {
                        self.causes.push(broken_rule(rule, &scope, at, value, path));
                    }
                }
                Err(error) => {
                    let detail = match runtime_error(&error) {
                        Some(error) => format!("{error} evaluating rule: {}", rule.name()),
                        None => format!(
                            "'no such overload': call arguments did not match a supported operator, function or \
                             macro signature for rule: {}",
                            rule.name()
                        ),
                    };
                    self.causes.push(Cause::invalid(field(), &kind, &detail));
                }
            }
        }
        if self.causes.len() == before && !is_excused {
            at.node().satisfied.insert(&read, old);
        }
    }
}

fn broken_rule(rule: &Rule, scope: &Context<'_>, at: At<'_>, value: &Value, path: Place<'_>) -> Cause {
    let message = rule.message_program.as_ref().and_then(|program| message(program, scope));
    let detail = message.unwrap_or_else(|| match &rule.message {
        Some(message) => message.clone(),
        None => format!("failed rule: {}", rule.source),
    });
    let field = match (path.is_empty(), rule.field_path.as_str()) {
        (true, "") => "<nil>".to_owned(),
        (true, below) => below.trim_start_matches('.').to_owned(),
        (false, below) => format!("{path}{below}"),
    };
    // Maps and lists are left out of messages.
    let shown = if matches!(at.node().kind, Kind::Object | Kind::Array) { None } else { Some(value) };
    match (rule.reason.as_deref(), shown) {
        (Some("FieldValueForbidden"), _) => Cause::forbidden(field, &detail),
        (Some("FieldValueRequired"), _) => Cause::required(field, &detail),
        (Some("FieldValueDuplicate"), Some(value)) => Cause::duplicate(field, value),
        (Some("FieldValueDuplicate"), None) => {
            Cause { reason: "FieldValueDuplicate", field, message: "Duplicate value".to_owned() }
        }
        (_, Some(value)) => Cause::invalid(field, value, &detail),
        (_, None) => {
            Cause { reason: "FieldValueInvalid", field, message: format!("Invalid value: {detail}") }
        }
    }
}

fn message(program: &Program, scope: &Context<'_>) -> Option<String> {
    let Ok(CelValue::String(message)) = program.execute(scope) else { return None };
    let message = message.trim();
    let fits = !message.is_empty() && message.len() <= MESSAGE_BYTES_MAX && !message.contains('\n');
    fits.then(|| message.to_owned())
}

/// Returns the server's message for a failure; none if the types do not match.
fn runtime_error(error: &ExecutionError) -> Option<String> {
    Some(match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(_, operand, _) => overflow(operand).to_owned(),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        _ => return None,
    })
}

fn overflow(operand: &CelValue) -> &'static str {
    match operand {
        CelValue::UInt(_) => "unsigned integer overflow",
        CelValue::Timestamp(_) => "timestamp overflow",
        // Durations are not part of their error.
        CelValue::Duration(_) | CelValue::Null => "duration overflow",
        _ => "integer overflow",
    }
}

#[cfg(test)]
mod tests;
