//! The request for an address from MetalLB: it is made only when MetalLB can grant it, and repeated after a refusal.
//!
//! A HostedCluster has no field for the address of a load balancer. So the Bridge requests it where MetalLB looks for
//! requests: on the Service that HyperShift creates. If a Service requests an address that another Service has, MetalLB takes
//! its own address away. It does not process the Service again by itself (decision 53).
//!
//! Source: "Field: `metalLBVirtualIP`".

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{Name, annotation, metadata};
use lockstep_engine::time::Monotonic;
use serde_json::{Value, json};

use crate::model::address_request::{self, AddressRequest};
use crate::model::hosted_cluster;
use crate::model::service::assigned;
use crate::model::source::Source;
use crate::names::{self, ASKED_AGAIN, REQUESTED_IPS, kept};
use crate::snapshot::{BridgeSnapshot, OwnedObject};
use crate::store::{addresses, pools};

/// Returns the write that requests the address from MetalLB, or repeats the request. It is `None` if the address has been
/// requested, or there is no Service yet. While MetalLB can't grant it, only an address that the cluster lost is requested.
pub fn write(snapshot: &BridgeSnapshot<'_>, can_grant: bool) -> Option<Action> {
    let (service, text) = (snapshot.service()?, wanted(snapshot)?);
    let [request, older] = REQUESTED_IPS;
    let address = text.parse::<IpAddr>().ok()?;
    if service["spec"]["type"] != "LoadBalancer" {
        return None;
    }
    let mut annotations = if !can_grant {
        json!({ request: lost(snapshot)?.to_string() })
    } else if !is_asked(service, text) {
        may_ask(snapshot, address).then(|| json!({ request: text }))?
    } else if again_at(snapshot).is_some_and(|at| at <= snapshot.now.monotonic) {
        // Any write on the Service makes MetalLB process it.
        json!({ ASKED_AGAIN: snapshot.now.wall.timestamp_seconds().to_string() })
    } else {
        return None;
    };
    // MetalLB refuses a Service with both annotations.
    if annotation(service, older).is_some() {
        annotations[older] = Value::Null;
    }
    let patch = json!({ "metadata": { "uid": metadata(service, "uid"), "annotations": annotations } });
    let target = Name::of(service).object(&names::service());
    Some(Action::Kube(KubeRequest::Patch { target, subresource: None, patch: Arc::new(patch) }))
}

/// Returns whether an address without obstacles may be requested from MetalLB. A Service that requests an address of another
/// Service loses its own at once and gets none. So the other one has to release it first. Only if bridges wait for each other
/// in a circle, one has to begin: the oldest one. A Service without an address has none to lose, and an earlier request of
/// its own may be what the other waits for.
fn may_ask(snapshot: &BridgeSnapshot<'_>, address: IpAddr) -> bool {
    let has_none = snapshot.service().is_some_and(|service| assigned(service).next().is_none());
    has_none || (is_loaded(snapshot) && user(snapshot, address).is_none()) || opens_circle(snapshot, address)
}

/// Returns whether MetalLB has loaded the current addresses of the bridge's own pool. Before, it refuses the new address. A MetalLB
/// without a status of pools does not show it.
fn is_loaded(snapshot: &BridgeSnapshot<'_>) -> bool {
    let Some(OwnedObject::Ours(pool)) = snapshot.own_pool_object(Source::Pools) else { return true };
    let addresses = pool["spec"]["addresses"].as_array().map(Vec::len);
    pool[kept::SIZE].is_null()
        || pool[kept::SIZE].as_u64() == addresses.and_then(|count| count.try_into().ok())
}

fn opens_circle(snapshot: &BridgeSnapshot<'_>, address: IpAddr) -> bool {
    let store = snapshot.store;
    let (mut circle, mut wanted) = (vec![snapshot.key], address);
    loop {
        let has_it = |user: &&Name| {
            let service = store.find(Source::Services, user).ok().flatten();
            service.is_some_and(|service| assigned(service).any(|given| given == wanted))
        };
        let holder = store.users(&wanted).find(has_it);
        let Some((next, further)) = holder.and_then(|holder| addresses::mover(store, holder)) else {
            return false;
        };
        if next == snapshot.key {
            break;
        }
        if circle.contains(&next) {
            return false;
        }
        circle.push(next);
        wanted = further;
    }
    let others = circle.into_iter().skip(1).filter_map(|other| store.bridges.get(other));
    others.into_iter().all(|other| snapshot.bridge.is_older(other))
}

/// Returns the address that the load balancer should have, if there is one.
pub fn wanted<'a>(snapshot: &BridgeSnapshot<'a>) -> Option<&'a str> {
    let uses_load_balancer = snapshot.hosted_cluster().ours().is_some_and(hosted_cluster::uses_load_balancer);
    uses_load_balancer.then_some(snapshot.spec.metal_lb_virtual_ip.as_str())
}

/// Returns the address that the cluster had, if MetalLB has taken it away for a request that it can't grant. Otherwise a
/// cluster would stay without an address if another Service was faster, or if a bridge gives up a swap of addresses half-way.
fn lost(snapshot: &BridgeSnapshot<'_>) -> Option<IpAddr> {
    let (address, service) = (outstanding(snapshot)?, snapshot.service()?);
    let before = hosted_cluster::host(snapshot.hosted_cluster().ours()?)?.parse::<IpAddr>().ok()?;
    let is_free = assigned(service).next().is_none() && user(snapshot, before).is_none();
    let namespace = metadata(service, "namespace");
    let can_have = is_free && pools::gives(snapshot.store, before, namespace, Some(service));
    (before != address && can_have).then_some(before)
}

fn is_asked(service: &Value, address: &str) -> bool {
    annotation(service, REQUESTED_IPS[0]) == Some(address)
}

/// Returns the address that was requested from MetalLB and is not assigned.
fn outstanding(snapshot: &BridgeSnapshot<'_>) -> Option<IpAddr> {
    let (service, text) = (snapshot.service()?, wanted(snapshot)?);
    let address = text.parse::<IpAddr>().ok().filter(|_| is_asked(service, text))?;
    (!assigned(service).any(|given| given == address)).then_some(address)
}

/// Returns when the request is repeated; `None` if MetalLB has assigned the address, or another Service has it.
pub fn again_at(snapshot: &BridgeSnapshot<'_>) -> Option<Monotonic> {
    let address = outstanding(snapshot)?;
    if user(snapshot, address).is_some() {
        return None;
    }
    Some(last_request(snapshot, address).map_or(Monotonic::START, AddressRequest::due))
}

/// Returns the request to record after a write; `None` if MetalLB must refuse it, so that it is repeated as soon as the
/// address is free.
pub fn asked(snapshot: &BridgeSnapshot<'_>) -> Option<AddressRequest> {
    let address = outstanding(snapshot).filter(|address| user(snapshot, *address).is_none())?;
    Some(AddressRequest::after(last_request(snapshot, address), address, snapshot.now.monotonic))
}

fn last_request<'a>(snapshot: &BridgeSnapshot<'a>, address: IpAddr) -> Option<&'a AddressRequest> {
    snapshot.memory.asked.as_ref().filter(|request| request.address == address)
}

/// Returns another Service that has an address, or requests it.
fn user<'a>(snapshot: &BridgeSnapshot<'a>, address: IpAddr) -> Option<&'a Name> {
    addresses::user(snapshot.store, snapshot.key, address)
}

/// Returns whether the recorded request is outdated: the address was assigned, or another Service has it.
pub fn is_over(snapshot: &BridgeSnapshot<'_>) -> bool {
    outstanding(snapshot).is_none_or(|address| user(snapshot, address).is_some())
}

/// Returns the delay until the next check of a cluster that has lost its address and can have neither: no watch enqueues its
/// bridge when the former address is free.
pub fn look_again_after(snapshot: &BridgeSnapshot<'_>) -> Option<Duration> {
    let (service, cluster) = (snapshot.service()?, snapshot.hosted_cluster().ours()?);
    outstanding(snapshot)?;
    let is_lost = hosted_cluster::has_endpoint(cluster) && assigned(service).next().is_none();
    is_lost.then_some(address_request::BACKOFF.initial)
}

#[cfg(test)]
mod tests;
