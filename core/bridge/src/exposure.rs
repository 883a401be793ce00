//! The exposure of the hosted API server: the load balancer's address, the endpoints.
//!
//! Source: "Condition: ServiceExposureReady", "Field: `apiEndpoint`", "Field: `ingressEndpoint`".

use std::net::{IpAddr, Ipv6Addr};

use lockstep_engine::conditions::{Finding, Status};
use lockstep_engine::object::text;
use serde_json::Value;

use super::names::{condition, reason};
use super::prerequisites::{Resolution, Unmet, service_title};
use super::source::Source;
use super::view::{BridgeSnapshot, OwnedObject, is, unwatched, words};
use super::{address, hosted_cluster, vip};

/// Returns the finding about `ServiceExposureReady`, unless a write of this pass overrides it.
pub fn judge(view: &BridgeSnapshot<'_>, unmet: &[Unmet]) -> Finding {
    let taken = unmet.iter().find(|unmet| unmet.remedy == Resolution::FreeAddress);
    let (status, reason, message) = match (taken, view.hosted_cluster()) {
        (Some(taken), _) => (Status::False, reason::VIP_CONFLICT, taken.message.clone()),
        (None, OwnedObject::Unknown(failure)) => unwatched(Source::HostedClusters, failure),
        (None, OwnedObject::Absent | OwnedObject::Foreign | OwnedObject::Going) => (
            Status::Unknown,
            reason::WAITING_FOR_HOSTED_CLUSTER,
            "nothing is exposed before the HostedCluster exists".to_owned(),
        ),
        (None, OwnedObject::Ours(cluster)) if is(cluster, "ValidConfiguration", "False") => {
            (Status::False, reason::SERVICE_CREATION_FAILED, words(cluster, "ValidConfiguration"))
        }
        (None, OwnedObject::Ours(cluster)) if hosted_cluster::uses_load_balancer(cluster) => {
            match view.refusal(Source::Services) {
                Some(failure) => unwatched(Source::Services, failure),
                None => load_balancer(view, cluster),
            }
        }
        (None, OwnedObject::Ours(cluster)) => node_port(cluster),
    };
    Finding { condition: condition::SERVICE_EXPOSURE_READY, status, reason, message }
}

fn load_balancer(view: &BridgeSnapshot<'_>, cluster: &Value) -> (Status, &'static str, String) {
    let title = service_title(view.key);
    let Some(service) = view.service() else {
        let message = format!("HyperShift has not made {title} yet");
        return (Status::False, reason::LOAD_BALANCER_PENDING, message);
    };
    let given: Vec<IpAddr> = vip::assigned(service).collect();
    // If no address is requested, any address is accepted.
    let wanted = address::wanted(view).and_then(|address| address.parse::<IpAddr>().ok());
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
    let message = match wanted.map(|wanted| (wanted, vip::user(view, wanted))) {
        Some((wanted, Some(user))) => format!("{title} waits for Service {user} to release {wanted}"),
        Some((wanted, None)) => format!("{title} waits for MetalLB to give it {wanted}"),
        None => format!("{title} waits for MetalLB to give it an address"),
    };
    (Status::False, reason, message)
}

/// Returns whether the load balancer has the address of the API server in the HostedCluster's status.
pub fn is_reached(view: &BridgeSnapshot<'_>) -> bool {
    let (service, cluster) = (view.service(), view.hosted_cluster().ours());
    service
        .zip(cluster)
        .is_some_and(|(service, cluster)| vip::assigned(service).any(|given| is_at(cluster, given)))
}

/// Returns whether a HostedCluster reports this address for its API server.
fn is_at(cluster: &Value, address: IpAddr) -> bool {
    host(cluster).is_some_and(|host| host.parse() == Ok(address))
}

fn node_port(cluster: &Value) -> (Status, &'static str, String) {
    match endpoint(cluster) {
        Some((host, port)) => (
            Status::True,
            reason::NODE_PORT_READY,
            format!("API server exposed at {}", authority(host, port)),
        ),
        None => (
            Status::Unknown,
            reason::WAITING_FOR_HOSTED_CLUSTER,
            "the HostedCluster does not tell its node port yet".to_owned(),
        ),
    }
}

/// Returns whether a HostedCluster reports the endpoint of its API server.
pub fn has_endpoint(cluster: &Value) -> bool {
    endpoint(cluster).is_some()
}

/// Returns the host of the API server, as the HostedCluster reports it.
pub fn host(cluster: &Value) -> Option<&str> {
    endpoint(cluster).map(|(host, _)| host)
}

/// Returns the API server's host and port. HyperShift writes an empty host and port 0 until it knows them.
fn endpoint(cluster: &Value) -> Option<(&str, i64)> {
    let endpoint = &cluster["status"]["controlPlaneEndpoint"];
    let host = text(endpoint, "/host")?;
    let port = endpoint["port"].as_i64().filter(|port| *port != 0)?;
    Some((host, port))
}

fn authority(host: &str, port: i64) -> String {
    if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns the URL of the hosted API server.
pub fn api_endpoint(view: &BridgeSnapshot<'_>) -> Option<String> {
    let (host, port) = endpoint(view.hosted_cluster().ours()?)?;
    Some(format!("https://{}", authority(host, port)))
}

/// Returns the domain of applications, once the ingress controller of the hosted cluster has run. It runs on nodes, as an
/// operator without which no version of the whole cluster completes.
pub fn ingress_endpoint(view: &BridgeSnapshot<'_>) -> Option<String> {
    let history = view.hosted_cluster().ours()?["status"]["version"]["history"].as_array()?;
    let has_ingress = history.iter().any(|entry| entry["state"] == "Completed");
    has_ingress.then(|| format!("*.apps.{}.{}", view.key.name, view.spec.base_domain))
}
