//! Which Services have or request an address, and which of them can give it up.
//!
//! Source: "Field: `metalLBVirtualIP`".

use std::net::IpAddr;

use lockstep_engine::object::{Name, is_controlled_by, is_deleting};

use super::{Store, pools};
use crate::model::bridge::Index;
use crate::model::hosted_cluster;
use crate::model::source::Source;
use crate::names::{API_SERVICE, api_server_service};

/// Returns the Services that have an address, or request it, besides that of a bridge.
pub fn users<'a>(
    store: &'a Store,
    bridge: &Name,
    address: IpAddr,
) -> impl Iterator<Item = &'a Name> + use<'a> {
    let own = api_server_service(bridge);
    store.users(&address).filter(move |user| **user != own)
}

/// Returns a Service that has an address, or requests it, so that it is not free for a bridge.
pub fn user<'a>(store: &'a Store, bridge: &Name, address: IpAddr) -> Option<&'a Name> {
    users(store, bridge, address).next()
}

/// Returns the bridge of an API server's Service that can change the Service's address, and the address that it requests.
pub fn mover<'a>(store: &'a Store, service: &Name) -> Option<(&'a Name, IpAddr)> {
    if service.name != API_SERVICE {
        return None;
    }
    let index = Index::ControlPlane(service.namespace.clone());
    store.bridges.keys_by(&index).find_map(|name| {
        let bridge = store.bridges.get(name).filter(|bridge| !bridge.deleting)?;
        let has_dpu_cluster = store.find(Source::DpuClusters, bridge.dpu_cluster.as_ref()?).ok()?.is_some();
        let cluster = store.find(Source::HostedClusters, name).ok()??;
        let is_ours = is_controlled_by(cluster, &bridge.uid) && !is_deleting(cluster);
        let can_act = has_dpu_cluster && is_ours && hosted_cluster::uses_load_balancer(cluster);
        let wanted = bridge.spec.as_ref().ok()?.metal_lb_virtual_ip.parse().ok()?;
        can_act.then_some((name, wanted))
    })
}

/// Returns whether a Service belongs to a bridge that changes to another address, and can have it. The other address may
/// belong to a bridge that changes its address as well, even to that of the first one. Then the search returns to a bridge
/// that was passed already. Otherwise two bridges that swap their addresses would wait for each other for ever.
pub fn is_moving(store: &Store, service: &Name, address: IpAddr, passed: &mut Vec<Name>) -> bool {
    let Some((bridge, wanted)) = mover(store, service).filter(|(_, wanted)| *wanted != address) else {
        return false;
    };
    if passed.contains(bridge) {
        return true;
    }
    passed.push(bridge.clone());
    let object = store.find(Source::Services, service).ok().flatten();
    pools::gives(store, wanted, &service.namespace, object)
        && store.rival(&Index::Vip(wanted.to_string()), bridge).is_none()
        && users(store, bridge, wanted).all(|user| is_moving(store, user, wanted, passed))
}
