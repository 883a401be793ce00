//! The endpoint of a hosted cluster's API server.

use std::net::IpAddr;

use lockstep_engine::object::metadata;
use serde_json::Value;

use super::model::api_server_service;
use crate::read_view::ReadView;

/// Default port of the API server.
const PORT: i64 = 6443;

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: i64,
}

impl Endpoint {
    pub(super) fn url(&self) -> String {
        match self.host.parse() {
            Ok(IpAddr::V6(address)) => format!("https://[{address}]:{}", self.port),
            _ => format!("https://{}:{}", self.host, self.port),
        }
    }
}

/// Returns how a service of a hosted cluster is published; null if it is not listed.
pub(super) fn strategy<'a>(cluster: &'a Value, service: &str) -> &'a Value {
    let mut services = cluster["spec"]["services"].as_array().into_iter().flatten();
    services
        .find(|entry| entry["service"] == service)
        .map_or(&Value::Null, |entry| &entry["servicePublishingStrategy"])
}

/// Returns the port on which the API server itself listens.
pub(super) fn port(cluster: &Value) -> i64 {
    cluster["spec"]["networking"]["apiServer"]["port"].as_i64().unwrap_or(PORT)
}

/// Returns the endpoint of the API server, once it is known.
pub(super) fn endpoint(look: &ReadView<'_>, cluster: &Value) -> Option<Endpoint> {
    let strategy = strategy(cluster, "APIServer");
    let service = look.get(&api_server_service(cluster))?;
    match strategy["type"].as_str()? {
        "LoadBalancer" => {
            let ingress = service["status"]["loadBalancer"]["ingress"].get(0)?;
            let given = strategy["loadBalancer"]["hostname"].as_str();
            let host = given.or(ingress["hostname"].as_str()).or(ingress["ip"].as_str())?;
            Some(Endpoint { host: host.to_owned(), port: port(cluster) })
        }
        "NodePort" => {
            let host = strategy["nodePort"]["address"].as_str()?.to_owned();
            Some(Endpoint { host, port: service["spec"]["ports"][0]["nodePort"].as_i64()? })
        }
        _ => {
            let domain = cluster["spec"]["dns"]["baseDomain"].as_str().unwrap_or_default();
            let given = strategy["route"]["hostname"].as_str();
            let host = format!("api-{}.{domain}", metadata(cluster, "name"));
            Some(Endpoint { host: given.map_or(host, str::to_owned), port: 443 })
        }
    }
}
