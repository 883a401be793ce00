//! Service.

use std::collections::BTreeSet;

use serde_json::Value;

use super::address;
use super::common::{PROTOCOLS, choice, labels, port_number, port_number_or_name};
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::{given, integer, list, part, text};
use crate::cause::Cause;

/// Seconds of a day, the maximum duration of session affinity.
const AFFINITY_SECONDS_MAX: i64 = 86400;

pub(super) fn service(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = part(object, "spec");
    let path = Path::root("spec");
    let kind = text(spec, "type");
    let headless = list(spec, "clusterIPs").first().is_some_and(|ip| ip == "None");
    if list(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        causes.push(path.child("ports").required(""));
    }
    by_type(spec, kind, headless, &path, causes);
    ports(spec, kind, &path.child("ports"), causes);
    labels(spec, "selector", &path.child("selector"), causes);
    session_affinity(spec, &path, causes);
    cluster_ips(spec, kind, headless, &path, causes);
    if let Some(old) = old {
        kept_cluster_ip(spec, part(old, "spec"), &path.child("clusterIPs"), causes);
    }
    for (index, ip) in list(spec, "externalIPs").iter().filter_map(Value::as_str).enumerate() {
        address::ip(ip, &path.child("externalIPs").index(index), causes);
    }
    choice(&path, spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], causes);
    load_balancer(spec, old.map(|old| part(old, "spec")), kind, &path, causes);
    traffic(spec, kind, &path, causes);
}

fn by_type(spec: &Value, kind: &str, headless: bool, path: &Path, causes: &mut Vec<Cause>) {
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let message = format!("may not be set to 'None' for {kind} services");
            causes.push(path.child("clusterIPs").index(0).invalid("None", &message));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if given(spec, field).is_some() {
                    causes.push(path.child(field).forbidden("may not be set for ExternalName services"));
                }
            }
            let name = text(spec, "externalName").trim_end_matches('.');
            let path = path.child("externalName");
            if name.is_empty() {
                causes.push(path.required(""));
            } else {
                causes.extend(path.all_invalid(name, names::dns_subdomain(name)));
            }
        }
        _ => {}
    }
}

fn ports(spec: &Value, kind: &str, path: &Path, causes: &mut Vec<Cause>) {
    let ports = list(spec, "ports");
    let mut seen = BTreeSet::new();
    for (index, entry) in ports.iter().enumerate() {
        port(entry, ports.len() > 1, &mut seen, &path.index(index), causes);
    }
    let numbers = |field: &'static str| {
        let numbers =
            ports.iter().map(move |port| (text(port, "protocol"), integer(port, field).unwrap_or(0)));
        numbers.enumerate().map(|(index, number)| (path.index(index), number))
    };
    let given = || numbers("nodePort").filter(|(_, (_, number))| *number != 0);
    if kind == "ClusterIP" {
        let message = "may not be used when `type` is 'ClusterIP'";
        causes.extend(given().map(|(path, _)| path.child("nodePort").forbidden(message)));
    }
    let mut taken = BTreeSet::new();
    let repeated: Vec<_> = given().filter(|(_, port)| !taken.insert(*port)).collect();
    causes.extend(repeated.into_iter().map(|(path, (_, number))| path.child("nodePort").duplicate(number)));
    let mut taken = BTreeSet::new();
    for (path, (protocol, number)) in numbers("port") {
        if !taken.insert((protocol, number)) {
            // The server's internal type, in its order of fields.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                Value::from(protocol)
            );
            causes.push(path.duplicate_as(&shown));
        }
    }
}

fn port<'a>(
    entry: &'a Value,
    must_be_named: bool,
    seen: &mut BTreeSet<&'a str>,
    path: &Path,
    causes: &mut Vec<Cause>,
) {
    match text(entry, "name") {
        "" if must_be_named => causes.push(path.child("name").required("")),
        "" => {}
        name => {
            causes.extend(path.child("name").all_invalid(name, names::dns_label(name)));
            if !seen.insert(name) {
                causes.push(path.child("name").duplicate(name));
            }
        }
    }
    port_number(integer(entry, "port").unwrap_or(0), &path.child("port"), causes);
    choice(path, entry, "protocol", &PROTOCOLS, causes);
    port_number_or_name(part(entry, "targetPort"), &path.child("targetPort"), causes);
    if let Some(protocol) = given(entry, "appProtocol").and_then(Value::as_str) {
        causes.extend(path.child("appProtocol").all_invalid(protocol, names::qualified_name(protocol)));
    }
}

fn session_affinity(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    choice(path, spec, "sessionAffinity", &["ClientIP", "None"], causes);
    let seconds = spec.pointer("/sessionAffinityConfig/clientIP/timeoutSeconds").and_then(Value::as_i64);
    if let Some(seconds) = seconds.filter(|seconds| !(1..=AFFINITY_SECONDS_MAX).contains(seconds)) {
        let path = path.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
        let message = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
        causes.push(path.invalid(seconds, &message));
    }
}

fn cluster_ips(spec: &Value, kind: &str, headless: bool, path: &Path, causes: &mut Vec<Cause>) {
    if kind == "ExternalName" {
        return;
    }
    single_cluster_ip(spec, &path.child("clusterIPs"), causes);
    if headless {
        return;
    }
    let families = path.child("ipFamilies");
    let mut seen = BTreeSet::new();
    for (index, family) in list(spec, "ipFamilies").iter().filter_map(Value::as_str).enumerate() {
        if !["IPv4", "IPv6"].contains(&family) {
            causes.push(families.index(index).not_supported(family, &["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            causes.push(families.index(index).duplicate(family));
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if let Some(policy) = given(spec, "ipFamilyPolicy").and_then(Value::as_str)
        && !policies.contains(&policy)
    {
        causes.push(path.child("ipFamilyPolicy").not_supported(policy, &policies));
    }
    for (index, ip) in list(spec, "clusterIPs").iter().filter_map(Value::as_str).enumerate() {
        address::ip(ip, &path.child("clusterIPs").index(index), causes);
    }
}

/// Checks that `clusterIP` is the first of `clusterIPs`. The main endpoint copies a lone address into the list before that.
fn single_cluster_ip(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let (single, all) = (text(spec, "clusterIP"), list(spec, "clusterIPs"));
    match (single, all.first()) {
        ("", Some(_)) => {
            causes.push(path.invalid(all.to_vec(), "must be empty when `clusterIP` is not specified"));
        }
        ("", None) => {}
        (_, None) => causes.push(path.required("")),
        (single, Some(first)) if first != single => {
            causes.push(path.invalid(all.to_vec(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
}

fn kept_cluster_ip(spec: &Value, old: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let external = [spec, old].iter().any(|spec| text(spec, "type") == "ExternalName");
    let (before, after) = (list(old, "clusterIPs").first(), list(spec, "clusterIPs").first());
    if !external && before.is_some() && before != after {
        causes.push(path.index(0).invalid(list(spec, "clusterIPs").to_vec(), "may not change once set"));
    }
}

fn load_balancer(spec: &Value, old: Option<&Value>, kind: &str, path: &Path, causes: &mut Vec<Cause>) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let balanced = kind == "LoadBalancer";
    let ranges = path.child("LoadBalancerSourceRanges");
    if !list(spec, "loadBalancerSourceRanges").is_empty() && !balanced {
        causes.push(ranges.forbidden(ONLY));
    }
    for (index, range) in list(spec, "loadBalancerSourceRanges").iter().filter_map(Value::as_str).enumerate()
    {
        address::cidr(range.trim(), &ranges.index(index), causes);
    }
    if given(spec, "allocateLoadBalancerNodePorts").is_some() && !balanced {
        causes.push(path.child("allocateLoadBalancerNodePorts").forbidden(ONLY));
    }
    let class = given(spec, "loadBalancerClass");
    let class_path = path.child("loadBalancerClass");
    if let Some(old) = old
        && balanced
        && text(old, "type") == kind
        && given(old, "loadBalancerClass") != class
    {
        causes.push(class_path.invalid(class.cloned().unwrap_or_default(), "may not change once set"));
    }
    match class.and_then(Value::as_str) {
        Some(name) if balanced => causes.extend(class_path.all_invalid(name, names::qualified_name(name))),
        Some(_) => causes.push(class_path.forbidden(ONLY)),
        None => {}
    }
}

fn traffic(spec: &Value, kind: &str, path: &Path, causes: &mut Vec<Cause>) {
    let balanced = kind == "LoadBalancer";
    let external =
        balanced || kind == "NodePort" || kind == "ClusterIP" && !list(spec, "externalIPs").is_empty();
    let policy = text(spec, "externalTrafficPolicy");
    if external {
        choice(path, spec, "externalTrafficPolicy", &["Cluster", "Local"], causes);
    } else if !policy.is_empty() {
        let message = "may only be set for externally-accessible services";
        causes.push(path.child("externalTrafficPolicy").invalid(policy, message));
    }
    if let Some(port) = integer(spec, "healthCheckNodePort")
        && port != 0
        && !(balanced && policy == "Local")
    {
        let message = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        causes.push(path.child("healthCheckNodePort").invalid(port, message));
    }
    if let Some(policy) = given(spec, "internalTrafficPolicy").and_then(Value::as_str)
        && !["Cluster", "Local"].contains(&policy)
    {
        causes.push(path.child("internalTrafficPolicy").not_supported(policy, &["Cluster", "Local"]));
    }
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(distribution) = given(spec, "trafficDistribution").and_then(Value::as_str)
        && !distributions.contains(&distribution)
    {
        causes.push(path.child("trafficDistribution").not_supported(distribution, &distributions));
    }
}

pub(super) fn status(object: &Value, causes: &mut Vec<Cause>) {
    let path = Path::root("status").child("loadBalancer").child("ingress");
    let ingress = list(part(part(object, "status"), "loadBalancer"), "ingress");
    if ingress.is_empty() {
        return;
    }
    if text(part(object, "spec"), "type") != "LoadBalancer" {
        causes.push(path.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
        return;
    }
    for (index, point) in ingress.iter().enumerate() {
        let path = path.index(index);
        let ip = text(point, "ip");
        if !ip.is_empty() {
            address::ip(ip, &path.child("ip"), causes);
        }
        match (given(point, "ipMode").and_then(Value::as_str), ip) {
            (Some(_), "") => {
                causes.push(path.child("ipMode").forbidden("may not be specified when `ip` is not set"));
            }
            (Some(mode), _) if !["Proxy", "VIP"].contains(&mode) => {
                causes.push(path.child("ipMode").not_supported(mode, &["Proxy", "VIP"]));
            }
            _ => {}
        }
        let name = text(point, "hostname");
        if !name.is_empty() {
            causes.extend(path.child("hostname").all_invalid(name, names::dns_subdomain(name)));
        }
    }
}
