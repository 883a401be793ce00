//! `Event`, in both of its groups.

use serde_json::{Value, json};

use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::{given, integer, part, text};
use crate::cause::Cause;

pub(super) fn core(object: &Value, causes: &mut Vec<Cause>) {
    judge(object, &CORE, causes);
}

/// The fields with different names in the two representations of Events, or at least in their messages.
struct Face {
    involved: &'static str,
    message: &'static str,
    controller: &'static str,
}

const CORE: Face = Face { involved: "involvedObject", message: "message", controller: "reportingComponent" };
const SERIES: Face = Face { involved: "regarding", message: "note", controller: "reportingController" };

fn judge(object: &Value, face: &Face, causes: &mut Vec<Cause>) {
    let namespace = text(part(object, "metadata"), "namespace");
    let involved = text(part(object, face.involved), "namespace");
    let is_new = given(object, "eventTime").is_some();
    let matches = match (involved.is_empty(), is_new) {
        (true, false) => ["", "default"].contains(&namespace),
        (true, true) => ["default", "kube-system"].contains(&namespace),
        (false, false) => involved == namespace,
        (false, true) => true,
    };
    if !matches {
        let path = Path::root("involvedObject").child("namespace");
        causes.push(path.invalid(involved, "does not match event.namespace"));
    }
    if !is_new {
        return;
    }
    let controller = text(object, face.controller);
    let path = Path::root(face.controller);
    if controller.is_empty() {
        causes.push(path.required(""));
    }
    causes.extend(path.all_invalid(controller, names::qualified_name(controller)));
    for (field, length_max) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let value = text(object, field);
        if value.is_empty() {
            causes.push(Path::root(field).required(""));
        }
        not_longer(field, value, length_max, causes);
    }
    not_longer("message", text(object, face.message), 1024, causes);
}

fn not_longer(field: &str, value: &str, length_max: usize, causes: &mut Vec<Cause>) {
    if value.len() > length_max {
        causes.push(Path::root(field).invalid("", &format!("can have at most {length_max} characters")));
    }
}

/// Checks an Event of `events.k8s.io`, which must be of the new form, and in which only the series may change.
pub(super) fn series_event(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    judge(object, &SERIES, causes);
    if old.is_none_or(|old| part(old, "series") != part(object, "series")) {
        series(object, causes);
    }
    let Some(old) = old else {
        new_event(object, causes);
        return;
    };
    for (field, reported) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        let is_empty = |value: &Value| value.is_null() || *value == json!({});
        if part(old, field) != part(object, field) {
            let value = match part(object, field) {
                // The real server lists the fields of an empty structure.
                value if field == "regarding" && is_empty(value) => json!({"kind": ""}),
                value if field == "deprecatedSource" && is_empty(value) => json!({"component": ""}),
                Value::Null if field == "deprecatedCount" => 0.into(),
                Value::Null if !field.ends_with("Time") && !field.ends_with("Timestamp") => "".into(),
                value => value.clone(),
            };
            causes.push(Path::root(reported).invalid(value, "field is immutable"));
        }
    }
}

fn series(object: &Value, causes: &mut Vec<Cause>) {
    let Some(series) = given(object, "series") else { return };
    if integer(series, "count").unwrap_or(0) < 2 {
        causes.push(Path::root("series.count").invalid("", "should be at least 2"));
    }
    if given(series, "lastObservedTime").is_none() {
        causes.push(Path::root("series.lastObservedTime").required(""));
    }
}

fn new_event(object: &Value, causes: &mut Vec<Cause>) {
    if given(object, "eventTime").is_none() {
        causes.push(Path::root("eventTime").required(""));
    }
    let kind = text(object, "type");
    if !["Normal", "Warning"].contains(&kind) {
        causes.push(Path::root("type").invalid("", &format!("has invalid value: {kind}")));
    }
    let source = part(object, "deprecatedSource");
    for (field, is_set) in [
        ("firstTimestamp", given(object, "deprecatedFirstTimestamp").is_some()),
        ("lastTimestamp", given(object, "deprecatedLastTimestamp").is_some()),
        ("count", integer(object, "deprecatedCount").unwrap_or(0) != 0),
        ("source", ["component", "host"].iter().any(|field| !text(source, field).is_empty())),
    ] {
        if is_set {
            causes.push(Path::root(field).invalid("", "needs to be unset"));
        }
    }
}
