//! Values and their types: the form of a value, whether it matches its type, and its fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::Step;
use super::set::Set;
use crate::cause::text;
use crate::schema::node::{At, DEPTH_MAX, Kind, ListType, MapType};

/// The possible forms of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forms {
    map: bool,
    scalar: bool,
    list: bool,
}

/// The form in which a value is processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Map,
    Scalar,
    List,
}

impl Forms {
    /// Returns the forms that the type permits, reduced to that of the value if it matches.
    pub(super) fn of(at: At<'_>, value: Option<&Value>) -> Self {
        let kind = at.node().kind;
        let any = kind == Kind::Any;
        let all = Self {
            map: any || kind == Kind::Object,
            list: any || kind == Kind::Array,
            scalar: any || !matches!(kind, Kind::Object | Kind::Array),
        };
        let none = Self { map: false, scalar: false, list: false };
        match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if all.scalar => {
                Self { scalar: true, ..none }
            }
            Some(Value::Array(_)) if all.list => Self { list: true, ..none },
            Some(Value::Object(_)) if all.map => Self { map: true, ..none },
            _ => all,
        }
    }

    pub(super) fn form(self) -> Form {
        if self.map {
            Form::Map
        } else if self.scalar {
            Form::Scalar
        } else {
            Form::List
        }
    }
}

/// Returns whether a map has one owner as a whole.
pub(super) fn is_atomic_map(at: At<'_>) -> bool {
    at.node().map == Some(MapType::Atomic)
}

/// Returns whether a list has one owner as a whole.
pub(super) fn is_atomic_list(at: At<'_>) -> bool {
    !matches!(at.node().list, Some(ListType::Set | ListType::Map(_)))
}

/// Returns the step that identifies an item of an associative list.
pub(super) fn item_step(at: At<'_>, item: &Value) -> Result<Step, String> {
    match &at.node().list {
        Some(ListType::Map(keys)) if !keys.is_empty() => keyed(at, keys, item),
        Some(ListType::Set | ListType::Map(_)) => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(Step::Value(scalar.clone())),
        },
        Some(ListType::Atomic) | None => Err("invalid indexing of non-associative list".to_owned()),
    }
}

fn keyed(at: At<'_>, keys: &[String], item: &Value) -> Result<Step, String> {
    let map = match item {
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        Value::Object(map) => map,
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut fields: Vec<(String, Value)> = Vec::with_capacity(keys.len());
    for key in keys {
        let default = || at.items()?.field(key)?.node().default.as_ref();
        if let Some(value) = map.get(key).or_else(default) {
            fields.push((key.clone(), value.clone()));
        }
    }
    if fields.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| text::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    fields.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(Step::Key(fields))
}

/// Checks that a value matches its type; `duplicates` allows items with the same key.
pub(super) fn check(at: At<'_>, value: &Value, duplicates: bool) -> Result<(), String> {
    let mut check = Check { duplicates, path: Vec::new(), errors: Vec::new() };
    check.value(at, value);
    match check.errors.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        several => Err(format!("errors:\n  {}", several.join("\n  "))),
    }
}

struct Check<'v> {
    duplicates: bool,
    path: Vec<Place<'v>>,
    errors: Vec<String>,
}

/// One part of the path of a value; messages need it, valid values do not.
enum Place<'v> {
    Field(&'v str),
    Item(Step),
}

impl<'v> Check<'v> {
    fn fail(&mut self, message: &str) {
        let part = |place: &Place<'_>| match place {
            Place::Field(key) => format!(".{key}"),
            Place::Item(step) => step.to_string(),
        };
        let path: String = self.path.iter().map(part).collect();
        self.errors.push(if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") });
    }

    fn value(&mut self, at: At<'_>, value: &'v Value) {
        if self.path.len() > DEPTH_MAX {
            return self.fail("nested too deeply");
        }
        match Forms::of(at, Some(value)).form() {
            Form::Scalar => {
                if let Err(error) = scalar(at, value) {
                    self.fail(&error);
                }
            }
            Form::Map => match value {
                Value::Object(map) => self.map(at, map),
                Value::Null => {}
                _ => self.fail(&format!("expected map, got &{{{}}}", text::plain(value))),
            },
            Form::List => match value {
                Value::Array(list) => self.list(at, list),
                Value::Null => {}
                _ => self.fail(&format!("expected list, got &{{{}}}", text::plain(value))),
            },
        }
    }

    fn map(&mut self, at: At<'_>, map: &'v Map<String, Value>) {
        for (key, value) in map {
            self.path.push(Place::Field(key));
            let child = at.child(key);
            match child {
                Some(child) => self.value(child, value),
                None => self.fail("field not declared in schema"),
            }
            self.path.pop();
            if child.is_none() {
                return;
            }
        }
    }

    fn list(&mut self, at: At<'_>, list: &'v [Value]) {
        let Some(items) = at.items() else { return };
        let mut seen = BTreeSet::new();
        for (index, item) in list.iter().enumerate() {
            let step = if is_atomic_list(at) {
                Step::Index(i64::try_from(index).unwrap_or(i64::MAX))
            } else {
                match item_step(at, item) {
                    Ok(step) => step,
                    Err(error) => return self.fail(&format!("element {index}: {error}")),
                }
            };
            if !is_atomic_list(at) && !seen.insert(step.clone()) && !self.duplicates {
                self.fail(&format!("duplicate entries for key {step}"));
            }
            self.path.push(Place::Item(step));
            self.value(items, item);
            self.path.pop();
        }
    }
}

fn scalar(at: At<'_>, value: &Value) -> Result<(), String> {
    let node = at.node();
    let any = |what: &str| match value {
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Null => Ok(()),
        _ => Err(format!("expected {what}, got &{{{}}}", text::plain(value))),
    };
    match node.kind {
        Kind::Integer | Kind::Number if !value.is_number() && !value.is_null() => {
            Err(format!("expected numeric (int or float), got {}", text::type_name(value)))
        }
        Kind::Boolean if !value.is_boolean() && !value.is_null() => {
            Err(format!("expected boolean, got &{{{}}}", text::plain(value)))
        }
        Kind::String if matches!(node.format.as_deref(), None | Some("" | "byte")) => {
            if value.is_string() || value.is_null() {
                return Ok(());
            }
            Err(format!("expected string, got &value.valueUnstructured{{Value:{}}}", text::source(value)))
        }
        Kind::Integer | Kind::Number | Kind::Boolean => Ok(()),
        _ => any("any scalar"),
    }
}

/// Returns the fields of a value.
pub(super) fn fields(at: At<'_>, value: &Value) -> Set {
    let mut set = Set::default();
    collect(at, value, &mut Vec::new(), &mut set);
    set
}

fn collect(at: At<'_>, value: &Value, path: &mut Vec<Step>, set: &mut Set) {
    if path.len() > DEPTH_MAX {
        return;
    }
    match Forms::of(at, Some(value)).form() {
        Form::Scalar => set.insert(path),
        Form::Map if is_atomic_map(at) => set.insert(path),
        Form::List if is_atomic_list(at) => set.insert(path),
        Form::Map => {
            for (key, value) in value.as_object().into_iter().flatten() {
                path.push(Step::field(key));
                if let Some(child) = at.child(key) {
                    collect(child, value, path, set);
                }
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if is_empty || at.field(key).is_none() {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Form::List => {
            let Some(items) = at.items() else { return };
            let list = value.as_array().map_or(&[][..], Vec::as_slice);
            let steps: Vec<Option<Step>> = list.iter().map(|item| item_step(at, item).ok()).collect();
            let mut times: BTreeMap<&Step, usize> = BTreeMap::new();
            for step in steps.iter().flatten() {
                *times.entry(step).or_default() += 1;
            }
            for (step, item) in steps.iter().zip(list) {
                let Some(step) = step else { continue };
                path.push(step.clone());
                // For items with the same key, only the item itself is a field.
                if times.get(step) == Some(&1) {
                    collect(items, item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
    }
}
