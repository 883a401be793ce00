//! The validation of what the versions of a CRD declare besides a schema.
//!
//! In the server's internal form, a CRD whose versions agree about one of these declares it for all versions together: causes then
//! name the field of the CRD.

use serde_json::{Map, Value};

use super::definition::{text, versions};
use crate::cause::Cause;
use crate::schema::path::{self, Brackets};

/// Maximum number of selectable fields of a version.
const SELECTABLE_FIELDS_MAX: i64 = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Checks all versions.
pub(super) fn check(definition: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, version) in versions(definition).enumerate() {
        let field = format!("spec.versions[{index}].deprecationWarning");
        causes.extend(deprecation_warning(version, &field));
    }
    for (field, columns) in places(definition, "additionalPrinterColumns") {
        for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
            causes.extend(printer_column(column, &format!("{field}[{index}]")));
        }
    }
    for (field, subresources) in places(definition, "subresources") {
        causes.extend(scale(subresources, &field));
    }
    causes.extend(all_selectable_fields(definition));
    causes
}

/// Returns whether all versions declare the same; nothing and an empty list are the same.
pub(super) fn is_shared(definition: &Value, key: &str) -> bool {
    let declared = |version: &Value| match version.get(key) {
        None | Some(Value::Null) => None,
        Some(Value::Array(list)) if list.is_empty() => None,
        Some(value) => Some(value.clone()),
    };
    let mut all = versions(definition).map(declared);
    let first = all.next();
    all.all(|other| Some(other) == first)
}

/// Returns the declarations of a CRD under a key, with the fields that causes name.
fn places<'v>(definition: &'v Value, key: &str) -> Vec<(String, &'v Value)> {
    let declared = versions(definition).map(|version| version.get(key).unwrap_or(&Value::Null)).enumerate();
    if is_shared(definition, key) {
        declared.take(1).map(|(_, value)| (format!("spec.{key}"), value)).collect()
    } else {
        declared.map(|(index, value)| (format!("spec.versions[{index}].{key}"), value)).collect()
    }
}

fn deprecation_warning(version: &Value, field: &str) -> Vec<Cause> {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return Vec::new() };
    let mut problems = Vec::new();
    if version.get("deprecated") == Some(&Value::Bool(true)) {
        if warning.len() > 256 {
            problems.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            problems.push("must not be an empty string".to_owned());
        }
        if let Some((index, _)) = warning.char_indices().find(|(_, char)| char.is_control()) {
            problems.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {index}"
            ));
        }
    } else {
        problems.push("can only be set for deprecated versions".to_owned());
    }
    problems.iter().map(|why| Cause::invalid(field, &Value::from(warning), why)).collect()
}

fn printer_column(column: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (kind, format, path) = (text(column, "/type"), text(column, "/format"), text(column, "/jsonPath"));
    if text(column, "/name").is_empty() {
        causes.push(Cause::required(format!("{field}.name"), ""));
    }
    let expected = format!("must be one of {}", COLUMN_TYPES.join(","));
    if kind.is_empty() {
        causes.push(Cause::required(format!("{field}.type"), &expected));
    } else if !COLUMN_TYPES.contains(&kind) {
        causes.push(Cause::invalid(format!("{field}.type"), &Value::from(kind), &expected));
    }
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let expected = format!("must be one of {}", COLUMN_FORMATS.join(","));
        causes.push(Cause::invalid(format!("{field}.format"), &Value::from(format), &expected));
    }
    let field = format!("{field}.JSONPath");
    if path.is_empty() {
        causes.push(Cause::required(field, ""));
    } else {
        causes.extend(simple_path(path, &field));
    }
    causes
}

fn simple_path(path: &str, field: &str) -> Option<Cause> {
    let detail = "must be a simple json path starting with .";
    (!path.starts_with('.')).then(|| Cause::invalid(field, &Value::from(path), detail))
}

fn scale(subresources: &Value, field: &str) -> Vec<Cause> {
    let Some(scale) = subresources.get("scale").filter(|scale| scale.is_object()) else { return Vec::new() };
    let path_under = |key: &str, parents: &[&str], place: &str| {
        let path = text(scale, &format!("/{key}"));
        let field = format!("{field}.scale.{key}");
        if path.is_empty() {
            return (key != "labelSelectorPath").then(|| Cause::required(field, ""));
        }
        let is_under = parents.iter().any(|parent| path.starts_with(parent));
        let detail = format!("should be a json path under {place}");
        simple_path(path, &field)
            .or_else(|| (!is_under).then(|| Cause::invalid(field, &Value::from(path), &detail)))
    };
    [
        path_under("specReplicasPath", &[".spec."], ".spec"),
        path_under("statusReplicasPath", &[".status."], ".status"),
        path_under("labelSelectorPath", &[".spec.", ".status."], "either .spec or .status"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn all_selectable_fields(definition: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let fields_shared = is_shared(definition, "selectableFields");
    // The server looks for the schema only where it looks for the fields: both are declared for all versions, or both for each.
    let same_place = fields_shared == is_shared(definition, "schema");
    let schemas = versions(definition).map(|version| version.pointer("/schema/openAPIV3Schema"));
    for ((field, fields), schema) in places(definition, "selectableFields").into_iter().zip(schemas) {
        let fields = fields.as_array().map(Vec::as_slice).unwrap_or_default();
        match schema.and_then(Value::as_object).filter(|_| same_place) {
            _ if fields.is_empty() => {}
            Some(schema) => causes.extend(selectable_fields(fields, schema, &field)),
            None => {
                let detail = if fields_shared {
                    "may only be set when validations.schema is included"
                } else {
                    "may only be set when `version.schema.openAPIV3Schema` is not included"
                };
                causes.push(Cause::invalid(field, &Value::from(""), detail));
            }
        }
    }
    causes
}

fn selectable_fields(fields: &[Value], schema: &Map<String, Value>, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut known: Vec<Vec<String>> = Vec::new();
    for (index, selectable) in fields.iter().enumerate() {
        let field = format!("{field}[{index}].jsonPath");
        let path = text(selectable, "/jsonPath");
        let value = Value::from(path);
        if path.is_empty() {
            causes.push(Cause::required(field, ""));
            continue;
        }
        let (names, found) = match path::resolve(schema, path, Brackets::Forbidden) {
            Ok(found) => found,
            Err(why) => {
                causes.push(Cause::invalid(field, &value, &format!("is an invalid path: {why}")));
                continue;
            }
        };
        if names.first().is_some_and(|root| root == "metadata") {
            causes.push(Cause::invalid(field.clone(), &value, "must not point to fields in metadata"));
        }
        let kind = found.get("type").and_then(Value::as_str).unwrap_or_default();
        if !["string", "boolean", "integer"].contains(&kind) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            causes.push(Cause::invalid(field.clone(), &value, detail));
        }
        if known.contains(&names) {
            causes.push(Cause::duplicate(field, &value));
        } else {
            known.push(names);
        }
    }
    let max = usize::try_from(SELECTABLE_FIELDS_MAX).unwrap_or_default();
    if known.len() > max {
        causes.push(Cause::too_many(field, known.len(), SELECTABLE_FIELDS_MAX));
    }
    causes
}
