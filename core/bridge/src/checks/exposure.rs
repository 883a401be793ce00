//! The exposure of the hosted API server: the load balancer's address, the endpoints.
//!
//! Source: "Condition: ServiceExposureReady", "Field: `apiEndpoint`", "Field: `ingressEndpoint`".

use std::net::{IpAddr, Ipv6Addr};

use lockstep_engine::conditions::{Finding, Status};
use serde_json::Value;

use super::serving::serves;
use super::unmet::{Resolution, Unmet};
use super::unwatched::unwatched;
use crate::desired::address;
use crate::model::hosted_cluster::{endpoint, is_at, uses_load_balancer};
use crate::model::hypershift::{describe, is};
use crate::model::node;
use crate::model::service::{assigned, other_families};
use crate::model::source::Source;
use crate::names::{condition, reason, service_title};
use crate::snapshot::{BridgeSnapshot, OwnedObject};
use crate::store::addresses;

/// Returns the finding about `ServiceExposureReady`, unless a write of this pass overrides it.
pub fn judge(snapshot: &BridgeSnapshot<'_>, unmet: &[Unmet]) -> Finding {
    let taken = unmet.iter().find(|unmet| unmet.remedy == Resolution::FreeAddress);
    let (status, reason, message) = match (taken, snapshot.hosted_cluster()) {
        (Some(taken), _) => (Status::False, reason::VIP_CONFLICT, taken.message.clone()),
        (None, OwnedObject::Unknown(failure)) => unwatched(Source::HostedClusters, failure),
        (None, OwnedObject::Absent | OwnedObject::Foreign | OwnedObject::Going) => (
            Status::Unknown,
            reason::WAITING_FOR_HOSTED_CLUSTER,
            "nothing is exposed before the HostedCluster exists".to_owned(),
        ),
        // HyperShift then stops reconciling, which does not affect a cluster that serves (decision 52).
        (None, OwnedObject::Ours(cluster))
            if is(cluster, "ValidConfiguration", "False") && !serves(snapshot) =>
        {
            (Status::False, reason::SERVICE_CREATION_FAILED, describe(cluster, "ValidConfiguration"))
        }
        (None, OwnedObject::Ours(cluster)) if uses_load_balancer(cluster) => {
            match snapshot.refusal(Source::Services) {
                Some(failure) => unwatched(Source::Services, failure),
                None => load_balancer(snapshot, cluster),
            }
        }
        (None, OwnedObject::Ours(cluster)) => node_port(snapshot, cluster),
    };
    Finding { condition: condition::SERVICE_EXPOSURE_READY, status, reason, message }
}

fn load_balancer(snapshot: &BridgeSnapshot<'_>, cluster: &Value) -> (Status, &'static str, String) {
    let title = service_title(snapshot.key);
    let Some(service) = snapshot.service() else {
        let message = format!("HyperShift has not made {title} yet");
        return (Status::False, reason::LOAD_BALANCER_PENDING, message);
    };
    let given: Vec<IpAddr> = assigned(service).collect();
    // If no address is requested, any address is accepted.
    let wanted = address::wanted(snapshot).and_then(|address| address.parse::<IpAddr>().ok());
    let found = wanted.map_or(given.first(), |wanted| given.iter().find(|given| **given == wanted));
    if let Some(address) = found {
        return (Status::True, reason::LOAD_BALANCER_READY, format!("API server exposed at {address}:6443"));
    }
    // Until it has the new address, a cluster serves at the former one.
    let former = given.iter().find(|given| is_at(cluster, **given));
    let (reason, title) = match former {
        Some(former) => (reason::ADDRESS_CHANGE_PENDING, format!("{title}, exposed at {former}:6443,")),
        None => (reason::LOAD_BALANCER_PENDING, title),
    };
    let refused = wanted.and_then(|wanted| Some((wanted, other_families(service, wanted)?)));
    if let Some((wanted, cluster_ips)) = refused {
        let family = if wanted.is_ipv4() { "IPv4" } else { "IPv6" };
        let message = format!(
            "MetalLB refuses {wanted} for {title}, because its cluster IPs {cluster_ips} are not all {family}; create the \
             DPFHCPBridge on a management cluster with {family} only, or with exposeThroughLoadBalancer false"
        );
        return (Status::False, reason, message);
    }
    let message = match wanted.map(|wanted| (wanted, addresses::user(snapshot.store, snapshot.key, wanted))) {
        Some((wanted, Some(user))) => format!("{title} waits for Service {user} to release {wanted}"),
        Some((wanted, None)) => format!("{title} waits for MetalLB to give it {wanted}"),
        None => format!("{title} waits for MetalLB to give it an address"),
    };
    (Status::False, reason, message)
}

/// Returns whether the load balancer has the address of the API server in the HostedCluster's status.
pub fn is_reached(snapshot: &BridgeSnapshot<'_>) -> bool {
    let (service, cluster) = (snapshot.service(), snapshot.hosted_cluster().ours());
    service
        .zip(cluster)
        .is_some_and(|(service, cluster)| assigned(service).any(|given| is_at(cluster, given)))
}

/// Returns the state of a node port. Its address is in a field of the HostedCluster that can't be changed, so it may be that of a
/// Node that is gone (decision 131).
fn node_port(snapshot: &BridgeSnapshot<'_>, cluster: &Value) -> (Status, &'static str, String) {
    let Some((host, port)) = endpoint(cluster) else {
        let message = "the HostedCluster does not report its node port yet".to_owned();
        return (Status::Unknown, reason::WAITING_FOR_HOSTED_CLUSTER, message);
    };
    let is_watched = snapshot.store.refusal(Source::Nodes).is_none();
    if is_watched && !snapshot.store.all(Source::Nodes).any(|(_, node)| node::has_address(node, host)) {
        let message = format!(
            "no Node has the address {host} any more, at which the API server is exposed; give a Node this address again, or delete \
             the DPFHCPBridge with its cluster and create it again"
        );
        return (Status::False, reason::NODE_PORT_UNREACHABLE, message);
    }
    (Status::True, reason::NODE_PORT_READY, format!("API server exposed at {}", authority(host, port)))
}

fn authority(host: &str, port: i64) -> String {
    if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns the URL of the hosted API server.
pub fn api_endpoint(snapshot: &BridgeSnapshot<'_>) -> Option<String> {
    let (host, port) = endpoint(snapshot.hosted_cluster().ours()?)?;
    Some(format!("https://{}", authority(host, port)))
}

/// Returns the domain of applications, once the ingress controller of the hosted cluster has run. It runs on nodes, as an
/// operator without which no version of the whole cluster completes.
pub fn ingress_endpoint(snapshot: &BridgeSnapshot<'_>) -> Option<String> {
    let history = snapshot.hosted_cluster().ours()?["status"]["version"]["history"].as_array()?;
    let has_ingress = history.iter().any(|entry| entry["state"] == "Completed");
    has_ingress.then(|| format!("*.apps.{}.{}", snapshot.key.name, snapshot.spec.base_domain))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{ADDRESS, Fixture, NOW};

    /// MetalLB compares the families of all cluster IPs with those of the requested addresses.
    #[test]
    fn a_service_of_another_family_is_reported() {
        let message = |cluster_ips: &[&str], has: &[&str]| {
            let mut fixture = Fixture::new(&json!({}));
            fixture.cluster(NOW, &json!({})).service_at(cluster_ips, has, &json!({}));
            judge(&fixture.snapshot(), &[]).message
        };
        for (cluster_ips, expected) in [
            (&["172.30.0.1"][..], "Service team-a/kube-apiserver waits for MetalLB to give it 10.0.0.1"),
            (
                &["172.30.0.1", "fd00::1"],
                "MetalLB refuses 10.0.0.1 for Service team-a/kube-apiserver, because its cluster IPs 172.30.0.1, fd00::1 are \
                 not all IPv4; create the DPFHCPBridge on a management cluster with IPv4 only, or with exposeThroughLoadBalancer \
                 false",
            ),
            (
                &["fd00::1"],
                "MetalLB refuses 10.0.0.1 for Service team-a/kube-apiserver, because its cluster IPs fd00::1 are not all IPv4; \
                 create the DPFHCPBridge on a management cluster with IPv4 only, or with exposeThroughLoadBalancer false",
            ),
        ] {
            assert_eq!(message(cluster_ips, &[]), expected);
            // It had the address before it got its second family.
            assert_eq!(message(cluster_ips, &[ADDRESS]), "API server exposed at 10.0.0.1:6443");
        }
    }
}
