//! The desired state of several controllers: what one of them provides arrives at the next.

use lockstep_apiserver::server::ApiServer;
use lockstep_bridge::names as bridge_names;
use lockstep_dpuservice::names;
use lockstep_engine::object::{Name, is_deleting, label, metadata};
use serde_json::Value;

/// Checks that every service runs at the endpoint of every bridge that is ready.
pub(super) fn differences(server: &ApiServer) -> Vec<String> {
    let bridges = server.objects(&bridge_names::bridge());
    let ready = bridges.iter().filter(|bridge| bridge["status"]["phase"] == "Ready");
    let services = server.objects(&names::service());
    let staying = || services.iter().filter(|service| !is_deleting(service));
    let pairs = ready.flat_map(|bridge| staying().map(move |service| (bridge, service)));
    let missing = pairs.filter(|(bridge, service)| !runs(server, bridge, service));
    missing.map(|(bridge, service)| describe(bridge, service)).collect()
}

/// Returns whether a service runs at the endpoint of a bridge.
fn runs(server: &ApiServer, bridge: &Value, service: &Value) -> bool {
    let applications = server.objects(&names::application());
    let mut deployed = applications.iter().filter(|application| {
        application["spec"]["destination"]["server"] == bridge["status"]["apiEndpoint"]
            && application["status"]["sync"]["status"] == "Synced"
    });
    deployed.any(|application| label(application, names::SERVICE_NAME) == Some(metadata(service, "name")))
}

fn describe(bridge: &Value, service: &Value) -> String {
    format!(
        "service {} does not run at {}, the endpoint of bridge {}",
        Name::of(service),
        bridge["status"]["apiEndpoint"],
        Name::of(bridge)
    )
}
