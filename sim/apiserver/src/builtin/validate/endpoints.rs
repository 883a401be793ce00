//! `Endpoints` and `EndpointSlice`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::address;
use super::common::{PROTOCOLS, immutable, port_number};
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::{given, integer, list, part, text};
use crate::cause::Cause;

const ADDRESSES_MAX: usize = 100;
const ENDPOINTS_MAX: usize = 1000;
/// The most zones or nodes for which an endpoint is meant.
const HINTS_MAX: usize = 8;

pub(super) fn endpoints(object: &Value, causes: &mut Vec<Cause>) {
    for (index, subset) in list(object, "subsets").iter().enumerate() {
        let path = Path::root("subsets").index(index);
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|field| list(subset, field).is_empty()) {
            causes.push(path.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for field in lists {
            for (index, entry) in list(subset, field).iter().enumerate() {
                let path = path.child(field).index(index).child("ip");
                let before = causes.len();
                address::ip(text(entry, "ip"), &path, causes);
                reachable(text(entry, "ip"), causes.len() > before, &path, causes);
            }
        }
        let ports = list(subset, "ports");
        for (index, entry) in ports.iter().enumerate() {
            port(entry, ports.len() > 1, &path.child("ports").index(index), causes);
        }
    }
}

/// Checks that an address is reachable from other hosts.
fn reachable(text: &str, malformed: bool, path: &Path, causes: &mut Vec<Cause>) {
    let Ok(ip) = text.parse::<IpAddr>() else {
        if malformed {
            causes.push(path.invalid(text, "must be a valid IP address"));
        }
        return;
    };
    if ip.is_unspecified() {
        causes.push(path.invalid(text, "may not be unspecified (0.0.0.0 or ::)"));
    }
    if ip.is_loopback() {
        causes.push(path.invalid(text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"));
    }
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    if link_local {
        causes.push(path.invalid(text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"));
    }
}

fn port(port: &Value, must_be_named: bool, path: &Path, causes: &mut Vec<Cause>) {
    match text(port, "name") {
        "" if must_be_named => causes.push(path.child("name").required("")),
        "" => {}
        name => causes.extend(path.child("name").all_invalid(name, names::dns_label(name))),
    }
    port_number(integer(port, "port").unwrap_or(0), &path.child("port"), causes);
    let protocol = text(port, "protocol");
    if !PROTOCOLS.contains(&protocol) {
        causes.push(path.child("protocol").not_supported(protocol, &PROTOCOLS));
    }
}

pub(super) fn slice(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let kinds = ["FQDN", "IPv4", "IPv6"];
    let kind = text(object, "addressType");
    if kind.is_empty() {
        causes.push(Path::root("addressType").required(""));
    } else if !kinds.contains(&kind) {
        causes.push(Path::root("addressType").not_supported(kind, &kinds));
    }
    immutable(&Path::root("addressType"), object, old, "addressType", causes);
    slice_ports(object, causes);
    let (path, endpoints) = (Path::root("endpoints"), list(object, "endpoints"));
    if endpoints.len() > ENDPOINTS_MAX {
        causes.push(path.too_many(endpoints.len(), ENDPOINTS_MAX));
        return;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        slice_endpoint(endpoint, kind, &path.index(index), causes);
    }
}

fn slice_endpoint(endpoint: &Value, kind: &str, path: &Path, causes: &mut Vec<Cause>) {
    let addresses = list(endpoint, "addresses");
    let addresses_path = path.child("addresses");
    if addresses.is_empty() {
        causes.push(addresses_path.required("must contain at least 1 address"));
    } else if addresses.len() > ADDRESSES_MAX {
        causes.push(addresses_path.too_many(addresses.len(), ADDRESSES_MAX));
    }
    for (index, text) in addresses.iter().filter_map(Value::as_str).enumerate() {
        let path = addresses_path.index(index);
        if kind == "FQDN" {
            causes.extend(full_domain_name(text, &path));
            continue;
        }
        let before = causes.len();
        address::ip(text, &path, causes);
        if causes.len() == before {
            let is_of_kind = text.parse().is_ok_and(|ip: IpAddr| ip.is_ipv4() == (kind == "IPv4"));
            if !is_of_kind && ["IPv4", "IPv6"].contains(&kind) {
                causes.push(addresses_path.invalid(text, &format!("must be an {kind} address")));
            }
            reachable(text, false, &path, causes);
        }
    }
    if let Some(name) = given(endpoint, "nodeName").and_then(Value::as_str) {
        causes.extend(path.child("nodeName").all_invalid(name, names::dns_subdomain(name)));
    }
    if let Some(name) = given(endpoint, "hostname").and_then(Value::as_str) {
        causes.extend(path.child("hostname").all_invalid(name, names::dns_label(name)));
    }
    let (hints, path) = (part(endpoint, "hints"), path.child("hints"));
    for (field, check) in
        [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::dns_subdomain)]
    {
        let (hints, path) = (list(hints, field), path.child(field));
        if hints.len() > HINTS_MAX {
            causes.push(path.too_many(hints.len(), HINTS_MAX));
            return;
        }
        let mut seen = BTreeSet::new();
        for (index, hint) in hints.iter().enumerate() {
            let (name, path) = (text(hint, "name"), path.index(index).child("name"));
            if !seen.insert(name) {
                causes.push(path.duplicate(name));
            }
            causes.extend(path.all_invalid(name, check(name)));
        }
    }
}

/// Checks a domain name with two parts or more, which may end with a dot.
fn full_domain_name(name: &str, path: &Path) -> Option<Cause> {
    if name.is_empty() {
        return Some(path.required(""));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = names::dns_subdomain(name);
    if !messages.is_empty() {
        return Some(path.invalid(name, &messages.join(",")));
    }
    if !name.contains('.') {
        return Some(path.invalid(name, "should be a domain with at least two segments separated by dots"));
    }
    let labels = name.split('.').map(|label| (label, names::dns_label(label)));
    let malformed = labels.into_iter().find(|(_, messages)| !messages.is_empty());
    malformed.map(|(label, messages)| path.invalid(label, &messages.join(",")))
}

fn slice_ports(object: &Value, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, port) in list(object, "ports").iter().enumerate() {
        let path = Path::root("ports").index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            causes.extend(path.child("name").all_invalid(name, names::dns_label(name)));
        }
        if !seen.insert(name) {
            causes.push(path.child("name").duplicate(name));
        }
        let protocol = given(port, "protocol").and_then(Value::as_str).unwrap_or_default();
        if !PROTOCOLS.contains(&protocol) {
            causes.push(path.child("protocol").not_supported(protocol, &PROTOCOLS));
        }
        if let Some(protocol) = given(port, "appProtocol").and_then(Value::as_str) {
            causes.extend(path.child("appProtocol").all_invalid(protocol, names::qualified_name(protocol)));
        }
    }
}
