//! Roles and their bindings.

use serde_json::{Value, json};

use super::common::label_selector;
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::resource::Resource;
use crate::builtin::view::{given, list, part, text};
use crate::cause::Cause;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(object: &Value, causes: &mut Vec<Cause>) {
    rules(object, true, causes);
}

pub(super) fn cluster_role(object: &Value, causes: &mut Vec<Cause>) {
    rules(object, false, causes);
    let Some(aggregation) = given(object, "aggregationRule") else { return };
    let path = Path::root("aggregationRule").child("clusterRoleSelectors");
    let selectors = list(aggregation, "clusterRoleSelectors");
    if selectors.is_empty() {
        causes.push(path.required("at least one clusterRoleSelector required if aggregationRule is non-nil"));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let before = causes.len();
        label_selector(selector, &path.index(index), causes);
        if causes.len() > before {
            causes.push(path.index(index).invalid(Value::Null, "invalid label selector."));
        }
    }
}

fn rules(object: &Value, namespaced: bool, causes: &mut Vec<Cause>) {
    let path = Path::root("rules");
    for (index, rule) in list(object, "rules").iter().enumerate() {
        policy_rule(rule, namespaced, &path.index(index), causes);
    }
}

fn policy_rule(rule: &Value, namespaced: bool, path: &Path, causes: &mut Vec<Cause>) {
    if list(rule, "verbs").is_empty() {
        causes.push(path.child("verbs").required("verbs must contain at least one value"));
    }
    let urls = part(rule, "nonResourceURLs");
    if !list(rule, "nonResourceURLs").is_empty() {
        let path = path.child("nonResourceURLs");
        if namespaced {
            causes.push(path.invalid(urls.clone(), "namespaced rules cannot apply to non-resource URLs"));
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !list(rule, field).is_empty()) {
            let message = "rules cannot apply to both regular resources and non-resource URLs";
            causes.push(path.invalid(urls.clone(), message));
        }
        return;
    }
    if list(rule, "apiGroups").is_empty() {
        causes.push(path.child("apiGroups").required("resource rules must supply at least one api group"));
    }
    if list(rule, "resources").is_empty() {
        causes.push(path.child("resources").required("resource rules must supply at least one resource"));
    }
}

pub(super) fn binding(resource: &Resource, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = Path::root("roleRef");
    let role = part(object, "roleRef");
    if let Some(old) = old
        && part(old, "roleRef") != role
    {
        let internal = json!({"APIGroup": text(role, "apiGroup"), "Kind": text(role, "kind"), "Name": text(role, "name")});
        causes.push(path.invalid(internal, "cannot change roleRef"));
    }
    if text(role, "apiGroup") != GROUP {
        causes.push(path.child("apiGroup").not_supported(text(role, "apiGroup"), &[GROUP]));
    }
    let kinds: &[&str] = if resource.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        causes.push(path.child("kind").not_supported(text(role, "kind"), kinds));
    }
    match text(role, "name") {
        "" => causes.push(path.child("name").required("")),
        name => causes.extend(path.child("name").all_invalid(name, names::path_segment(name))),
    }
    for (index, subject) in list(object, "subjects").iter().enumerate() {
        self::subject(subject, resource.namespaced, &Path::root("subjects").index(index), causes);
    }
}

fn subject(subject: &Value, namespaced: bool, path: &Path, causes: &mut Vec<Cause>) {
    let name = text(subject, "name");
    if name.is_empty() {
        causes.push(path.child("name").required(""));
    }
    let group = match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                causes.extend(path.child("name").all_invalid(name, names::dns_subdomain(name)));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                causes.push(path.child("namespace").required(""));
            }
            ""
        }
        "User" | "Group" => GROUP,
        kind => {
            causes.push(path.child("kind").not_supported(kind, &["ServiceAccount", "User", "Group"]));
            return;
        }
    };
    if text(subject, "apiGroup") != group {
        causes.push(path.child("apiGroup").not_supported(text(subject, "apiGroup"), &[group]));
    }
}
