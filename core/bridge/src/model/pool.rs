//! MetalLB's IPAddressPools: which addresses they hold, and for which Services.
//!
//! Source: "Field: `metalLBVirtualIP`".

use std::net::IpAddr;

use lockstep_engine::object::label;
use serde_json::Value;

use crate::parse::address::AddressRange;

/// Returns whether an address is in a pool. A range that can't be parsed contains nothing.
pub fn holds(pool: &Value, address: IpAddr) -> bool {
    contains(pool, address, pool["spec"]["avoidBuggyIPs"] == true)
}

/// Returns whether a pool with only this address would overlap with a pool. MetalLB compares the ranges, with all of their
/// addresses.
pub fn overlaps(pool: &Value, address: IpAddr) -> bool {
    contains(pool, address, false)
}

fn contains(pool: &Value, address: IpAddr, avoids_buggy: bool) -> bool {
    let ranges = pool["spec"]["addresses"].as_array().into_iter().flatten().filter_map(Value::as_str);
    ranges
        .filter_map(|range| AddressRange::parse(range).ok())
        .any(|range| range.contains(address, avoids_buggy))
}

/// Returns whether a pool is for a Service. MetalLB evaluates selectors of namespaces itself: namespaces are not watched.
pub fn serves(pool: &Value, namespace: &str, service: Option<&Value>) -> bool {
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
            (
                json!({ "serviceSelectors": [{ "matchExpressions": [{ "key": "tier", "operator": "DoesNotExist" }] }] }),
                true,
            ),
            (
                json!({ "serviceSelectors": [{ "matchExpressions": [{ "key": "tier", "operator": "NotIn", "values": ["a"] }] }] }),
                true,
            ),
            (
                json!({ "serviceSelectors": [{ "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["a"] }] }] }),
                false,
            ),
        ];
        for (allocation, expected) in table {
            let pool = json!({ "spec": { "serviceAllocation": allocation } });
            assert_eq!(serves(&pool, "a", Some(&service)), expected, "{pool}");
        }
        // Before the Service exists, its labels are unknown.
        let pool = json!({ "spec": { "serviceAllocation": { "serviceSelectors": [{ "matchLabels": { "app": "web" } }] } } });
        assert!(serves(&pool, "a", None));
    }
}
