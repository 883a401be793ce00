//! Where two answers differ.

use std::collections::BTreeSet;

use serde_json::Value;

use super::arm::Answer;

/// How many differences of one answer are told; the rest are counted.
const TOLD_MAX: usize = 12;

/// Lists what the model's answer has otherwise than the real one's; empty if they agree.
pub fn differences(model: &Answer, real: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    let mut tell = |what: &str, model: &Value, real: &Value| {
        found.push(format!("{what}\n        model {model}\n        real  {real}"));
    };
    if model.code != real.code {
        tell("code", &model.code.into(), &real.code.into());
    }
    if model.media_type != real.media_type {
        tell("media type", &model.media_type.clone().into(), &real.media_type.clone().into());
    }
    if model.warnings != real.warnings {
        tell("warnings", &model.warnings.clone().into(), &real.warnings.clone().into());
    }
    walk("", &model.body, &real.body, &mut tell);
    if found.len() > TOLD_MAX {
        let rest = found.len() - TOLD_MAX;
        found.truncate(TOLD_MAX);
        found.push(format!("and {rest} more"));
    }
    found
}

fn walk(path: &str, model: &Value, real: &Value, tell: &mut impl FnMut(&str, &Value, &Value)) {
    match (model, real) {
        (Value::Object(model), Value::Object(real)) => {
            let keys: BTreeSet<&String> = model.keys().chain(real.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (model.get(key), real.get(key)) {
                    (Some(model), Some(real)) => walk(&path, model, real, tell),
                    (model, real) => tell(&path, &or_absent(model), &or_absent(real)),
                }
            }
        }
        (Value::Array(model), Value::Array(real)) if model.len() == real.len() => {
            for (index, (model, real)) in model.iter().zip(real).enumerate() {
                walk(&format!("{path}[{index}]"), model, real, tell);
            }
        }
        _ if model == real => {}
        _ => tell(if path.is_empty() { "body" } else { path }, model, real),
    }
}

fn or_absent(value: Option<&Value>) -> Value {
    value.cloned().unwrap_or_else(|| Value::String("(absent)".to_owned()))
}
