//! The real server's warnings for valid objects: names and pod templates that may have unexpected effects.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field::Path;
use super::names;
use super::resource::Resource;
use super::view::{given, integer, list, part, text};
use crate::cause::text::quote;

/// Returns the warnings about a new object (`old` is none) or an update, in its normalised form.
pub(super) fn object(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() {
        warnings.extend(name(resource, text(part(object, "metadata"), "name")));
    }
    // Users rarely update pods, but programs do it often.
    let is_judged = old.is_none_or(|old| resource.kind != "Pod" && is_new_generation(resource, object, old));
    if is_judged && let Some((spec, path)) = pod_spec(resource, object) {
        environment(spec, &path, &mut warnings);
        ports(spec, &path, &mut warnings);
        port_names(spec, &path, &mut warnings);
    }
    warnings
}

fn name(resource: &Resource, name: &str) -> Option<String> {
    let user = match (resource.group, resource.kind) {
        ("", "Pod") => "the Pod's hostname",
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet")
        | ("batch", "Job" | "CronJob") => "Pod names and hostnames",
        _ => return None,
    };
    let wrong = names::dns_label(name);
    (!wrong.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {user}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        )
    })
}

fn is_new_generation(resource: &Resource, object: &Value, old: &Value) -> bool {
    let generation = |object: &Value| integer(part(object, "metadata"), "generation");
    let template = |object: &Value| part(part(object, "spec"), "template").clone();
    match resource.kind {
        "DaemonSet" => template(object) != template(old),
        _ => generation(object) != generation(old),
    }
}

/// Returns the pod spec of an object and its path.
fn pod_spec<'a>(resource: &Resource, object: &'a Value) -> Option<(&'a Value, Path)> {
    let fields: &[&str] = match (resource.group, resource.kind) {
        ("", "Pod") => &["spec"],
        ("", "PodTemplate") => &["template", "spec"],
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job") => &["spec", "template", "spec"],
        ("batch", "CronJob") => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return None,
    };
    let spec = fields.iter().fold(object, |at, field| part(at, field));
    Some((spec, Path::root(&fields.join("."))))
}

fn containers<'a>(spec: &'a Value, path: &Path) -> impl Iterator<Item = (&'a Value, Path)> {
    let path = path.clone();
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |field| {
        let path = path.child(field);
        list(spec, field).iter().enumerate().map(move |(index, container)| (container, path.index(index)))
    })
}

/// Warns of a variable that is defined again without a reference to its earlier value.
fn environment(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    for (container, path) in containers(spec, path) {
        let variables = list(container, "env");
        for (index, variable) in variables.iter().enumerate() {
            let name = text(variable, "name");
            let (value, reference) = (text(variable, "value"), format!("$({name})"));
            let builds_on_it =
                given(variable, "valueFrom").is_none() && value != reference && value.contains(&reference);
            if variables[..index].iter().any(|before| text(before, "name") == name) && !builds_on_it {
                let path = path.child("env").index(index);
                warnings.push(format!(
                    "{path}: hides previous definition of {}, which may be dropped when using apply",
                    quote(name)
                ));
            }
        }
    }
}

fn ports(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    let host = |port: &Value| (text(port, "hostIP").to_owned(), integer(port, "hostPort").unwrap_or(0));
    let mut seen: BTreeMap<_, Vec<(&Value, Path)>> = BTreeMap::new();
    for (container, path) in containers(spec, path) {
        for (index, port) in list(container, "ports").iter().enumerate() {
            let path = path.child("ports").index(index);
            let (address, number) = host(port);
            let container_port = integer(port, "containerPort").unwrap_or(0);
            let protocol = text(port, "protocol");
            if !address.is_empty() && number == 0 {
                warnings.push(format!(
                    "{path}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{container_port} Protocol:{protocol} HostIP:{address}}}",
                    text(port, "name")
                ));
            }
            let others = seen.entry((container_port, protocol)).or_default();
            for (other, at) in others.iter() {
                let (other_address, other_number) = host(other);
                let what = if (&address, number) == (&other_address, other_number) {
                    "duplicate"
                } else if number == 0 || other_number == 0 {
                    "overlapping"
                } else if number == other_number && address.is_empty() != other_address.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{path}: {what} port definition with {at}"));
            }
            others.push((port, path));
        }
    }
}

fn port_names(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    let mut seen: BTreeMap<&str, Path> = BTreeMap::new();
    for (container, path) in containers(spec, path) {
        for (index, port) in list(container, "ports").iter().enumerate() {
            let (name, path) = (text(port, "name"), path.child("ports").index(index));
            if let Some(other) = seen.get(name) {
                warnings.push(format!(
                    "{path}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                    quote(name)
                ));
            } else if !name.is_empty() {
                seen.insert(name, path);
            }
        }
    }
}
