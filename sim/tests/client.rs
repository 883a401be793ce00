//! Tests of the host with the kube client.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchParams};
use kube::core::PartialObjectMeta;
use kube::core::WatchEvent;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, CustomResource, CustomResourceExt, ResourceExt};
use lockstep_apiserver::host::{Host, Options};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Timeout of operations that wait for the server.
const PATIENCE: Duration = Duration::from_mins(3);

#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Gadget", namespaced, status = "GadgetStatus")]
struct GadgetSpec {
    size: i64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct GadgetStatus {
    ready: bool,
}

async fn start() -> (Host, Client) {
    let host = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Options::default()).await.unwrap();
    let config = kube::Config::new(host.url().parse().unwrap());
    let client = Client::try_from(config).unwrap();
    (host, client)
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": "value"}})).unwrap()
}

#[tokio::test]
async fn objects_live_and_die() {
    let (host, client) = start().await;
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let created = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    let error = api.create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    assert!(
        matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists" && status.code == 409)
    );
    let mut stale = created.clone();
    let mut fresh = created.clone();
    fresh.labels_mut().insert("app".to_owned(), "web".to_owned());
    let replaced = api.replace("a", &PostParams::default(), &fresh).await.unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    stale.labels_mut().insert("app".to_owned(), "db".to_owned());
    let error = api.replace("a", &PostParams::default(), &stale).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.reason == "Conflict"));
    let same = api.replace("a", &PostParams::default(), &replaced).await.unwrap();
    assert_eq!(same.resource_version(), replaced.resource_version());
    for _ in 0..5 {
        let generated = json!({"metadata": {"generateName": "some-", "labels": {"app": "web"}}});
        let generated: ConfigMap = serde_json::from_value(generated).unwrap();
        api.create(&PostParams::default(), &generated).await.unwrap();
    }
    let first = api.list(&ListParams::default().labels("app in (web)").limit(4)).await.unwrap();
    assert_eq!(first.items.len(), 4);
    api.delete(&first.items[1].name_any(), &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let rest = ListParams::default().labels("app in (web)").limit(4).continue_token(&token);
    assert_eq!(api.list(&rest).await.unwrap().items.len(), 2);
    let wrong = Preconditions { uid: Some("another".to_owned()), ..Preconditions::default() };
    let error = api.delete("a", &DeleteParams::default().preconditions(wrong)).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 409));
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert!(api.list(&ListParams::default()).await.unwrap().items.is_empty());
    host.shutdown().await;
}

#[tokio::test]
async fn watchers_follow_changes() {
    let (host, client) = start().await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let metadata: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(client, "default");
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut full = Box::pin(watcher(api.clone(), config.clone()));
        let mut meta = Box::pin(watcher(metadata.clone(), config.labels("app=web")));
        let wanted = |event: &Event<ConfigMap>, name: &str| match event {
            Event::Apply(object) | Event::InitApply(object) => object.name_any() == name,
            _ => false,
        };
        assert!(matches!(full.try_next().await.unwrap(), Some(Event::Init)));
        assert!(wanted(&full.try_next().await.unwrap().unwrap(), "a"));
        assert!(matches!(full.try_next().await.unwrap(), Some(Event::InitDone)));
        assert!(matches!(meta.try_next().await.unwrap(), Some(Event::Init)));
        assert!(matches!(meta.try_next().await.unwrap(), Some(Event::InitDone)));
        let label = |value: &str| json!({"metadata": {"labels": {"app": value}}});
        api.patch("a", &PatchParams::default(), &Patch::Merge(label("web"))).await.unwrap();
        assert!(wanted(&full.try_next().await.unwrap().unwrap(), "a"));
        assert!(
            matches!(meta.try_next().await.unwrap(), Some(Event::Apply(object)) if object.name_any() == "a")
        );
        // For a watch with a selector, an object that no longer matches is deleted.
        api.patch("a", &PatchParams::default(), &Patch::Merge(label("db"))).await.unwrap();
        assert!(
            matches!(meta.try_next().await.unwrap(), Some(Event::Delete(object)) if object.name_any() == "a")
        );
    }
    host.shutdown().await;
}

#[tokio::test]
async fn definitions_are_served_at_once() {
    let (host, client) = start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("test");
    definitions.patch("gadgets.example.com", &apply, &Patch::Apply(Gadget::crd())).await.unwrap();
    let established =
        await_condition(definitions.clone(), "gadgets.example.com", conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, established).await.unwrap().unwrap();
    let api: Api<Gadget> = Api::namespaced(client, "default");
    let gadget = Gadget::new("g", GadgetSpec { size: 1 });
    let created = api.patch("g", &apply, &Patch::Apply(&gadget)).await.unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    let again = api.patch("g", &apply, &Patch::Apply(&gadget)).await.unwrap();
    assert_eq!(again.resource_version(), created.resource_version());
    let status = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "status": {"ready": true}});
    let ready = api.patch_status("g", &apply, &Patch::Apply(status)).await.unwrap();
    assert_eq!((ready.metadata.generation, ready.status.unwrap().ready), (Some(1), true));
    let other = PatchParams::apply("other");
    let larger = Gadget::new("g", GadgetSpec { size: 2 });
    let error = api.patch("g", &other, &Patch::Apply(&larger)).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.message.contains(r#"conflict with "test""#)));
    let forced = api.patch("g", &other.force(), &Patch::Apply(&larger)).await.unwrap();
    assert_eq!((forced.metadata.generation, forced.spec.size), (Some(2), 2));
    let uid = definitions.get("gadgets.example.com").await.unwrap().uid().unwrap();
    definitions.delete("gadgets.example.com", &DeleteParams::default()).await.unwrap();
    let gone = await_condition(definitions, "gadgets.example.com", conditions::is_deleted(&uid));
    tokio::time::timeout(PATIENCE, gone).await.unwrap().unwrap();
    assert!(api.list(&ListParams::default()).await.is_err());
    host.shutdown().await;
}

#[tokio::test]
async fn namespaces_end_once_their_finalizers_are_gone() {
    let (host, client) = start().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let team = json!({"metadata": {"name": "team"}});
    namespaces.create(&PostParams::default(), &serde_json::from_value(team).unwrap()).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client, "team");
    let mut held = config_map("held");
    held.finalizers_mut().push("example.com/hold".to_owned());
    api.create(&PostParams::default(), &held).await.unwrap();
    api.create(&PostParams::default(), &config_map("free")).await.unwrap();
    let deleted = namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let uid = deleted.left().unwrap().uid().unwrap();
    let remaining = |namespace: Option<&Namespace>| {
        let conditions = namespace.and_then(|namespace| namespace.status.as_ref()?.conditions.clone());
        conditions
            .unwrap_or_default()
            .iter()
            .any(|condition| condition.reason.as_deref() == Some("SomeFinalizersRemain"))
    };
    let waiting = await_condition(namespaces.clone(), "team", remaining);
    tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(api.get_opt("free").await.unwrap().is_none());
    let error = api.create(&PostParams::default(), &config_map("late")).await.unwrap_err();
    assert!(
        matches!(error, kube::Error::Api(status) if status.code == 403 && status.message.contains("terminated"))
    );
    let release = json!({"metadata": {"finalizers": null}});
    api.patch("held", &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
    let gone = await_condition(namespaces, "team", conditions::is_deleted(&uid));
    tokio::time::timeout(PATIENCE, gone).await.unwrap().unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn an_old_version_is_gone_and_shutdown_ends_watches() {
    let (host, client) = start().await;
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let old = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    api.create(&PostParams::default(), &config_map("b")).await.unwrap();
    host.with_server(lockstep_apiserver::server::ApiServer::compact);
    let version = old.resource_version().unwrap();
    let mut stream = api.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let event = stream.try_next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Error(status) if status.code == 410), "expected 410");
    let current = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut stream = api.watch(&WatchParams::default(), &current).await.unwrap().boxed();
    let shutdown = tokio::time::timeout(PATIENCE, host.shutdown());
    let (stopped, ended) = tokio::join!(shutdown, stream.next());
    stopped.unwrap();
    assert!(ended.is_none_or(|event: Result<WatchEvent<ConfigMap>, _>| event.is_err()));
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let (host, client) = start().await;
    let body = vec![b' '; lockstep_apiserver::server::BODY_MAX_BYTES + 1];
    let request = http::Request::post("/api/v1/namespaces/default/configmaps").body(body).unwrap();
    let error = client.request::<Value>(request).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 413));
    host.shutdown().await;
}
