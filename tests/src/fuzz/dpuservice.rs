//! Fuzzes the input of the DPUService controller: kubeconfigs, specs, the reports of Argo CD, and whole clusters.

use std::time::Duration;

use lockstep_crds::dpuservice::DPUServiceSpec;
use lockstep_dpuservice::Operator;
use lockstep_dpuservice::desired::application::manifest;
use lockstep_dpuservice::desired::values::values;
use lockstep_dpuservice::model::application::App;
use lockstep_dpuservice::model::kubeconfig::{self, KEYS};
use lockstep_dpuservice::model::report::Report;
use lockstep_dpuservice::model::service::service_ref;
use lockstep_dpuservice::names::{self, ARGO_NAMESPACE};
use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::machine::Step;
use lockstep_engine::object::{Name, ObjectRef, metadata};
use lockstep_engine::operator::Config;
use lockstep_engine::yaml;
use serde_json::{Map, Value, json};

use super::always_ok::{self, World};
use super::documents::{fill, name, named, objects, plant, shows_secret};

/// Runs one fuzz input. The first byte chooses the format of the rest: a kubeconfig, the JSON of `{service, cluster}`, the JSON
/// of an Application's status, or the JSON of a cluster.
pub fn dpuservice(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    match (choice % 4, serde_json::from_slice::<Value>(rest)) {
        (0, _) => kubeconfig(rest),
        (1, Ok(document)) => application(&document),
        (2, Ok(status)) => report(&status),
        (3, Ok(document)) => operate(&document),
        _ => {}
    }
}

fn kubeconfig(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let planted = [false, true].map(|everywhere| with_secrets(&text, everywhere).map(String::into_bytes));
    for (index, text) in [Some(data.to_vec())].into_iter().chain(planted).enumerate() {
        let Some(text) = text else { continue };
        let read = kubeconfig::parse(&text);
        if let Ok(connection) = &read {
            let server = &connection.server;
            assert!(!server.ends_with('/') && !server.contains(char::is_control), "{server:?}");
        }
        let stand_in = kubeconfig::stand_in(&text, &hide);
        // As in a recording: the placeholder gives the same connection, except for the hidden values.
        let expected = read.map(|connection| {
            let config = kubeconfig::config_stand_in(connection.config.to_string().as_bytes(), &hide);
            (connection.server, serde_json::from_str::<Value>(&config).expect("JSON"))
        });
        let replayed = kubeconfig::parse(stand_in.as_bytes());
        assert_eq!(replayed.map(|connection| (connection.server, connection.config)), expected);
        if index > 0 {
            assert!(!expected.is_err_and(|problem| shows_secret(&problem)));
        }
        if index == 1 {
            assert!(!shows_secret(&stand_in), "{stand_in}");
        }
    }
}

/// Hides a secret in the format of the placeholders in recordings.
fn hide(secret: &[u8]) -> String {
    let sum = secret.iter().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    format!("hidden-{sum:016x}")
}

/// Returns a kubeconfig with the secret in the values of its users and clusters: in credentials only, or everywhere. Returns
/// `None` if the secret can't be distinguished from the original content.
fn with_secrets(kubeconfig: &str, everywhere: bool) -> Option<String> {
    let mut document: Value = yaml::read(kubeconfig).ok()?;
    if shows_secret(kubeconfig) || shows_secret(&document.to_string()) {
        return None;
    }
    for (list, kind) in [("users", "user"), ("clusters", "cluster")] {
        let entries = document.get_mut(list)?;
        if everywhere {
            plant(entries);
            continue;
        }
        for body in entries.as_array_mut()?.iter_mut().filter_map(|entry| entry.get_mut(kind)) {
            let kept = ["server", "tls-server-name"]
                .map(|field| body.as_object_mut().and_then(|fields| fields.remove_entry(field)));
            plant(body);
            if let Some(fields) = body.as_object_mut() {
                fields.extend(kept.into_iter().flatten());
            }
        }
    }
    Some(document.to_string())
}

fn application(document: &Value) {
    let Ok(spec) = serde_json::from_value::<DPUServiceSpec>(document["service"]["spec"].clone()) else {
        return;
    };
    check_values(&spec);
    let service = service_name(&document["service"]);
    let cluster = named(&names::dpu_cluster(), &document["cluster"]);
    let cluster = Name::new(cluster.namespace.as_deref().unwrap_or_default(), &cluster.name);
    let manifest = manifest(&service, &spec, &cluster, "https://10.0.0.1:6443");
    let app = App::read(&manifest).expect("an Application of ours");
    assert_eq!((&app.service, &app.cluster), (&service, &cluster));
    for value in manifest["metadata"]["labels"].as_object().expect("labels").values() {
        let value = value.as_str().expect("a text");
        assert!(value.len() <= 63 && is_ended(value), "{value:?}");
    }
    let release = manifest["spec"]["source"]["helm"]["releaseName"].as_str().expect("a text");
    assert!(release.len() <= 53 && release.split('.').all(is_ended), "{release:?}");
}

/// Returns whether a text of valid characters begins and ends with a letter or digit.
fn is_ended(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let ends = [text.bytes().next(), text.bytes().last()];
    text.bytes().all(is_valid)
        && ends.into_iter().all(|end| end.is_some_and(|end| end.is_ascii_alphanumeric()))
}

/// Checks the merged values: typed values win, all others are kept, and a second merge changes nothing.
fn check_values(spec: &DPUServiceSpec) {
    let merged = values(spec);
    let mut typed = json!({ "serviceDaemonSet": spec.service_daemon_set.clone().unwrap_or_default() });
    if let Some(id) = &spec.service_id {
        typed["serviceID"] = json!(id);
        typed["serviceDaemonSet"]["labels"]["service-ID"] = json!(id);
    }
    let base = spec.values.clone().map(Value::from);
    assert!(
        is_merged(base.as_ref(), &typed, &Value::from(merged.clone())),
        "{typed} in {base:?}: {merged:?}"
    );
    let again = values(&DPUServiceSpec { values: Some(merged.clone()), ..spec.clone() });
    assert_eq!(again, merged);
}

fn is_merged(base: Option<&Value>, wins: &Value, merged: &Value) -> bool {
    let Some(wins) = wins.as_object() else { return merged == wins };
    let none = Map::new();
    let base = base.and_then(Value::as_object).unwrap_or(&none);
    let Some(merged) = merged.as_object() else { return false };
    base.iter().all(|(field, value)| wins.contains_key(field) || merged.get(field) == Some(value))
        && wins.iter().all(|(field, wins)| {
            merged.get(field).is_some_and(|merged| is_merged(base.get(field), wins, merged))
        })
        && merged.keys().all(|field| base.contains_key(field) || wins.contains_key(field))
}

/// The maximum size of a report, as JSON.
const REPORT_MAX_BYTES: usize = 200_000;

fn report(status: &Value) {
    let report = Report::read(status);
    assert_eq!(Report::read(status), report);
    let size = serde_json::to_string(&report).expect("JSON").len();
    assert!(size < REPORT_MAX_BYTES, "{size}");
    for operation in [None, report.operation.as_ref()] {
        let _ = (report.describe(operation), report.has_failed(operation));
    }
    let _ = report.is_well();
}

fn operate(document: &Value) {
    if !document.is_object() {
        return;
    }
    let world = world(document);
    let run = || {
        let config =
            Config { concurrency: 2, resync: Duration::from_hours(1), instance: "fuzz".to_owned(), seed: 1 };
        always_ok::run(&mut Operator::new(config), world.clone())
    };
    let steps = run();
    assert!(run() == steps, "the same events gave different steps");
    let is_exposed = shows_secret(&document.to_string());
    for step in &steps {
        check(step, is_exposed);
    }
}

/// Creates a cluster with the objects `service`, `cluster`, `secret`, `application` and `project`; each may be a list.
fn world(document: &Value) -> World {
    let mut world = World::new(Vec::new());
    for service in objects(document, "service") {
        world.put(&service_ref(&service_name(&service)), service);
    }
    for cluster in objects(document, "cluster") {
        world.put(&named(&names::dpu_cluster(), &cluster), cluster);
    }
    for mut secret in objects(document, "secret") {
        fill(&mut secret, hidden);
        world.put(&named(&names::secret(), &secret), secret);
    }
    for application in objects(document, "application") {
        let name = named(&names::application(), &application).name;
        world.put(&ObjectRef::namespaced(&names::application(), ARGO_NAMESPACE, &name), application);
    }
    for project in objects(document, "project") {
        world.put(&ObjectRef::namespaced(&names::project(), ARGO_NAMESPACE, names::PROJECT), project);
    }
    world
}

/// Returns the name of a service. The name is a label as well.
fn service_name(service: &Value) -> Name {
    let target = named(&names::service(), service);
    Name::new(target.namespace.as_deref().unwrap_or_default(), &name(metadata(service, "name"), 63))
}

/// Hides a secret in the keys of Secrets that controllers read.
fn hidden(key: &str, text: &str) -> Option<String> {
    KEYS.contains(&key).then(|| with_secrets(text, false)).flatten()
}

/// Checks that the controller accesses only the objects that it manages or reads, and that no secret is logged.
fn check(step: &Step, is_exposed: bool) {
    for note in &step.notes {
        assert!(is_exposed || !shows_secret(&format!("{note:?}")), "{note:?}");
    }
    for action in step.requests.iter().map(|request| &request.action) {
        if let Action::Kube(KubeRequest::List { scope, .. }) = action {
            assert_eq!(scope.namespace.as_deref(), Some(ARGO_NAMESPACE));
        }
        let Some(target) = action.target() else { continue };
        let is_secret = target.kind == names::secret();
        let is_read = matches!(action, Action::Kube(KubeRequest::Get { .. }))
            && (is_secret || target.kind == names::dpu_cluster());
        let is_home = target.kind == names::service() || target.kind.group == "events.k8s.io";
        assert!(
            is_read || is_home || target.namespace.as_deref() == Some(ARGO_NAMESPACE),
            "{action:?} of another"
        );
        assert!(is_exposed || is_secret || !shows_secret(&format!("{action:?}")), "{action:?}");
    }
}
