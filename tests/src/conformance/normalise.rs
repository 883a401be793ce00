//! Replaces values that each server chooses by itself with stable placeholders.
//!
//! A uid or the resource version of an object becomes the number of its first appearance in the scenario. So it still shows
//! which two of them are equal, such as before and after a write that changed nothing.
//! [`Pairs`] then maps the numbers of one server to those of the other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::answer::Answer;
use super::scenario::Step;

mod openapi;
mod undeclared;

/// Maps the placeholders of the model to those of the real server, and back.
#[derive(Debug, Default)]
pub struct Pairs {
    to_real: BTreeMap<String, String>,
    to_model: BTreeMap<String, String>,
}

impl Pairs {
    /// Returns whether two texts are equal after each placeholder is replaced by its pair. New placeholders become pairs.
    ///
    /// A wrong pair is replaced, so that one difference is reported once.
    pub fn agree(&mut self, model: &str, real: &str) -> bool {
        let (of_model, of_real) = (stand_ins(model), stand_ins(real));
        let mut agree = of_model.len() == of_real.len();
        let (mut model, mut real) = (model.to_owned(), real.to_owned());
        for (ours, theirs) in of_model.iter().zip(&of_real) {
            let known = self.to_real.insert(ours.clone(), theirs.clone());
            let known_back = self.to_model.insert(theirs.clone(), ours.clone());
            agree &=
                known.is_none_or(|known| known == *theirs) && known_back.is_none_or(|known| known == *ours);
            model = model.replace(ours, "");
            real = real.replace(theirs, "");
        }
        agree && model == real
    }
}

/// Returns the numbered placeholders in a text, in order.
fn stand_ins(text: &str) -> Vec<String> {
    let parts = text.split('(').skip(1).filter_map(|rest| rest.split_once(')'));
    let numbered = parts.filter(|(inside, _)| {
        let (kind, number) = inside.split_once(' ').unwrap_or_default();
        ["uid", "version"].contains(&kind) && number.parse::<usize>().is_ok()
    });
    numbered.map(|(inside, _)| format!("({inside})")).collect()
}

/// The placeholders of one server in one scenario.
#[derive(Debug, Default)]
pub struct Normaliser {
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, usize>,
    /// The prefixes of names that the server generates.
    prefixes: BTreeSet<String>,
}

impl Normaliser {
    /// Normalises an answer; answers come in the order of their requests.
    pub fn normalise(&mut self, step: &Step, mut answer: Answer) -> Answer {
        if let Some(prefix) = step.body.as_ref().and_then(|body| body["metadata"]["generateName"].as_str()) {
            self.prefixes.insert(prefix.to_owned());
        }
        if answer.body.get("swagger").is_some() {
            openapi::reduce_v2(&mut answer.body, &step.keep);
        } else if !step.keep.is_empty() {
            keep(&mut answer.body, &step.keep);
        }
        if answer.body["kind"] == "Status" {
            leave_causes_to_causes(&mut answer.body);
            let message = answer.body["message"].as_str().zip(step.body.as_ref());
            if let Some(settled) = message.and_then(|(message, body)| undeclared::settle(message, body)) {
                answer.body["message"] = settled.into();
            }
        }
        if answer.body.get("openapi").is_some() {
            openapi::reduce(&mut answer.body);
        }
        self.value("", &mut answer.body);
        if answer.body["kind"] == "Status" {
            status(&mut answer.body);
        }
        answer.warnings.sort();
        answer
    }

    fn value(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Object(object) => self.object(object),
            Value::Array(items) => {
                for item in items.iter_mut() {
                    self.value(key, item);
                }
                if key == "managedFields" {
                    // The server sorts by time, and the times of the two servers differ.
                    items.sort_by_cached_key(|entry| {
                        ["manager", "operation", "subresource", "apiVersion"]
                            .map(|key| entry[key].to_string())
                    });
                }
            }
            Value::String(text) => *text = self.text(key, text),
            Value::Number(_) if key == "nodePort" => *value = Value::from("(node port)"),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&mut self, object: &mut Map<String, Value>) {
        let is_list = object.contains_key("items") || object.contains_key("rows");
        if object.get("kind").is_some_and(|kind| kind == "CustomResourceDefinition") {
            sort_conditions(object);
        }
        let is_bookmark = object.get("type").is_some_and(|kind| kind == "BOOKMARK");
        if is_list && let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            for (key, stand_in) in [("resourceVersion", "(list version)"), ("continue", "(continue)")] {
                if metadata.get(key).and_then(Value::as_str).is_some_and(|value| !value.is_empty()) {
                    metadata.insert(key.to_owned(), stand_in.into());
                }
            }
        }
        if is_bookmark && let Some(version) = object["object"].pointer_mut("/metadata/resourceVersion") {
            *version = "(bookmark version)".into();
        }
        // Field sets name list items by their keys, which may be uids.
        let renamed = std::mem::take(object).into_iter().map(|(key, mut value)| {
            self.value(&key, &mut value);
            // Whether a write changes this time, and so owns it, depends on the second in which it is made.
            if key == r#"k:{"type":"Terminating"}"#
                && let Some(fields) = value.as_object_mut()
            {
                fields.remove("f:lastTransitionTime");
            }
            (self.replace_uids(&key), value)
        });
        *object = renamed.collect();
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        // The server appends the difference to the message of a forbidden update, in the notation of Go's types.
        let message = sorted_fields(text.split("\n@@ ").next().unwrap_or_default());
        let message = without_numbers_after(
            &message,
            &["selfType", "trying to send message larger than max (", "map[resourceVersion:"],
        );
        // Go quotes an empty list or map and an absent one differently, and the model has only the latter.
        let message = message.replacen("Invalid value: []: ", "Invalid value: null: ", 1);
        let message = message.replacen("Invalid value: {}: ", "Invalid value: null: ", 1);
        let text = if key == "message" { message.as_str() } else { text };
        if key == "resourceVersion" && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            let next = self.versions.len() + 1;
            let number = *self.versions.entry(text.to_owned()).or_insert(next);
            return format!("(version {number})");
        }
        if (key == "clusterIP" || key == "clusterIPs") && text.starts_with("10.") {
            return "(cluster address)".to_owned();
        }
        if key == "token" {
            return "(token)".to_owned();
        }
        if key == "serverAddress" {
            return "(address)".to_owned();
        }
        if key == "cells" && is_age(text) {
            return "(age)".to_owned();
        }
        if is_time(text) {
            return if text.contains('.') { "(time with fraction)" } else { "(time)" }.to_owned();
        }
        if key == "message"
            && let Some(text) = self.invalid_value(text)
        {
            return text;
        }
        let mut result = self.replace_uids(text);
        if key == "message" {
            result =
                without_numbers_after(&result, &["selfType", "trying to send message larger than max ("]);
            result = self.replace_versions(&result);
            if let Some(versions) = result.strip_prefix("too old resource version: ") {
                // The second version is the oldest one in the server's cache.
                result = format!(
                    "too old resource version: {} (oldest)",
                    versions.split(' ').next().unwrap_or_default()
                );
            }
        }
        for prefix in &self.prefixes {
            result = replace_generated(&result, prefix);
        }
        result
    }

    /// Normalises the value that a cause quotes. The order of an object's fields does not matter.
    fn invalid_value(&mut self, message: &str) -> Option<String> {
        let rest = message.strip_prefix("Invalid value: ")?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let mut value = values.next()?.ok()?;
        let end = values.byte_offset();
        if let Some(quoted) = value.as_str() {
            value = serde_json::from_str(quoted).ok()?;
        }
        if !value.is_object() && !value.is_array() {
            return None;
        }
        // The server prints the value in its internal form, in Go's notation.
        if rest[end..] == *": field is immutable" {
            return Some("Invalid value: (whole): field is immutable".to_owned());
        }
        self.value("", &mut value);
        Some(format!("Invalid value: {value}{}", &rest[end..]))
    }

    /// Replaces versions in prose: `the ResourceVersion in record (7)`. A version that no object has shown
    /// becomes `unseen`.
    fn replace_versions(&self, text: &str) -> String {
        const BEFORE: &str = "ResourceVersion in ";
        let mut parts = text.split(BEFORE);
        let mut result = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let version = part.split(|each: char| !each.is_ascii_digit()).find(|digits| !digits.is_empty());
            let version = version.unwrap_or_default();
            let known = self.versions.get(version).map_or("unseen".to_owned(), usize::to_string);
            result = format!("{result}{BEFORE}{}", part.replacen(version, &format!("version {known}"), 1));
        }
        result
    }

    fn replace_uids(&mut self, text: &str) -> String {
        const UID: usize = 36;
        let mut result = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(uid) = rest.get(..UID).filter(|candidate| is_uid(candidate)) {
                let next = self.uids.len() + 1;
                let number = *self.uids.entry(uid.to_owned()).or_insert(next);
                result.extend(["(uid ", &number.to_string(), ")"]);
                rest = &rest[UID..];
            } else {
                result.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        result
    }
}

/// Sorts the unknown fields in a message: a patch keeps the order of fields that it copies, which is not that of the model.
fn sorted_fields(message: &str) -> String {
    const BEFORE: &str = "strict decoding error: ";
    let Some((before, fields)) = message.split_once(BEFORE) else { return message.to_owned() };
    let mut fields: Vec<&str> = fields.split(", ").collect();
    fields.sort_unstable();
    format!("{before}{BEFORE}{}", fields.join(", "))
}

/// Removes the digits after some texts: the server numbers types of rules by the time, and counts bytes of its own encoding.
fn without_numbers_after(text: &str, places: &[&str]) -> String {
    places.iter().fold(text.to_owned(), |text, place| {
        let mut parts = text.split(place);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            text + place + part.trim_start_matches(|char: char| char.is_ascii_digit())
        })
    })
}

/// Sorts the conditions of a CRD: several controllers of the real server write them, and the first one is the fastest.
fn sort_conditions(definition: &mut Map<String, Value>) {
    let conditions = definition.get_mut("status").and_then(|status| status.get_mut("conditions"));
    if let Some(Value::Array(conditions)) = conditions {
        conditions.sort_by_cached_key(|condition| condition["type"].to_string());
    }
}

/// Replaces the random suffix of names that begin with a prefix.
fn replace_generated(text: &str, prefix: &str) -> String {
    const RANDOM: usize = 5;
    let mut parts = text.split(prefix);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str(prefix);
        let random = part.get(..RANDOM);
        if random.is_some_and(|random| random.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            result.push_str("(random)");
            result.push_str(&part[RANDOM..]);
        } else {
            result.push_str(part);
        }
    }
    result
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

fn is_time(text: &str) -> bool {
    text.len() >= 20
        && text.ends_with('Z')
        && text.as_bytes()[4] == b'-'
        && text.as_bytes()[10] == b'T'
        && text.as_bytes()[13] == b':'
}

/// Returns whether a cell of a table is an age, such as `5s`, `3m10s` or `16y`.
fn is_age(text: &str) -> bool {
    text.ends_with(|last| "smhdy".contains(last))
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|each| each.is_ascii_digit() || "smhdy".contains(each))
}

/// Removes the causes from the message of a status. The message repeats them in an order that may differ from answer to answer,
/// and with the fields of whole objects in their own order. The causes are compared in `details`, and of the message only the
/// rest.
fn leave_causes_to_causes(status: &mut Value) {
    let causes = status.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(message) = status["message"].as_str() else { return };
    let mut message = message.to_owned();
    for cause in causes {
        if let (Some(field), Some(text)) = (cause["field"].as_str(), cause["message"].as_str()) {
            message = message.replacen(&format!("{field}: {text}"), "(cause)", 1);
        }
    }
    status["message"] = message.into();
}

/// Sorts the causes and removes duplicates. It also sorts the lines of a message that lists errors.
fn status(status: &mut Value) {
    if let Some((head, errors)) = status["message"].as_str().and_then(|text| text.split_once("errors:\n")) {
        let mut lines = errors.split('\n').collect::<Vec<_>>();
        lines.sort_unstable();
        status["message"] = format!("{head}errors:\n{}", lines.join("\n")).into();
    }
    if let Some(Value::Array(causes)) = status.pointer_mut("/details/causes") {
        causes.sort_by_cached_key(Value::to_string);
        // The server makes some checks twice; the message reports each mistake once.
        causes.dedup();
    }
}

/// Removes from lists the elements with a name that is not in `names`.
fn keep(value: &mut Value, names: &[String]) {
    match value {
        Value::Array(items) => {
            items.retain(|item| name_of(item).is_none_or(|name| names.iter().any(|kept| kept == name)));
            for item in items {
                keep(item, names);
            }
        }
        Value::Object(object) => {
            for value in object.values_mut() {
                keep(value, names);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn name_of(item: &Value) -> Option<&str> {
    let candidates = [&item["name"], &item["resource"], &item["subresource"], &item["metadata"]["name"]];
    candidates.into_iter().find_map(Value::as_str)
}
