//! MetalLB's pools: which of their addresses a Service may have.
//!
//! Source: "Field: `metalLBVirtualIP`".

use std::collections::BTreeSet;
use std::net::IpAddr;

use lockstep_engine::object::{Name, label};
use serde_json::Value;

use super::names::kept;
use super::parse::address::AddressRange;
use super::source::Source;
use super::world::World;

/// The maximum number of pools that a message names.
const NAMED_MAX: usize = 5;

/// Returns the namespaces of the pools that MetalLB has loaded. It writes a status to those, and reads none outside its own
/// namespace. The result is empty if no pool has a status, because an older MetalLB writes none.
fn namespaces(world: &World) -> BTreeSet<&str> {
    let loaded = world.all(Source::Pools).filter(|(_, pool)| pool[kept::LOADED] == true);
    loaded.map(|(name, _)| &*name.namespace).collect()
}

/// Returns the pools that MetalLB uses.
fn counted(world: &World) -> impl Iterator<Item = (&Name, &Value)> {
    let namespaces = namespaces(world);
    let is_read = move |name: &Name| namespaces.is_empty() || namespaces.contains(&*name.namespace);
    world.all(Source::Pools).filter(move |(name, _)| is_read(name))
}

/// Returns whether a Service of a namespace may have an address. The labels of a Service that does not exist yet are not
/// checked.
pub fn gives(world: &World, address: IpAddr, namespace: &str, service: Option<&Value>) -> bool {
    counted(world).any(|(_, pool)| holds(pool, address) && serves(pool, namespace, service))
}

/// Returns why no pool provides an address, and how to change that.
pub fn refusal(world: &World, address: IpAddr, namespace: &str) -> String {
    let holding: Vec<&Name> =
        counted(world).filter(|(_, pool)| holds(pool, address)).map(|(name, _)| name).collect();
    if !holding.is_empty() {
        return format!(
            "address {address} of spec.metalLBVirtualIP is in IPAddressPool {}, whose serviceAllocation leaves out Service \
             {namespace}/kube-apiserver; choose another address, or allow it there",
            listed(&holding)
        );
    }
    let outside = world
        .all(Source::Pools)
        .find(|(name, pool)| holds(pool, address) && !counted(world).any(|(counted, _)| counted == *name));
    if let Some((name, _)) = outside {
        let own = namespaces(world).into_iter().next().unwrap_or_default();
        return format!(
            "address {address} of spec.metalLBVirtualIP is only in IPAddressPool {name}, which MetalLB does not use; create \
             the pool in namespace {own}, where MetalLB runs"
        );
    }
    let all: Vec<&Name> = counted(world).map(|(name, _)| name).collect();
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

/// Returns whether an address is in a pool. A range that can't be parsed contains nothing.
fn holds(pool: &Value, address: IpAddr) -> bool {
    let avoids_buggy = pool["spec"]["avoidBuggyIPs"] == true;
    let ranges = pool["spec"]["addresses"].as_array().into_iter().flatten().filter_map(Value::as_str);
    ranges
        .filter_map(|range| AddressRange::parse(range).ok())
        .any(|range| range.contains(address, avoids_buggy))
}

/// Returns whether a pool is for a Service. MetalLB evaluates selectors of namespaces itself: namespaces are not watched.
fn serves(pool: &Value, namespace: &str, service: Option<&Value>) -> bool {
    let allocation = &pool["spec"]["serviceAllocation"];
    let list = |field: &str| allocation[field].as_array().filter(|list| !list.is_empty());
    let is_listed = |list: &Vec<Value>| list.iter().any(|entry| entry == namespace);
    let is_selected = |list: &Vec<Value>| {
        service.is_none_or(|service| list.iter().any(|selector| matches(selector, service)))
    };
    list("namespaces").is_none_or(|names| is_listed(names) || list("namespaceSelectors").is_some())
        && list("serviceSelectors").is_none_or(is_selected)
}

/// Returns whether a label selector matches an object. A selector that can't be parsed matches nothing.
fn matches(selector: &Value, object: &Value) -> bool {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms = selector["matchExpressions"].as_array().into_iter().flatten();
    labels.into_iter().all(|(key, value)| label(object, key) == value.as_str())
        && terms.all(|term| {
            let found = label(object, term["key"].as_str().unwrap_or_default());
            let is_among = || {
                let values = term["values"].as_array().into_iter().flatten();
                found.is_some_and(|found| values.into_iter().any(|value| value == found))
            };
            match term["operator"].as_str() {
                Some("In") => is_among(),
                Some("NotIn") => !is_among(),
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pools_are_for_the_services_that_they_name() {
        let service = json!({ "metadata": { "labels": { "app": "kube-apiserver" } } });
        let term = |operator: &str, values: Value| json!({ "serviceSelectors": [{ "matchExpressions": [{ "key": "app", "operator": operator, "values": values }] }] });
        let table = [
            (json!({}), true),
            (json!({ "namespaces": [] }), true),
            (json!({ "namespaces": ["a", "b"] }), true),
            (json!({ "namespaces": ["b"] }), false),
            (json!({ "namespaces": ["b"], "namespaceSelectors": [{}] }), true),
            (json!({ "serviceSelectors": [] }), true),
            (json!({ "serviceSelectors": [{ "matchLabels": { "app": "kube-apiserver" } }] }), true),
            (json!({ "serviceSelectors": [{ "matchLabels": { "app": "web" } }] }), false),
            (json!({ "serviceSelectors": [{ "matchLabels": { "app": "web" } }, {}] }), true),
            (json!({ "namespaces": ["b"], "serviceSelectors": [{}] }), false),
            (term("In", json!(["web", "kube-apiserver"])), true),
            (term("NotIn", json!(["kube-apiserver"])), false),
            (term("Exists", Value::Null), true),
            (term("DoesNotExist", Value::Null), false),
            (term("Resembles", Value::Null), false),
        ];
        for (allocation, expected) in table {
            let pool = json!({ "spec": { "serviceAllocation": allocation } });
            assert_eq!(serves(&pool, "a", Some(&service)), expected, "{pool}");
        }
        // Before the Service exists, its labels are unknown.
        let pool = json!({ "spec": { "serviceAllocation": { "serviceSelectors": [{ "matchLabels": { "app": "web" } }] } } });
        assert!(serves(&pool, "a", None));
    }

    #[test]
    fn few_pools_are_named() {
        let names: Vec<Name> =
            (1..=7).map(|index| Name::new("metallb-system", &format!("p{index}"))).collect();
        let names: Vec<&Name> = names.iter().collect();
        assert_eq!(listed(&names[..2]), "metallb-system/p1, metallb-system/p2");
        assert!(listed(&names).ends_with("metallb-system/p5 and 2 more"), "{}", listed(&names));
    }
}
