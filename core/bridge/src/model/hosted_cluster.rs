//! HostedClusters: how they are exposed, and whether their control plane serves.

use std::net::IpAddr;

use lockstep_engine::object::text;
use serde_json::Value;

use super::hypershift::is;
use super::rollout::was_complete;

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

/// Returns whether HyperShift reports that the control plane of a HostedCluster is available, and where.
pub fn is_available(cluster: &Value) -> bool {
    is(cluster, "Available", "True") && has_endpoint(cluster)
}

/// Returns whether the histories show that a version was ever installed completely. An older HyperShift has no history of the
/// control plane. One that follows it begins that history with the current rollout, so it may lack the version that was installed.
pub fn is_installed(cluster: &Value) -> bool {
    let history = cluster["status"]["controlPlaneVersion"]["history"].as_array();
    let is_complete = |history: &Vec<Value>| history.iter().any(|entry| entry["state"] == "Completed");
    history.is_none_or(is_complete) || was_complete(cluster)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(host: &str, port: i64) -> Value {
        json!({ "status": { "controlPlaneEndpoint": { "host": host, "port": port } } })
    }

    #[test]
    fn an_endpoint_is_reported_once_it_has_a_port() {
        assert_eq!(endpoint(&at("192.0.2.1", 6443)), Some(("192.0.2.1", 6443)));
        assert_eq!(endpoint(&at("192.0.2.1", 0)), None);
        assert!(!has_endpoint(&json!({})));
    }

    #[test]
    fn the_reported_host_is_compared_as_an_address() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(is_at(&at("2001:db8:0::1", 6443), address("2001:db8::1")));
        assert!(!is_at(&at("192.0.2.1", 6443), address("192.0.2.2")));
        assert!(!is_at(&at("api.example.com", 6443), address("192.0.2.2")));
    }

    #[test]
    fn a_version_is_installed_if_either_history_shows_it() {
        let history = |states: &[&str]| json!({ "history": states.iter().map(|state| json!({ "state": state })).collect::<Vec<_>>() });
        for (of_control_plane, of_all, expected) in [
            (Some(&["Partial"][..]), &["Partial"][..], false),
            (Some(&["Completed"]), &["Partial"], true),
            (Some(&["Partial", "Completed"]), &["Partial", "Partial"], true),
            // An older HyperShift.
            (None, &["Partial"], true),
            // It was updated.
            (Some(&["Partial"]), &["Completed"], true),
            (Some(&["Partial"]), &["Partial", "Completed"], true),
        ] {
            let mut status = json!({ "version": history(of_all) });
            if let Some(states) = of_control_plane {
                status["controlPlaneVersion"] = history(states);
            }
            assert_eq!(is_installed(&json!({ "status": status })), expected, "{status}");
        }
    }

    #[test]
    fn only_the_strategy_of_the_api_server_counts() {
        let published = |service: &str, strategy: &str| {
            let other =
                json!({ "service": "Ignition", "servicePublishingStrategy": { "type": "LoadBalancer" } });
            let service = json!({ "service": service, "servicePublishingStrategy": { "type": strategy } });
            uses_load_balancer(&json!({ "spec": { "services": [other, service] } }))
        };
        assert!(published("APIServer", "LoadBalancer"));
        assert!(!published("APIServer", "NodePort"));
        assert!(!published("OAuthServer", "LoadBalancer"));
    }
}
