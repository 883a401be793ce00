//! Tests that the operator restores what the class sets, and that a new process makes no changes to it.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use http::{Method, Request};
use kube::Client;
use kube::api::{Patch, PatchParams};
use lockstep_tests::ground::eventually;
use serde_json::{Value, json};

use super::world::World;

const CLASS: &str = "drift";

/// A resource of the class, and its edits: each in a namespace of its own, as JSON patches (RFC 6902).
struct Case {
    /// The path of the collection, with `{}` for the namespace.
    path: &'static str,
    manifest: Value,
    edits: Vec<Value>,
}

fn cases() -> Vec<Case> {
    vec![secret(), network_policy(), role(), service(), deployment()]
}

fn replace(path: &str, value: &Value) -> Value {
    json!([{ "op": "replace", "path": path, "value": value }])
}

/// Returns an edit for fields that the server may have omitted because they are empty.
fn add(path: &str, value: &Value) -> Value {
    json!([{ "op": "add", "path": path, "value": value }])
}

fn remove(path: &str) -> Value {
    json!([{ "op": "remove", "path": path }])
}

fn secret() -> Case {
    let labels = json!({ "app": "drift" });
    Case {
        path: "/api/v1/namespaces/{}/secrets/drift",
        manifest: json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "drift", "labels": labels },
            "stringData": { "pin": "4711", "key": "new" }, "data": { "key": "b2xk", "raw": "cmF3" },
        }),
        edits: vec![
            replace("/data/pin", &json!("ODE1")),
            replace("/data/key", &json!("b2xk")),
            remove("/data/pin"),
            remove("/data/raw"),
            remove("/metadata/labels/app"),
            remove("/metadata/labels/namespaceclass.akuity.io~1name"),
            remove("/metadata/annotations/namespaceclass.akuity.io~1content"),
        ],
    }
}

fn network_policy() -> Case {
    Case {
        path: "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies/drift",
        manifest: json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "name": "drift" },
            "spec": { "podSelector": {}, "policyTypes": ["Ingress"], "ingress": [] },
        }),
        edits: vec![
            replace("/spec/podSelector", &json!({ "matchLabels": { "app": "one" } })),
            replace("/spec/policyTypes", &json!(["Egress"])),
            add("/spec/ingress", &json!([{}])),
        ],
    }
}

fn role() -> Case {
    let rule = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }]);
    Case {
        path: "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles/drift",
        manifest: json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "drift" }, "rules": [],
        }),
        edits: vec![add("/rules", &rule)],
    }
}

fn service() -> Case {
    Case {
        path: "/api/v1/namespaces/{}/services/drift",
        manifest: json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "drift" },
            "spec": {
                "selector": { "app": "dns" },
                "ports": [
                    { "name": "tcp", "port": 53 },
                    { "name": "udp", "port": 53, "protocol": "UDP" },
                ],
            },
        }),
        edits: vec![
            remove("/spec/ports/0"),
            remove("/spec/ports/1"),
            replace("/spec/ports/0/name", &json!("other")),
            replace("/spec/selector", &json!({ "app": "other" })),
            remove("/spec/selector"),
        ],
    }
}

fn deployment() -> Case {
    let container = json!({
        "name": "one", "image": "one:1", "args": ["a", "b"], "env": [{ "name": "A", "value": "1" }],
        "ports": [{ "containerPort": 53 }, { "containerPort": 53, "protocol": "UDP" }],
        "resources": {}, "securityContext": { "capabilities": { "drop": [] } },
    });
    let spec = json!({ "containers": [container], "initContainers": [], "volumes": [{ "name": "v", "emptyDir": {} }] });
    let labels = json!({ "app": "drift" });
    Case {
        path: "/apis/apps/v1/namespaces/{}/deployments/drift",
        manifest: json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "drift" },
            "spec": {
                "replicas": 0, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": spec },
            },
        }),
        edits: vec![
            replace("/spec/replicas", &json!(3)),
            replace("/spec/template/spec/containers/0/image", &json!("two:1")),
            replace("/spec/template/spec/containers/0/args", &json!(["c"])),
            replace("/spec/template/spec/containers/0/env/0/value", &json!("2")),
            remove("/spec/template/spec/containers/0/env"),
            remove("/spec/template/spec/containers/0/ports/0"),
            add("/spec/template/spec/containers/0/securityContext/capabilities/drop", &json!(["ALL"])),
            remove("/spec/template/spec/volumes"),
        ],
    }
}

/// A single edit, and its object.
struct Edit {
    namespace: String,
    path: String,
    patch: Value,
}

fn edits() -> Vec<Edit> {
    let cases = cases();
    let all = cases.iter().flat_map(|case| case.edits.iter().map(move |patch| (case.path, patch)));
    let edit = |(number, (path, patch)): (usize, (&str, &Value))| {
        let namespace = format!("{CLASS}-{number}");
        Edit { path: path.replace("{}", &namespace), patch: patch.clone(), namespace }
    };
    all.enumerate().map(edit).collect()
}

async fn get(client: &Client, path: &str) -> anyhow::Result<Value> {
    Ok(client.request(Request::get(path).body(Vec::new())?).await?)
}

/// Returns the content of an object without the fields that the server maintains.
fn content(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| !matches!(&**field, "resourceVersion" | "generation" | "managedFields"));
    }
    object
}

/// Returns the resource versions of all objects of the class in the namespaces.
async fn versions(client: &Client, edits: &[Edit]) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut versions = BTreeMap::new();
    for edit in edits {
        for case in cases() {
            let path = case.path.replace("{}", &edit.namespace);
            let version = get(client, &path).await?["metadata"]["resourceVersion"].take();
            versions.insert(path, version);
        }
    }
    Ok(versions)
}

pub(super) async fn every_field_that_the_class_sets_comes_back(world: World) -> anyhow::Result<()> {
    let edits = edits();
    world.define(CLASS, cases().into_iter().map(|case| case.manifest).collect()).await?;
    for edit in &edits {
        world.namespace(&edit.namespace, Some(CLASS)).await?;
    }
    let mut applied = Vec::new();
    for edit in &edits {
        world.ready(&edit.namespace, CLASS).await?;
        applied.push(content(get(&world.client, &edit.path).await?));
    }
    for edit in &edits {
        let request = Request::builder().method(Method::PATCH).uri(&edit.path);
        let request = request.header("content-type", "application/json-patch+json");
        let request = request.body(serde_json::to_vec(&edit.patch)?)?;
        let edited = world.client.request::<Value>(request).await;
        edited.with_context(|| format!("{} {}", edit.path, edit.patch))?;
    }
    let mut lasting = Vec::new();
    for (edit, applied) in edits.iter().zip(applied) {
        let repaired = eventually("the edit is undone", async || {
            let found = content(get(&world.client, &edit.path).await?);
            ensure!(found == applied, "{found:#}");
            Ok(())
        });
        if let Err(error) = repaired.await {
            lasting.push(format!("{} {}: {error:#}", edit.path, edit.patch));
        }
    }
    ensure!(lasting.is_empty(), "{}", lasting.join("\n"));
    rests_after_a_restart(&world, &edits, "repaired").await?;
    // Nothing has drifted, so a process that only reports drift reports none.
    let report = Patch::Merge(json!({ "spec": { "drift": "Report" } }));
    world.classes().patch(CLASS, &PatchParams::default(), &report).await?;
    rests_after_a_restart(&world, &edits, "reported").await?;
    for edit in &edits {
        world.ready(&edit.namespace, CLASS).await?;
    }
    Ok(())
}

/// A new process does not know what the server has accepted from the previous one. If the managed fields do not show it, the
/// process applies the same configuration again, and the server changes nothing.
async fn rests_after_a_restart(world: &World, edits: &[Edit], name: &str) -> anyhow::Result<()> {
    for edit in edits {
        world.ready(&edit.namespace, CLASS).await?;
    }
    let before = versions(&world.client, edits).await?;
    world.ground.restart().await.context("restarting the operator")?;
    // Once a change after the restart has been reconciled, the earlier state has been reconciled too.
    for number in 0..3 {
        let after = format!("{CLASS}-{name}-{number}");
        world.namespace(&after, Some(CLASS)).await?;
        world.ready(&after, CLASS).await?;
    }
    assert_eq!(versions(&world.client, edits).await?, before);
    Ok(())
}
