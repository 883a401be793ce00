//! The validation of CRDs.

use serde_json::Value;

use super::definition::{text, versions};
use crate::cause::Cause;
use crate::schema::Schema;
use crate::server::meta;
use crate::server::names;
use crate::server::status::quote;

fn required(field: &str) -> Cause {
    Cause { reason: "FieldValueRequired", field: field.to_owned(), message: "Required value".to_owned() }
}

fn invalid(field: &str, value: &str, why: &str) -> Cause {
    Cause {
        reason: "FieldValueInvalid",
        field: field.to_owned(),
        message: format!("Invalid value: {value}: {why}"),
    }
}

/// Validates a definition; `old` is the stored one on update.
pub(crate) fn validate(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let expected = format!("{plural}.{group}");
    if old.is_none() && meta::name(definition) != expected {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(invalid("metadata.name", &quote(meta::name(definition)), why));
    }
    causes.extend(check_group(group));
    match text(definition, "/spec/scope") {
        "Namespaced" | "Cluster" => {}
        "" => causes.push(required("spec.scope")),
        other => causes.push(Cause {
            reason: "FieldValueNotSupported",
            field: "spec.scope".to_owned(),
            message: format!(
                r#"Unsupported value: {}: supported values: "Cluster", "Namespaced""#,
                quote(other)
            ),
        }),
    }
    causes.extend(check_names(definition));
    causes.extend(check_versions(definition));
    if let Some(old) = old {
        causes.extend(check_immutable(definition, old));
    }
    causes
}

fn check_group(group: &str) -> Vec<Cause> {
    if group.is_empty() {
        return vec![required("spec.group")];
    }
    let mut causes: Vec<Cause> =
        names::subdomain(group).iter().map(|why| invalid("spec.group", &quote(group), why)).collect();
    if causes.is_empty() && !group.contains('.') {
        causes.push(invalid("spec.group", &quote(group), "should be a domain with at least one dot"));
    }
    causes
}

fn check_names(definition: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for key in ["plural", "singular", "kind", "listKind"] {
        let name = text(definition, &format!("/spec/names/{key}"));
        let field = format!("spec.names.{key}");
        if name.is_empty() {
            causes.push(required(&field));
            continue;
        }
        causes.extend(
            names::label_1035(&name.to_lowercase()).iter().map(|why| invalid(&field, &quote(name), why)),
        );
    }
    if text(definition, "/spec/names/kind") == text(definition, "/spec/names/listKind")
        && !text(definition, "/spec/names/kind").is_empty()
    {
        let kind = quote(text(definition, "/spec/names/listKind"));
        causes.push(invalid("spec.names.listKind", &kind, "kind and listKind may not be the same"));
    }
    causes
}

fn check_versions(definition: &Value) -> Vec<Cause> {
    let field = "spec.versions";
    let mut causes = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut storage = 0;
    let mut schemas = versions(definition).map(|version| version.get("schema"));
    let first = schemas.next();
    let shared = schemas.all(|schema| Some(schema) == first);
    for (index, version) in versions(definition).enumerate() {
        let at = |path: &str| format!("{field}[{index}]{path}");
        let name = text(version, "/name");
        causes.extend(names::label_1035(name).iter().map(|why| invalid(&at(".name"), &quote(name), why)));
        if seen.contains(&name) {
            causes.push(Cause {
                reason: "FieldValueDuplicate",
                field: at(".name"),
                message: format!("Duplicate value: {}", quote(name)),
            });
        }
        seen.push(name);
        storage += usize::from(version.get("storage") == Some(&Value::Bool(true)));
        match version.pointer("/schema/openAPIV3Schema") {
            None => {
                causes.push(required(&at(".schema.openAPIV3Schema")));
            }
            Some(schema) => {
                if let Err(problems) = Schema::from_crd(schema) {
                    // A schema that all versions share is validated as that of the definition.
                    let prefix = if shared { "spec.validation".to_owned() } else { at(".schema") };
                    causes.extend(problems.into_iter().map(|mut cause| {
                        cause.field = format!("{prefix}.{}", cause.field);
                        cause
                    }));
                }
            }
        }
    }
    if seen.is_empty() {
        causes.push(invalid(field, "[]", "must have exactly one version marked as storage version"));
        causes.push(invalid("status.storedVersions", "null", "must have at least one stored version"));
    } else if storage != 1 {
        let list = definition.pointer("/spec/versions").map(ToString::to_string).unwrap_or_default();
        causes.push(invalid(field, &list, "must have exactly one version marked as storage version"));
    }
    causes
}

fn check_immutable(definition: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for pointer in ["/spec/group", "/spec/scope", "/spec/names/plural", "/spec/names/kind"] {
        let (new, old) = (text(definition, pointer), text(old, pointer));
        if new != old {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            causes.push(invalid(&field, &quote(new), "field is immutable"));
        }
    }
    let served: Vec<&str> = versions(definition).map(|version| text(version, "/name")).collect();
    for (index, stored) in meta::strings(definition.pointer("/status/storedVersions")).into_iter().enumerate()
    {
        if !served.contains(&stored) {
            causes.push(invalid(
                &format!("status.storedVersions[{index}]"),
                &quote(stored),
                "missing from spec.versions; v1beta1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1beta1 and removes v1beta1 from status.storedVersions"
                    .replace("v1beta1", stored)
                    .as_str(),
            ));
        }
    }
    causes
}
