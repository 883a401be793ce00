//! HostedClusters: how they are exposed, and whether their control plane serves.

use std::net::IpAddr;

use lockstep_engine::object::text;
use serde_json::Value;

use super::hypershift::is;

/// The services that have to be published. The list is immutable, including its order.
pub const SERVICES: [&str; 4] = ["APIServer", "OAuthServer", "Konnectivity", "Ignition"];

/// Returns whether a HostedCluster publishes its API server through a load balancer.
pub fn uses_load_balancer(hosted_cluster: &Value) -> bool {
    let services = hosted_cluster["spec"]["services"].as_array().into_iter().flatten();
    let mut api_server = services.filter(|entry| entry["service"] == SERVICES[0]);
    api_server.any(|entry| entry["servicePublishingStrategy"]["type"] == "LoadBalancer")
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
pub fn endpoint(cluster: &Value) -> Option<(&str, i64)> {
    let endpoint = &cluster["status"]["controlPlaneEndpoint"];
    let host = text(endpoint, "/host")?;
    let port = endpoint["port"].as_i64().filter(|port| *port != 0)?;
    Some((host, port))
}

/// Returns whether a HostedCluster reports this address for its API server.
pub fn is_at(cluster: &Value, address: IpAddr) -> bool {
    host(cluster).is_some_and(|host| host.parse() == Ok(address))
}

/// Returns whether the control plane of a HostedCluster serves.
pub fn serves(cluster: &Value) -> bool {
    is(cluster, "Available", "True") && has_endpoint(cluster) && is_installed(cluster)
}

/// Returns whether a version of the control plane was ever installed completely. An older HyperShift does not report that.
fn is_installed(cluster: &Value) -> bool {
    let history = cluster["status"]["controlPlaneVersion"]["history"].as_array();
    history.is_none_or(|history| history.iter().any(|entry| entry["state"] == "Completed"))
}
