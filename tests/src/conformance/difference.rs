//! Compares two answers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::answer::Answer;
use super::normalise::Pairs;

/// The maximum number of differences of one answer in a report; the rest are counted.
const REPORTED_MAX: usize = 12;

/// The maximum length of a body in a report if the codes differ.
const BODY_MAX: usize = 300;

/// Lists the differences between the model's answer and the real one; empty if they agree.
pub fn differences(model: &Answer, real: &Answer, pairs: &mut Pairs) -> Vec<String> {
    if model.code != real.code {
        let summary = |answer: &Answer| {
            let body = answer.body["message"].as_str().map_or_else(|| answer.body.to_string(), str::to_owned);
            format!("{} {}", answer.code, body.chars().take(BODY_MAX).collect::<String>())
        };
        return vec![account("code", &summary(model), &summary(real))];
    }
    let mut found = Vec::new();
    if model.media_type != real.media_type {
        found.push(account("media type", &model.media_type, &real.media_type));
    }
    if model.warnings != real.warnings {
        found.push(account("warnings", &model.warnings.join(", "), &real.warnings.join(", ")));
    }
    if model.has_audit_id != real.has_audit_id {
        found.push(account("Audit-Id", &model.has_audit_id.to_string(), &real.has_audit_id.to_string()));
    }
    walk("", &model.body, &real.body, pairs, &mut found);
    if found.len() > REPORTED_MAX {
        let rest = found.len() - REPORTED_MAX;
        found.truncate(REPORTED_MAX);
        found.push(format!("and {rest} more"));
    }
    found
}

fn account(what: &str, model: &str, real: &str) -> String {
    format!("{what}\n        model {model}\n        real  {real}")
}

fn walk(path: &str, model: &Value, real: &Value, pairs: &mut Pairs, found: &mut Vec<String>) {
    match (model, real) {
        (Value::Object(model), Value::Object(real)) => {
            let keys: BTreeSet<&String> = model.keys().chain(real.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (model.get(key), real.get(key)) {
                    (Some(model), Some(real)) => walk(&path, model, real, pairs, found),
                    (model, real) => found.push(account(&path, &or_absent(model), &or_absent(real))),
                }
            }
        }
        (Value::Array(model), Value::Array(real)) if model.len() == real.len() => {
            for (index, (model, real)) in model.iter().zip(real).enumerate() {
                walk(&format!("{path}[{index}]"), model, real, pairs, found);
            }
        }
        (Value::String(model), Value::String(real)) if pairs.agree(model, real) => {}
        (Value::String(_), Value::String(_)) => {
            found.push(account(path, &model.to_string(), &real.to_string()));
        }
        _ if model == real || are_same_number(model, real) => {}
        _ => found.push(account(path, &model.to_string(), &real.to_string())),
    }
}

/// Returns whether two values are the same number in another notation: a float may be written without an exponent.
fn are_same_number(model: &Value, real: &Value) -> bool {
    let is_float = |value: &Value| value.is_number() && !value.is_i64();
    is_float(model) && is_float(real) && model.as_f64() == real.as_f64()
}

fn or_absent(value: Option<&Value>) -> String {
    value.map_or_else(|| "(absent)".to_owned(), Value::to_string)
}
