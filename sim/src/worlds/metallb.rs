//! MetalLB: gives the addresses of its pools to Services of type `LoadBalancer`.
//!
//! It evaluates one Service at a time, when that Service or the pools have changed. A Service that asks for an address of
//! another loses its own at once, and is not evaluated again when that address becomes free: any write on it is needed.
//!
//! Left out: sharing one address between Services, and more than one address for a Service.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use lockstep_core::engine::action::{Action, Subresource};
use lockstep_core::object::{Kind, ObjectRef, annotation, is_deleting, metadata};
use serde_json::{Value, json};

use super::addresses::Range;
use super::level::Controller;
use super::look::Look;
use super::{reference, service_kind};

/// Where MetalLB writes from which pool an address is.
pub const POOL_ANNOTATION: &str = "metallb.io/ip-allocated-from-pool";
/// By which a Service asks for an address; the older one is honoured too.
pub const REQUEST_ANNOTATIONS: [&str; 2] =
    ["metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"];

/// The kind of its pools.
pub fn pool_kind() -> Arc<Kind> {
    Kind::known("metallb.io", "v1beta1", "IPAddressPool", "ipaddresspools", true)
}

/// MetalLB's controller.
#[derive(Debug, Clone, Default)]
pub struct MetalLb {
    /// The addresses that Services have; none before the first look.
    given: Option<BTreeMap<ObjectRef, IpAddr>>,
    /// The version of each Service that was evaluated.
    evaluated: BTreeMap<ObjectRef, String>,
    /// The pools by which that was done.
    pools: Vec<Value>,
}

impl Controller for MetalLb {
    const NAME: &'static str = "metallb";

    fn kinds() -> Vec<Arc<Kind>> {
        vec![pool_kind(), service_kind()]
    }

    fn look(&mut self, look: &mut Look<'_>) {
        let pools: Vec<&Value> = look.all(&pool_kind()).collect();
        let seen: Vec<Value> = pools
            .iter()
            .map(|pool| json!([pool["metadata"]["name"], is_deleting(pool), pool["spec"]]))
            .collect();
        if seen != self.pools {
            self.pools = seen;
            self.evaluated.clear();
        }
        let pools: Vec<Pool<'_>> = pools.into_iter().filter_map(Pool::read).collect();
        let services: BTreeMap<ObjectRef, &Value> = look
            .all(&service_kind())
            .filter(|service| is_ours(service))
            .map(|service| (reference(&service_kind(), service), service))
            .collect();
        let given = self.given.get_or_insert_with(|| {
            let mut taken = BTreeSet::new();
            let assigned =
                services.iter().filter_map(|(target, service)| Some((target.clone(), assigned(service)?)));
            assigned.filter(|(_, address)| taken.insert(*address)).collect()
        });
        given.retain(|target, _| services.contains_key(target));
        self.evaluated.retain(|target, _| services.contains_key(target));
        for (target, service) in &services {
            let version = metadata(service, "resourceVersion");
            if self.evaluated.get(target).is_some_and(|evaluated| evaluated == version)
                || !look.after(target, "evaluate")
            {
                continue;
            }
            let kept = given.get(target).copied();
            let free =
                |address: &IpAddr| given.iter().all(|(holder, given)| given != address || holder == target);
            let found = choose(&pools, service, kept, free);
            match found {
                Some((address, _)) => given.insert(target.clone(), address),
                None => given.remove(target),
            };
            if !assign(look, target, service, found) {
                self.evaluated.insert(target.clone(), version.to_owned());
            }
        }
    }
}

/// A pool.
#[derive(Debug)]
struct Pool<'a> {
    name: &'a str,
    ranges: Vec<Range>,
    auto_assign: bool,
    avoid_buggy: bool,
    /// The namespaces that it serves; none for all.
    namespaces: Option<&'a Vec<Value>>,
}

impl<'a> Pool<'a> {
    fn read(pool: &'a Value) -> Option<Self> {
        let spec = &pool["spec"];
        let ranges = spec["addresses"].as_array()?.iter().filter_map(Value::as_str);
        (!is_deleting(pool)).then(|| Self {
            name: metadata(pool, "name"),
            ranges: ranges.filter_map(Range::parse).collect(),
            auto_assign: spec["autoAssign"] != false,
            avoid_buggy: spec["avoidBuggyIPs"] == true,
            namespaces: spec["serviceAllocation"]["namespaces"].as_array().filter(|names| !names.is_empty()),
        })
    }

    fn serves(&self, service: &Value) -> bool {
        let namespace = metadata(service, "namespace");
        let wanted = annotation(service, "metallb.io/address-pool");
        self.namespaces.is_none_or(|names| names.iter().any(|name| name == namespace))
            && wanted.is_none_or(|wanted| wanted == self.name)
    }

    fn may_give(&self, address: IpAddr) -> bool {
        let buggy = match address {
            IpAddr::V4(address) => matches!(address.octets()[3], 0 | 255),
            IpAddr::V6(_) => false,
        };
        !(self.avoid_buggy && buggy)
    }

    fn holds(&self, address: IpAddr) -> bool {
        self.may_give(address) && self.ranges.iter().any(|range| range.contains(address))
    }
}

fn is_ours(service: &Value) -> bool {
    let spec = &service["spec"];
    let class = spec["loadBalancerClass"].as_str().unwrap_or_default();
    spec["type"] == "LoadBalancer" && class.is_empty() && !is_deleting(service)
}

fn assigned(service: &Value) -> Option<IpAddr> {
    service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str()?.parse().ok()
}

/// The address that a Service asks for; an error if it can't be read.
fn requested(service: &Value) -> Result<Option<IpAddr>, ()> {
    let by_annotation = REQUEST_ANNOTATIONS.iter().find_map(|key| annotation(service, key));
    let by_spec = service["spec"]["loadBalancerIP"].as_str().filter(|address| !address.is_empty());
    match by_annotation.or(by_spec) {
        Some(text) => text.trim().parse().map(Some).map_err(drop),
        None => Ok(None),
    }
}

/// The address that a Service should have, and the pool that it is from.
fn choose<'a>(
    pools: &[Pool<'a>],
    service: &Value,
    kept: Option<IpAddr>,
    free: impl Fn(&IpAddr) -> bool,
) -> Option<(IpAddr, &'a str)> {
    let mut pools = pools.iter().filter(|pool| pool.serves(service));
    let from = |address: IpAddr| move |pool: &Pool<'a>| pool.holds(address).then_some((address, pool.name));
    if let Some(wanted) = requested(service).ok()? {
        return pools.find_map(from(wanted)).filter(|_| free(&wanted));
    }
    kept.and_then(|address| pools.clone().find_map(from(address))).or_else(|| {
        pools.find_map(|pool| {
            let all = pool.ranges.iter().flat_map(Range::iter);
            let mut open = all.filter(|address| pool.may_give(*address) && free(address));
            pool.auto_assign.then(|| open.next())?.map(|address| (address, pool.name))
        })
    })
}

/// Makes the Service tell its address: first where it is from, then what it is. Returns whether anything was missing.
fn assign(look: &mut Look<'_>, target: &ObjectRef, service: &Value, found: Option<(IpAddr, &str)>) -> bool {
    let pool = found.map(|(_, pool)| pool);
    let (target, told) = (target.clone(), annotation(service, POOL_ANNOTATION) == pool);
    if told && assigned(service) == found.map(|(address, _)| address) {
        return false;
    }
    if told {
        let ingress = found.map(|(address, _)| json!([{ "ip": address.to_string(), "ipMode": "VIP" }]));
        let patch = Arc::new(json!({ "status": { "loadBalancer": { "ingress": ingress } } }));
        look.ask(Action::Patch { target, subresource: Some(Subresource::Status), patch });
    } else {
        let patch = Arc::new(json!({ "metadata": { "annotations": { POOL_ANNOTATION: pool } } }));
        look.ask(Action::Patch { target, subresource: None, patch });
    }
    true
}
