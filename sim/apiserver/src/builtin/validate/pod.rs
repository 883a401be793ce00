//! Pods and Pod templates.

mod container;
mod environment;
mod identity;
mod volume;

use std::collections::BTreeSet;

use serde_json::Value;

pub(super) use self::volume::host_path;
use super::common::{choice, immutable, labels};
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::{flag, given, integer, list, part, text};
use crate::cause::Cause;
use identity::identity;

/// Validates a whole Pod.
pub(super) fn pod(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    spec(part(object, "spec"), &path, causes);
    if let Some(old) = old
        && same_containers(part(object, "spec"), part(old, "spec"), &path, causes)
        && fixed_part(object) != fixed_part(old)
    {
        let message = "pod updates may not change fields other than `spec.containers[*].image`,\
             `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
             tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(path.forbidden(message));
    }
}

/// Validates an update of the status of a Pod.
pub(super) fn status(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = Path::root("status").child("qosClass");
    immutable(&path, part(object, "status"), old.map(|old| part(old, "status")), "qosClass", causes);
}

/// Returns whether an update has as many containers as before; their images are validated again.
fn same_containers(spec: &Value, old: &Value, path: &Path, causes: &mut Vec<Cause>) -> bool {
    for field in ["containers", "initContainers"] {
        let containers = list(spec, field);
        if containers.len() != list(old, field).len() {
            causes.push(path.child(field).forbidden("pod updates may not add or remove containers"));
            return false;
        }
        for (index, container) in containers.iter().enumerate() {
            if text(container, "image").is_empty() {
                causes.push(path.child(field).index(index).child("image").required(""));
            }
        }
    }
    true
}

/// Returns the fields of a Pod's spec that may not change.
fn fixed_part(pod: &Value) -> Value {
    let mut fixed = part(pod, "spec").clone();
    let Some(fields) = fixed.as_object_mut() else { return fixed };
    for field in ["activeDeadlineSeconds", "tolerations"] {
        fields.remove(field);
    }
    for list in ["containers", "initContainers"] {
        for container in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container.as_object_mut().and_then(|container| container.remove("image"));
        }
    }
    fixed
}

/// Validates a `PodTemplateSpec`.
pub(super) fn template(template: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let metadata = part(template, "metadata");
    labels(metadata, "labels", &path.child("labels"), causes);
    let annotations = path.child("annotations");
    for (key, _) in crate::builtin::view::entries(metadata, "annotations") {
        causes.extend(annotations.all_invalid(key, names::qualified_name(&key.to_lowercase())));
    }
    let spec_path = path.child("spec");
    spec(part(template, "spec"), &spec_path, causes);
    if !list(part(template, "spec"), "ephemeralContainers").is_empty() {
        let message = "ephemeral containers not allowed in pod template";
        causes.push(spec_path.child("ephemeralContainers").forbidden(message));
    }
}

/// Validates a `PodSpec`.
pub(super) fn spec(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let volumes = volume::volumes(spec, &path.child("volumes"), causes);
    containers(spec, &volumes, path, causes);
    choice(path, spec, "restartPolicy", &["Always", "OnFailure", "Never"], causes);
    choice(path, spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], causes);
    labels(spec, "nodeSelector", &path.child("nodeSelector"), causes);
    security_context(spec, &path.child("securityContext"), causes);
    names_of_others(spec, path, causes);
    if let Some(seconds) = integer(spec, "activeDeadlineSeconds") {
        let messages = names::in_range(seconds, 1, i64::from(i32::MAX));
        let path = path.child("activeDeadlineSeconds");
        causes.extend(messages.iter().map(|message| path.invalid(seconds, message)));
    }
    for (index, entry) in list(spec, "tolerations").iter().enumerate() {
        toleration(entry, &path.child("tolerations").index(index), causes);
    }
}

fn containers(spec: &Value, volumes: &BTreeSet<&str>, path: &Path, causes: &mut Vec<Cause>) {
    let regular = list(spec, "containers");
    let mut seen = BTreeSet::new();
    if regular.is_empty() {
        causes.push(path.child("containers").required(""));
    }
    for (index, entry) in regular.iter().enumerate() {
        let path = path.child("containers").index(index);
        container::common(entry, volumes, &path, causes);
        if !seen.insert(text(entry, "name")) {
            causes.push(path.child("name").duplicate(text(entry, "name")));
        }
        container::probes(entry, &path, causes);
    }
    for (index, entry) in list(spec, "initContainers").iter().enumerate() {
        let path = path.child("initContainers").index(index);
        container::common(entry, volumes, &path, causes);
        let name = text(entry, "name");
        if !seen.insert(name) {
            causes.push(path.child("name").duplicate(name));
        }
        if text(entry, "restartPolicy") == "Always" {
            container::probes(entry, &path, causes);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if given(entry, field).is_some() {
                let message = "may not be set for init containers without restartPolicy=Always";
                causes.push(path.child(field).forbidden(message));
            }
        }
    }
    host_ports(spec, path, causes);
}

/// Checks the ports of a Pod on the host network: each container port is also the host port.
fn host_ports(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (port_index, port) in list(container, "ports").iter().enumerate() {
            let number = integer(port, "hostPort").unwrap_or(0);
            let port_path = path.child("containers").index(index).child("ports").index(port_index);
            let container_port = integer(port, "containerPort").unwrap_or(0);
            if flag(spec, "hostNetwork") && number != 0 && number != container_port {
                let message = "must match `containerPort` when `hostNetwork` is true";
                causes.push(path.child("containers").index(index).child("hostPort").invalid(number, message));
            }
            let key = (text(port, "hostIP"), text(port, "protocol"), number);
            if number != 0 && !seen.insert(key) {
                let shown = format!("{}/{}/{number}", key.1, key.0);
                causes.push(port_path.child("hostPort").duplicate(shown));
            }
        }
    }
}

fn security_context(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let context = part(spec, "securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        identity(context, field, path, causes);
    }
}

fn names_of_others(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    type Rule = fn(&str) -> Vec<String>;
    let rules: [(&str, Rule); 6] = [
        ("serviceAccountName", names::dns_subdomain),
        ("nodeName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
        ("priorityClassName", names::dns_subdomain),
        ("runtimeClassName", names::dns_subdomain),
    ];
    for (field, rule) in rules {
        let name = text(spec, field);
        if !name.is_empty() {
            causes.extend(path.child(field).all_invalid(name, rule(name)));
        }
    }
}

fn toleration(toleration: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let key = text(toleration, "key");
    let operator = text(toleration, "operator");
    let value = text(toleration, "value");
    let effect = text(toleration, "effect");
    let operator_path = path.child("operator");
    if !key.is_empty() {
        causes.extend(path.child("key").all_invalid(key, names::qualified_name(key)));
    } else if operator != "Exists" {
        let message =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.push(operator_path.invalid(operator, message));
    }
    if given(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
        let message = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.push(path.child("effect").invalid(effect, message));
    }
    match operator {
        "" | "Equal" => {
            let messages = names::label_value(value);
            if !messages.is_empty() {
                causes.push(operator_path.invalid(value, &messages.join(";")));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                causes.push(operator_path.invalid(value, "value must be empty when `operator` is 'Exists'"));
            }
        }
        "Lt" | "Gt" => causes.push(operator_path.not_supported(operator, &["Equal", "Exists", "Lt", "Gt"])),
        _ => causes.push(operator_path.not_supported(operator, &["Equal", "Exists"])),
    }
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effect.is_empty() && !effects.contains(&effect) {
        causes.push(path.child("effect").not_supported(effect, &effects));
    }
}
