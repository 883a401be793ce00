//! The address of the load balancer: is it MetalLB's to give, and does nobody else have it?
//!
//! Source: "Field: `metalLBVirtualIP`".

use std::net::IpAddr;

use serde_json::Value;

use super::hosted_cluster;
use super::names::{API_SERVICE, REQUESTED_IPS};
use super::parse::address::AddressRange;
use super::prerequisites::{Remedy, Unmet};
use super::source::Source;
use super::view::View;
use super::world::{Index, control_plane_namespace};
use crate::engine::action::Class;
use crate::object::{Name, annotation};

/// What keeps the address from being used, where one is. Once the API server's Service has it, nothing does.
pub fn check(view: &View<'_>) -> Option<Unmet> {
    let is_used = match view.hosted_cluster().ours() {
        Some(cluster) => hosted_cluster::uses_load_balancer(cluster),
        None => view.spec.expose_through_load_balancer,
    };
    let text = &view.spec.metal_lb_virtual_ip;
    // Where the exposure has changed, the HostedCluster keeps what it has, its address included.
    if !is_used || (text.is_empty() && !view.spec.expose_through_load_balancer) {
        return None;
    }
    let Ok(address) = text.parse::<IpAddr>() else {
        return Some(Unmet::mend(format!("spec.metalLBVirtualIP {text:?} is no IPv4 address")));
    };
    if view.service().is_some_and(|service| assigned(service).any(|other| other == address)) {
        return None;
    }
    if let Some(failure) = view.world.refusal(Source::Services) {
        return Some(Unmet::wait(format!(
            "nobody knows who uses address {address}: Services can't be watched ({})",
            failure.message
        )));
    }
    conflict(view, address).or_else(|| membership(view, address))
}

fn conflict(view: &View<'_>, address: IpAddr) -> Option<Unmet> {
    let own = Name::new(&control_plane_namespace(view.key), API_SERVICE);
    let index = Index::Vip(view.spec.metal_lb_virtual_ip.clone());
    let stays = |name: &&Name| **name != own && !is_moving(view, name, address);
    let service = view.world.users(&address).find(stays).map(|name| format!("Service {name}"));
    let rival = || view.world.rival(&index, view.key).map(|rival| format!("DPFHCPBridge {rival}"));
    let user = service.or_else(rival)?;
    let message =
        format!("address {address} of spec.metalLBVirtualIP is in use by {user}; choose another, or free it");
    Some(Unmet { message, remedy: Remedy::FreeAddress })
}

/// Whether a Service is that of a bridge which has moved on to another address. Two that swap theirs would wait for each
/// other for ever.
fn is_moving(view: &View<'_>, service: &Name, address: IpAddr) -> bool {
    if service.name != API_SERVICE {
        return false;
    }
    let index = Index::ControlPlane(service.namespace.clone());
    let mut bridges = view.world.bridges.keys_by(&index).filter_map(|name| view.world.bridges.get(name));
    bridges.any(|bridge| {
        let wanted =
            bridge.spec.as_ref().ok().and_then(|spec| spec.metal_lb_virtual_ip.parse::<IpAddr>().ok());
        let is_given = |wanted| view.world.all(Source::Pools).any(|(_, pool)| holds(pool, wanted));
        wanted.is_some_and(|wanted| wanted != address && is_given(wanted))
    })
}

fn membership(view: &View<'_>, address: IpAddr) -> Option<Unmet> {
    if let Some(failure) = view.world.refusal(Source::Pools) {
        return Some(Unmet::wait(match failure.class {
            Class::NotFound => "MetalLB is not installed: IPAddressPools are not served here".to_owned(),
            _ => format!("IPAddressPools can't be watched ({})", failure.message),
        }));
    }
    let namespace = control_plane_namespace(view.key);
    let mut names = Vec::new();
    for (name, pool) in view.world.all(Source::Pools) {
        if holds(pool, address) && serves(pool, &namespace) {
            return None;
        }
        names.push(name.to_string());
    }
    if names.is_empty() {
        return Some(Unmet::wait(format!("there is no IPAddressPool; create one that holds {address}")));
    }
    Some(Unmet::mend(format!(
        "address {address} of spec.metalLBVirtualIP is in no IPAddressPool for namespace {namespace} (there are {}); choose \
         another, or extend a pool",
        names.join(", ")
    )))
}

/// Whether an address is in a pool. A range that can't be read holds nothing.
fn holds(pool: &Value, address: IpAddr) -> bool {
    let avoids_buggy = pool["spec"]["avoidBuggyIPs"] == true;
    let ranges = pool["spec"]["addresses"].as_array().into_iter().flatten().filter_map(Value::as_str);
    ranges
        .filter_map(|range| AddressRange::parse(range).ok())
        .any(|range| range.contains(address, avoids_buggy))
}

/// Whether a pool is for the Services of a namespace. Selectors are for MetalLB to evaluate.
fn serves(pool: &Value, namespace: &str) -> bool {
    let allocation = &pool["spec"]["serviceAllocation"];
    let is_listed = |list: &Vec<Value>| list.iter().any(|entry| entry == namespace);
    match allocation["namespaces"].as_array().filter(|list| !list.is_empty()) {
        Some(list) => is_listed(list) || allocation["namespaceSelectors"].is_array(),
        None => true,
    }
}

/// The addresses that a Service was given.
pub fn assigned(service: &Value) -> impl Iterator<Item = IpAddr> {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    ingress.filter_map(|entry| entry["ip"].as_str()?.parse().ok())
}

/// The addresses that a Service has, or asks for in one of the ways there are.
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
