//! MetalLB's pools: which of their addresses a Service may have.
//!
//! Source: "Field: `metalLBVirtualIP`".

use std::collections::BTreeSet;
use std::net::IpAddr;

use lockstep_engine::object::Name;
use serde_json::Value;

use super::Store;
use crate::model::pool::{holds, overlaps, serves};
use crate::model::source::Source;
use crate::names::kept;

/// The maximum number of pools that a message names.
const NAMED_MAX: usize = 5;

/// Returns the namespaces of the pools that MetalLB has loaded. It writes a status to those, and reads none outside its own
/// namespace. The result is empty if no pool has a status, because an older MetalLB writes none.
fn namespaces(store: &Store) -> BTreeSet<&str> {
    let loaded = store.all(Source::Pools).filter(|(_, pool)| pool[kept::LOADED] == true);
    loaded.map(|(name, _)| &*name.namespace).collect()
}

/// Returns the pools that MetalLB uses.
fn counted(store: &Store) -> impl Iterator<Item = (&Name, &Value)> {
    let namespaces = namespaces(store);
    let is_read = move |name: &Name| namespaces.is_empty() || namespaces.contains(&*name.namespace);
    store.all(Source::Pools).filter(move |(name, _)| is_read(name))
}

/// Returns whether a Service of a namespace may have an address. The labels of a Service that does not exist yet are not
/// checked.
pub fn gives(store: &Store, address: IpAddr, namespace: &str, service: Option<&Value>) -> bool {
    givers(store, address, namespace, service).next().is_some()
}

/// Returns whether a Service of a namespace may have an address from another pool than this one.
pub fn other_gives(
    store: &Store,
    own: &Name,
    address: IpAddr,
    namespace: &str,
    service: Option<&Value>,
) -> bool {
    givers(store, address, namespace, service).any(|name| name != own)
}

/// Returns the pools from which a Service of a namespace may have an address.
fn givers<'a>(
    store: &'a Store,
    address: IpAddr,
    namespace: &str,
    service: Option<&Value>,
) -> impl Iterator<Item = &'a Name> {
    let gives = move |pool: &Value| holds(pool, address) && serves(pool, namespace, service);
    counted(store).filter(move |(_, pool)| gives(pool)).map(|(name, _)| name)
}

/// Returns another pool of the same namespace that contains an address. Two pools must not overlap.
pub fn other_holder<'a>(store: &'a Store, own: &Name, address: IpAddr) -> Option<&'a Name> {
    let mut others =
        store.all(Source::Pools).filter(|(name, _)| *name != own && name.namespace == own.namespace);
    others.find(|(_, pool)| overlaps(pool, address)).map(|(name, _)| name)
}

/// Returns the namespace of MetalLB, if it is known not to be this one.
pub fn other_namespace<'a>(store: &'a Store, namespace: &str) -> Option<&'a str> {
    let namespaces = namespaces(store);
    namespaces.iter().next().copied().filter(|_| !namespaces.contains(namespace))
}

/// Returns why no pool provides an address, and how to change that.
pub fn refusal(store: &Store, address: IpAddr, namespace: &str) -> String {
    let holding: Vec<&Name> =
        counted(store).filter(|(_, pool)| holds(pool, address)).map(|(name, _)| name).collect();
    if !holding.is_empty() {
        return format!(
            "address {address} of spec.metalLBVirtualIP is in IPAddressPool {}, but its serviceAllocation \
             excludes Service {namespace}/kube-apiserver; choose another address, or allow the Service there",
            listed(&holding)
        );
    }
    let outside = store
        .all(Source::Pools)
        .find(|(name, pool)| holds(pool, address) && !counted(store).any(|(counted, _)| counted == *name));
    if let Some((name, _)) = outside {
        let own = namespaces(store).into_iter().next().unwrap_or_default();
        return format!(
            "address {address} of spec.metalLBVirtualIP is only in IPAddressPool {name}, which MetalLB does not use; create \
             the pool in namespace {own}, where MetalLB runs"
        );
    }
    let all: Vec<&Name> = counted(store).map(|(name, _)| name).collect();
    format!(
        "address {address} of spec.metalLBVirtualIP is in no IPAddressPool (there are {}); choose another, or extend a pool",
        listed(&all)
    )
}

/// Returns some names, and the number of the others.
fn listed(names: &[&Name]) -> String {
    let shown: Vec<String> = names.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pools_are_named() {
        let names: Vec<Name> =
            (1..=7).map(|index| Name::new("metallb-system", &format!("p{index}"))).collect();
        let names: Vec<&Name> = names.iter().collect();
        assert_eq!(listed(&names[..2]), "metallb-system/p1, metallb-system/p2");
        assert!(listed(&names).ends_with("metallb-system/p5 and 2 more"), "{}", listed(&names));
    }
}
