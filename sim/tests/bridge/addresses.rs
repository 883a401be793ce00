//! Load balancer addresses: a bridge keeps its address until the next one is free, and gets an address that is free.

use std::time::Duration;

use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::{DPF, NAMESPACE, bridge, dpu_cluster, pool};

/// Returns the address that MetalLB has given the Service of a bridge.
fn given(bench: &mut Bench, bridge: &str) -> Value {
    let service = bench.get("Service", &format!("{NAMESPACE}-{bridge}"), "kube-apiserver");
    service["status"]["loadBalancer"]["ingress"][0]["ip"].clone()
}

/// Advances the time until MetalLB has removed the address of a bridge.
fn until_lost(bench: &mut Bench, bridge: &str) {
    for _ in 0..200 {
        if given(bench, bridge) == Value::Null {
            return;
        }
        bench.cluster.advance(Duration::from_millis(50));
    }
    panic!("{bridge} still has its address");
}

/// Creates a ready bridge with its own DPUCluster and this address.
fn another(bench: &mut Bench, name: &str, address: &str) {
    bench.create(&dpu_cluster(&format!("dpus-{name}")));
    let mut other = bridge(name);
    other["spec"]["dpuClusterRef"]["name"] = json!(format!("dpus-{name}"));
    other["spec"]["metalLBVirtualIP"] = json!(address);
    bench.create(&other);
    bench.settle();
    assert_eq!(bench.phase(name), "Ready");
}

/// MetalLB removes the address of a Service that requests an address in use by another Service.
#[test]
fn an_address_that_is_not_free_is_not_asked_for() {
    let mut bench = Bench::ready();
    another(&mut bench, "stage", "192.0.2.20");
    bench.create(&web("192.0.2.30"));
    bench.settle();
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.30" }));
    bench.change("stage", &json!({ "metalLBVirtualIP": "192.0.2.10" }));
    bench.settle();
    assert_eq!(
        (given(&mut bench, "prod"), given(&mut bench, "stage")),
        (json!("192.0.2.10"), json!("192.0.2.20"))
    );
    let (exposed, message) = bench.condition("stage", "ServiceExposureReady");
    assert_eq!(exposed, "False/VIPConflict");
    assert!(message.contains("in use by Service dpf-hcp-bridge-system-prod/kube-apiserver"), "{message}");

    bench.delete("Service", NAMESPACE, "web");
    bench.settle();
    assert_eq!(
        (given(&mut bench, "prod"), given(&mut bench, "stage")),
        (json!("192.0.2.30"), json!("192.0.2.10"))
    );
    assert_eq!((bench.phase("prod").as_str(), bench.phase("stage").as_str()), ("Ready", "Ready"));
}

/// Whether one bridge can move decides whether another bridge can have its address.
#[test]
fn a_bridge_that_can_not_move_wakes_who_waits_for_its_address() {
    let mut bench = Bench::ready();
    another(&mut bench, "stage", "192.0.2.20");
    bench.silence("IPAddressPool");
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.30" }));
    bench.change("stage", &json!({ "metalLBVirtualIP": "192.0.2.10" }));
    bench.cluster.advance(Duration::from_mins(1));
    let (exposed, message) = bench.condition("stage", "ServiceExposureReady");
    assert_eq!(exposed, "False/AddressChangePending");
    assert_eq!(bench.phase("stage"), "Ready");
    assert!(
        message
            .ends_with("waits for Service dpf-hcp-bridge-system-prod/kube-apiserver to release 192.0.2.10"),
        "{message}"
    );
    bench.change("prod", &json!({ "metalLBVirtualIP": "198.51.100.1" }));
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(bench.condition("stage", "ServiceExposureReady").0, "False/VIPConflict");
}

/// Whether a pool has the address that one bridge wants decides whether another bridge can have its address. The other bridge
/// depends on that pool through two bridges here.
#[test]
fn a_pool_without_the_address_of_one_bridge_wakes_who_waits_for_another() {
    let mut bench = Bench::ready();
    another(&mut bench, "stage", "192.0.2.20");
    another(&mut bench, "dev", "192.0.2.30");
    // MetalLB moves nothing.
    bench.silence("IPAddressPool");
    for (name, address) in [("prod", "192.0.2.40"), ("stage", "192.0.2.10"), ("dev", "192.0.2.20")] {
        bench.change(name, &json!({ "metalLBVirtualIP": address }));
    }
    let without = json!({ "addresses": ["192.0.2.10/32", "192.0.2.20/32", "192.0.2.30/32"] });
    let whole = json!({ "addresses": ["192.0.2.0/24"] });
    let others = json!({ "serviceAllocation": { "namespaces": ["dpf-hcp-bridge-system-stage", "dpf-hcp-bridge-system-dev"] } });
    let all = json!({ "serviceAllocation": null });
    let pending = "False/AddressChangePending";
    let conflict = "False/VIPConflict";
    for (spec, expected) in
        [(&whole, pending), (&without, conflict), (&whole, pending), (&others, conflict), (&all, pending)]
    {
        bench.merge("IPAddressPool", "metallb-system", "vips", &json!({ "spec": spec }));
        // Less than a resync.
        bench.cluster.advance(Duration::from_mins(1));
        for name in ["stage", "dev"] {
            let (exposed, message) = bench.condition(name, "ServiceExposureReady");
            assert_eq!(exposed, expected, "{name} with {spec}: {message}");
        }
    }
    bench.delete("IPAddressPool", "metallb-system", "vips");
    bench.create(&pool("fewer", "192.0.2.0/27"));
    bench.cluster.advance(Duration::from_mins(1));
    for name in ["stage", "dev"] {
        assert_eq!(bench.condition(name, "ServiceExposureReady").0, conflict, "{name}");
    }
}

#[test]
fn three_bridges_can_pass_their_addresses_on() {
    let mut bench = Bench::ready();
    another(&mut bench, "stage", "192.0.2.20");
    another(&mut bench, "dev", "192.0.2.30");
    let wanted = [("prod", "192.0.2.20"), ("stage", "192.0.2.30"), ("dev", "192.0.2.10")];
    for (name, address) in wanted {
        bench.change(name, &json!({ "metalLBVirtualIP": address }));
    }
    bench.settle();
    for (name, address) in wanted {
        assert_eq!(given(&mut bench, name), address, "{name}");
        assert_eq!(bench.phase(name), "Ready", "{:#}", bench.bridge(name)["status"]);
    }
}

/// Two bridges can't swap while an older bridge wants an address that one of them would get. When the older bridge withdraws,
/// they swap.
#[test]
fn an_older_bridge_that_gives_way_lets_two_others_swap() {
    let mut bench = Bench::ready();
    another(&mut bench, "stage", "192.0.2.20");
    another(&mut bench, "dev", "192.0.2.30");
    for (name, address) in [("prod", "192.0.2.20"), ("stage", "192.0.2.30"), ("dev", "192.0.2.20")] {
        bench.change(name, &json!({ "metalLBVirtualIP": address }));
    }
    bench.settle();
    for (name, address) in [("prod", "192.0.2.10"), ("stage", "192.0.2.20"), ("dev", "192.0.2.30")] {
        assert_eq!(given(&mut bench, name), address, "{name}");
        assert_eq!(bench.condition(name, "ServiceExposureReady").0, "False/VIPConflict", "{name}");
    }
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.10" }));
    // Less than a resync.
    bench.cluster.advance(Duration::from_mins(1));
    for (name, address) in [("prod", "192.0.2.10"), ("stage", "192.0.2.30"), ("dev", "192.0.2.20")] {
        assert_eq!(given(&mut bench, name), address, "{name}");
        assert_eq!(bench.phase(name), "Ready", "{:#}", bench.bridge(name)["status"]);
    }
}

/// Returns a Service that has, or requests, an address.
fn web(address: &str) -> Value {
    service("web", address)
}

fn service(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "namespace": NAMESPACE, "name": name, "annotations": { "metallb.io/loadBalancerIPs": address } },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    })
}

/// MetalLB does not retry by itself. A refused address is requested again when it is free, and at intervals.
#[test]
fn an_address_that_was_refused_is_asked_for_again() {
    let mut bench = Bench::new();
    bench.silence("IPAddressPool");
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_secs(20));
    let asked_again = |bench: &mut Bench| {
        let service = bench.get("Service", "dpf-hcp-bridge-system-prod", "kube-apiserver");
        assert_eq!(service["metadata"]["annotations"]["metallb.io/loadBalancerIPs"], "192.0.2.10");
        service["metadata"]["annotations"]["dpf.hcp.bridge.com/address-asked-again"].clone()
    };
    bench.create(&web("192.0.2.10"));
    bench.cluster.advance(Duration::from_mins(30));
    assert_eq!(bench.condition("prod", "ServiceExposureReady").0, "False/VIPConflict");
    assert_eq!(asked_again(&mut bench), Value::Null);
    bench.delete("Service", NAMESPACE, "web");
    bench.cluster.advance(Duration::from_secs(20));
    let mut times = vec![asked_again(&mut bench)];
    // The intervals grow: after 30 s, 1, 2, 4, 8, and then 10 minutes.
    for minutes in [1, 1, 2, 4, 8, 10, 10] {
        bench.cluster.advance(Duration::from_mins(minutes));
        times.push(asked_again(&mut bench));
    }
    assert!(times.iter().all(Value::is_string), "{times:?}");
    assert!(times.windows(2).all(|pair| pair[0] != pair[1]), "{times:?}");
    let writes = bench.cluster.carried().filter(|(_, carried)| {
        carried.action.name() == "patch"
            && carried.action.target().is_some_and(|it| it.kind.kind == "Service")
    });
    assert_eq!(writes.count(), 1 + times.len());
}

/// The request was in transit when another Service got the address. The cluster gets the address back that MetalLB has removed.
#[test]
fn a_cluster_that_lost_its_address_gets_it_back() {
    let mut bench = Bench::ready();
    bench.create(&web("192.0.2.20"));
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    bench.settle();
    let asks = json!({ "metadata": { "annotations": { "metallb.io/loadBalancerIPs": "192.0.2.20" } } });
    bench.merge("Service", &format!("{NAMESPACE}-prod"), "kube-apiserver", &asks);
    until_lost(&mut bench, "prod");
    bench.settle();
    assert_eq!(given(&mut bench, "prod"), "192.0.2.10");
    assert_eq!(bench.condition("prod", "ServiceExposureReady").0, "False/VIPConflict");
    bench.delete("Service", NAMESPACE, "web");
    bench.settle();
    assert_eq!(given(&mut bench, "prod"), "192.0.2.20");
}

/// Another Service got both addresses first. The cluster gets its own address back when it is free.
#[test]
fn a_cluster_gets_its_address_back_when_another_service_releases_it() {
    let mut bench = Bench::ready();
    bench.create(&web("192.0.2.20"));
    bench.create(&service("waits", "192.0.2.10"));
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    bench.settle();
    let asks = json!({ "metadata": { "annotations": { "metallb.io/loadBalancerIPs": "192.0.2.20" } } });
    bench.merge("Service", &format!("{NAMESPACE}-prod"), "kube-apiserver", &asks);
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(given(&mut bench, "prod"), Value::Null);
    bench.delete("Service", NAMESPACE, "waits");
    // Less than a resync.
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(given(&mut bench, "prod"), "192.0.2.10");
}

/// One bridge changes its spec in the middle of a swap.
#[test]
fn a_swap_that_is_given_up_leaves_both_their_addresses() {
    let mut bench = Bench::ready();
    another(&mut bench, "stage", "192.0.2.20");
    // The older one moves first, and MetalLB removes its address.
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    bench.change("stage", &json!({ "metalLBVirtualIP": "192.0.2.10" }));
    until_lost(&mut bench, "prod");
    bench.change("stage", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    bench.settle();
    let held = (given(&mut bench, "prod"), given(&mut bench, "stage"));
    assert_eq!(held, (json!("192.0.2.10"), json!("192.0.2.20")));
    assert_eq!(bench.condition("prod", "ServiceExposureReady").0, "False/VIPConflict");
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.10" }));
    bench.settle();
    assert_eq!((bench.phase("prod").as_str(), bench.phase("stage").as_str()), ("Ready", "Ready"));
}

/// The older bridge has lost its address to the other one, and both want their old addresses back. The Service of the older
/// bridge still requests the address that the other one wants, so neither address is free until that request is withdrawn.
#[test]
fn a_swap_that_is_turned_back_half_way_leaves_no_request_behind() {
    let mut bench = Bench::ready();
    another(&mut bench, "stage", "192.0.2.20");
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    bench.change("stage", &json!({ "metalLBVirtualIP": "192.0.2.10" }));
    until_lost(&mut bench, "prod");
    for _ in 0..200 {
        if given(&mut bench, "stage") == "192.0.2.10" {
            break;
        }
        bench.cluster.advance(Duration::from_millis(10));
    }
    let held = (given(&mut bench, "prod"), given(&mut bench, "stage"));
    assert_eq!(held, (Value::Null, json!("192.0.2.10")));
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.10" }));
    bench.change("stage", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    bench.settle();
    let held = (given(&mut bench, "prod"), given(&mut bench, "stage"));
    assert_eq!(held, (json!("192.0.2.10"), json!("192.0.2.20")));
    assert_eq!((bench.phase("prod").as_str(), bench.phase("stage").as_str()), ("Ready", "Ready"));
}

/// A bridge that can't move, because its DPUCluster was deleted, releases nothing.
#[test]
fn no_address_is_released_for_a_bridge_that_cannot_move() {
    let mut bench = Bench::ready();
    another(&mut bench, "stage", "192.0.2.20");
    bench.delete("DPUCluster", DPF, "dpus-stage");
    bench.settle();
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    bench.change("stage", &json!({ "metalLBVirtualIP": "192.0.2.10" }));
    bench.settle();
    let held = |bench: &mut Bench| (given(bench, "prod"), given(bench, "stage"));
    assert_eq!(held(&mut bench), (json!("192.0.2.10"), json!("192.0.2.20")));
    assert_eq!(bench.condition("prod", "ServiceExposureReady").0, "False/VIPConflict");
    bench.create(&dpu_cluster("dpus-stage"));
    bench.settle();
    assert_eq!(held(&mut bench), (json!("192.0.2.20"), json!("192.0.2.10")));
}

/// MetalLB does not use pools of other namespaces.
#[test]
fn a_pool_outside_metallbs_namespace_does_not_count() {
    let mut bench = Bench::ready();
    let mut foreign = pool("foreign", "198.51.100.0/24");
    foreign["metadata"]["namespace"] = json!(DPF);
    bench.create(&foreign);
    bench.change("prod", &json!({ "metalLBVirtualIP": "198.51.100.1" }));
    bench.settle();
    let (found, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!(found, "False/InvalidInput");
    assert!(
        message.contains("only in IPAddressPool dpf-operator-system/foreign, which MetalLB does not use"),
        "{message}"
    );
    assert_eq!(given(&mut bench, "prod"), "192.0.2.10");
}

/// The pool's Service selectors exclude HyperShift's Service.
#[test]
fn a_pool_for_other_services_does_not_count() {
    let mut bench = Bench::ready();
    let mut selective = pool("selective", "198.51.100.0/24");
    selective["spec"]["serviceAllocation"] =
        json!({ "serviceSelectors": [{ "matchLabels": { "app": "web" } }] });
    bench.create(&selective);
    // A pool that MetalLB does not use is not reported as the cause if there is another pool.
    let mut foreign = pool("foreign", "198.51.100.0/24");
    foreign["metadata"]["namespace"] = json!(DPF);
    bench.create(&foreign);
    bench.change("prod", &json!({ "metalLBVirtualIP": "198.51.100.1" }));
    bench.settle();
    let message = bench.condition("prod", "PrerequisitesMet").1;
    assert!(
        message.contains("metallb-system/selective, but its serviceAllocation excludes Service"),
        "{message}"
    );
    assert_eq!(given(&mut bench, "prod"), "192.0.2.10");
    let labels = json!({ "matchLabels": { "app": "kube-apiserver" } });
    let allowed = json!({ "spec": { "serviceAllocation": { "serviceSelectors": [labels] } } });
    bench.merge("IPAddressPool", "metallb-system", "selective", &allowed);
    bench.settle();
    assert_eq!(given(&mut bench, "prod"), "198.51.100.1");
}

#[test]
fn two_bridges_can_swap_their_addresses() {
    let mut bench = Bench::ready();
    bench.create(&dpu_cluster("more"));
    let mut other = bridge("stage");
    other["spec"]["dpuClusterRef"]["name"] = json!("more");
    other["spec"]["metalLBVirtualIP"] = json!("192.0.2.20");
    bench.create(&other);
    bench.settle();
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    bench.change("stage", &json!({ "metalLBVirtualIP": "192.0.2.10" }));
    bench.settle();
    for (name, endpoint) in [("prod", "https://192.0.2.20:6443"), ("stage", "https://192.0.2.10:6443")] {
        assert_eq!(bench.bridge(name)["status"]["apiEndpoint"], endpoint);
        assert_eq!(bench.phase(name), "Ready", "{:#}", bench.bridge(name)["status"]);
    }
}
