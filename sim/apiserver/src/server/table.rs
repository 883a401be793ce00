//! Tables for `kubectl get`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::form::Include;
use super::registry::Origin;
use super::scope::Scope;
use crate::builtin;

mod jsonpath;

/// Returns the rows and columns of some objects, as a table of a version of `meta.k8s.io`; the caller sets `metadata`.
pub(super) fn render(
    scope: &Scope,
    objects: &[Arc<Value>],
    version: &str,
    include: Include,
    now: Timestamp,
) -> Value {
    let columns = columns(scope);
    let mut rows: Value = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": cells(scope, object, now)});
            match include {
                Include::Nothing => row["object"] = Value::Null,
                Include::Metadata => {
                    row["object"] = json!({
                        "kind": "PartialObjectMetadata",
                        "apiVersion": version,
                        "metadata": builtin::metadata_alone(object),
                    });
                }
                Include::Object => row["object"] = (**object).clone(),
            }
            row
        })
        .collect();
    if objects.is_empty() && has_default_printer(scope) {
        rows = Value::Null;
    }
    json!({
        "kind": "Table",
        "apiVersion": version,
        "metadata": {},
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// Returns whether the server has no printer of its own for the kind. The default one has no rows instead of an empty list.
fn has_default_printer(scope: &Scope) -> bool {
    let resource = &scope.resource;
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("", "limitranges")
            | ("rbac.authorization.k8s.io", "roles" | "clusterroles")
            | ("storage.k8s.io", "csistoragecapacities")
    )
}

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

const NAME: (&str, &str) = (
    "Name",
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
);

fn columns(scope: &Scope) -> Vec<Value> {
    match &scope.version().origin {
        Origin::Builtin(resource) => builtin::columns(resource)
            .iter()
            .map(|(name, kind, format, description, priority)| {
                column(name, kind, format, description, *priority)
            })
            .collect(),
        Origin::Custom(entry) => {
            let mut columns = vec![column(NAME.0, "string", "name", NAME.1, 0)];
            columns.extend(printer_columns(entry).iter().map(|printer| {
                let text = |key: &str| printer.get(key).and_then(Value::as_str).unwrap_or_default();
                let priority = printer.get("priority").and_then(Value::as_i64).unwrap_or_default();
                let description = match text("description") {
                    "" => format!(
                        "Custom resource definition column (in JSONPath format): {}",
                        text("jsonPath")
                    ),
                    description => description.to_owned(),
                };
                column(text("name"), text("type"), text("format"), &description, priority)
            }));
            columns
        }
    }
}

/// Returns the printer columns of a CRD version; the age if there are none.
fn printer_columns(entry: &Value) -> Vec<Value> {
    match entry.get("additionalPrinterColumns").and_then(Value::as_array) {
        Some(columns) if !columns.is_empty() => columns.clone(),
        _ => vec![json!({
            "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            "description": "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
        })],
    }
}

fn cells(scope: &Scope, object: &Value, now: Timestamp) -> Vec<Value> {
    match &scope.version().origin {
        Origin::Builtin(resource) => builtin::cells(resource, object, now.as_second()),
        Origin::Custom(entry) => {
            let mut cells = vec![Value::from(super::meta::name(object))];
            cells.extend(printer_columns(entry).iter().map(|printer| {
                let text = |key: &str| printer.get(key).and_then(Value::as_str).unwrap_or_default();
                cell(&jsonpath::find(object, text("jsonPath")), text("type"), now)
            }));
            cells
        }
    }
}

/// Returns one cell of a custom column.
fn cell(found: &[&Value], kind: &str, now: Timestamp) -> Value {
    let Some(first) = found.first() else { return Value::Null };
    match kind {
        "integer" => first.as_i64().map_or(Value::Null, Value::from),
        "number" => first.as_f64().map_or(Value::Null, Value::from),
        "boolean" => first.as_bool().map_or(Value::Null, Value::from),
        "string" => {
            let texts: Vec<String> = found.iter().map(|value| plain(value)).collect();
            texts.join(",").into()
        }
        "date" => match first.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
            Some(then) => age(now.as_second() - then.as_second()).into(),
            None => "<unknown>".into(),
        },
        _ => Value::Null,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats a duration as kubectl formats ages.
fn age(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |major: i64, unit: &str, minor: i64, small: &str| {
        if minor == 0 { format!("{major}{unit}") } else { format!("{major}{unit}{minor}{small}") }
    };
    match seconds {
        i64::MIN..-1 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_read_as_in_kubectl() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3600, "60m"),
            (10_860, "3h1m"),
            (864_000, "10d"),
        ] {
            assert_eq!(age(seconds), text);
        }
    }
}
