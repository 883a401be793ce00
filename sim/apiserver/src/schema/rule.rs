//! Compiled rules in the Common Expression Language (`x-kubernetes-validations`).

pub(super) mod negation;
mod reads;

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use kube_cel::cel::parser::{Expression, Parser};
use kube_cel::cel::{Context, ParseErrors, ResolveResult, Value as CelValue};
use serde_json::Value;

use self::reads::Reads;
use super::macros;

/// Maximum number of values that are known to satisfy the rules of a node.
const SATISFIED_MAX: usize = 16;

/// A compiled expression. As on a server, it may access fields that may be missing (`self.?field`).
#[derive(Debug)]
pub(super) struct Program(Expression);

impl Program {
    fn compile(source: &str) -> Result<Self, ParseErrors> {
        let mut expression = Parser::default().enable_optional_syntax(true).parse(source)?;
        macros::expand_for_evaluation(&mut expression);
        negation::replace(&mut expression);
        Ok(Self(expression))
    }

    fn uses(&self, variable: &str) -> bool {
        self.0.references().has_variable(variable)
    }

    pub(super) fn execute(&self, scope: &Context<'_>) -> ResolveResult {
        CelValue::resolve(&self.0, scope)
    }
}

/// One compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(super) source: String,
    pub(super) program: Result<Program, String>,
    pub(super) message: Option<String>,
    pub(super) message_program: Option<Program>,
    pub(super) reason: Option<String>,
    pub(super) field_path: String,
    pub(super) uses_self: bool,
    pub(super) uses_old: bool,
    pub(super) optional_old: bool,
}

impl Rule {
    /// Compiles one entry of `x-kubernetes-validations`.
    pub(super) fn read(rule: &Value) -> Self {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).map(str::trim).unwrap_or_default();
        let source = text("rule").to_owned();
        let program = Program::compile(&source).map_err(|error| error.to_string());
        let uses_self = program.as_ref().is_ok_and(|program| program.uses("self"));
        let uses_old = program.as_ref().is_ok_and(|program| program.uses("oldSelf"));
        Self {
            program,
            message: Some(text("message").to_owned()).filter(|message| !message.is_empty()),
            message_program: Program::compile(text("messageExpression"))
                .ok()
                .filter(|_| !text("messageExpression").is_empty()),
            reason: rule.get("reason").and_then(Value::as_str).map(str::to_owned),
            field_path: field_path(text("fieldPath")),
            uses_self,
            uses_old,
            optional_old: rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false),
            source,
        }
    }

    /// Returns the text by which messages name the rule.
    pub(super) fn name(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.source)
    }
}

/// Values that satisfied the rules of a node, each with the old value if a rule uses that; the last first. An object is validated
/// many times between two changes of the same part of it.
#[derive(Debug, Default)]
pub(crate) struct Satisfied(Mutex<VecDeque<(Value, Option<Value>)>>);

impl Satisfied {
    pub(super) fn contains(&self, value: &Value, old: Option<&Value>) -> bool {
        let is_same = |known: &(Value, Option<Value>)| known.0 == *value && known.1.as_ref() == old;
        self.0.lock().is_ok_and(|known| known.iter().any(is_same))
    }

    pub(super) fn insert(&self, value: &Value, old: Option<&Value>) {
        if let Ok(mut known) = self.0.lock() {
            known.truncate(SATISFIED_MAX - 1);
            known.push_front((value.clone(), old.cloned()));
        }
    }
}

impl Clone for Satisfied {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Converts `.a['b']` to the form below a field: `.a.b`.
fn field_path(path: &str) -> String {
    path.replace("['", ".").replace("']", "")
}

/// The rules of a node.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    all: Vec<Rule>,
    /// What they read of the value.
    pub(super) of_self: Reads,
    /// What they read of the old value.
    pub(super) of_old: Reads,
}

impl Rules {
    /// Compiles the rules of a node.
    pub(super) fn read(rules: &[Value]) -> Arc<Self> {
        let all: Vec<Rule> = rules.iter().map(Rule::read).collect();
        let (mut of_self, mut of_old) = (Reads::default(), Reads::default());
        let programs = all.iter().flat_map(|rule| rule.program.iter().chain(&rule.message_program));
        for Program(expression) in programs {
            of_self.add(expression, "self");
            of_old.add(expression, "oldSelf");
        }
        Arc::new(Self { all, of_self, of_old })
    }
}

impl Deref for Rules {
    type Target = [Rule];

    fn deref(&self) -> &[Rule] {
        &self.all
    }
}
