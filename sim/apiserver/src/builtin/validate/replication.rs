//! `ReplicationController` and `ControllerRevision`.

use serde_json::{Value, json};

use super::common::{immutable, not_negative, selects};
use super::workload::running_template;
use crate::builtin::field::Path;
use crate::builtin::view::{given, integer, part};
use crate::cause::Cause;

pub(super) fn replication_controller(object: &Value, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    for field in ["minReadySeconds", "replicas"] {
        not_negative(spec, field, &path, causes);
    }
    let selector = part(spec, "selector");
    if selector.as_object().is_none_or(serde_json::Map::is_empty) {
        causes.push(path.child("selector").required(""));
    }
    let path = path.child("template");
    if given(spec, "template").is_none() {
        causes.push(path.required(""));
        return;
    }
    let labels = part(part(part(spec, "template"), "metadata"), "labels");
    if !selects(&json!({"matchLabels": selector}), labels) {
        let path = path.child("metadata").child("labels");
        causes.push(path.invalid(labels.clone(), "`selector` does not match template `labels`"));
    }
    running_template(spec, "ReplicationController", &path, causes);
}

pub(super) fn controller_revision(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    if let Some(number) = integer(object, "revision").filter(|number| *number < 0) {
        causes.push(Path::root("revision").invalid(number, "must be greater than or equal to 0"));
    }
    let path = Path::root("data");
    match part(object, "data") {
        _ if old.is_some() => {}
        Value::Null => causes.push(path.required("data is mandatory")),
        Value::Object(_) => {}
        _ => causes.push(path.required("data must be a valid JSON object")),
    }
    immutable(&path, object, old, "data", causes);
}
