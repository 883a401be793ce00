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
use super::world::{Index, World, control_plane_namespace};
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
    let index = Index::Vip(view.spec.metal_lb_virtual_ip.clone());
    let mut bridges = vec![view.key.clone()];
    let mut stays = |name: &&Name| !is_moving(view.world, name, address, &mut bridges);
    let service = users(view.world, view.key, address).find(&mut stays).map(|name| format!("Service {name}"));
    let rival = || view.world.rival(&index, view.key).map(|rival| format!("DPFHCPBridge {rival}"));
    let user = service.or_else(rival)?;
    let message =
        format!("address {address} of spec.metalLBVirtualIP is in use by {user}; choose another, or free it");
    Some(Unmet { message, remedy: Remedy::FreeAddress })
}

/// The API server's Service of a bridge.
fn own_service(bridge: &Name) -> Name {
    Name::new(&control_plane_namespace(bridge), API_SERVICE)
}

/// The Services that have an address, or ask for it, but for that of a bridge.
fn users<'a>(world: &'a World, bridge: &Name, address: IpAddr) -> impl Iterator<Item = &'a Name> + use<'a> {
    let own = own_service(bridge);
    world.users(&address).filter(move |user| **user != own)
}

/// The bridge of an API server's Service, and the address that it wants.
fn bridge_of<'a>(world: &'a World, service: &Name) -> Option<(&'a Name, IpAddr)> {
    if service.name != API_SERVICE {
        return None;
    }
    let index = Index::ControlPlane(service.namespace.clone());
    world.bridges.keys_by(&index).find_map(|name| {
        let bridge = world.bridges.get(name).filter(|bridge| !bridge.deleting)?;
        Some((name, bridge.spec.as_ref().ok()?.metal_lb_virtual_ip.parse().ok()?))
    })
}

/// Whether a Service is that of a bridge which moves on to another address, and can have it. That may be held by a bridge
/// that moves on itself, be it to what the first one has: then the way leads back to one of those that were passed.
fn is_moving(world: &World, service: &Name, address: IpAddr, passed: &mut Vec<Name>) -> bool {
    let Some((bridge, wanted)) = bridge_of(world, service).filter(|(_, wanted)| *wanted != address) else {
        return false;
    };
    if passed.contains(bridge) {
        return true;
    }
    passed.push(bridge.clone());
    let namespace = control_plane_namespace(bridge);
    let is_given = world.all(Source::Pools).any(|(_, pool)| holds(pool, wanted) && serves(pool, &namespace));
    is_given
        && world.rival(&Index::Vip(wanted.to_string()), bridge).is_none()
        && users(world, bridge, wanted).all(|user| is_moving(world, user, wanted, passed))
}

/// The Service that has an address, or asks for it, where it is not free for a bridge.
pub fn user<'a>(view: &View<'a>, address: IpAddr) -> Option<&'a Name> {
    users(view.world, view.key, address).next()
}

/// Whether MetalLB may be asked for an address. A Service that asks for what another has loses its own at once and gets
/// nothing. Only where bridges wait for each other in a circle one has to let go: the oldest of them does.
pub fn may_ask(view: &View<'_>, address: IpAddr) -> bool {
    user(view, address).is_none() || opens_circle(view, address)
}

fn opens_circle(view: &View<'_>, address: IpAddr) -> bool {
    let world = view.world;
    let (mut circle, mut wanted) = (vec![view.key], address);
    loop {
        let holder = world.users(&wanted).find(|user| {
            let service = world.find(Source::Services, user).ok().flatten();
            service.is_some_and(|service| assigned(service).any(|given| given == wanted))
        });
        let Some((next, further)) = holder.and_then(|holder| bridge_of(world, holder)) else { return false };
        if next == view.key {
            break;
        }
        if circle.contains(&next) {
            return false;
        }
        circle.push(next);
        wanted = further;
    }
    circle.iter().all(|other| {
        let other = world.bridges.get(other).filter(|_| *other != view.key);
        other.is_none_or(|other| view.bridge.is_older(other))
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
