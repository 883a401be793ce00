//! The validation of CRDs.

use serde_json::Value;

use super::definition::{text, versions};
use super::{approval, conversion, version};
use crate::cause::Cause;
use crate::schema::Schema;
use crate::schema::node::DEPTH_MAX;
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
    causes.extend(version::check(definition));
    causes.extend(conversion::check(definition));
    causes.extend(approval::check(definition, old));
    causes.extend(check_pruning(definition));
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
        let is_kind = key == "kind" || key == "listKind";
        let found = names::label_1035(&if is_kind { name.to_lowercase() } else { name.to_owned() });
        if !found.is_empty() {
            let found = found.join(",");
            let why = if is_kind {
                format!("may have mixed case, but should otherwise match: {found}")
            } else {
                found
            };
            causes.push(invalid(&field, &quote(name), &why));
        }
    }
    for key in ["shortNames", "categories"] {
        let listed = meta::strings(definition.pointer(&format!("/spec/names/{key}")));
        for (index, name) in listed.into_iter().enumerate() {
            let found = names::label_1035(name);
            if !found.is_empty() {
                causes.push(invalid(&format!("spec.names.{key}[{index}]"), &quote(name), &found.join(",")));
            }
        }
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
    let (mut storage, mut is_unique) = (0, true);
    let shared = version::is_shared(definition, "schema");
    for (index, version) in versions(definition).enumerate() {
        let at = |path: &str| format!("{field}[{index}]{path}");
        let name = text(version, "/name");
        causes.extend(names::label_1035(name).iter().map(|why| invalid(&at(".name"), &quote(name), why)));
        is_unique &= !seen.contains(&name);
        seen.push(name);
        storage += usize::from(version.get("storage") == Some(&Value::Bool(true)));
        match version.pointer("/schema/openAPIV3Schema") {
            None => {
                causes.push(required(&at(".schema.openAPIV3Schema")));
            }
            // A schema that all versions share is validated as that of the definition.
            Some(_) if shared && index > 0 => {}
            Some(schema) => {
                let prefix = if shared { "spec.validation".to_owned() } else { at(".schema") };
                if has_status(definition, (!shared).then_some(index)) {
                    causes.extend(root_beside_status(schema, &format!("{prefix}.openAPIV3Schema")));
                }
                if let Err(problems) = Schema::from_crd(schema) {
                    causes.extend(problems.into_iter().map(|mut cause| {
                        cause.field = format!("{prefix}.{}", cause.field);
                        cause
                    }));
                }
            }
        }
    }
    let list = || definition.pointer("/spec/versions").map(ToString::to_string).unwrap_or_default();
    if !is_unique {
        causes.push(invalid(field, &list(), "must contain unique version names"));
    }
    if seen.is_empty() {
        causes.push(invalid(field, "[]", "must have exactly one version marked as storage version"));
        causes.push(invalid("status.storedVersions", "null", "must have at least one stored version"));
    } else if storage != 1 {
        causes.push(invalid(field, &list(), "must have exactly one version marked as storage version"));
    }
    causes
}

/// Returns whether a version has a status endpoint or, without a version, whether any has.
fn has_status(definition: &Value, version: Option<usize>) -> bool {
    let mut all = versions(definition).enumerate();
    all.any(|(index, entry)| {
        version.is_none_or(|wanted| wanted == index)
            && entry.pointer("/subresources/status").is_some_and(|status| !status.is_null())
    })
}

/// Checks the root of a schema with a status endpoint: the schema of `status` is cut out of it, so it must not depend on the rest.
fn root_beside_status(schema: &Value, field: &str) -> Option<Cause> {
    const ALLOWED: [(&str, &str); 22] = [
        ("Description", "description"),
        ("Type", "type"),
        ("Format", "format"),
        ("Title", "title"),
        ("Maximum", "maximum"),
        ("ExclusiveMaximum", "exclusiveMaximum"),
        ("Minimum", "minimum"),
        ("ExclusiveMinimum", "exclusiveMinimum"),
        ("MaxLength", "maxLength"),
        ("MinLength", "minLength"),
        ("Pattern", "pattern"),
        ("MaxItems", "maxItems"),
        ("MinItems", "minItems"),
        ("UniqueItems", "uniqueItems"),
        ("MultipleOf", "multipleOf"),
        ("Required", "required"),
        ("Items", "items"),
        ("Properties", "properties"),
        ("ExternalDocs", "externalDocs"),
        ("Example", "example"),
        ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
        ("XValidations", "x-kubernetes-validations"),
    ];
    let kind = text(schema, "/type");
    if !kind.is_empty() && kind != "object" {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                   enabled";
        return Some(invalid(&format!("{field}.type"), &quote(kind), why));
    }
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Bool(set) => *set,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Number(_) | Value::Object(_) => true,
    };
    let mut keys = schema.as_object().into_iter().flatten().filter(|(_, value)| is_set(value));
    if keys.all(|(key, _)| ALLOWED.iter().any(|(_, allowed)| allowed == key)) {
        return None;
    }
    let names: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    let why = format!(
        "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
        names.join(" ")
    );
    Some(invalid(field, &schema.to_string(), &why))
}

/// Refuses the way in which the first version of CRDs kept unknown fields.
fn check_pruning(definition: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if definition.pointer("/spec/preserveUnknownFields") != Some(&Value::Bool(true)) {
        return causes;
    }
    let field = "spec.preserveUnknownFields";
    let schemas = versions(definition).filter_map(|version| version.pointer("/schema/openAPIV3Schema"));
    if schemas.into_iter().any(|schema| has_default(schema, 0)) {
        causes.push(invalid(field, "true", "must be false in order to use defaults in the schema"));
    }
    let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    causes.push(invalid(field, "true", why));
    causes
}

/// Returns whether a schema has a default, here or below.
fn has_default(schema: &Value, depth: usize) -> bool {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut below = ["items", "additionalProperties", "not"]
        .into_iter()
        .filter_map(|key| schema.get(key))
        .chain(lists.flatten())
        .chain(properties.into_iter().flat_map(serde_json::Map::values));
    schema.get("default").is_some_and(|default| !default.is_null())
        || (depth <= DEPTH_MAX && below.any(|below| has_default(below, depth + 1)))
}

fn check_immutable(definition: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let always = ["/spec/group", "/spec/names/plural"];
    let once_established = ["/spec/scope", "/spec/names/kind"].into_iter().filter(|_| is_established(old));
    for pointer in always.into_iter().chain(once_established) {
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

fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| text(condition, "/type") == "Established" && text(condition, "/status") == "True")
}
