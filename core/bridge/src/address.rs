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

use lockstep_engine::action::Action;
use lockstep_engine::backoff::Backoff;
use lockstep_engine::object::{Name, annotation, metadata};
use lockstep_engine::time::Monotonic;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::names::{self, ASKED_AGAIN, REQUESTED_IPS};
use super::view::BridgeSnapshot;
use super::{exposure, hosted_cluster, pool, vip};

/// The backoff of repeated requests for a free address that MetalLB has not assigned.
const ASK_AGAIN: Backoff = Backoff { initial: Duration::from_secs(30), max: Duration::from_mins(10) };

/// The last request for a free address.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Asked {
    address: IpAddr,
    at: Monotonic,
    times: u32,
}

impl Asked {
    fn due(&self) -> Monotonic {
        self.at + ASK_AGAIN.ceiling(self.times)
    }
}

/// Returns the write that requests the address from MetalLB, or repeats the request. It is `None` if the address has been
/// requested, MetalLB can't grant it, or there is no Service yet.
pub fn write(view: &BridgeSnapshot<'_>) -> Option<Action> {
    let (service, text) = (view.service()?, wanted(view)?);
    let [request, older] = REQUESTED_IPS;
    let address = text.parse::<IpAddr>().ok()?;
    if service["spec"]["type"] != "LoadBalancer" {
        return None;
    }
    let mut annotations = if vip::check(view).is_some() {
        json!({ request: lost(view)?.to_string() })
    } else if !is_asked(service, text) {
        vip::may_ask(view, address).then(|| json!({ request: text }))?
    } else if again_after(view).is_some_and(|delay| delay.is_zero()) {
        // Any write on the Service makes MetalLB process it.
        json!({ ASKED_AGAIN: view.now.wall.timestamp_seconds().to_string() })
    } else {
        return None;
    };
    // MetalLB refuses a Service with both annotations.
    if annotation(service, older).is_some() {
        annotations[older] = Value::Null;
    }
    let patch = json!({ "metadata": { "uid": metadata(service, "uid"), "annotations": annotations } });
    let target = Name::of(service).object(&names::service());
    Some(Action::Patch { target, subresource: None, patch: Arc::new(patch) })
}

/// Returns the address that the load balancer should have, if there is one.
pub fn wanted<'a>(view: &BridgeSnapshot<'a>) -> Option<&'a str> {
    let uses_load_balancer = view.hosted_cluster().ours().is_some_and(hosted_cluster::uses_load_balancer);
    let address = view.spec.metal_lb_virtual_ip.as_str();
    (uses_load_balancer && !address.is_empty()).then_some(address)
}

/// Returns the address that the cluster had, if MetalLB has taken it away for a request that it can't grant. Otherwise a
/// cluster would stay without an address if another Service was faster, or if a bridge gives up a swap of addresses half-way.
fn lost(view: &BridgeSnapshot<'_>) -> Option<IpAddr> {
    let (address, service) = (outstanding(view)?, view.service()?);
    let before = exposure::host(view.hosted_cluster().ours()?)?.parse::<IpAddr>().ok()?;
    let is_free = vip::assigned(service).next().is_none() && vip::user(view, before).is_none();
    let namespace = metadata(service, "namespace");
    let can_have = is_free && pool::gives(view.world, before, namespace, Some(service));
    (before != address && can_have).then_some(before)
}

fn is_asked(service: &Value, address: &str) -> bool {
    annotation(service, REQUESTED_IPS[0]) == Some(address)
}

/// Returns the address that was requested from MetalLB and is not assigned.
fn outstanding(view: &BridgeSnapshot<'_>) -> Option<IpAddr> {
    let (service, text) = (view.service()?, wanted(view)?);
    let address = text.parse::<IpAddr>().ok().filter(|_| is_asked(service, text))?;
    (!vip::assigned(service).any(|given| given == address)).then_some(address)
}

/// Returns the delay until the request is repeated; `None` if MetalLB has assigned the address, or can't.
pub fn again_after(view: &BridgeSnapshot<'_>) -> Option<Duration> {
    let address = outstanding(view).filter(|_| vip::check(view).is_none())?;
    if vip::user(view, address).is_some() {
        return None;
    }
    let asked = view.memory.asked.as_ref().filter(|asked| asked.address == address);
    Some(asked.map_or(Duration::ZERO, |asked| asked.due().since(view.now.monotonic)))
}

/// Returns the request to record after a write; `None` if MetalLB must refuse it, so that it is repeated as soon as the
/// address is free.
pub fn asked(view: &BridgeSnapshot<'_>) -> Option<Asked> {
    let address = outstanding(view).filter(|address| vip::user(view, *address).is_none())?;
    let before = view.memory.asked.as_ref().filter(|asked| asked.address == address);
    let times = before.map_or(0, |asked| asked.times).saturating_add(1);
    Some(Asked { address, at: view.now.monotonic, times })
}

/// Returns whether the recorded request is outdated: the address was assigned, or another Service has it.
pub fn is_over(view: &BridgeSnapshot<'_>) -> bool {
    outstanding(view).is_none_or(|address| vip::user(view, address).is_some())
}

/// Returns the delay until the next check of a cluster that has lost its address and can have neither: no watch enqueues its
/// bridge when the former address is free.
pub fn look_again_after(view: &BridgeSnapshot<'_>) -> Option<Duration> {
    let (service, cluster) = (view.service()?, view.hosted_cluster().ours()?);
    outstanding(view)?;
    let is_lost = exposure::has_endpoint(cluster) && vip::assigned(service).next().is_none();
    is_lost.then_some(ASK_AGAIN.initial)
}
