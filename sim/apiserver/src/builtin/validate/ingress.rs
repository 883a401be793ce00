//! `Ingress`.

use std::net::IpAddr;

use serde_json::Value;

use super::common::port_number;
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::{given, integer, list, part, text};
use crate::cause::Cause;

const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];

pub(super) fn ingress(object: &Value, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    let default = given(spec, "defaultBackend");
    if default.is_none() && list(spec, "rules").is_empty() {
        let message = "either `defaultBackend` or `rules` must be specified";
        causes.push(path.invalid(part(spec, "rules").clone(), message));
    }
    if let Some(backend) = default {
        self::backend(backend, &path.child("defaultBackend"), causes);
    }
    for (index, entry) in list(spec, "rules").iter().enumerate() {
        rule(entry, &path.child("rules").index(index), causes);
    }
    for (index, entry) in list(spec, "tls").iter().enumerate() {
        let path = path.child("tls").index(index);
        for (index, host) in list(entry, "hosts").iter().filter_map(Value::as_str).enumerate() {
            causes.extend(path.child("hosts").index(index).all_invalid(host, host_messages(host)));
        }
        let secret = text(entry, "secretName");
        if !secret.is_empty() {
            causes.extend(path.child("secretName").all_invalid(secret, names::dns_subdomain(secret)));
        }
    }
    let class = text(spec, "ingressClassName");
    if !class.is_empty() {
        causes.extend(path.child("ingressClassName").all_invalid(class, names::dns_subdomain(class)));
    }
}

fn host_messages(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_dns_subdomain(host) } else { names::dns_subdomain(host) }
}

fn rule(rule: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let host = text(rule, "host");
    if !host.is_empty() {
        let path = path.child("host");
        if host.parse::<IpAddr>().is_ok() {
            causes.push(path.invalid(host, "must be a DNS name, not an IP address"));
        }
        causes.extend(path.all_invalid(host, host_messages(host)));
    }
    let Some(http) = given(rule, "http") else { return };
    let path = path.child("http").child("paths");
    if list(http, "paths").is_empty() {
        causes.push(path.required(""));
    }
    for (index, entry) in list(http, "paths").iter().enumerate() {
        http_path(entry, &path.index(index), causes);
    }
}

fn http_path(entry: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let target = text(entry, "path");
    match text(entry, "pathType") {
        "" => {
            causes.push(path.child("pathType").required("pathType must be specified"));
            return;
        }
        "Exact" | "Prefix" => {
            if !target.starts_with('/') {
                causes.push(path.child("path").invalid(target, "must be an absolute path"));
            }
            for bad in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|bad| target.contains(bad)) {
                causes.push(path.child("path").invalid(target, &format!("must not contain '{bad}'")));
            }
            for bad in ["/..", "/."].into_iter().filter(|bad| target.ends_with(bad)) {
                causes.push(path.child("path").invalid(target, &format!("cannot end with '{bad}'")));
            }
        }
        "ImplementationSpecific" => {
            if !target.is_empty() && !target.starts_with('/') {
                causes.push(path.child("path").invalid(target, "must be an absolute path"));
            }
        }
        kind => causes.push(path.child("pathType").not_supported(kind, &PATH_TYPES)),
    }
    backend(part(entry, "backend"), &path.child("backend"), causes);
}

fn backend(backend: &Value, path: &Path, causes: &mut Vec<Cause>) {
    match (given(backend, "resource"), given(backend, "service")) {
        (Some(_), Some(_)) => {
            causes.push(path.invalid("", "cannot set both resource and service backends"));
        }
        (Some(_), None) => {}
        (None, None) => causes.push(path.invalid("", "resource or service backend is required")),
        (None, Some(service)) => {
            let name = text(service, "name");
            let name_path = path.child("service").child("name");
            if name.is_empty() {
                causes.push(name_path.required(""));
            } else {
                causes.extend(name_path.all_invalid(name, names::dns_label(name)));
            }
            service_port(part(service, "port"), path, causes);
        }
    }
}

fn service_port(port: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let name = text(port, "name");
    let number = integer(port, "number").unwrap_or(0);
    let port_path = path.child("service").child("port");
    match (name.is_empty(), number) {
        (true, 0) => causes.push(path.required("port name or number is required")),
        (false, 0) => causes.extend(port_path.child("name").all_invalid(name, names::port_name(name))),
        (true, number) => port_number(number, &port_path.child("number"), causes),
        (false, _) => causes.push(path.invalid("", "cannot set both port name & port number")),
    }
}
