use super::*;
use crate::fixture::{ADDRESS, Fixture, NOW};

const OLD: &str = "10.0.0.9";

/// Returns the address that a write requests.
fn requested(fixture: &Fixture) -> Option<String> {
    match write(&fixture.snapshot(), true)? {
        Action::Kube(KubeRequest::Patch { patch, .. }) => {
            Some(patch["metadata"]["annotations"][REQUESTED_IPS[0]].as_str()?.to_owned())
        }
        other => panic!("{other:?}"),
    }
}

/// The cluster exists, and its Service has these addresses.
fn fixture(has: &[&str]) -> Fixture {
    let mut fixture = Fixture::new(&json!({}));
    let endpoint = json!({ "host": OLD, "port": 6443 });
    fixture.cluster(NOW, &json!({ "controlPlaneEndpoint": endpoint })).service(has, &json!({}));
    fixture
}

fn other_service(fixture: &mut Fixture, has: &str, requests: &str) {
    let service = json!({
        "metadata": { "annotations": { REQUESTED_IPS[0]: requests } },
        "spec": { "type": "LoadBalancer" },
        "status": { "loadBalancer": { "ingress": [{ "ip": has }] } },
    });
    fixture.see(Source::Services, &Name::new("other", "web"), service);
}

/// A Service that requests the address of another one loses its own.
#[test]
fn a_service_with_an_address_requests_one_that_is_free() {
    let free = fixture(&[OLD]);
    assert_eq!(requested(&free).as_deref(), Some(ADDRESS));
    for (has, requests) in [(ADDRESS, ""), ("10.0.0.7", ADDRESS)] {
        let mut taken = fixture(&[OLD]);
        other_service(&mut taken, has, requests);
        assert_eq!(requested(&taken), None, "{has} {requests}");
        let mut taken = fixture(&[]);
        other_service(&mut taken, has, requests);
        assert_eq!(requested(&taken).as_deref(), Some(ADDRESS), "it has none to lose");
    }
}

#[test]
fn a_cluster_that_lost_its_address_is_looked_at_again() {
    let asked = json!({ REQUESTED_IPS[0]: ADDRESS });
    let delay = |has: &[&str], requests: &Value, endpoint: bool| {
        let mut fixture = fixture(&[]);
        if !endpoint {
            fixture.cluster(NOW, &json!({}));
        }
        fixture.service(has, requests);
        look_again_after(&fixture.snapshot())
    };
    assert_eq!(delay(&[], &asked, true), Some(Duration::from_secs(30)));
    assert_eq!(delay(&[OLD], &asked, true), None, "it has its former address");
    assert_eq!(delay(&[ADDRESS], &asked, true), None, "it has the requested one");
    assert_eq!(delay(&[], &json!({}), true), None, "none is requested");
    assert_eq!(delay(&[], &asked, false), None, "it had none");
}

/// Before MetalLB has loaded the addresses of the pool, it refuses the new one.
#[test]
fn a_service_waits_until_its_own_pool_is_loaded() {
    for (has_pool, status, addresses, expected) in [
        (true, json!({ "availableIPv4": 1, "assignedIPv4": 1 }), json!([ADDRESS, OLD]), true),
        (true, json!({ "availableIPv4": 0, "assignedIPv4": 1 }), json!([ADDRESS, OLD]), false),
        (true, json!({ "availableIPv4": 2, "assignedIPv4": 1 }), json!([ADDRESS, OLD]), false),
        // Older versions of MetalLB write no status.
        (true, json!({}), json!([ADDRESS, OLD]), true),
        (false, json!({}), json!([]), true),
    ] {
        let mut fixture = Fixture::with(&json!({}), |spec| {
            if has_pool {
                spec["metalLBPool"] = json!({ "namespace": "metallb-system" });
            }
        });
        fixture.cluster(NOW, &json!({})).service(&[OLD], &json!({}));
        if has_pool {
            let labels = names::labels(&Name::new("team", "a"));
            let pool = json!({ "metadata": { "labels": labels }, "spec": { "addresses": addresses }, "status": status });
            fixture.see(Source::Pools, &Name::new("metallb-system", "team-a"), pool);
        }
        assert_eq!(requested(&fixture).is_some(), expected, "{status}");
    }
}
