//! The desired state: every service runs on every cluster as its spec requires, and removed services and clusters leave no
//! objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockstep_apiserver::server::ApiServer;
use lockstep_dpuservice::names::{self, ARGO_FINALIZER, ARGO_NAMESPACE, MANAGED_BY, PROJECT};
use lockstep_engine::object::{Kind, Name, is_deleting, label, metadata};
use lockstep_external::dpu_clusters::release;
use lockstep_sim::conditions;
use serde_json::{Value, json};

use super::setup::{connected_server, project_ref};
use super::{identity, reported};

pub(super) fn differences(server: &ApiServer) -> Vec<String> {
    let mut differences = Vec::new();
    let services = server.objects(&names::service());
    let clusters = server.objects(&names::dpu_cluster());
    for cluster in clusters.iter().filter(|cluster| is_deleting(cluster)) {
        differences.push(format!("DPUCluster {} is still there", Name::of(cluster)));
    }
    for service in &services {
        let name = Name::of(service);
        let mut differ = |what: String| differences.push(format!("service {name}: {what}"));
        if is_deleting(service) {
            differ(format!("it is still there: {}", condition(service, "Ready")));
            continue;
        }
        for cluster in &clusters {
            if let Some(server_of_it) = connected_server(server, cluster) {
                on_cluster(server, service, &Name::of(cluster), &server_of_it, &mut differ);
            }
        }
        let connected = clusters.iter().filter(|cluster| connected_server(server, cluster).is_some()).count();
        status(service, connected, clusters.len(), &mut differ);
        if connected == clusters.len() {
            reported::differences(server, service, &clusters, &mut differ);
        }
    }
    leftovers(server, &services, &clusters, &mut differences);
    differences
}

fn on_cluster(
    world: &ApiServer,
    service: &Value,
    cluster: &Name,
    server: &str,
    differ: &mut dyn FnMut(String),
) {
    let name = Name::of(service);
    let applications = world.objects(&names::application());
    let made_for = (name.clone(), cluster.clone());
    let made: Vec<_> = applications
        .iter()
        .filter(|object| identity::of_application(object).as_ref() == Some(&made_for))
        .collect();
    let [application] = &made[..] else {
        return differ(format!("on {cluster} it has {} Applications", made.len()));
    };
    let (spec, source) = (&application["spec"], &service["spec"]["source"]);
    let finalizers = application["metadata"]["finalizers"].as_array().into_iter().flatten();
    for (what, found, wanted) in [
        ("project", &spec["project"], json!(PROJECT)),
        ("server", &spec["destination"]["server"], json!(server)),
        ("namespace", &spec["destination"]["namespace"], json!(name.namespace)),
        ("repository", &spec["source"]["repoURL"], source["repoURL"].clone()),
        ("chart", &spec["source"]["chart"], source["chart"].clone()),
        ("version", &spec["source"]["targetRevision"], source["version"].clone()),
        ("policy", &spec["syncPolicy"]["automated"], json!({ "prune": true, "selfHeal": true })),
        ("limit of retries", &spec["syncPolicy"]["retry"]["limit"], json!(-1)),
        ("finalizer", &json!(finalizers.filter(|held| **held == ARGO_FINALIZER).count()), json!(1)),
        ("service", &json!(label(application, names::SERVICE_NAME)), json!(name.name)),
    ] {
        if *found != wanted {
            differ(format!("the {what} of its Application on {cluster} is {found}, not {wanted}"));
        }
    }
    let values = &spec["source"]["helm"]["valuesObject"];
    if let Some(what) = wrong_values(service, values) {
        differ(format!("on {cluster} {what}: {values}"));
    }
    let release = format!("{}.{}.{}", cluster.name, name.namespace, name.name);
    let found = find(world, &config_map(), &cluster.namespace, &release);
    let runs = found.as_deref().map_or(&Value::Null, |release| &release["data"]);
    let deployed = runs["values"].as_str().map(str::to_owned);
    let given = release::through_floats(values).to_string();
    if runs["version"] != source["version"] || deployed != Some(given) {
        differ(format!("on {cluster} runs {runs}"));
    }
}

/// Returns what is wrong with the values of a chart.
pub(super) fn wrong_values(service: &Value, values: &Value) -> Option<String> {
    let spec = &service["spec"];
    let given = spec["values"].as_object().into_iter().flatten();
    let lost = given.filter(|(key, value)| *key != "serviceDaemonSet" && values[*key] != **value);
    let typed = spec["serviceDaemonSet"].as_object().into_iter().flatten();
    let overruled = typed.flat_map(|(field, value)| {
        let parts = value.as_object().into_iter().flatten();
        parts.filter(move |(key, value)| values["serviceDaemonSet"][field][*key] != **value)
    });
    if let Some((key, _)) = lost.chain(overruled).next() {
        return Some(format!("the value {key} is not what it says"));
    }
    (values["serviceID"] != spec["serviceID"]).then(|| "serviceID is not what it says".to_owned())
}

/// Checks the status of a service, if all of the clusters are connected. Without a kubeconfig, a cluster has what it had before.
fn status(service: &Value, connected: usize, count: usize, differ: &mut dyn FnMut(String)) {
    if connected < count {
        if condition(service, "Ready").starts_with("True") {
            differ(format!("it is Ready, and {connected} of {count} clusters are connected"));
        }
        return;
    }
    let status = &service["status"];
    let values = &service["spec"]["values"];
    let causes = [release::DEGRADED, release::FAILING_HOOK, release::HANGING_HOOK];
    let is_broken = causes.iter().any(|cause| values[*cause] == true);
    let well = if is_broken { 0 } else { count };
    if status["observedGeneration"] != service["metadata"]["generation"] {
        differ("its status is of another generation".to_owned());
    }
    if status["rollout"]["clusters"] != format!("{well}/{count}") {
        differ(format!("its status reports {} clusters, not {well}/{count}", status["rollout"]["clusters"]));
    }
    let ready = if count > 0 && !is_broken { "True" } else { "False" };
    if !condition(service, "Ready").starts_with(ready) {
        differ(format!("Ready is {}", condition(service, "Ready")));
    }
    // Without clusters, no hook runs.
    let has_hook =
        count > 0 && [release::FAILING_HOOK, release::HANGING_HOOK].iter().any(|hook| values[*hook] == true);
    let hook = format!("PostSync hook Job {}-check", metadata(service, "name"));
    if has_hook && !condition(service, "Ready").contains(&hook) {
        differ(format!("Ready is {}, which does not name the {hook}", condition(service, "Ready")));
    }
    let entries = |field: &str| status[field].as_object().map_or(0, serde_json::Map::len);
    if entries("sync") != count || entries("health") != count {
        differ(format!(
            "its status reports {} and {} of {count} clusters",
            entries("sync"),
            entries("health")
        ));
    }
}

/// Reports objects that removed services and clusters have left.
fn leftovers(
    server: &ApiServer,
    services: &[Arc<Value>],
    clusters: &[Arc<Value>],
    differences: &mut Vec<String>,
) {
    let connected: BTreeSet<_> =
        clusters.iter().filter_map(|cluster| connected_server(server, cluster)).collect();
    let is_connected = connected.len() == clusters.len();
    let names_of =
        |objects: &[Arc<Value>]| objects.iter().map(|object| Name::of(object)).collect::<BTreeSet<_>>();
    let (services, clusters) = (names_of(services), names_of(clusters));
    for application in server.objects(&names::application()) {
        if let Some((service, cluster)) = identity::of_application(&application)
            && !(services.contains(&service) && clusters.contains(&cluster))
        {
            differences.push(format!("Application {} is left", metadata(&application, "name")));
        }
    }
    for secret in server.objects(&names::secret()) {
        let is_argos = metadata(&secret, "namespace") == ARGO_NAMESPACE;
        if let Some(cluster) = identity::of_secret(&secret).filter(|_| is_argos)
            && (!clusters.contains(&cluster) || services.is_empty())
        {
            differences.push(format!("Secret {} is left", metadata(&secret, "name")));
        }
    }
    let project = server.object(&project_ref());
    let Some(project) = project else {
        if !services.is_empty() {
            differences.push("there is no AppProject".to_owned());
        }
        return;
    };
    let permitted = project["spec"]["destinations"].as_array().into_iter().flatten();
    let permitted: BTreeSet<_> =
        permitted.map(|entry| entry["server"].as_str().unwrap_or_default().to_owned()).collect();
    if services.is_empty() {
        differences.push("the AppProject is left".to_owned());
    } else if !connected.is_subset(&permitted) || (is_connected && permitted != connected) {
        differences.push(format!("the AppProject permits {permitted:?}"));
    } else if label(project, MANAGED_BY).is_none() {
        // A project that is being deleted stays usable until Argo CD removes its finalizer.
        differences.push("the AppProject belongs to another client".to_owned());
    }
}

/// Returns the status and message of a condition.
fn condition(object: &Value, condition: &str) -> String {
    conditions::find(object, condition).map_or_else(String::new, |found| {
        format!("{}: {}", found["status"].as_str().unwrap_or("?"), found["message"].as_str().unwrap_or("?"))
    })
}

fn config_map() -> Arc<Kind> {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

fn find(server: &ApiServer, kind: &Arc<Kind>, namespace: &str, name: &str) -> Option<Arc<Value>> {
    let found = server.object(&Name::new(namespace, name).object(kind)).cloned();
    found.filter(|object| label(object, release::CLUSTER).is_some() && !is_deleting(object))
}
