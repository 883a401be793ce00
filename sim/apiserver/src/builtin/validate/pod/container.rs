//! Containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::environment;
use super::identity::identity;
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::quantity::Quantity;
use crate::builtin::validate::common::{PROTOCOLS, choice, not_negative, port_number, port_number_or_name};
use crate::builtin::validate::resources;
use crate::builtin::view::{entries, flag, given, integer, list, part, text};
use crate::cause::Cause;

const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Checks the rules for all types of containers.
pub(super) fn common(container: &Value, volumes: &BTreeSet<&str>, path: &Path, causes: &mut Vec<Cause>) {
    match text(container, "name") {
        "" => causes.push(path.child("name").required("")),
        name => causes.extend(path.child("name").all_invalid(name, names::dns_label(name))),
    }
    if text(container, "image").is_empty() {
        causes.push(path.child("image").required(""));
    }
    choice(path, container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], causes);
    ports(container, &path.child("ports"), causes);
    environment::variables(container, &path.child("env"), causes);
    environment::sources(container, &path.child("envFrom"), causes);
    mounts(container, volumes, &path.child("volumeMounts"), causes);
    if let Some(policy) = given(container, "restartPolicy").and_then(Value::as_str)
        && !RESTART_POLICIES.contains(&policy)
    {
        causes.push(path.child("restartPolicy").not_supported(policy, &RESTART_POLICIES));
    }
    choice(path, container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], causes);
    requirements(part(container, "resources"), &path.child("resources"), causes);
    security_context(container, &path.child("securityContext"), causes);
}

fn ports(container: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if messages.is_empty() && !seen.insert(name) {
                causes.push(path.child("name").duplicate(name));
            }
            causes.extend(path.child("name").all_invalid(name, messages));
        }
        match integer(port, "containerPort").unwrap_or(0) {
            0 => causes.push(path.child("containerPort").required("")),
            number => port_number(number, &path.child("containerPort"), causes),
        }
        if let Some(number) = integer(port, "hostPort").filter(|number| *number != 0) {
            port_number(number, &path.child("hostPort"), causes);
        }
        choice(&path, port, "protocol", &PROTOCOLS, causes);
    }
}

fn mounts(container: &Value, volumes: &BTreeSet<&str>, path: &Path, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let at = path.index(index);
        let name = text(mount, "name");
        if name.is_empty() {
            causes.push(at.child("name").required(""));
        }
        if !volumes.contains(name) {
            causes.push(at.child("name").not_found(name));
        }
        let target = text(mount, "mountPath");
        if target.is_empty() {
            causes.push(at.child("mountPath").required(""));
        }
        if !seen.insert(target) {
            causes.push(at.child("mountPath").invalid(target, "must be unique"));
        }
        for field in ["subPath", "subPathExpr"] {
            descending_path(text(mount, field), &path.child(field), causes);
        }
        if !text(mount, "subPath").is_empty() && !text(mount, "subPathExpr").is_empty() {
            let message = "subPathExpr and subPath are mutually exclusive";
            causes.push(at.child("subPathExpr").invalid(text(mount, "subPathExpr"), message));
        }
    }
}

/// Checks a relative path, which must not contain `..`.
fn descending_path(relative: &str, path: &Path, causes: &mut Vec<Cause>) {
    if relative.starts_with('/') {
        causes.push(path.invalid(relative, "must be a relative path"));
    }
    if relative.split('/').any(|part| part == "..") {
        causes.push(path.invalid(relative, "must not contain '..'"));
    }
}

fn requirements(requirements: &Value, path: &Path, causes: &mut Vec<Cause>) {
    for field in ["limits", "requests"] {
        for (resource, amount) in entries(requirements, field) {
            let path = path.child(field).key(resource);
            resources::container_name(resource, &path, causes);
            resources::amount(resource, amount, &path, causes);
        }
    }
    for (resource, amount) in entries(requirements, "requests") {
        let Some(request) = Quantity::of(amount) else { continue };
        let path_of = |field| path.child(field);
        let overcommittable = resources::is_overcommittable(resource);
        let limit = part(requirements, "limits").get(resource).and_then(Quantity::of);
        let message = match limit {
            Some(limit) if !overcommittable && request != limit => {
                format!("must be equal to {resource} limit of {limit}")
            }
            Some(limit) if request > limit => {
                format!("must be less than or equal to {resource} limit of {limit}")
            }
            Some(_) => continue,
            None if overcommittable => continue,
            None => {
                causes.push(path_of("limits").required("Limit must be set for non overcommitable resources"));
                continue;
            }
        };
        causes.push(path_of("requests").invalid(amount.clone(), &message));
    }
}

fn security_context(container: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let Some(context) = given(container, "securityContext") else { return };
    for field in ["runAsUser", "runAsGroup"] {
        identity(context, field, path, causes);
    }
    let escalation = given(context, "allowPrivilegeEscalation").and_then(Value::as_bool);
    if escalation == Some(false) && flag(context, "privileged") {
        let message = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        causes.push(path.invalid_as(&internal_context(context), message));
    }
}

/// Returns the context in the form of the server's internal type, in that type's order of fields.
fn internal_context(context: &Value) -> String {
    let fields = [
        "Capabilities",
        "Privileged",
        "SELinuxOptions",
        "WindowsOptions",
        "RunAsUser",
        "RunAsGroup",
        "RunAsNonRoot",
        "ReadOnlyRootFilesystem",
        "AllowPrivilegeEscalation",
        "ProcMount",
        "SeccompProfile",
        "AppArmorProfile",
    ];
    let shown = fields.map(|field| {
        let external = match field {
            "SELinuxOptions" => "seLinuxOptions".to_owned(),
            _ => field[..1].to_lowercase() + &field[1..],
        };
        format!("{field:?}:{}", part(context, &external))
    });
    format!("{{{}}}", shown.join(","))
}

/// Checks the probes and hooks of long-running containers.
pub(super) fn probes(container: &Value, path: &Path, causes: &mut Vec<Cause>) {
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = given(part(container, "lifecycle"), hook) {
            self::handler(handler, &path.child("lifecycle").child(hook), causes);
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = given(container, field) {
            self::probe(probe, field, &path.child(field), causes);
        }
    }
}

fn probe(probe: &Value, kind: &str, path: &Path, causes: &mut Vec<Cause>) {
    handler(probe, path, causes);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        not_negative(probe, field, path, causes);
    }
    let grace = integer(probe, "terminationGracePeriodSeconds");
    let grace_path = path.child("terminationGracePeriodSeconds");
    if let Some(seconds) = grace {
        if kind == "readinessProbe" {
            causes.push(grace_path.invalid(seconds, "must not be set for readinessProbes"));
        }
        if seconds <= 0 {
            causes.push(grace_path.invalid(seconds, "must be greater than 0"));
        }
    }
    if let Some(threshold) = integer(probe, "successThreshold")
        && kind != "readinessProbe"
        && threshold != 1
    {
        causes.push(path.child("successThreshold").invalid(threshold, "must be 1"));
    }
}

fn handler(owner: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let mut given_handlers = HANDLERS.iter().filter_map(|field| Some((*field, given(owner, field)?)));
    let Some((field, first)) = given_handlers.next() else {
        causes.push(path.required("must specify a handler type"));
        return;
    };
    action(field, first, &path.child(field), causes);
    for (field, _) in given_handlers {
        causes.push(path.child(field).forbidden("may not specify more than 1 handler type"));
    }
}

fn action(kind: &str, action: &Value, path: &Path, causes: &mut Vec<Cause>) {
    match kind {
        "exec" if list(action, "command").is_empty() => causes.push(path.child("command").required("")),
        "httpGet" => {
            port_number_or_name(part(action, "port"), &path.child("port"), causes);
            let scheme = text(action, "scheme");
            if !["HTTP", "HTTPS"].contains(&scheme) {
                causes.push(path.child("scheme").not_supported(scheme, &["HTTP", "HTTPS"]));
            }
            for name in list(action, "httpHeaders").iter().map(|header| text(header, "name")) {
                causes.extend(path.child("httpHeaders").all_invalid(name, names::http_header(name)));
            }
        }
        "tcpSocket" | "grpc" => port_number_or_name(part(action, "port"), &path.child("port"), causes),
        _ => {}
    }
}
