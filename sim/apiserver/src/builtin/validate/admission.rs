//! Admission policies, without their expressions.

use serde_json::Value;

use crate::builtin::field::Path;
use crate::builtin::view::{given, list, part};
use crate::cause::Cause;

/// Checks that a policy selects resources and has something to do.
pub(super) fn policy(object: &Value, causes: &mut Vec<Cause>) {
    let (spec, path) = (part(object, "spec"), Path::root("spec"));
    match given(spec, "matchConstraints") {
        None => causes.push(path.child("matchConstraints").required("")),
        Some(constraints) if list(constraints, "resourceRules").is_empty() => {
            causes.push(path.child("matchConstraints").child("resourceRules").required(""));
        }
        Some(_) => {}
    }
    let effects = ["validations", "auditAnnotations"];
    if effects.iter().all(|field| list(spec, field).is_empty()) {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.extend(effects.map(|field| path.child(field).required(why)));
    }
}
