//! Requests without a resource: health, version, discovery, OpenAPI.

use serde_json::{Value, json};

use super::request::Request;
use super::respond::{Answer, NOT_FOUND};
use super::state::ApiServer;
use super::status::Status;
use super::{discovery, openapi};

/// The server address in discovery for clients outside the cluster.
const SERVER_ADDRESS: &str = "127.0.0.1:6443";

fn version() -> Value {
    json!({
        "major": "1", "minor": "36",
        "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
    })
}

/// Answers requests that [`super::request::ResourcePath`] can't parse.
pub(super) fn answer(server: &ApiServer, request: &Request<'_>) -> Result<Answer, Status> {
    let registry = &server.registry;
    let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    let found = |value: Option<Value>| {
        Ok(value.map_or(Answer::Text(404, NOT_FOUND), |value| Answer::Json(200, value)))
    };
    let knows = |group: &str| !group.is_empty() && registry.groups().contains_key(group);
    let aggregated = discovery::wants_aggregated(request.accept);
    match segments.as_slice() {
        [] => {
            let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
            paths.extend(discovery::group_version_paths(registry).iter().map(|path| format!("/{path}")));
            paths.extend(
                ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
                    .map(str::to_owned),
            );
            found(Some(json!({"paths": paths})))
        }
        ["healthz" | "livez" | "readyz", check @ ..] if !check.contains(&"") => Ok(Answer::Text(200, "ok")),
        ["version"] => found(Some(version())),
        ["api"] if aggregated => Ok(Answer::Aggregated(discovery::aggregated(registry, true))),
        ["apis"] if aggregated => Ok(Answer::Aggregated(discovery::aggregated(registry, false))),
        ["api"] => found(Some(json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": SERVER_ADDRESS}],
        }))),
        ["apis"] => found(Some(discovery::api_groups(registry))),
        ["apis", group] if !group.is_empty() => found(discovery::api_group(registry, group)),
        ["api", "v1"] => found(discovery::api_resources(registry, "", "v1")),
        ["apis", group, version] if knows(group) => discovery::api_resources(registry, group, version)
            .map(|list| Answer::Json(200, list))
            .ok_or_else(Status::no_such_path),
        ["openapi", "v2"] => openapi::all(registry, request).map(Answer::Complete),
        ["openapi", "v3"] => found(Some(openapi::index(server))),
        ["openapi", "v3", path @ ..] => Ok(openapi::document(registry, &path.join("/"))
            .map_or(Answer::Text(404, ""), |document| Answer::Json(200, document))),
        ["api", ..] => Err(Status::no_such_path()),
        ["apis", group, ..] if knows(group) => Err(Status::no_such_path()),
        _ => Ok(Answer::Text(404, NOT_FOUND)),
    }
}
