//! The users: they define and change classes, label namespaces, delete both and edit objects directly, regardless of the
//! faults.

use std::time::Duration;

use http::{Method, Request, header};
use kube::Client;
use kube::client::Body;
use lockstep_engine::random::Random;
use serde_json::{Value, json};

use super::timing::TROUBLE;
use super::world::{CLASS_LABEL, CLASSES};

/// Classes that may exist.
const CLASS_NAMES: [&str; 3] = ["c0", "c1", "c2"];
/// Namespaces that may exist.
const NAMESPACES: [&str; 4] = ["n0", "n1", "n2", "n3"];

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// How long a user waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Acts until fault injection ends. The answers that users get do not matter: the desired state follows from the requests that
/// took effect, not from those that were sent.
pub async fn act(client: Client, mut random: Random) -> turmoil::Result {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = tokio::time::Instant::now();
    // Creates initial objects, so that every run has something to lose.
    for class in CLASS_NAMES {
        send(&client, define(class, &mut random)).await;
    }
    for namespace in NAMESPACES {
        let class = random.pick(&CLASS_NAMES);
        send(&client, label(namespace, Some(class))).await;
    }
    let pace = random.pick(&[2000, 6000, 15_000]);
    loop {
        tokio::time::sleep(Duration::from_millis(random.below(pace))).await;
        if began.elapsed() + Duration::from_secs(10) > TROUBLE {
            return Ok(());
        }
        let deed = deed(&mut random);
        send(&client, deed).await;
    }
}

async fn send(client: &Client, request: Request<Body>) {
    let _whatever = tokio::time::timeout(PATIENCE, client.send(request)).await;
}

fn deed(random: &mut Random) -> Request<Body> {
    let (class, namespace) = (random.pick(&CLASS_NAMES), random.pick(&NAMESPACES));
    let in_it = format!("/api/v1/namespaces/{namespace}");
    let number = random.below(3);
    match random.below(16) {
        0..=3 => define(class, random),
        4 => request(Method::DELETE, &format!("{CLASSES}/{class}"), MERGE, None),
        5..=7 => label(namespace, Some(class)),
        8 => label(namespace, None),
        9 => request(Method::DELETE, &in_it, MERGE, None),
        10 | 11 => {
            let data = json!({ "data": { "value": "manually", "more": "manually" } });
            request(Method::PATCH, &format!("{in_it}/configmaps/settings-{number}"), MERGE, Some(&data))
        }
        12 => request(Method::DELETE, &format!("{in_it}/configmaps/settings-{number}"), MERGE, None),
        13 => {
            let bare = json!({ "metadata": { "labels": null, "annotations": null } });
            request(Method::PATCH, &format!("{in_it}/secrets/pin"), MERGE, Some(&bare))
        }
        14 => {
            let binding = format!(
                "/apis/namespaceclass.akuity.io/v1alpha1/namespaces/{namespace}/namespaceclassbindings/{namespace}"
            );
            request(Method::DELETE, &binding, MERGE, None)
        }
        _ => {
            let own = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("own-{}", number + 1) },
                "data": { "value": "mine" },
            });
            let path = format!("{in_it}/configmaps/own-{}", number + 1);
            request(Method::PATCH, &path, APPLY, Some(&own))
        }
    }
}

/// Creates or changes a class.
fn define(class: &str, random: &mut Random) -> Request<Body> {
    let mut resources = Vec::new();
    for number in 0..3 {
        if random.below(2) == 1 {
            let value = random.below(1000).to_string();
            resources.push(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("settings-{number}") },
                "data": { "value": value },
            }));
        }
    }
    if random.below(2) == 1 {
        resources.push(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "pin" }, "stringData": { "pin": "4711" },
        }));
    }
    if random.below(3) == 0 {
        resources
            .push(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } }));
    }
    if random.below(12) == 0 {
        resources.push(json!({ "apiVersion": "v1", "kind": "Nonsense", "metadata": { "name": "none" } }));
    }
    let class_object = json!({
        "apiVersion": "namespaceclass.akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": { "name": class },
        "spec": { "resources": resources },
    });
    request(Method::PATCH, &format!("{CLASSES}/{class}"), APPLY, Some(&class_object))
}

/// Creates a namespace or changes its label.
fn label(namespace: &str, class: Option<&str>) -> Request<Body> {
    let labels = class.map(|class| json!({ CLASS_LABEL: class }));
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace, "labels": labels },
    });
    request(Method::PATCH, &format!("/api/v1/namespaces/{namespace}"), APPLY, Some(&object))
}

fn request(method: Method, path: &str, kind: &str, body: Option<&Value>) -> Request<Body> {
    let uri = if kind == APPLY { format!("{path}?fieldManager=users&force=true") } else { path.to_owned() };
    let bytes = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
    let request = Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, kind);
    request.body(Body::from(bytes)).expect("a request")
}
