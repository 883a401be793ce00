//! Environment variables of containers and their sources.

use serde_json::Value;

use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::{given, list, part, text};
use crate::cause::Cause;

const TOO_MANY: &str = "may not have more than one field specified at a time";
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
/// Fields of the Pod that a variable may refer to.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields to which other sources may refer, but not a variable.
const WHOLE_MAPS: [&str; 2] = ["metadata.annotations", "metadata.labels"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn variables(container: &Value, path: &Path, causes: &mut Vec<Cause>) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let path = path.index(index);
        match text(variable, "name") {
            "" => causes.push(path.child("name").required("")),
            name => causes.extend(path.child("name").all_invalid(name, names::environment_variable(name))),
        }
        if let Some(source) = given(variable, "valueFrom") {
            value_from(source, text(variable, "value"), &path.child("valueFrom"), causes);
        }
    }
}

fn value_from(source: &Value, value: &str, path: &Path, causes: &mut Vec<Cause>) {
    let sources: Vec<_> = SOURCES.iter().filter_map(|field| Some((*field, given(source, field)?))).collect();
    for (field, source) in &sources {
        let path = path.child(field);
        match *field {
            "fieldRef" => field_reference(source, &path, causes),
            "resourceFieldRef" => resource_reference(source, &path, causes),
            "configMapKeyRef" | "secretKeyRef" => key_reference(source, &path, causes),
            _ => {}
        }
    }
    if sources.is_empty() {
        let all = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        causes.push(path.invalid("", all));
    } else if !value.is_empty() {
        causes.push(path.invalid("", "may not be specified when `value` is not empty"));
    } else if sources.len() > 1 {
        causes.push(path.invalid("", TOO_MANY));
    }
}

fn field_reference(reference: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let field = text(reference, "fieldPath");
    let path = path.child("fieldPath");
    if field.is_empty() {
        causes.push(path.required(""));
        return;
    }
    let subscripted =
        WHOLE_MAPS.iter().any(|map| field.strip_prefix(map).is_some_and(|rest| rest.starts_with("['")));
    if WHOLE_MAPS.contains(&field) {
        causes.push(path.not_supported(field, &FIELDS));
    } else if !FIELDS.contains(&field) && !subscripted {
        let message = format!("error converting fieldPath: field label not supported: {field}");
        causes.push(path.invalid(field, &message));
    }
}

fn resource_reference(reference: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let resource = text(reference, "resource");
    let huge_pages =
        ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if resource.is_empty() {
        causes.push(path.child("resource").required(""));
    } else if !RESOURCES.contains(&resource) && !huge_pages {
        causes.push(path.child("resource").not_supported(resource, &RESOURCES));
    }
}

fn key_reference(reference: &Value, path: &Path, causes: &mut Vec<Cause>) {
    object_name(reference, path, causes);
    match text(reference, "key") {
        "" => causes.push(path.child("key").required("")),
        key => causes.extend(path.child("key").all_invalid(key, names::config_key(key))),
    }
}

fn object_name(reference: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let name = text(reference, "name");
    causes.extend(path.child("name").all_invalid(name, names::dns_subdomain(name)));
}

pub(super) fn sources(container: &Value, path: &Path, causes: &mut Vec<Cause>) {
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let at = path.index(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            causes.extend(at.child("prefix").all_invalid(prefix, names::environment_variable(prefix)));
        }
        let references = ["configMapRef", "secretRef"];
        let mut found = 0;
        for field in references.into_iter().filter(|field| !part(source, field).is_null()) {
            found += 1;
            object_name(part(source, field), &at.child(field), causes);
        }
        if found == 0 {
            causes.push(path.invalid("", "must specify one of: `configMapRef` or `secretRef`"));
        } else if found > 1 {
            causes.push(path.invalid("", TOO_MANY));
        }
    }
}
