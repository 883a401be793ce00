//! The expressions of a SentinelConfig: `messageDecision`, which decides when a resource is due, and `messageData`, which adds fields
//! to its events.
//!
//! Both have the form, the variables and the function `condition` of the released Sentinel. Not in the specification: without them
//! its table of backoffs decides, and events have its fields only.

use std::collections::BTreeMap;
use std::fmt;

use lockstep_crds::sentinel::{MessageDecision, RESERVED_DATA};
use lockstep_engine::conditions::cut;
use lockstep_engine::time::Wall;
use serde_json::{Map, Value as Json, json};

use super::expression::functions::{NOW, RESOURCE, add_resource, functions};
use super::expression::{Context, Expression, Value, value};

/// The variable of `messageData` with the reason of the event.
const REASON: &str = "reason";
/// The maximum number of nodes that the expressions of one field visit for one resource.
const STEPS_MAX: u64 = 16_384;
/// The maximum size of the additional fields of an event, in bytes: thousands of events are held at a time.
const DATA_MAX_BYTES: usize = 4 << 10;
/// The maximum length of a name.
const NAME_MAX: usize = 63;
/// The maximum number of bytes of an expression in messages.
const SHOWN_MAX_BYTES: usize = 80;

/// The compiled expressions of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    params: Vec<(String, Expression)>,
    result: Option<Expression>,
    data: Vec<(String, Expression)>,
}

/// Why an expression gave no value for a resource. It names no content of the resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpressionError {
    /// The field of the expression.
    pub field: String,
    /// The cause.
    pub cause: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.cause)
    }
}

impl Rules {
    /// Compiles the expressions; `None` if there are none. The error lists every problem.
    pub fn read(
        decision: Option<&MessageDecision>,
        data: &BTreeMap<String, String>,
    ) -> Result<Option<Self>, Vec<String>> {
        let mut reading = Reading::default();
        let mut rules = Self::default();
        if let Some(decision) = decision {
            rules.decision(decision, &mut reading);
        }
        reading.begin([RESOURCE, NOW, REASON]);
        for (name, source) in data {
            let field = format!("spec.messageData.{name}");
            if !is_name(name) {
                reading.refuse(&field, "is no name of a field: write letters, digits and underscores");
            } else if RESERVED_DATA.contains(&name.as_str()) {
                reading
                    .refuse(&field, "the Sentinel sets this field itself; remove it, or choose another name");
            } else {
                rules.data.extend(reading.compile(&field, source).map(|compiled| (name.clone(), compiled)));
            }
        }
        reading.end("spec.messageData");
        match (reading.problems.is_empty(), rules == Self::default()) {
            (false, _) => Err(reading.problems),
            (true, is_empty) => Ok(Some(rules).filter(|_| !is_empty)),
        }
    }

    fn decision(&mut self, decision: &MessageDecision, reading: &mut Reading) {
        reading.begin([RESOURCE, NOW]);
        for param in &decision.params {
            let field = format!("spec.messageDecision.params {:?}", param.name);
            if !is_name(&param.name) {
                reading.refuse(&field, "is no name of a variable: write letters, digits and underscores");
            } else if reading.variables.contains(&param.name) {
                reading.refuse(&field, "there is a variable of this name already");
            } else {
                let compiled = reading.compile(&field, &param.expr);
                self.params.extend(compiled.map(|compiled| (param.name.clone(), compiled)));
                // A wrong expression is reported once, not again by all that use it.
                reading.variables.push(param.name.clone());
            }
        }
        let field = "spec.messageDecision.result";
        self.result = reading.compile(field, &decision.result);
        reading.end("spec.messageDecision");
        if reading.problems.is_empty()
            && let Some(other) = self.type_of_result()
        {
            reading.refuse(field, &format!("is a {other}, not a bool"));
        }
    }

    /// Returns the type of the result for a typical resource, if the result has a value and is not a bool.
    fn type_of_result(&self) -> Option<&'static str> {
        let resource = json!({
            "id": "", "kind": "", "href": "", "name": "", "generation": 1, "labels": {}, "spec": {},
            "created_time": "2025-01-01T00:00:00Z", "updated_time": "2025-01-01T00:00:00Z",
            "status": { "phase": "", "lastTransitionTime": "2025-01-01T00:00:00Z", "conditions": [] },
        });
        let functions = functions();
        let mut scope = functions.new_inner_scope();
        add_resource(&mut scope, &resource, Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH));
        match self.result(&mut scope) {
            Some(Ok(value)) if !matches!(value, Value::Bool(_)) => Some(value::name(&value)),
            _ => None,
        }
    }

    /// Returns the paths of the resource's fields that the expressions read.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let all = self.params.iter().chain(&self.data).map(|(_, expression)| expression);
        all.chain(&self.result).flat_map(|expression| &expression.fields).map(String::as_str)
    }

    fn result(&self, scope: &mut Context<'_>) -> Option<Result<Value, ExpressionError>> {
        let result = self.result.as_ref()?;
        for (name, param) in &self.params {
            match param.evaluate(scope) {
                Ok(value) => scope.add_variable_from_value(name.clone(), value),
                Err(cause) => {
                    let field = format!("spec.messageDecision.params {name:?}");
                    return Some(Err(ExpressionError { field, cause }));
                }
            }
        }
        Some(result.evaluate(scope).map_err(|cause| failure("spec.messageDecision.result", cause)))
    }
}

fn failure(field: &str, cause: impl Into<String>) -> ExpressionError {
    ExpressionError { field: field.to_owned(), cause: cause.into() }
}

/// Evaluates expressions for one resource after the other.
pub struct Evaluator<'r> {
    rules: &'r Rules,
    functions: Context<'static>,
}

impl<'r> Evaluator<'r> {
    /// Returns an evaluator of these rules.
    pub fn new(rules: &'r Rules) -> Self {
        Self { rules, functions: functions() }
    }

    /// Returns what the expressions say about a resource with this document; `None` is a document that was too large to be kept.
    pub fn about(&self, document: Option<&str>, now: Wall) -> Evaluation<'_> {
        let mut scope = self.functions.new_inner_scope();
        let read = document.ok_or("the fields that expressions read are larger than 16 KiB");
        let read = read.and_then(|text| serde_json::from_str::<Json>(text).map_err(|_| "is no JSON"));
        let problem = read.map(|resource| add_resource(&mut scope, &resource, now)).err();
        Evaluation { rules: self.rules, scope, problem }
    }
}

/// The expressions with the variables of one resource.
pub struct Evaluation<'e> {
    rules: &'e Rules,
    scope: Context<'e>,
    /// Why the resource has no variables.
    problem: Option<&'static str>,
}

impl Evaluation<'_> {
    /// Returns whether the resource is due; `None` if no expression decides about it.
    pub fn is_due(&mut self) -> Option<Result<bool, ExpressionError>> {
        if let (Some(problem), true) = (self.problem, self.rules.result.is_some()) {
            return Some(Err(failure("spec.messageDecision", problem)));
        }
        let result = self.rules.result(&mut self.scope)?;
        Some(result.and_then(|value| match value {
            Value::Bool(is_due) => Ok(is_due),
            other => {
                let cause = format!("is a {}, not a bool", value::name(&other));
                Err(failure("spec.messageDecision.result", cause))
            }
        }))
    }

    /// Returns the additional fields of an event with this reason. Fields without a value are left out, with the failure.
    pub fn data(mut self, reason: &str) -> (Map<String, Json>, Vec<ExpressionError>) {
        let (mut data, mut failures) = (Map::new(), Vec::new());
        if self.rules.data.is_empty() {
            return (data, failures);
        }
        if let Some(problem) = self.problem {
            return (data, vec![failure("spec.messageData", problem)]);
        }
        self.scope.add_variable_from_value(REASON, reason);
        let mut left = DATA_MAX_BYTES;
        for (name, expression) in &self.rules.data {
            let given = expression.evaluate(&self.scope).and_then(|value| value::to_json(&value));
            let fits = given.and_then(|given| {
                left = left
                    .checked_sub(name.len() + given.to_string().len())
                    .ok_or("the fields are larger than 4 KiB")?;
                Ok(given)
            });
            match fits {
                Ok(Json::Null) => {}
                Ok(given) => drop(data.insert(name.clone(), given)),
                Err(cause) => failures.push(failure(&format!("spec.messageData.{name}"), cause)),
            }
        }
        (data, failures)
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The compilation of one field's expressions.
#[derive(Default)]
struct Reading {
    variables: Vec<String>,
    steps: u64,
    problems: Vec<String>,
}

impl Reading {
    fn begin<const N: usize>(&mut self, variables: [&str; N]) {
        self.variables = variables.map(str::to_owned).into();
        self.steps = 0;
    }

    fn compile(&mut self, field: &str, source: &str) -> Option<Expression> {
        let variables = self.variables.iter().map(String::as_str).collect::<Vec<_>>();
        match Expression::compile(source, &variables) {
            Ok(compiled) => {
                self.steps = self.steps.saturating_add(compiled.steps);
                Some(compiled)
            }
            Err(problem) => {
                let shown = cut(source.to_owned(), SHOWN_MAX_BYTES);
                self.refuse(field, &format!("{shown:?} at {problem}"));
                None
            }
        }
    }

    fn end(&mut self, field: &str) {
        if self.steps > STEPS_MAX {
            let steps = self.steps;
            self.refuse(
                field,
                &format!("may take {steps} steps for a resource, more than {STEPS_MAX}; use fewer or smaller macros"),
            );
        }
    }

    fn refuse(&mut self, field: &str, problem: &str) {
        self.problems.push(format!("{field}: {problem}"));
    }
}

#[cfg(test)]
mod tests;
