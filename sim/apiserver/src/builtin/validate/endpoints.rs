//! `Endpoints` and `EndpointSlice`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::address;
use super::common::{PROTOCOLS, immutable, port_number};
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::{given, integer, list, text};
use crate::cause::Cause;

const ADDRESSES_MAX: usize = 100;

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
    for (index, endpoint) in list(object, "endpoints").iter().enumerate() {
        let path = Path::root("endpoints").index(index).child("addresses");
        let addresses = list(endpoint, "addresses");
        if addresses.is_empty() {
            causes.push(path.required("must contain at least 1 address"));
        } else if addresses.len() > ADDRESSES_MAX {
            causes.push(path.too_many(ADDRESSES_MAX));
        }
        for (index, text) in addresses.iter().filter_map(Value::as_str).enumerate() {
            let path = path.index(index);
            let before = causes.len();
            match kind {
                "FQDN" => causes.extend(path.all_invalid(text, names::dns_subdomain(text))),
                _ => address::ip(text, &path, causes),
            }
            if kind != "FQDN" && causes.len() == before {
                reachable(text, false, &path, causes);
            }
        }
    }
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
    }
}
