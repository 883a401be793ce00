//! The addresses of Services.

use std::net::IpAddr;

use lockstep_engine::object::annotation;
use serde_json::Value;

use crate::names::REQUESTED_IPS;

/// Returns the addresses that a Service was assigned.
pub fn assigned(service: &Value) -> impl Iterator<Item = IpAddr> {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    ingress.filter_map(|entry| entry["ip"].as_str()?.parse().ok())
}

/// Returns the cluster IPs of a Service of which one has another family than an address. MetalLB gives a requested address only to a
/// Service with this one family: one with both has to request an address of each.
pub fn other_families(service: &Value, address: IpAddr) -> Option<String> {
    let own = service["spec"]["clusterIPs"].as_array()?.iter().filter_map(Value::as_str);
    let is_other = |own: &str| own.parse::<IpAddr>().is_ok_and(|own| own.is_ipv4() != address.is_ipv4());
    own.clone().any(is_other).then(|| own.collect::<Vec<_>>().join(", "))
}

/// Returns the addresses that a Service has, or requests in any of the supported ways.
pub fn addresses(service: &Value) -> Vec<IpAddr> {
    let spec = &service["spec"];
    let mut addresses: Vec<IpAddr> = assigned(service).collect();
    let annotations = REQUESTED_IPS.into_iter().filter_map(|name| annotation(service, name));
    let external = spec["externalIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let texts =
        annotations.flat_map(|list| list.split(',')).chain(spec["loadBalancerIP"].as_str()).chain(external);
    addresses.extend(texts.filter_map(|text| text.trim().parse::<IpAddr>().ok()));
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}
