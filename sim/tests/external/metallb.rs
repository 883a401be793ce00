//! MetalLB's address allocation, as in the real one (0.16.2).

use lockstep_external::metallb;
use serde_json::{Value, json};

use super::bench::Bench;
use super::manifests::{NAMESPACE, pool, service};

/// Returns the settings of a pool `vips` besides its addresses, and whether Service `web` gets 192.0.2.10 from it.
fn allocations() -> Vec<(&'static str, Value, bool)> {
    let front = json!({ "matchLabels": { "tier": "front" } });
    let back = json!({ "matchLabels": { "tier": "back" } });
    vec![
        ("every Service", json!({}), true),
        ("its namespace", json!({ "namespaces": ["web", NAMESPACE] }), true),
        ("another namespace", json!({ "namespaces": ["web"] }), false),
        ("namespaces with its label", json!({ "namespaceSelectors": [front] }), true),
        (
            "another namespace, or its label",
            json!({ "namespaces": ["web"], "namespaceSelectors": [front] }),
            true,
        ),
        // A selector without any matching namespace leaves the pool open to all.
        ("no namespace at all", json!({ "namespaceSelectors": [back] }), true),
        (
            "another namespace, and none",
            json!({ "namespaces": ["web"], "namespaceSelectors": [back] }),
            false,
        ),
        ("Services with its label", json!({ "serviceSelectors": [front] }), true),
        ("Services with another label", json!({ "serviceSelectors": [back] }), false),
        ("Services with either label", json!({ "serviceSelectors": [back, front] }), true),
        (
            "its namespace, but not its label",
            json!({ "namespaces": [NAMESPACE], "serviceSelectors": [back] }),
            false,
        ),
    ]
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.merge("Namespace", NAMESPACE, &json!({ "metadata": { "labels": { "tier": "front" } } }));
    bench
}

fn web() -> Value {
    let mut web = service("web", Some("192.0.2.10"));
    web["metadata"]["labels"] = json!({ "tier": "front" });
    web
}

fn given(bench: &mut Bench, name: &str) -> Value {
    bench.get("Service", name)["status"]["loadBalancer"]["ingress"][0]["ip"].clone()
}

#[test]
fn pools_are_for_the_services_that_they_name() {
    for (when, allocation, expected) in allocations() {
        let mut bench = bench();
        let mut vips = pool("vips", "192.0.2.0/24", false);
        vips["spec"]["serviceAllocation"] = allocation;
        bench.create(&vips);
        bench.create(&web());
        bench.settle();
        assert_eq!(given(&mut bench, "web") == "192.0.2.10", expected, "a pool for {when}");
    }
}

#[test]
fn pools_of_other_namespaces_do_not_count() {
    let mut bench = bench();
    let mut foreign = pool("vips", "192.0.2.0/24", false);
    foreign["metadata"]["namespace"] = json!(NAMESPACE);
    bench.create(&foreign);
    bench.create(&web());
    bench.settle();
    assert_eq!(given(&mut bench, "web"), Value::Null);
    let status = |bench: &mut Bench, namespace: &str| {
        bench.get("IPAddressPool", &format!("{namespace}/vips"))["status"].clone()
    };
    assert_eq!(status(&mut bench, NAMESPACE), Value::Null);
    bench.create(&pool("vips", "192.0.2.0/24", false));
    bench.settle();
    assert_eq!(given(&mut bench, "web"), "192.0.2.10");
    let counts = json!({ "assignedIPv4": 1, "assignedIPv6": 0, "availableIPv4": 255, "availableIPv6": 0 });
    assert_eq!(status(&mut bench, metallb::NAMESPACE), counts);
}

/// One invalid pool prevents the load of all others; allocated addresses remain.
#[test]
fn an_invalid_pool_stops_every_change_of_the_configuration() {
    for range in ["192.0.2.0", "192.0.2.128/25"] {
        let mut bench = bench();
        bench.create(&pool("vips", "192.0.2.0/24", false));
        bench.create(&web());
        bench.settle();
        bench.create(&pool("broken", range, false));
        bench.create(&pool("more", "198.51.100.0/24", false));
        bench.create(&service("other", Some("198.51.100.1")));
        bench.settle();
        assert_eq!(given(&mut bench, "web"), "192.0.2.10", "{range}");
        assert_eq!(given(&mut bench, "other"), Value::Null, "{range}");
        bench.delete("IPAddressPool", "broken");
        bench.settle();
        assert_eq!(given(&mut bench, "other"), "198.51.100.1", "{range}");
    }
}

#[test]
fn a_service_gets_an_address_of_its_family() {
    let mut bench = bench();
    bench.create(&pool("six", "2001:db8::/120", true));
    bench.create(&service("any", None));
    bench.create(&service("six", Some("2001:db8::1")));
    bench.settle();
    assert_eq!((given(&mut bench, "any"), given(&mut bench, "six")), (Value::Null, Value::Null));
    bench.create(&pool("vips", "192.0.2.0/24", true));
    bench.settle();
    assert_eq!(given(&mut bench, "any"), "192.0.2.0");
}

/// An address that is no longer in the pool is removed, and another one is allocated if any address is accepted.
#[test]
fn a_pool_that_shrinks_takes_its_addresses() {
    let mut bench = bench();
    bench.create(&pool("vips", "192.0.2.10-192.0.2.11", true));
    bench.create(&web());
    bench.settle();
    bench.create(&service("any", None));
    bench.settle();
    assert_eq!(given(&mut bench, "any"), "192.0.2.11");
    bench.merge("IPAddressPool", "vips", &json!({ "spec": { "addresses": ["192.0.2.20/32"] } }));
    bench.settle();
    assert_eq!((given(&mut bench, "web"), given(&mut bench, "any")), (Value::Null, json!("192.0.2.20")));
    bench.merge("IPAddressPool", "vips", &json!({ "spec": { "addresses": ["192.0.2.10/32"] } }));
    bench.settle();
    // The Service that is evaluated first gets it.
    let both = [given(&mut bench, "web"), given(&mut bench, "any")];
    assert_eq!(both.iter().filter(|given| **given == "192.0.2.10").count(), 1, "{both:?}");
}
