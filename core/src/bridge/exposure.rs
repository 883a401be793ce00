//! How the hosted API server is reached: the load balancer's address, the endpoints.
//!
//! A HostedCluster has no field for the address of a load balancer, so that it is asked for where MetalLB looks: on the
//! Service that HyperShift makes.
//!
//! Source: "Condition: ServiceExposureReady", "Field: `apiEndpoint`", "Field: `ingressEndpoint`".

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::names::{self, ASKED_AGAIN, REQUESTED_IPS, condition, reason};
use super::prerequisites::{Remedy, Unmet, service_title};
use super::view::{View, is, words};
use super::{hosted_cluster, vip};
use crate::engine::action::Action;
use crate::engine::conditions::{Finding, Status};
use crate::object::{Name, annotation, metadata, text};
use crate::time::Monotonic;

/// After how long MetalLB is asked again for an address that is free and was not given.
const ASK_AGAIN: Duration = Duration::from_mins(10);

/// The write that asks MetalLB for the address, or asks again; none if it has been asked, can't give it, or there is no
/// Service yet.
pub fn write(view: &View<'_>) -> Option<Action> {
    let (service, text) = (view.service()?, wanted(view)?);
    let [request, older] = REQUESTED_IPS;
    let address = text.parse::<IpAddr>().ok()?;
    if service["spec"]["type"] != "LoadBalancer" || vip::check(view).is_some() {
        return None;
    }
    let mut annotations = json!({ request: text });
    if is_asked(service, text) {
        // MetalLB does not look again at a Service that it has refused, unless that is written.
        if again_after(view).is_none_or(|delay| !delay.is_zero()) {
            return None;
        }
        annotations = json!({ ASKED_AGAIN: view.now.wall.timestamp().to_string() });
    } else if !vip::may_ask(view, address) {
        return None;
    }
    // MetalLB refuses a Service that asks twice.
    if annotation(service, older).is_some() {
        annotations[older] = Value::Null;
    }
    let patch = json!({ "metadata": { "uid": metadata(service, "uid"), "annotations": annotations } });
    let target = Name::of(service).object(&names::service());
    Some(Action::Patch { target, subresource: None, patch: Arc::new(patch) })
}

fn is_asked(service: &Value, address: &str) -> bool {
    annotation(service, REQUESTED_IPS[0]) == Some(address)
}

/// The address that MetalLB was asked for and has not given.
fn outstanding(view: &View<'_>) -> Option<IpAddr> {
    let (service, text) = (view.service()?, wanted(view)?);
    let address = text.parse::<IpAddr>().ok().filter(|_| is_asked(service, text))?;
    (!vip::assigned(service).any(|given| given == address)).then_some(address)
}

/// In what time MetalLB is to be asked again; none if it can't give the address, or has done so.
pub fn again_after(view: &View<'_>) -> Option<Duration> {
    let address = outstanding(view).filter(|address| vip::user(view, *address).is_none())?;
    let asked = view.memory.asked.filter(|(asked, _)| *asked == address);
    Some(asked.map_or(Duration::ZERO, |(_, at)| (at + ASK_AGAIN).since(view.now.monotonic)))
}

/// What MetalLB was asked for just now: the address, if it was free.
pub fn asked(view: &View<'_>) -> Option<(IpAddr, Monotonic)> {
    let address = outstanding(view)?;
    vip::user(view, address).is_none().then_some((address, view.now.monotonic))
}

/// Whether MetalLB was asked for an address that another has, and so has refused it.
pub fn is_refused(view: &View<'_>) -> bool {
    outstanding(view).is_some_and(|address| vip::user(view, address).is_some())
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
    let (status, reason, message) = match (taken, view.hosted_cluster().ours()) {
        (Some(taken), _) => (Status::False, reason::VIP_CONFLICT, taken.message.clone()),
        (None, None) => (
            Status::Unknown,
            reason::WAITING_FOR_HOSTED_CLUSTER,
            "nothing is exposed before the HostedCluster exists".to_owned(),
        ),
        (None, Some(cluster)) if is(cluster, "ValidConfiguration", "False") => {
            (Status::False, reason::SERVICE_CREATION_FAILED, words(cluster, "ValidConfiguration"))
        }
        (None, Some(cluster)) if hosted_cluster::uses_load_balancer(cluster) => load_balancer(view),
        (None, Some(cluster)) => node_port(cluster),
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
        return (Status::True, reason::LOAD_BALANCER_READY, format!("API server exposed at {address}:6443"));
    }
    if let Some((wanted, user)) = wanted.and_then(|wanted| Some((wanted, vip::user(view, wanted)?))) {
        let message = format!("{title} waits for Service {user} to let go of {wanted}");
        return (Status::False, reason::LOAD_BALANCER_PENDING, message);
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

/// The names under which applications are reached.
pub fn ingress_endpoint(view: &View<'_>) -> String {
    format!("*.apps.{}.{}", view.key.name, view.spec.base_domain)
}
