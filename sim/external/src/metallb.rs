//! MetalLB: allocates the addresses of its pools to Services of type `LoadBalancer`.
//!
//! It evaluates one Service at a time, when that Service or the configuration has changed. A Service that requests an address of
//! another loses its own immediately. It is evaluated again once any Service releases its address: by its deletion, by a change
//! of its type, or by a refused request. If the write of such a release fails, the repeated one triggers no evaluation of others,
//! nor does the move of a Service to another address: a refused Service then needs any write on it. A Service without an address
//! in its status has none: it gets the first free one. `tests/tests/metallb.rs` compares this with MetalLB 0.16.2. MetalLB uses
//! only the pools in its own [`NAMESPACE`]. While one of them is invalid, the previous configuration stays loaded.
//!
//! Not modelled: L2Advertisements, which only MetalLB's speakers read; the webhook that refuses pools that overlap; addresses
//! shared by several Services, more than one address for a Service, and the annotation `metallb.io/address-pool`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest, Subresource};
use lockstep_engine::object::{Kind, ObjectRef, annotation, is_deleting, metadata};
use serde_json::{Value, json};

use self::pool::Pool;
use super::kinds::{namespace_kind, reference, service_kind};
use super::level::Controller;
use super::read_view::ReadView;

mod pool;

/// The namespace of MetalLB.
pub const NAMESPACE: &str = "metallb-system";
/// The annotation in which MetalLB writes the pool of an address.
pub const POOL_ANNOTATION: &str = "metallb.io/ip-allocated-from-pool";
/// The annotations by which a Service requests an address; the older one still works.
pub const REQUEST_ANNOTATIONS: [&str; 2] =
    ["metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"];

/// Returns the kind of its pools.
pub fn pool_kind() -> Arc<Kind> {
    Kind::known("metallb.io", "v1beta1", "IPAddressPool", "ipaddresspools", true)
}

/// MetalLB's controller.
#[derive(Debug, Clone, Default)]
pub struct MetalLb {
    /// The addresses of Services; none before the first evaluation.
    given: Option<BTreeMap<ObjectRef, IpAddr>>,
    /// The version of each evaluated Service.
    evaluated: BTreeMap<ObjectRef, String>,
    /// The Services that lose their address by the write in flight.
    releasing: BTreeSet<ObjectRef>,
    /// The loaded configuration.
    pools: Vec<Pool>,
}

impl Controller for MetalLb {
    const NAME: &'static str = "metallb";

    fn kinds() -> Vec<Arc<Kind>> {
        vec![pool_kind(), service_kind(), namespace_kind()]
    }

    fn look(&mut self, look: &mut ReadView<'_>) {
        self.load(look);
        let services: BTreeMap<ObjectRef, &Value> =
            look.all(&service_kind()).map(|service| (reference(&service_kind(), service), service)).collect();
        let given = self.given.get_or_insert_with(|| at_start(&services));
        self.releasing.retain(|target| services.contains_key(target));
        let before = given.len() + self.releasing.len();
        given.retain(|target, _| services.contains_key(target));
        self.releasing.retain(|target| !is_bare(services[target]));
        if given.len() + self.releasing.len() < before {
            self.evaluated.clear();
        }
        self.evaluated.retain(|target, _| services.contains_key(target));
        for (target, service) in services.iter().filter(|(_, service)| is_ours(service)) {
            let is_balancer = service["spec"]["type"] == "LoadBalancer";
            let version = metadata(service, "resourceVersion");
            let is_evaluated = self.evaluated.get(target).is_some_and(|evaluated| evaluated == version);
            let has_none = !is_balancer && is_bare(service) && !given.contains_key(target);
            if is_evaluated || has_none || look.is_busy(target) || !look.after(target, "evaluate") {
                continue;
            }
            let wanted = if is_balancer { requested(service) } else { Ok(None) };
            let Ok(wanted) = wanted else {
                self.evaluated.insert(target.clone(), version.to_owned());
                continue;
            };
            let is_free =
                |address: &IpAddr| given.iter().all(|(holder, given)| given != address || holder == target);
            let found = is_balancer.then(|| choose(&self.pools, service, wanted, is_free)).flatten();
            let is_lost = match found {
                Some((address, _)) => {
                    given.insert(target.clone(), address);
                    false
                }
                None => given.remove(target).is_some(),
            };
            if !assign(look, target, service, found) {
                self.evaluated.insert(target.clone(), version.to_owned());
            } else if is_lost {
                self.releasing.insert(target.clone());
            }
        }
        self.count(look);
    }

    /// The repeated evaluation does not know that the Service had an address.
    fn failed(&mut self, target: &ObjectRef) {
        self.releasing.remove(target);
    }
}

impl MetalLb {
    /// Loads the configuration if it is valid. If it has changed, all Services are evaluated with it.
    fn load(&mut self, look: &ReadView<'_>) {
        let own = look.all(&pool_kind()).filter(|pool| metadata(pool, "namespace") == NAMESPACE);
        let read = own.filter(|pool| !is_deleting(pool)).map(Pool::read);
        let Some(mut pools) = read.collect::<Option<Vec<Pool>>>() else { return };
        let overlaps = |at: usize, pool: &Pool| pools[..at].iter().any(|other| pool.overlaps(other));
        if pools.iter().enumerate().any(|(at, pool)| overlaps(at, pool)) {
            return;
        }
        let namespaces: Vec<&Value> = look.all(&namespace_kind()).collect();
        for pool in &mut pools {
            pool.resolve(&namespaces);
        }
        pools.sort_by_key(Pool::rank);
        if pools != self.pools {
            self.pools = pools;
            self.evaluated.clear();
        }
    }

    /// Writes the usage of each pool to its status.
    fn count(&self, look: &mut ReadView<'_>) {
        for pool in &self.pools {
            let target = ObjectRef::namespaced(&pool_kind(), NAMESPACE, &pool.name);
            let Some(object) = look.get(&target) else { continue };
            let used = |is_v4: bool| {
                let given = self.given.iter().flat_map(BTreeMap::values);
                given.filter(|address| address.is_ipv4() == is_v4 && pool.holds(**address)).count() as u64
            };
            let count =
                |is_v4: bool| (used(is_v4), pool.size(is_v4).saturating_sub(used(is_v4)).min(1 << 62));
            let ((used_v4, free_v4), (used_v6, free_v6)) = (count(true), count(false));
            let status = json!({
                "assignedIPv4": used_v4,
                "assignedIPv6": used_v6,
                "availableIPv4": free_v4,
                "availableIPv6": free_v6,
            });
            if object["status"] != status && look.after(&target, "count") {
                look.keep_status(&target, object, &status);
            }
        }
    }
}

/// Returns the addresses of Services when MetalLB starts.
fn at_start(services: &BTreeMap<ObjectRef, &Value>) -> BTreeMap<ObjectRef, IpAddr> {
    let mut taken = BTreeSet::new();
    let services = services.iter().filter(|(_, service)| is_ours(service));
    let assigned = services.filter_map(|(target, service)| Some((target.clone(), assigned(service)?)));
    assigned.filter(|(_, address)| taken.insert(*address)).collect()
}

/// Returns whether a Service names no other load balancer. One that is being deleted keeps its address until it is gone.
fn is_ours(service: &Value) -> bool {
    service["spec"]["loadBalancerClass"].as_str().unwrap_or_default().is_empty()
}

fn assigned(service: &Value) -> Option<IpAddr> {
    service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str()?.parse().ok()
}

/// Returns whether a Service has no address in its status.
fn is_bare(service: &Value) -> bool {
    annotation(service, POOL_ANNOTATION).is_none() && assigned(service).is_none()
}

/// Returns the address that a Service requests. If the request can't be parsed or there are two, returns an error, and nothing
/// changes.
fn requested(service: &Value) -> Result<Option<IpAddr>, ()> {
    let by_annotation = REQUEST_ANNOTATIONS.iter().find_map(|key| annotation(service, key));
    let by_spec = service["spec"]["loadBalancerIP"].as_str().filter(|address| !address.is_empty());
    match (by_annotation, by_spec) {
        (Some(_), Some(_)) => Err(()),
        (Some(text), None) | (None, Some(text)) => text.trim().parse().map(Some).map_err(drop),
        (None, None) => Ok(None),
    }
}

/// Returns whether an address is of the same family as a Service's cluster IP.
fn is_of_family(service: &Value, address: IpAddr) -> bool {
    let own = service["spec"]["clusterIP"].as_str().and_then(|own| own.parse::<IpAddr>().ok());
    own.is_none_or(|own| own.is_ipv4() == address.is_ipv4())
}

/// Returns whether a Service may have an address that it requests: all its cluster IPs are of the same family, unless it has the
/// address already and prefers both families.
fn may_request(service: &Value, address: IpAddr) -> bool {
    let own = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
    let mut own = own.filter_map(|own| own.as_str()?.parse::<IpAddr>().ok());
    let is_kept =
        service["spec"]["ipFamilyPolicy"] == "PreferDualStack" && assigned(service) == Some(address);
    is_kept || own.all(|own| own.is_ipv4() == address.is_ipv4())
}

/// Returns the address that a Service should have, and its pool. It has the address in its status, if that is free.
fn choose<'a>(
    pools: &'a [Pool],
    service: &Value,
    wanted: Option<IpAddr>,
    is_free: impl Fn(&IpAddr) -> bool,
) -> Option<(IpAddr, &'a str)> {
    let may_have = |address: &IpAddr| is_free(address) && is_of_family(service, *address);
    let mut pools = pools.iter().filter(|pool| pool.serves(service));
    let from = |address: IpAddr| move |pool: &'a Pool| pool.holds(address).then_some((address, &*pool.name));
    if let Some(wanted) = wanted {
        return pools.find_map(from(wanted)).filter(|_| may_have(&wanted) && may_request(service, wanted));
    }
    let kept = assigned(service).filter(may_have);
    kept.and_then(|address| pools.clone().find_map(from(address)))
        .or_else(|| pools.find_map(|pool| pool.next(may_have).map(|address| (address, &*pool.name))))
}

/// Writes the address and its pool into the Service, by one update of its status. Returns whether anything was missing.
fn assign(
    look: &mut ReadView<'_>,
    target: &ObjectRef,
    service: &Value,
    found: Option<(IpAddr, &str)>,
) -> bool {
    let (address, pool) = found.unzip();
    if annotation(service, POOL_ANNOTATION) == pool && assigned(service) == address {
        return false;
    }
    let ingress = address.map(|address| json!([{ "ip": address.to_string(), "ipMode": "VIP" }]));
    let version = metadata(service, "resourceVersion");
    let patch = json!({
        "metadata": { "resourceVersion": version, "annotations": { POOL_ANNOTATION: pool } },
        "status": { "loadBalancer": { "ingress": ingress } },
    });
    look.ask(Action::Kube(KubeRequest::Patch {
        target: target.clone(),
        subresource: Some(Subresource::Status),
        patch: Arc::new(patch),
    }));
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A Service of both families would have to request an address of each.
    #[test]
    fn a_service_of_two_families_gets_no_single_address() {
        let address = "192.0.2.10".parse().expect("an address");
        let both = json!(["10.96.0.50", "fd00::50"]);
        for (policy, cluster_ips, has, expected) in [
            ("PreferDualStack", json!(["10.96.0.50"]), None, true),
            ("PreferDualStack", json!(["fd00::50"]), None, false),
            ("PreferDualStack", both.clone(), None, false),
            ("PreferDualStack", both.clone(), Some("192.0.2.10"), true),
            ("PreferDualStack", both.clone(), Some("192.0.2.11"), false),
            ("RequireDualStack", both, Some("192.0.2.10"), false),
        ] {
            let service = json!({
                "spec": { "ipFamilyPolicy": policy, "clusterIPs": cluster_ips },
                "status": { "loadBalancer": { "ingress": [{ "ip": has }] } },
            });
            assert_eq!(may_request(&service, address), expected, "{service}");
        }
    }
}
