//! `NetworkPolicy`.

use serde_json::Value;

use super::address;
use super::common::{label_selector, port_number, port_number_or_name};
use crate::builtin::field::Path;
use crate::builtin::view::{given, integer, list, part, text};
use crate::cause::Cause;

const TYPES: [&str; 2] = ["Ingress", "Egress"];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

pub(super) fn network_policy(object: &Value, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    label_selector(part(spec, "podSelector"), &path.child("podSelector"), causes);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(spec, direction).iter().enumerate() {
            let path = path.child(direction).index(index);
            for (index, entry) in list(rule, "ports").iter().enumerate() {
                port(entry, &path.child("ports").index(index), causes);
            }
            for (index, entry) in list(rule, peers).iter().enumerate() {
                peer(entry, &path.child(peers).index(index), causes);
            }
        }
    }
    policy_types(spec, &path.child("policyTypes"), causes);
}

fn policy_types(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let types = list(spec, "policyTypes");
    if types.len() > TYPES.len() {
        causes.push(path.invalid(types.to_vec(), "may not specify more than two policyTypes"));
        return;
    }
    for (index, name) in types.iter().filter_map(Value::as_str).enumerate() {
        if !TYPES.contains(&name) {
            causes.push(path.index(index).not_supported(name, &TYPES));
        }
    }
}

fn port(entry: &Value, path: &Path, causes: &mut Vec<Cause>) {
    if let Some(protocol) = given(entry, "protocol").and_then(Value::as_str)
        && !PROTOCOLS.contains(&protocol)
    {
        causes.push(path.child("protocol").not_supported(protocol, &PROTOCOLS));
    }
    let end = integer(entry, "endPort");
    let end_path = path.child("endPort");
    let number = given(entry, "port");
    if let Some(number) = number {
        port_number_or_name(number, &path.child("port"), causes);
    }
    match (number, end) {
        (_, None) => {}
        (None, Some(end)) => {
            causes.push(end_path.invalid(end, "may not be specified when `port` is not specified"));
        }
        (Some(Value::String(_)), Some(end)) => {
            causes.push(end_path.invalid(end, "may not be specified when `port` is non-numeric"));
        }
        (Some(number), Some(end)) => {
            if number.as_i64().is_some_and(|number| end < number) {
                causes.push(end_path.invalid(number.clone(), "must be greater than or equal to `port`"));
            }
            port_number(end, &end_path, causes);
        }
    }
}

fn peer(entry: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let selectors = ["podSelector", "namespaceSelector"];
    let mut peers = 0;
    for field in selectors {
        if let Some(selector) = given(entry, field) {
            peers += 1;
            label_selector(selector, &path.child(field), causes);
        }
    }
    if let Some(block) = given(entry, "ipBlock") {
        ip_block(block, &path.child("ipBlock"), causes);
        if peers > 0 {
            causes.push(path.forbidden("may not specify both ipBlock and another peer"));
        }
    } else if peers == 0 {
        causes.push(path.required("must specify a peer"));
    }
}

fn ip_block(block: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let range = text(block, "cidr");
    if range.is_empty() {
        causes.push(path.child("cidr").required(""));
        return;
    }
    let before = causes.len();
    address::cidr(range, &path.child("cidr"), causes);
    if causes.len() > before {
        return;
    }
    for (index, except) in list(block, "except").iter().filter_map(Value::as_str).enumerate() {
        let path = path.child("except").index(index);
        let before = causes.len();
        address::cidr(except, &path, causes);
        if causes.len() == before && !address::is_strict_subset(except, range) {
            causes.push(path.invalid(except, "must be a strict subset of `cidr`"));
        }
    }
}
