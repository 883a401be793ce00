//! The address of the load balancer: whether MetalLB can assign it, and no other Service has it.
//!
//! Source: "Field: `metalLBVirtualIP`".

use std::net::IpAddr;

use lockstep_engine::action::ErrorKind;
use lockstep_engine::object::Name;

use super::own_pool;
use super::unmet::{Resolution, Unmet};
use crate::model::bridge::Index;
use crate::model::hosted_cluster::uses_load_balancer;
use crate::model::service::assigned;
use crate::model::source::Source;
use crate::names::control_plane_namespace;
use crate::snapshot::BridgeSnapshot;
use crate::store::{addresses, pools};

/// Returns why the address can't be used, if there is one. Once the API server's Service has it, there is no obstacle, except
/// that the bridge's own pool may not be as it should be.
pub fn check(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let is_used = match snapshot.hosted_cluster().ours() {
        Some(cluster) => uses_load_balancer(cluster),
        None => snapshot.spec.expose_through_load_balancer,
    };
    let text = &snapshot.spec.metal_lb_virtual_ip;
    // If the exposure has changed, the HostedCluster keeps its current one, including its address.
    if !is_used || (text.is_empty() && !snapshot.spec.expose_through_load_balancer) {
        return None;
    }
    let Ok(address) = text.parse::<IpAddr>() else {
        return Some(Unmet::user_action(format!("spec.metalLBVirtualIP {text:?} is no IPv4 address")));
    };
    if snapshot.service().is_some_and(|service| assigned(service).any(|other| other == address)) {
        // The cluster works, even if its own pool has been changed and can't be restored.
        return own_pool::check(snapshot).map(|unmet| Unmet::wait(unmet.message));
    }
    if let Some(failure) = snapshot.store.refusal(Source::Services) {
        return Some(Unmet::wait(format!(
            "it is unknown which Service uses address {address}: Services can't be watched ({})",
            failure.message
        )));
    }
    conflict(snapshot, address).or_else(|| membership(snapshot, address))
}

fn conflict(snapshot: &BridgeSnapshot<'_>, address: IpAddr) -> Option<Unmet> {
    let mut passed = vec![snapshot.key.clone()];
    let mut stays = |name: &&Name| !addresses::is_moving(snapshot.store, name, address, &mut passed);
    let service = addresses::users(snapshot.store, snapshot.key, address)
        .find(&mut stays)
        .map(|name| format!("Service {name}"));
    let index = Index::Vip(snapshot.spec.metal_lb_virtual_ip.clone());
    let rival = || snapshot.store.rival(&index, snapshot.key).map(|rival| format!("DPFHCPBridge {rival}"));
    let user = service.or_else(rival)?;
    let message =
        format!("address {address} of spec.metalLBVirtualIP is in use by {user}; choose another, or free it");
    Some(Unmet { message, remedy: Resolution::FreeAddress })
}

fn membership(snapshot: &BridgeSnapshot<'_>, address: IpAddr) -> Option<Unmet> {
    if snapshot.own_pool().is_some() {
        return own_pool::check(snapshot);
    }
    if let Some(failure) = snapshot.store.refusal(Source::Pools) {
        return Some(Unmet::wait(match failure.class {
            ErrorKind::KindNotServed => {
                "MetalLB is not installed: IPAddressPools are not served here".to_owned()
            }
            _ => format!("IPAddressPools can't be watched ({})", failure.message),
        }));
    }
    let namespace = control_plane_namespace(snapshot.key);
    if pools::gives(snapshot.store, address, &namespace, snapshot.service()) {
        return None;
    }
    if snapshot.store.all(Source::Pools).next().is_none() {
        return Some(Unmet::wait(format!("there is no IPAddressPool; create one that holds {address}")));
    }
    Some(Unmet::user_action(pools::refusal(snapshot.store, address, &namespace)))
}
