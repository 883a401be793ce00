use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use kube::client::Body;
use lockstep_engine::action::{Action, ErrorKind, Failure, KubeRequest, Subresource, Success};
use lockstep_engine::object::{Kind, ObjectRef};
use serde_json::{Value, json};

use super::Executor;
use crate::metrics::Metrics;
use crate::testing::{client, config_map, json};

/// Executes an action on a server that gives one answer. Returns a summary of the request, its body, and the outcome.
async fn exchange(action: Action, code: u16, answer: Value) -> (String, Value, Result<Success, Failure>) {
    let sent = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&sent);
    let client = client(move |request: Request<Body>| {
        let (slot, answer) = (Arc::clone(&slot), json(code, &answer));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let header =
                |name| head.headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
            let line =
                format!("{} {} {} {}", head.method, head.uri, header("content-type"), header("accept"));
            *slot.lock().unwrap() = Some((line, serde_json::from_slice(&body).unwrap_or(Value::Null)));
            answer
        }
    });
    let outcome = Executor::new(client, "namespaceclass").execute(&action).await;
    let (line, body) = sent.lock().unwrap().take().unwrap_or_default();
    (line, body, outcome)
}

fn manifest() -> Arc<Value> {
    Arc::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}))
}

#[tokio::test]
async fn every_action_is_one_request() {
    let target = config_map("a");
    let at = "/api/v1/namespaces/ns/configmaps";
    let manager = "fieldManager=lockstep-namespaceclass";
    let table = [
        (
            Action::Kube(KubeRequest::Get { target: target.clone(), metadata_only: false }),
            format!("GET {at}/a - application/json"),
            Value::Null,
        ),
        (
            Action::Kube(KubeRequest::Get { target: target.clone(), metadata_only: true }),
            format!("GET {at}/a - application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
            Value::Null,
        ),
        (
            Action::Kube(KubeRequest::Apply { target: target.clone(), manifest: manifest() }),
            format!("PATCH {at}/a?{manager}&force=true application/apply-patch+yaml application/json"),
            Value::clone(&manifest()),
        ),
        (
            Action::Kube(KubeRequest::Create { target: target.clone(), manifest: manifest() }),
            format!("POST {at}?{manager} application/json application/json"),
            Value::clone(&manifest()),
        ),
        (
            Action::Kube(KubeRequest::Update { target: target.clone(), manifest: manifest() }),
            format!("PUT {at}/a?{manager} application/json application/json"),
            Value::clone(&manifest()),
        ),
        (
            Action::Kube(KubeRequest::Patch {
                target: target.clone(),
                subresource: None,
                patch: Arc::new(json!({"a": 1})),
            }),
            format!("PATCH {at}/a?{manager} application/merge-patch+json application/json"),
            json!({"a": 1}),
        ),
        (
            Action::Kube(KubeRequest::Patch {
                target: target.clone(),
                subresource: Some(Subresource::Status),
                patch: Arc::new(json!({"status": {}})),
            }),
            format!("PATCH {at}/a/status?{manager} application/merge-patch+json application/json"),
            json!({"status": {}}),
        ),
        (
            Action::Kube(KubeRequest::Delete { target, uid: "u".into(), resource_version: Some(5.into()) }),
            format!("DELETE {at}/a application/json application/json"),
            json!({
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "propagationPolicy": "Background",
                "preconditions": {"uid": "u", "resourceVersion": "5"},
            }),
        ),
    ];
    for (action, line, body) in table {
        let (sent_line, sent_body, outcome) = exchange(action, 200, json!({"metadata": {"name": "a"}})).await;
        assert_eq!((sent_line, sent_body), (line, body));
        assert_eq!(outcome, Ok(Success::Object(Arc::new(json!({"metadata": {"name": "a"}})))));
    }
}

#[tokio::test]
async fn a_delete_returns_whether_the_object_is_gone() {
    let delete = Action::Kube(KubeRequest::Delete {
        target: config_map("a"),
        uid: "u".into(),
        resource_version: None,
    });
    let (_, body, outcome) = exchange(delete.clone(), 200, json!({"kind": "Status"})).await;
    assert_eq!(body["preconditions"], json!({"uid": "u"}));
    assert_eq!(outcome, Ok(Success::Done));
    let object = json!({"kind": "ConfigMap", "metadata": {"finalizers": ["x"]}});
    let (_, _, outcome) = exchange(delete, 200, object.clone()).await;
    assert_eq!(outcome, Ok(Success::Object(Arc::new(object))));
}

#[tokio::test]
async fn an_object_without_a_name_is_never_deleted() {
    let delete =
        Action::Kube(KubeRequest::Delete { target: config_map(""), uid: "u".into(), resource_version: None });
    let (line, _, outcome) = exchange(delete, 200, json!({})).await;
    assert_eq!(line, "", "nothing was sent");
    assert_eq!(outcome.unwrap_err().class, ErrorKind::Invalid);
}

#[tokio::test]
async fn discovery_leaves_subresources_out() {
    let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "kind": kind, "namespaced": namespaced, "verbs": []});
    let list = json!({
        "kind": "APIResourceList",
        "groupVersion": "apps/v1",
        "resources": [
            resource("deployments", "Deployment", true),
            resource("deployments/status", "Deployment", true),
            resource("widgets", "Widget", false),
        ],
    });
    let discover = Action::Kube(KubeRequest::Discover { api_version: "apps/v1".to_owned() });
    let (line, _, outcome) = exchange(discover, 200, list).await;
    assert_eq!(line, "GET /apis/apps/v1 - application/json");
    let kinds = vec![
        Kind::known("apps", "v1", "Deployment", "deployments", true),
        Kind::known("apps", "v1", "Widget", "widgets", false),
    ];
    assert_eq!(outcome, Ok(Success::Kinds(kinds)));
}

#[tokio::test]
async fn a_refusal_keeps_the_servers_message_without_secrets() {
    let secret = ObjectRef::namespaced(&Kind::known("", "v1", "Secret", "secrets", true), "ns", "a");
    let manifest = Arc::new(json!({"metadata": {"name": "a"}, "data": {"password": "hunter2!"}}));
    let status =
        json!({"kind": "Status", "reason": "Invalid", "code": 422, "message": "illegal base64: hunter2!"});
    let (_, _, outcome) =
        exchange(Action::Kube(KubeRequest::Apply { target: secret, manifest }), 422, status).await;
    assert_eq!(outcome, Err(Failure::new(ErrorKind::Invalid, "illegal base64: ***")));
}

/// The server's answer contains the Secret that was sent.
#[tokio::test]
async fn a_generated_value_is_random_and_is_only_sent() {
    let target = ObjectRef::namespaced(&Kind::known("", "v1", "Secret", "secrets", true), "ns", "a");
    let manifest = Arc::new(json!({"metadata": {"name": "a"}}));
    let generate = BTreeMap::from([("key".to_owned(), 32)]);
    let create = Action::Kube(KubeRequest::CreateSecret { target, manifest, generate });
    let mut keys = BTreeSet::new();
    for _ in 0..2 {
        let (line, body, _) = exchange(create.clone(), 422, json!({"kind": "Status"})).await;
        assert!(line.starts_with("POST /api/v1/namespaces/ns/secrets?"), "{line}");
        let key = STANDARD.decode(body["data"]["key"].as_str().unwrap()).unwrap();
        assert_eq!(key.len(), 32);
        keys.insert(key);
    }
    assert_eq!(keys.len(), 2, "the same key was generated twice");

    let secret =
        json!({"kind": "Secret", "metadata": {"name": "a"}, "data": {"key": STANDARD.encode([7; 32])}});
    let (_, _, outcome) = exchange(create, 201, secret).await;
    let expected = json!({"metadata": {"name": "a"}, "lengths": {"key": 32}});
    assert_eq!(outcome, Ok(Success::Object(Arc::new(expected))));
}

#[tokio::test]
async fn an_answer_that_is_not_json_leaves_the_outcome_open() {
    let get = Action::Kube(KubeRequest::Get { target: config_map("a"), metadata_only: false });
    let client = client(|_| async { http::Response::new(Body::from(b"<html>".to_vec())) });
    let outcome = Executor::new(client, "test").execute(&get).await;
    assert_eq!(outcome.unwrap_err().class, ErrorKind::Unknown);
}

/// Source: "DPFHCPBridge DPUCluster Validation", "Timeout Configuration".
#[tokio::test(start_paused = true)]
async fn an_answer_is_waited_for_half_a_minute() {
    let began = tokio::time::Instant::now();
    let client = client(|_| std::future::pending());
    let get = Action::Kube(KubeRequest::Get { target: config_map("a"), metadata_only: false });
    let failure = Executor::new(client, "test").execute(&get).await.unwrap_err();
    assert_eq!((failure.class, failure.message.as_str()), (ErrorKind::Unknown, "no answer within 30 s"));
    assert_eq!(began.elapsed(), std::time::Duration::from_secs(30));
}

#[tokio::test]
async fn a_refused_connection_is_unavailable() {
    // Bound and dropped: no process listens on this port.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let metrics = Metrics::new(prometheus::Registry::new()).unwrap();
    let client = crate::connect::client(kube::Config::new(url.parse().unwrap()), &metrics).unwrap();
    let apply = Action::Kube(KubeRequest::Apply { target: config_map("a"), manifest: manifest() });
    let failure = Executor::new(client, "test").execute(&apply).await.unwrap_err();
    assert_eq!(failure.class, ErrorKind::Unavailable, "{failure}");
    assert!(failure.message.contains("refused"), "{failure}");
}

#[tokio::test]
async fn a_connection_cut_off_after_sending_is_unknown() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut some = [0; 64];
        tokio::io::AsyncReadExt::read(&mut stream, &mut some).await.unwrap();
    });
    let metrics = Metrics::new(prometheus::Registry::new()).unwrap();
    let client = crate::connect::client(kube::Config::new(url.parse().unwrap()), &metrics).unwrap();
    let apply = Action::Kube(KubeRequest::Apply { target: config_map("a"), manifest: manifest() });
    let failure = Executor::new(client, "test").execute(&apply).await.unwrap_err();
    assert_eq!(failure.class, ErrorKind::Unknown, "{failure}");
    server.await.unwrap();
}
