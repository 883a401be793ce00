//! Placeholders such as `${team}` in the resources of a class, which the values of variables replace.
//!
//! They are replaced in string values only. So a value never becomes a field, a number or a list, and never changes which object is
//! written. What a Secret contains is left alone: labels are no secrets, and a recording hides the text around a placeholder.
//!
//! Source: not in the specification (decision 124).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::variables::Variables;

/// The beginning of a placeholder.
const START: &str = "${";

/// A part of a text.
enum Part<'a> {
    Text(&'a str),
    /// The name in a placeholder.
    Placeholder(&'a str),
    /// The rest of the text, after the beginning of a placeholder without an end.
    Unclosed(&'a str),
}

/// Returns the parts of a text.
fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(start) = rest.find(START) else {
            return Some(Part::Text(std::mem::take(&mut rest)));
        };
        if start > 0 && rest.as_bytes()[start - 1] == b'$' {
            let (before, escaped) = rest.split_at(start - 1);
            if before.is_empty() {
                rest = &escaped[START.len() + 1..];
                return Some(Part::Text(START));
            }
            rest = escaped;
            return Some(Part::Text(before));
        }
        let (before, placeholder) = rest.split_at(start);
        if !before.is_empty() {
            rest = placeholder;
            return Some(Part::Text(before));
        }
        let placeholder = &placeholder[START.len()..];
        let Some((name, after)) = placeholder.split_once('}') else {
            rest = "";
            return Some(Part::Unclosed(placeholder));
        };
        rest = after;
        Some(Part::Placeholder(name))
    })
}

/// Returns whether a text contains a placeholder or an escaped one.
pub fn is_in(text: &str) -> bool {
    text.contains(START)
}

/// Returns whether an object is a Secret.
pub fn is_secret(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

/// Returns whether placeholders in a field of an object are replaced.
fn is_replaced(field: &str, is_secret: bool) -> bool {
    match field {
        "apiVersion" | "kind" => false,
        "data" | "stringData" => !is_secret,
        _ => true,
    }
}

/// Returns the variables in a resource; `None` if nothing in it has to be replaced.
///
/// # Errors
///
/// If a placeholder can't be replaced: what is wrong and how to fix it.
pub fn used(resource: &Value, variables: &Variables) -> Result<Option<BTreeSet<String>>, String> {
    let mut search = Search { variables, is_template: false, names: BTreeSet::new() };
    let is_secret = is_secret(resource);
    for (field, value) in resource.as_object().into_iter().flatten() {
        if is_replaced(field, is_secret) {
            search.value(field, value, field == "metadata")?;
        } else if is_secret {
            search.secret(field, value)?;
        }
    }
    Ok(search.is_template.then_some(search.names))
}

struct Search<'a> {
    variables: &'a Variables,
    is_template: bool,
    names: BTreeSet<String>,
}

impl Search<'_> {
    fn value(&mut self, path: &str, value: &Value, is_metadata: bool) -> Result<(), String> {
        match value {
            Value::String(text) => self.text(path, text),
            Value::Array(items) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(index, item)| self.value(&format!("{path}[{index}]"), item, false))
            }
            Value::Object(fields) => {
                for (field, value) in fields.iter().filter(|(field, _)| !(is_metadata && *field == "name")) {
                    if self.refers(field) {
                        return Err(format!(
                            "{path} has the key {field:?}; only values can contain variables, so write the key without them"
                        ));
                    }
                    let path = if field.contains(['.', '/']) {
                        format!("{path}[{field}]")
                    } else {
                        format!("{path}.{field}")
                    };
                    self.value(&path, value, false)?;
                }
                Ok(())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn text(&mut self, path: &str, text: &str) -> Result<(), String> {
        self.is_template |= is_in(text);
        for part in parts(text) {
            match part {
                Part::Text(_) => {}
                Part::Placeholder(name) => {
                    if let Some(mistake) = self.variables.mistake(name) {
                        return Err(format!("{path}: {mistake}"));
                    }
                    self.names.insert(name.to_owned());
                }
                Part::Unclosed(_) => {
                    return Err(format!(
                        "{path}: ${{ has no }}; write ${{name}} for a variable, or $${{ for the text ${{ itself"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Refuses variables in the content of a Secret. Other texts in it may look like placeholders.
    fn secret(&self, field: &str, value: &Value) -> Result<(), String> {
        let mut texts =
            value.as_object().into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_str()?)));
        match texts.find(|(_, text)| self.refers(text)) {
            Some((key, _)) => Err(format!(
                "{field}.{key} of a Secret can't contain variables, because labels and annotations are not secret; write the \
                 value without them, or use a ConfigMap"
            )),
            None => Ok(()),
        }
    }

    /// Returns whether a text contains a variable of the class.
    fn refers(&self, text: &str) -> bool {
        parts(text).any(|part| matches!(part, Part::Placeholder(name) if self.variables.declares(name)))
    }
}

/// Returns a resource with values in place of placeholders. It has no value only for a placeholder that [`used`] refuses.
pub fn filled(resource: &Value, values: &BTreeMap<&str, &str>) -> Value {
    let mut filled = resource.clone();
    let is_secret = is_secret(resource);
    let Some(fields) = filled.as_object_mut() else { return filled };
    for (field, value) in fields.iter_mut().filter(|(field, _)| is_replaced(field, is_secret)) {
        match value {
            Value::Object(metadata) if field == "metadata" => {
                fill_fields(metadata, values, |field| field != "name");
            }
            value => fill(value, values),
        }
    }
    filled
}

fn fill_fields(fields: &mut Map<String, Value>, values: &BTreeMap<&str, &str>, is_chosen: fn(&str) -> bool) {
    for (_, value) in fields.iter_mut().filter(|(field, _)| is_chosen(field)) {
        fill(value, values);
    }
}

fn fill(value: &mut Value, values: &BTreeMap<&str, &str>) {
    match value {
        Value::String(text) if is_in(text) => {
            let parts = parts(text).map(|part| match part {
                Part::Text(text) | Part::Unclosed(text) => text,
                Part::Placeholder(name) => values.get(name).copied().unwrap_or_default(),
            });
            *text = parts.collect();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, values)),
        Value::Object(fields) => fill_fields(fields, values, |_| true),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
