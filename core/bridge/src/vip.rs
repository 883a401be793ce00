//! The address of the load balancer: whether MetalLB can assign it, and no other Service has it.
//!
//! Source: "Field: `metalLBVirtualIP`".

use std::net::IpAddr;

use lockstep_engine::action::Class;
use lockstep_engine::object::{Name, annotation, controller_uid, is_deleting};
use serde_json::Value;

use super::names::{API_SERVICE, REQUESTED_IPS};
use super::prerequisites::{Resolution, Unmet};
use super::source::Source;
use super::view::BridgeSnapshot;
use super::world::{Index, World, control_plane_namespace};
use super::{hosted_cluster, pool};

/// Returns why the address can't be used, if there is one. Once the API server's Service has it, there is no obstacle.
pub fn check(view: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let is_used = match view.hosted_cluster().ours() {
        Some(cluster) => hosted_cluster::uses_load_balancer(cluster),
        None => view.spec.expose_through_load_balancer,
    };
    let text = &view.spec.metal_lb_virtual_ip;
    // If the exposure has changed, the HostedCluster keeps its current one, including its address.
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

fn conflict(view: &BridgeSnapshot<'_>, address: IpAddr) -> Option<Unmet> {
    let mut passed = vec![view.key.clone()];
    let mut stays = |name: &&Name| !is_moving(view.world, name, address, &mut passed);
    let service = users(view.world, view.key, address).find(&mut stays).map(|name| format!("Service {name}"));
    let index = Index::Vip(view.spec.metal_lb_virtual_ip.clone());
    let rival = || view.world.rival(&index, view.key).map(|rival| format!("DPFHCPBridge {rival}"));
    let user = service.or_else(rival)?;
    let message =
        format!("address {address} of spec.metalLBVirtualIP is in use by {user}; choose another, or free it");
    Some(Unmet { message, remedy: Resolution::FreeAddress })
}

/// Returns the API server's Service of a bridge.
pub fn own_service(bridge: &Name) -> Name {
    Name::new(&control_plane_namespace(bridge), API_SERVICE)
}

/// Returns the Services that have an address, or request it, besides that of a bridge.
fn users<'a>(world: &'a World, bridge: &Name, address: IpAddr) -> impl Iterator<Item = &'a Name> + use<'a> {
    let own = own_service(bridge);
    world.users(&address).filter(move |user| **user != own)
}

/// Returns a Service that has an address, or requests it, so that it is not free for a bridge.
pub fn user<'a>(view: &BridgeSnapshot<'a>, address: IpAddr) -> Option<&'a Name> {
    users(view.world, view.key, address).next()
}

/// Returns the bridge of an API server's Service that can change the Service's address, and the address that it requests.
fn mover<'a>(world: &'a World, service: &Name) -> Option<(&'a Name, IpAddr)> {
    if service.name != API_SERVICE {
        return None;
    }
    let index = Index::ControlPlane(service.namespace.clone());
    world.bridges.keys_by(&index).find_map(|name| {
        let bridge = world.bridges.get(name).filter(|bridge| !bridge.deleting)?;
        let has_dpu_cluster = world.find(Source::DpuClusters, bridge.dpu_cluster.as_ref()?).ok()?.is_some();
        let cluster = world.find(Source::HostedClusters, name).ok()??;
        let is_ours = controller_uid(cluster) == Some(&bridge.uid) && !is_deleting(cluster);
        let can_act = has_dpu_cluster && is_ours && hosted_cluster::uses_load_balancer(cluster);
        let wanted = bridge.spec.as_ref().ok()?.metal_lb_virtual_ip.parse().ok()?;
        can_act.then_some((name, wanted))
    })
}

/// Returns whether a Service belongs to a bridge that changes to another address, and can have it. The other address may
/// belong to a bridge that changes its address as well, even to that of the first one. Then the search returns to a bridge
/// that was passed already. Otherwise two bridges that swap their addresses would wait for each other for ever.
fn is_moving(world: &World, service: &Name, address: IpAddr, passed: &mut Vec<Name>) -> bool {
    let Some((bridge, wanted)) = mover(world, service).filter(|(_, wanted)| *wanted != address) else {
        return false;
    };
    if passed.contains(bridge) {
        return true;
    }
    passed.push(bridge.clone());
    let object = world.find(Source::Services, service).ok().flatten();
    pool::gives(world, wanted, &service.namespace, object)
        && world.rival(&Index::Vip(wanted.to_string()), bridge).is_none()
        && users(world, bridge, wanted).all(|user| is_moving(world, user, wanted, passed))
}

/// Returns whether an address without obstacles may be requested from MetalLB. A Service that requests an address of another
/// Service loses its own at once and gets none. So the other one has to release it first. Only if bridges wait for each other
/// in a circle, one has to begin: the oldest one. A Service without an address has none to lose, and an earlier request of
/// its own may be what the other waits for.
pub fn may_ask(view: &BridgeSnapshot<'_>, address: IpAddr) -> bool {
    let has_none = view.service().is_some_and(|service| assigned(service).next().is_none());
    has_none || user(view, address).is_none() || opens_circle(view, address)
}

fn opens_circle(view: &BridgeSnapshot<'_>, address: IpAddr) -> bool {
    let world = view.world;
    let (mut circle, mut wanted) = (vec![view.key], address);
    loop {
        let has_it = |user: &&Name| {
            let service = world.find(Source::Services, user).ok().flatten();
            service.is_some_and(|service| assigned(service).any(|given| given == wanted))
        };
        let holder = world.users(&wanted).find(has_it);
        let Some((next, further)) = holder.and_then(|holder| mover(world, holder)) else { return false };
        if next == view.key {
            break;
        }
        if circle.contains(&next) {
            return false;
        }
        circle.push(next);
        wanted = further;
    }
    let others = circle.into_iter().skip(1).filter_map(|other| world.bridges.get(other));
    others.into_iter().all(|other| view.bridge.is_older(other))
}

fn membership(view: &BridgeSnapshot<'_>, address: IpAddr) -> Option<Unmet> {
    if let Some(failure) = view.world.refusal(Source::Pools) {
        return Some(Unmet::wait(match failure.class {
            Class::NotFound => "MetalLB is not installed: IPAddressPools are not served here".to_owned(),
            _ => format!("IPAddressPools can't be watched ({})", failure.message),
        }));
    }
    let namespace = control_plane_namespace(view.key);
    if pool::gives(view.world, address, &namespace, view.service()) {
        return None;
    }
    if view.world.all(Source::Pools).next().is_none() {
        return Some(Unmet::wait(format!("there is no IPAddressPool; create one that holds {address}")));
    }
    Some(Unmet::mend(pool::refusal(view.world, address, &namespace)))
}

/// Returns the addresses that a Service was assigned.
pub fn assigned(service: &Value) -> impl Iterator<Item = IpAddr> {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    ingress.filter_map(|entry| entry["ip"].as_str()?.parse().ok())
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
