//! Compiles the rules of a schema: their types and costs, and the use of old values.

use serde_json::{Map, Value};

use super::document::{EMBEDDED, entries, flag, text};
use crate::cause::Cause;
use crate::schema::cost::{self, Budget, Declaration, Occurrences};
use crate::schema::node::DEPTH_MAX;
use crate::schema::typing::{self, Checked, Refusal, Variables};

/// Returns the causes of rules that do not compile, that use old values which can't be matched, or that cost too much.
/// `found` are the causes of keywords.
pub(super) fn check(schema: &Map<String, Value>, path: &str, found: &[Cause]) -> Vec<Cause> {
    let mut compiler = Compiler { found, budget: Budget::default(), causes: Vec::new() };
    let place = Place { is_root: true, unmatched: None, occurrences: Occurrences::ONE };
    compiler.schema(schema, path, place, 0);
    let Compiler { budget, mut causes, .. } = compiler;
    causes.extend(budget.causes(path));
    causes
}

/// The place of a schema among others.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// Whether its values have the metadata of objects.
    is_root: bool,
    /// The list in which old values can't be matched.
    unmatched: Option<&'p str>,
    occurrences: Occurrences,
}

struct Compiler<'f> {
    /// The causes of keywords.
    found: &'f [Cause],
    budget: Budget,
    causes: Vec<Cause>,
}

impl Compiler<'_> {
    /// Compiles the rules of a schema, after those of the schemas below.
    fn schema(&mut self, schema: &Map<String, Value>, path: &str, place: Place<'_>, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        let occurrences = place.occurrences.below(schema);
        let mut below = |schema: &Map<String, Value>, path: &str, unmatched: Option<&str>| {
            let place = Place { is_root: flag(schema, EMBEDDED), unmatched, occurrences };
            self.schema(schema, path, place, depth + 1);
        };
        if let Some(extra) = schema.get("additionalProperties").and_then(Value::as_object) {
            below(extra, &format!("{path}.additionalProperties"), place.unmatched);
        }
        for (name, property) in entries(schema, "properties") {
            below(property, &format!("{path}.properties[{name}]"), place.unmatched);
        }
        if let Some(items) = schema.get("items").and_then(Value::as_object) {
            let is_matched = text(schema, "x-kubernetes-list-type") == "map";
            below(items, &format!("{path}.items"), place.unmatched.or((!is_matched).then_some(path)));
        }
        self.rules(schema, path, place);
    }

    fn rules(&mut self, schema: &Map<String, Value>, path: &str, place: Place<'_>) {
        // If keywords are wrong, here or below, rules are not checked.
        let is_here =
            |cause: &Cause| cause.field.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '[']));
        if self.found.iter().any(is_here) {
            return;
        }
        let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
        for (index, source) in rules.enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{index}]");
            let has_optional_old = source.get("optionalOldSelf") == Some(&Value::Bool(true));
            match Variables::of(schema, place.is_root, has_optional_old) {
                Some(variables) => {
                    let rule = RuleAt {
                        source,
                        path: &path,
                        variables,
                        declaration: Declaration::new(schema, place.is_root),
                        place,
                    };
                    self.rule(&rule);
                }
                None => self.causes.push(internal_error(&path)),
            }
        }
    }

    fn rule(&mut self, rule: &RuleAt<'_, '_>) {
        let unused_old = rule.source.get("optionalOldSelf").map(|optional| {
            let detail = "may not be set if oldSelf is not used in rule";
            Cause::invalid(format!("{}.optionalOldSelf", rule.path), optional, detail)
        });
        let uses_old = match typing::check_rule(rule.text("rule"), &rule.variables) {
            Ok(checked) => {
                let each = cost::estimate(&checked, rule.declaration);
                self.cost(rule, "rule", rule.place.occurrences.cost(each, rule.declaration));
                checked.expression.references().has_variable("oldSelf")
            }
            Err(refusal) => {
                let detail = match refusal {
                    Refusal::Compilation(errors) => format!("compilation failed: {errors}"),
                    Refusal::Result => "cel expression must evaluate to a bool".to_owned(),
                };
                self.causes.push(rule.refused("rule", &detail));
                // What a rule uses is known only once it compiles.
                self.causes.extend(unused_old);
                return;
            }
        };
        if !rule.text("messageExpression").is_empty() {
            self.message(rule, typing::check_message(rule.text("messageExpression"), &rule.variables));
        }
        if let (true, Some(list)) = (uses_old, rule.place.unmatched) {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            let field = format!("{}.rule", rule.path);
            self.causes.push(Cause::invalid(field, &rule.source["rule"], &detail));
        }
        if !uses_old {
            self.causes.extend(unused_old);
        }
    }

    fn message(&mut self, rule: &RuleAt<'_, '_>, checked: Result<Checked<'_>, Refusal>) {
        let detail = match checked {
            // A message is created once, no matter how many values break the rule.
            Ok(checked) => {
                self.cost(rule, "messageExpression", cost::estimate(&checked, rule.declaration));
                return;
            }
            Err(Refusal::Compilation(errors)) => format!("messageExpression compilation failed: {errors}"),
            Err(Refusal::Result) => "messageExpression must evaluate to a string".to_owned(),
        };
        self.causes.push(rule.refused("messageExpression", &detail));
    }

    /// Adds the cost of an expression, and checks its limit.
    fn cost(&mut self, rule: &RuleAt<'_, '_>, key: &str, cost: u64) {
        let field = format!("{}.{key}", rule.path);
        self.causes.extend(cost::above_limit(&field, &format!("estimated {key} cost"), cost));
        self.budget.add(&field, cost);
    }
}

/// One rule of a schema.
struct RuleAt<'r, 's> {
    source: &'r Value,
    path: &'r str,
    variables: Variables<'s>,
    declaration: Declaration<'s>,
    place: Place<'r>,
}

impl RuleAt<'_, '_> {
    fn text(&self, key: &str) -> &str {
        self.source.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn refused(&self, key: &str, detail: &str) -> Cause {
        Cause::invalid(format!("{}.{key}", self.path), &internal_rule(self.source), detail)
    }
}

/// Returns the cause for rules about values whose type the schema leaves open.
fn internal_error(path: &str) -> Cause {
    let field = path.rsplit_once('[').map_or(path, |(field, _)| field).to_owned();
    let message = "Internal error: internal error: failed to construct type information for \
                   x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
    Cause { reason: "InternalError", field, message: message.to_owned() }
}

/// Returns a rule in the form of messages: with the field names of the server's internal struct.
fn internal_rule(source: &Value) -> Value {
    let text = |key: &str| source.get(key).cloned().unwrap_or_else(|| Value::from(""));
    let value = |key: &str| source.get(key).cloned().unwrap_or(Value::Null);
    serde_json::json!({
        "Rule": text("rule"), "Message": text("message"), "MessageExpression": text("messageExpression"),
        "Reason": value("reason"), "FieldPath": text("fieldPath"), "OptionalOldSelf": value("optionalOldSelf"),
    })
}
