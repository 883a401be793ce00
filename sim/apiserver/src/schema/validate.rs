//! Validates values with the keywords of a schema.
//!
//! On updates, errors that existed before and have not changed are accepted, as far as old and new values can be matched.

mod finding;
mod format;
mod number;

use serde_json::{Map, Value};

use super::node::{At, Checks, DEPTH_MAX, Extra, Kind, UNTYPED};
use super::place::Place;
use super::ratchet::{matching, unchanged};
use crate::cause::{Cause, text};
use finding::{Finding, Origin, Verdict};

/// Returns the causes for the values of an object; `old` is the stored object on update.
pub(super) fn values(root: At<'_>, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let walk = Walk { origin: Origin("") };
    walk.value(root, object, old, Place::Root, 0).findings.into_iter().map(|finding| finding.cause).collect()
}

/// Returns the causes for the values of an object's status.
pub(super) fn status(root: At<'_>, object: &Value, old: &Value) -> Vec<Cause> {
    let (Some(at), Some(status)) = (root.declared("status"), object.get("status")) else { return Vec::new() };
    let walk = Walk { origin: Origin("status") };
    walk.value(at, status, old.get("status"), Place::Root, 0)
        .findings
        .into_iter()
        .map(|finding| finding.cause)
        .collect()
}

/// Returns the causes for the value of a field.
pub(super) fn under(at: At<'_>, value: &Value, field: &str) -> Vec<Cause> {
    let walk = Walk { origin: Origin(field) };
    walk.value(at, value, None, Place::Root, 0).findings.into_iter().map(|finding| finding.cause).collect()
}

struct Walk<'p> {
    origin: Origin<'p>,
}

impl Walk<'_> {
    fn value(
        &self,
        at: At<'_>,
        value: &Value,
        old: Option<&Value>,
        path: Place<'_>,
        depth: usize,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        if depth > DEPTH_MAX {
            return verdict;
        }
        self.types(at, value, path, &mut verdict);
        let default = Checks::default();
        let checks = at.node().checks.as_deref().unwrap_or(&default);
        if value.is_null() {
            self.enumeration(checks, value, path, &mut verdict);
            return verdict;
        }
        verdict.matched += 1;
        self.alternatives(at, checks, value, old, path, depth, &mut verdict);
        verdict.matched += 1;
        match value {
            Value::String(string) => {
                self.string(checks, string, value, path, &mut verdict);
                verdict.matched += 1;
                if let Some(format) = format::applicable(at.node()) {
                    if !format::is_valid(format, string) {
                        verdict.push(self.origin.wrong_type(path, format, string));
                    }
                    verdict.matched += 1;
                }
            }
            Value::Number(number) => {
                number::check(self.origin, at.node(), checks, number, path, &mut verdict);
                verdict.matched += 2;
            }
            Value::Array(list) => {
                self.list(at, checks, list, old, path, depth, &mut verdict);
                verdict.matched += 2;
            }
            _ => {}
        }
        self.enumeration(checks, value, path, &mut verdict);
        verdict.matched += 1;
        if let Value::Object(map) = value {
            self.map(at, checks, map, old, path, depth, &mut verdict);
            verdict.matched += 1;
        }
        verdict.matched += 1;
        if !verdict.is_ok() && old.is_some_and(|old| unchanged(at, old, value, depth)) {
            verdict.findings.clear();
        }
        verdict
    }

    fn types(&self, at: At<'_>, value: &Value, path: Place<'_>, verdict: &mut Verdict) {
        let node = at.node();
        let types: &[&str] = if node.int_or_string {
            &["integer", "string"]
        } else if matches!(node.kind, Kind::Any | Kind::Scalar) {
            &[]
        } else {
            std::slice::from_ref(match node.kind {
                Kind::Object => &"object",
                Kind::Array => &"array",
                Kind::String => &"string",
                Kind::Integer => &"integer",
                Kind::Number => &"number",
                _ => &"boolean",
            })
        };
        let format = format::applicable(node);
        if types.is_empty() && format.is_none() {
            return;
        }
        let expected = types.join(",");
        let (actual, actual_format) = match value {
            Value::Null => {
                if !types.is_empty() && !node.nullable {
                    verdict.push(self.origin.wrong_type(path, &expected, "null"));
                } else {
                    verdict.matched += 1;
                }
                return;
            }
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
            Value::Number(number) if number.is_i64() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
        };
        let whole = !value.is_i64() && value.as_f64().is_some_and(number::is_json_integer);
        let fits = types.contains(&actual)
            || (whole && types.contains(&"integer"))
            || (actual == "integer" && types.contains(&"number"));
        let is_text = matches!(value, Value::String(_) | Value::Array(_));
        match format {
            Some(format) if !is_text && !fits && format != actual_format => {
                verdict.push(self.origin.wrong_type(path, format, actual_format));
            }
            Some(_) if is_text && !types.contains(&"number") && !types.contains(&"integer") => {
                verdict.matched += 1;
            }
            _ if !fits => verdict.push(self.origin.wrong_type(path, &expected, actual)),
            _ => verdict.matched += 1,
        }
    }

    fn enumeration(&self, checks: &Checks, value: &Value, path: Place<'_>, verdict: &mut Verdict) {
        if checks.enumeration.is_empty() || checks.enumeration.iter().any(|allowed| same(allowed, value)) {
            return;
        }
        let names: Vec<String> = checks
            .enumeration
            .iter()
            .map(|allowed| allowed.as_str().map_or_else(|| text::json(allowed), str::to_owned))
            .collect();
        let text = format!(
            "{path} in body should be one of {}",
            text::plain(&Value::from(checks.enumeration.clone()))
        );
        verdict.push(Finding { cause: Cause::unsupported(self.origin.field(path), value, &names), text });
    }

    fn string(&self, checks: &Checks, string: &str, value: &Value, path: Place<'_>, verdict: &mut Verdict) {
        let length = i64::try_from(string.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            let text = format!("{path} in body should be at most {max} chars long");
            verdict.push(Finding { cause: Cause::too_long(self.origin.field(path), max), text });
        } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
            verdict.push(self.origin.invalid(
                path,
                value,
                format!("{path} in body should be at least {min} chars long"),
            ));
        } else if let Some(pattern) = &checks.pattern
            && !pattern.regex.as_ref().is_some_and(|regex| regex.is_match(string))
        {
            verdict.push(self.origin.invalid(
                path,
                value,
                format!("{path} in body should match '{}'", pattern.source),
            ));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the state of one step of the walk")]
    fn list(
        &self,
        at: At<'_>,
        checks: &Checks,
        list: &[Value],
        old: Option<&Value>,
        path: Place<'_>,
        depth: usize,
        verdict: &mut Verdict,
    ) {
        if let Some(items) = at.items().filter(|items| items.id > UNTYPED) {
            for (index, item) in list.iter().enumerate() {
                let old = old.and_then(|old| matching(at, old, item));
                verdict.merge(self.value(items, item, old, Place::Item(&path, index), depth + 1));
            }
        }
        let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
        if let Some(min) = checks.min_items.filter(|min| size < *min) {
            let text = format!("{path} in body should have at least {min} items");
            verdict.push(self.origin.invalid(path, &Value::from(size), text));
        }
        if let Some(max) = checks.max_items.filter(|max| size > *max) {
            let text = format!("{path} in body should have at most {max} items");
            verdict.push(Finding { cause: Cause::too_many(self.origin.field(path), list.len(), max), text });
        }
        let has_twins =
            || list.iter().enumerate().any(|(index, item)| list[..index].iter().any(|other| other == item));
        if checks.unique_items && has_twins() {
            verdict.push(self.origin.invalid(
                path,
                &Value::from(""),
                format!("{path} in body shouldn't contain duplicates"),
            ));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the state of one step of the walk")]
    fn map(
        &self,
        at: At<'_>,
        checks: &Checks,
        map: &Map<String, Value>,
        old: Option<&Value>,
        path: Place<'_>,
        depth: usize,
        verdict: &mut Verdict,
    ) {
        let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(min) = checks.min_properties.filter(|min| size < *min) {
            let text = format!("{path} in body should have at least {min} properties");
            verdict.push(self.origin.invalid(path, &Value::from(size), text));
        }
        if let Some(max) = checks.max_properties.filter(|max| size > *max) {
            let text = format!("{path} in body should have at most {max} properties");
            verdict.push(Finding { cause: Cause::too_many(self.origin.field(path), map.len(), max), text });
        }
        for (key, value) in map {
            let is_property = at.node().fields.contains_key(key);
            let forbidden = at.node().extra == Extra::Allowed(false) && !is_property;
            if forbidden {
                let text = format!("{path}.{key} in body is a forbidden property");
                verdict.push(self.origin.invalid(path, &Value::from(key.as_str()), text));
                continue;
            }
            let Some(child) = at.declared(key) else { continue };
            let below = if is_property { Place::Field(&path, key) } else { Place::Dotted(&path, key) };
            let is_type =
                path.is_empty() && self.origin.0.is_empty() && matches!(key.as_str(), "kind" | "apiVersion");
            let old = old.filter(|_| !is_type).and_then(|old| old.get(key));
            verdict.merge(self.value(child, value, old, below, depth + 1));
        }
        for key in checks.required.iter().filter(|key| !map.contains_key(*key)) {
            let text = format!("{path}.{key} in body is required");
            let cause = Cause::required(self.origin.field(Place::Dotted(&path, key)), "");
            verdict.push(Finding { text, cause });
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the state of one step of the walk")]
    fn alternatives(
        &self,
        at: At<'_>,
        checks: &Checks,
        value: &Value,
        old: Option<&Value>,
        path: Place<'_>,
        depth: usize,
        verdict: &mut Verdict,
    ) {
        let judge = |id: &usize| self.value(at.to(*id), value, old, path, depth + 1);
        if !checks.any_of.is_empty() {
            let (passed, best) = best_of(checks.any_of.iter().map(judge), true);
            if passed == 0 {
                verdict.push(self.origin.general(format!(
                    "{} must validate at least one schema (anyOf)",
                    text::quote(&path.to_string())
                )));
            }
            verdict.merge(best);
        }
        if !checks.one_of.is_empty() {
            let (passed, best) = best_of(checks.one_of.iter().map(judge), false);
            if passed != 1 {
                let found = if passed == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {passed} valid alternatives")
                };
                let path = text::quote(&path.to_string());
                let text = format!("{path} must validate one and only one schema (oneOf). {found}");
                verdict.push(self.origin.general(text));
            }
            if passed <= 1 {
                verdict.merge(best);
            }
        }
        let mut passed = 0;
        for id in &checks.all_of {
            let result = judge(id);
            passed += usize::from(result.is_ok());
            verdict.merge(result);
        }
        if passed != checks.all_of.len() {
            let none = if passed == 0 { ". None validated" } else { "" };
            verdict.push(self.origin.general(format!(
                "{} must validate all the schemas (allOf){none}",
                text::quote(&path.to_string())
            )));
        }
        if let Some(not) = &checks.not
            && judge(not).is_ok()
        {
            verdict.push(
                self.origin.general(format!(
                    "{} must not validate the schema (not)",
                    text::quote(&path.to_string())
                )),
            );
        }
    }
}

/// Returns how many of the alternatives match, and the first that does, or else the closest one.
fn best_of(results: impl Iterator<Item = Verdict>, stop_at_first: bool) -> (usize, Verdict) {
    let mut passed = 0;
    let mut success = None;
    let mut failure: Option<Verdict> = None;
    for result in results {
        if result.is_ok() {
            passed += 1;
            success = success.or(Some(result));
            if stop_at_first {
                break;
            }
        } else if failure.as_ref().is_none_or(|best| result.matched > best.matched) {
            failure = Some(result);
        }
    }
    (passed, success.or(failure).unwrap_or_default())
}

/// Returns whether a value equals an entry of an enumeration; the server truncates a float to compare it with an integer.
fn same(allowed: &Value, value: &Value) -> bool {
    match (allowed, value) {
        (Value::Number(allowed), Value::Number(value)) => {
            let (left, right) = (allowed.as_f64().unwrap_or_default(), value.as_f64().unwrap_or_default());
            let right = if value.is_f64() && !allowed.is_f64() { right.trunc() } else { right };
            allowed == value || left.total_cmp(&right).is_eq()
        }
        _ => allowed == value,
    }
}

#[cfg(test)]
mod tests;
