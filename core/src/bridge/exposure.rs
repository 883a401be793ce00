//! How the hosted API server is reached: the load balancer's address, the endpoints.
//!
//! A HostedCluster has no field for the address of a load balancer, so that it is asked for where MetalLB looks: on the
//! Service that HyperShift makes.
//!
//! Source: "Condition: ServiceExposureReady", "Field: `apiEndpoint`", "Field: `ingressEndpoint`".

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use serde_json::{Value, json};

use super::names::{self, REQUESTED_IPS, condition, reason};
use super::prerequisites::{Remedy, Unmet, service_title};
use super::source::Source;
use super::view::{Own, View, is, unwatched, words};
use super::{hosted_cluster, vip};
use crate::engine::action::Action;
use crate::engine::conditions::{Finding, Status};
use crate::object::{Name, annotation, metadata, text};

/// The write that asks MetalLB for the address; none if it is asked for, can't be given, or there is no Service yet.
pub fn write(view: &View<'_>) -> Option<Action> {
    let (service, address) = (view.service()?, wanted(view)?);
    let [request, older] = REQUESTED_IPS;
    let is_asked = annotation(service, request) == Some(address);
    // To ask for an address that can't be given would take away the one that it has.
    if is_asked || service["spec"]["type"] != "LoadBalancer" || vip::check(view).is_some() {
        return None;
    }
    let mut annotations = json!({ request: address });
    // MetalLB refuses a Service that asks twice.
    if annotation(service, older).is_some() {
        annotations[older] = Value::Null;
    }
    let patch = json!({ "metadata": { "uid": metadata(service, "uid"), "annotations": annotations } });
    let target = Name::of(service).object(&names::service());
    Some(Action::Patch { target, subresource: None, patch: Arc::new(patch) })
}

/// The address that the load balancer should have, if there is one.
fn wanted<'a>(view: &View<'a>) -> Option<&'a str> {
    let uses_load_balancer = view.hosted_cluster().ours().is_some_and(hosted_cluster::uses_load_balancer);
    let address = view.spec.metal_lb_virtual_ip.as_str();
    (uses_load_balancer && !address.is_empty()).then_some(address)
}

/// The finding about `ServiceExposureReady`, where no write of this pass has told otherwise.
pub fn judge(view: &View<'_>, unmet: &[Unmet]) -> Finding {
    let taken = unmet.iter().find(|unmet| unmet.remedy == Remedy::FreeAddress);
    let (status, reason, message) = match (taken, view.hosted_cluster()) {
        (Some(taken), _) => (Status::False, reason::VIP_CONFLICT, taken.message.clone()),
        (None, Own::Unknown(failure)) => unwatched(Source::HostedClusters, failure),
        (None, Own::Absent | Own::Foreign | Own::Going) => (
            Status::Unknown,
            reason::WAITING_FOR_HOSTED_CLUSTER,
            "nothing is exposed before the HostedCluster exists".to_owned(),
        ),
        (None, Own::Ours(cluster)) if is(cluster, "ValidConfiguration", "False") => {
            (Status::False, reason::SERVICE_CREATION_FAILED, words(cluster, "ValidConfiguration"))
        }
        (None, Own::Ours(cluster)) if hosted_cluster::uses_load_balancer(cluster) => {
            match view.refusal(Source::Services) {
                Some(failure) => unwatched(Source::Services, failure),
                None => load_balancer(view),
            }
        }
        (None, Own::Ours(cluster)) => node_port(cluster),
    };
    Finding { condition: condition::SERVICE_EXPOSURE_READY, status, reason, message }
}

fn load_balancer(view: &View<'_>) -> (Status, &'static str, String) {
    let title = service_title(view.key);
    let Some(service) = view.service() else {
        let message = format!("HyperShift has not made {title} yet");
        return (Status::False, reason::LOAD_BALANCER_PENDING, message);
    };
    let given: Vec<IpAddr> = vip::assigned(service).collect();
    // Without an address to ask for, any will do.
    let wanted = wanted(view).and_then(|address| address.parse::<IpAddr>().ok());
    let found = wanted.map_or(given.first(), |wanted| given.iter().find(|given| **given == wanted));
    if let Some(address) = found {
        let mut message = format!("API server exposed at {address}:6443");
        if let Some((host, _)) = view.hosted_cluster().ours().and_then(endpoint)
            && host.parse::<IpAddr>().is_err()
        {
            message = format!("{message}; DNS has to resolve {host} to that address");
        }
        return (Status::True, reason::LOAD_BALANCER_READY, message);
    }
    let address = wanted.map_or_else(|| "an address".to_owned(), |wanted| wanted.to_string());
    (Status::False, reason::LOAD_BALANCER_PENDING, format!("{title} waits for MetalLB to give it {address}"))
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

/// Whether a HostedCluster tells where its API server is.
pub fn has_endpoint(cluster: &Value) -> bool {
    endpoint(cluster).is_some()
}

/// The API server's host and port. HyperShift writes an empty host and port 0 until it knows them.
fn endpoint(cluster: &Value) -> Option<(&str, i64)> {
    let endpoint = &cluster["status"]["controlPlaneEndpoint"];
    let host = text(endpoint, "/host")?;
    let port = endpoint["port"].as_i64().filter(|port| *port != 0)?;
    Some((host, port))
}

fn authority(host: &str, port: i64) -> String {
    if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The URL of the hosted API server.
pub fn api_endpoint(view: &View<'_>) -> Option<String> {
    let (host, port) = endpoint(view.hosted_cluster().ours()?)?;
    Some(format!("https://{}", authority(host, port)))
}

/// The names under which applications are reached, once the ingress controller of the hosted cluster has been there. It runs on
/// nodes, as an operator without which no version of the whole cluster completes.
pub fn ingress_endpoint(view: &View<'_>) -> Option<String> {
    let history = view.hosted_cluster().ours()?["status"]["version"]["history"].as_array()?;
    let has_ingress = history.iter().any(|entry| entry["state"] == "Completed");
    has_ingress.then(|| format!("*.apps.{}.{}", view.key.name, view.spec.base_domain))
}
