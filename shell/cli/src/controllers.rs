//! The controllers of this program, by name.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion;
use kube::Client;
use lockstep_bridge as bridge;
use lockstep_crds::CrdSet;
use lockstep_dpuservice as dpuservice;
use lockstep_engine::action::{Action, Answer as _, ErrorKind, Failure, KubeRequest};
use lockstep_engine::object::Kind;
use lockstep_engine::operator::{CONCURRENCY, Config};
use lockstep_engine::recording::{Origin, Recordable};
use lockstep_namespaceclass as namespaceclass;
use lockstep_runtime::execute::{Executor, TIMEOUT};
use lockstep_runtime::failure::from_client;
use lockstep_runtime::run::Options;
use serde_json::{Map, Value};

/// A controller that `lockstep run` does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unrunnable {
    /// There is no controller with that name.
    #[error(transparent)]
    Unknown(#[from] UnknownController),
    /// It has its own command.
    #[error("{0} runs in a process of its own, one for each configuration: lockstep {0} --config <name>")]
    Alone(&'static str),
}

/// Returns the sets of CRDs of the named controllers that run together; of all of them if none is named.
pub fn select_running(names: &[String]) -> Result<Vec<CrdSet>, Unrunnable> {
    let mut chosen = select(names)?;
    match chosen.iter().find(|set| set.runs_alone) {
        Some(set) if !names.is_empty() => Err(Unrunnable::Alone(set.controller)),
        _ => {
            chosen.retain(|set| !set.runs_alone);
            Ok(chosen)
        }
    }
}

/// A name that belongs to no controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller named {name:?}; these exist: {existing}")]
pub struct UnknownController {
    name: String,
    existing: String,
}

/// Returns the sets of CRDs of the named controllers; of all if none is named. The order is that of [`lockstep_crds::all`].
pub fn select(names: &[String]) -> Result<Vec<CrdSet>, UnknownController> {
    let all = lockstep_crds::all();
    if let Some(name) = names.iter().find(|name| all.iter().all(|set| set.controller != name.as_str())) {
        return Err(unknown(name));
    }
    let chosen = |set: &CrdSet| names.is_empty() || names.iter().any(|name| name == set.controller);
    Ok(all.into_iter().filter(chosen).collect())
}

fn unknown(name: &str) -> UnknownController {
    let existing = lockstep_crds::all().iter().map(|set| set.controller).collect::<Vec<_>>().join(", ");
    UnknownController { name: name.to_owned(), existing }
}

/// Returns the kinds that the CRDs define, in the storage version.
pub fn kinds(sets: &[CrdSet]) -> Vec<Arc<Kind>> {
    let crds = sets.iter().flat_map(|set| &set.crds);
    crds.flat_map(|crd| {
        let spec = &crd.spec;
        let stored = spec.versions.iter().filter(|version| version.storage);
        stored.map(|version| {
            let namespaced = spec.scope == "Namespaced";
            Kind::known(&spec.group, &version.name, &spec.names.kind, &spec.names.plural, namespaced)
        })
    })
    .collect()
}

/// Returns the names of the controllers with CRDs that define these kinds.
pub fn defining(wanted: &[Arc<Kind>]) -> Vec<&'static str> {
    let defines = |set: &CrdSet| kinds(std::slice::from_ref(set)).iter().any(|kind| wanted.contains(kind));
    lockstep_crds::all().into_iter().filter(defines).map(|set| set.controller).collect()
}

/// Returns the command that installs the CRDs of these controllers. Only those that are needed: another project may have a CRD of
/// the same name as that of another controller.
pub fn install_command(names: &[&str], flags: &str) -> String {
    format!("lockstep crds --controllers {} | kubectl apply --server-side {flags}-f -", names.join(","))
}

/// Returns how many requests a controller with that many concurrent reconciles has in flight at most: four for each reconcile,
/// because one sends several at a time, and never fewer than by default.
pub fn requests_in_flight(concurrency: u16) -> usize {
    Options::default().max_in_flight.max(4 * usize::from(concurrency))
}

/// Returns the options that run the controller with that name: the conditions of its kinds are exported.
pub fn options(name: &str) -> Options {
    let sets: Vec<CrdSet> = lockstep_crds::all().into_iter().filter(|set| set.controller == name).collect();
    Options { conditions_of: kinds(&sets), ..Options::default() }
}

/// Returns the kinds that a cluster does not serve.
pub async fn missing(executor: &Executor, kinds: &[Arc<Kind>]) -> Result<Vec<Arc<Kind>>, Failure> {
    let mut missing = Vec::new();
    for kind in kinds {
        let discover = Action::Kube(KubeRequest::Discover { api_version: kind.api_version() });
        match executor.execute(&discover).await.kinds() {
            Ok(served) if served.contains(kind) => {}
            Err(failure) if failure.class != ErrorKind::KindNotServed => return Err(failure),
            Ok(_) | Err(_) => missing.push(Arc::clone(kind)),
        }
    }
    Ok(missing)
}

/// Returns the required fields of `spec` in our CRDs that the cluster's CRDs do not have, such as `spec.source of DPUService`.
/// Another project may define kinds of the same names.
///
/// # Errors
///
/// If the schema of a kind can't be read, with the reason. The API server publishes that of a new CRD after a moment.
pub async fn unknown_fields(client: &Client, sets: &[CrdSet]) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    for spec in sets.iter().flat_map(|set| &set.crds).map(|crd| &crd.spec) {
        for version in spec.versions.iter().filter(|version| version.storage) {
            let path = format!("/openapi/v3/apis/{}/{}", spec.group, version.name);
            let unread = |why: &str| {
                format!(
                    "the schema of {} can't be read from {path} of the API server: {why}",
                    spec.names.kind
                )
            };
            let request =
                http::Request::get(&path).body(Vec::new()).map_err(|error| unread(&error.to_string()))?;
            let answer = tokio::time::timeout(TIMEOUT, client.request::<Value>(request)).await;
            let answer = answer.map_err(|_| unread("there was no answer in time"))?;
            let document = answer.map_err(|error| unread(&from_client(&error).message))?;
            let known = fields_of_spec(&document, &spec.names.kind);
            let known = known.ok_or_else(|| unread("it is not there yet"))?;
            let lacking = required_of_spec(version).iter().filter(|field| !known.contains_key(*field));
            unknown.extend(lacking.map(|field| format!("spec.{field} of {}", spec.names.kind)));
        }
    }
    Ok(unknown)
}

/// Returns the fields of `spec` of a kind in an OpenAPI document.
fn fields_of_spec<'a>(document: &'a Value, kind: &str) -> Option<&'a Map<String, Value>> {
    let is_of_kind = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|one| one["kind"] == kind))
    };
    let schema = document["components"]["schemas"].as_object()?.values().find(is_of_kind)?;
    schema["properties"]["spec"]["properties"].as_object()
}

/// Returns the required fields of `spec` in a CRD.
fn required_of_spec(version: &CustomResourceDefinitionVersion) -> &[String] {
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let spec = schema.and_then(|schema| schema.properties.as_ref()).and_then(|fields| fields.get("spec"));
    spec.and_then(|spec| spec.required.as_deref()).unwrap_or_default()
}

/// Creates the controller with that name.
pub fn machine(name: &str, config: &Config) -> Option<Box<dyn Recordable + Send>> {
    match name {
        lockstep_crds::bridge::CONTROLLER => Some(Box::new(bridge::Operator::new(config.clone()))),
        lockstep_crds::dpuservice::CONTROLLER => Some(Box::new(dpuservice::Operator::new(config.clone()))),
        lockstep_crds::namespaceclass::CONTROLLER => {
            Some(Box::new(namespaceclass::Operator::new(config.clone())))
        }
        _ => None,
    }
}

/// Returns the default concurrency of the controller with that name.
pub fn concurrency(name: &str) -> u16 {
    if name == lockstep_crds::bridge::CONTROLLER { bridge::CONCURRENCY } else { CONCURRENCY }
}

/// The reason why a recorded controller can't be created.
#[derive(Debug, thiserror::Error)]
pub enum Unrevivable {
    /// There is no such controller.
    #[error(transparent)]
    Unknown(#[from] UnknownController),
    /// This version can't read its recorded configuration or state.
    #[error(
        "this lockstep can't read the {what} of the controller {name:?} in it ({why}); replay it with the version of \
         lockstep that its header names"
    )]
    Unreadable {
        /// Which of them: the configuration or the state.
        what: &'static str,
        /// The controller.
        name: String,
        /// The error.
        why: serde_json::Error,
    },
}

/// Creates the controller of a recording.
pub fn revive(name: &str, origin: Origin<'_>) -> Result<Box<dyn Recordable + Send>, Unrevivable> {
    select(&[name.to_owned()])?;
    let revived: serde_json::Result<Box<dyn Recordable + Send>> = match name {
        lockstep_crds::bridge::CONTROLLER => {
            bridge::Operator::revive(origin).map(|operator| Box::new(operator) as _)
        }
        lockstep_crds::dpuservice::CONTROLLER => {
            dpuservice::Operator::revive(origin).map(|operator| Box::new(operator) as _)
        }
        lockstep_crds::namespaceclass::CONTROLLER => {
            namespaceclass::Operator::revive(origin).map(|operator| Box::new(operator) as _)
        }
        _ => return Err(unknown(name).into()),
    };
    let what = match origin {
        Origin::Config(_) => "configuration",
        Origin::Checkpoint(_) => "state",
    };
    revived.map_err(|why| Unrevivable::Unreadable { what, name: name.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep_engine::action::WatchCommand;
    use lockstep_engine::machine::Event;
    use lockstep_engine::time::{Monotonic, Now, Wall};
    use lockstep_engine::yaml;

    use super::*;

    /// A CRD counts as ours only after its schema has shown that.
    #[tokio::test]
    async fn a_schema_that_can_not_be_read_is_an_error() {
        let set = select(&["dpuservice".to_owned()]).unwrap().remove(0);
        let spec = |required: &str| {
            let kind = serde_json::json!([{ "group": "svc.dpu.nvidia.com", "kind": "DPUService", "version": "v1alpha1" }]);
            let properties = serde_json::json!({ "spec": { "properties": { required: {} } } });
            let schema =
                serde_json::json!({ "x-kubernetes-group-version-kind": kind, "properties": properties });
            serde_json::json!({ "components": { "schemas": { "dpuservice": schema } } }).to_string()
        };
        for (code, body, expected) in [
            (200, spec("source"), Ok(Vec::new())),
            (200, spec("helmChart"), Ok(vec!["spec.source of DPUService".to_owned()])),
            (200, r#"{"components":{"schemas":{}}}"#.to_owned(), Err("it is not there yet")),
            (404, "404 page not found".to_owned(), Err("404")),
            (503, "busy".to_owned(), Err("busy")),
        ] {
            let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
                let answer = http::Response::builder().status(code);
                std::future::ready(answer.body(kube::client::Body::from(body.clone().into_bytes())))
            });
            let found = unknown_fields(&Client::new(service, "default"), std::slice::from_ref(&set)).await;
            match (found, expected) {
                (found, Ok(expected)) => assert_eq!(found, Ok(expected)),
                (found, Err(part)) => {
                    let why = found.expect_err(part);
                    assert!(
                        why.starts_with("the schema of DPUService can't be read from /openapi/v3/"),
                        "{why}"
                    );
                    assert!(why.contains(part), "{why}");
                }
            }
        }
    }

    #[test]
    fn every_controller_can_be_made() {
        let config =
            Config { concurrency: 1, resync: Duration::from_secs(1), instance: String::new(), seed: 0 };
        for set in select_running(&[]).unwrap() {
            let machine = machine(set.controller, &config).expect(set.controller);
            assert_eq!(machine.name(), set.controller);
            let state = machine.checkpoint()().unwrap();
            let recorded = serde_json::to_value(&config).unwrap();
            for origin in [Origin::Config(&recorded), Origin::Checkpoint(&state)] {
                let revived = revive(set.controller, origin).unwrap();
                assert_eq!(revived.checkpoint()().unwrap(), state, "{origin:?}");
            }
            let error = revive(set.controller, Origin::Checkpoint(&recorded)).err().unwrap().to_string();
            assert!(error.contains("state") && error.contains(set.controller), "{error}");
        }
    }

    #[test]
    fn the_chart_has_the_same_default_concurrency() {
        let values: Value = yaml::read(include_str!("../../../deploy/lockstep/values.yaml")).unwrap();
        for set in select_running(&[]).unwrap() {
            assert_eq!(
                values[set.controller]["concurrency"],
                concurrency(set.controller),
                "{}",
                set.controller
            );
        }
    }

    #[test]
    fn a_controller_watches_the_kinds_of_which_it_exports_conditions() {
        let config =
            Config { concurrency: 1, resync: Duration::from_secs(1), instance: String::new(), seed: 0 };
        let now =
            Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic: Monotonic::START };
        for set in select_running(&[]).unwrap() {
            let mut machine = machine(set.controller, &config).expect(set.controller);
            let requests = machine.step(Event::Started, now).requests;
            let watched = requests.into_iter().filter_map(|request| match request.action {
                Action::Watch(WatchCommand::Start { kind, scope }) if !scope.metadata_only => Some(kind),
                _ => None,
            });
            let watched: Vec<Arc<Kind>> = watched.collect();
            let exported = options(set.controller).conditions_of;
            assert!(
                !exported.is_empty() && exported.iter().all(|kind| watched.contains(kind)),
                "{watched:?}"
            );
        }
    }

    #[test]
    fn more_reconciles_have_more_requests_in_flight() {
        let pairs = [1, 5, 16, 17, 1024].map(|concurrency| (concurrency, requests_in_flight(concurrency)));
        assert_eq!(pairs, [(1, 64), (5, 64), (16, 64), (17, 68), (1024, 4096)]);
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_existing_names() {
        let error = select(&["namespaceclass".to_owned(), "x".to_owned()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"there is no controller named "x"; these exist: bridge, dpuservice, namespaceclass, sentinel"#
        );
    }

    #[test]
    fn kinds_are_read_from_the_definitions() {
        let kinds = kinds(&select(&["namespaceclass".to_owned()]).unwrap());
        let names = kinds.iter().map(|kind| (kind.plural.as_str(), kind.namespaced)).collect::<Vec<_>>();
        assert_eq!(names, [("namespaceclasses", false), ("namespaceclassbindings", true)]);
    }
}
