//! Tests of the server and its actors with direct calls and a clock of the test.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A server with its actors; time advances only on request.
struct Bench {
    server: ApiServer,
    actors: Actors,
    now: Timestamp,
}

impl Bench {
    fn new() -> Self {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let options = Options { start: now, ..Options::default() };
        Self { server: ApiServer::new(&options), actors: Actors::default(), now }
    }

    fn send(&mut self, method: &str, path: &str, media_type: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .body(body)
            .unwrap();
        match self.server.handle(&request, self.now) {
            Response::Complete(response) => {
                let body = serde_json::from_slice(response.body()).unwrap_or_default();
                (response.status().as_u16(), body)
            }
            Response::Watch(head, id) => (head.status().as_u16(), json!(id.0)),
        }
    }

    fn get(&mut self, path: &str) -> (u16, Value) {
        self.send("GET", path, "", &Value::Null)
    }

    #[track_caller]
    fn create(&mut self, path: &str, body: &Value) -> Value {
        let (code, object) = self.send("POST", path, "application/json", body);
        assert_eq!(code, 201, "{object}");
        object
    }

    #[track_caller]
    fn delete(&mut self, path: &str, options: &Value) {
        let (code, object) = self.send("DELETE", path, "application/json", options);
        assert!(code < 300, "{object}");
    }

    fn watch(&mut self, path: &str) -> WatchId {
        let (code, id) = self.get(path);
        assert_eq!(code, 200, "{id}");
        WatchId(id.as_u64().unwrap())
    }

    /// Returns the kinds and names of new events.
    fn events(&mut self, id: WatchId) -> Vec<String> {
        let poll = self.server.poll_watch(id, self.now);
        poll.events.iter().map(|event| format!("{} {}", event.kind, meta::name(&event.object))).collect()
    }

    /// Runs the actors until they have nothing left to do.
    fn settle(&mut self) {
        for _ in 0..100 {
            self.now += SignedDuration::from_secs(1);
            if !self.actors.tick(&mut self.server, self.now) {
                return;
            }
        }
        panic!("the actors never come to rest");
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn owned(name: &str, owner: &Value) -> Value {
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": meta::name(owner), "uid": meta::uid(owner),
        "blockOwnerDeletion": true,
    });
    json!({"metadata": {"name": name, "ownerReferences": [reference]}})
}

#[test]
fn dependents_follow_their_owner() {
    for policy in ["Background", "Foreground"] {
        let mut bench = Bench::new();
        let owner = bench.create(MAPS, &map("owner"));
        let child = bench.create(MAPS, &owned("child", &owner));
        bench.create(MAPS, &owned("grandchild", &child));
        bench.settle();
        let deletions =
            bench.watch(&format!("{MAPS}?watch=true&resourceVersion={}", bench.server.revision()));
        bench.delete(&format!("{MAPS}/owner"), &json!({"propagationPolicy": policy}));
        bench.settle();
        let order: Vec<String> =
            bench.events(deletions).into_iter().filter(|event| event.starts_with("DELETED")).collect();
        let expected = if policy == "Background" {
            ["DELETED owner", "DELETED child", "DELETED grandchild"]
        } else {
            ["DELETED grandchild", "DELETED child", "DELETED owner"]
        };
        assert_eq!(order, expected, "{policy}");
    }
}

#[test]
fn orphans_lose_their_owner_and_stay() {
    let mut bench = Bench::new();
    let owner = bench.create(MAPS, &map("owner"));
    bench.create(MAPS, &owned("child", &owner));
    bench.settle();
    bench.delete(&format!("{MAPS}/owner"), &json!({"propagationPolicy": "Orphan"}));
    bench.settle();
    assert_eq!(bench.get(&format!("{MAPS}/owner")).0, 404);
    let (code, child) = bench.get(&format!("{MAPS}/child"));
    assert_eq!((code, meta::field(&child, "ownerReferences")), (200, None));
}

#[test]
fn an_owner_in_another_namespace_is_no_owner() {
    let mut bench = Bench::new();
    let owner = bench.create(MAPS, &map("owner"));
    bench.settle();
    bench.create("/api/v1/namespaces/kube-public/configmaps", &owned("child", &owner));
    bench.settle();
    assert_eq!(bench.get("/api/v1/namespaces/kube-public/configmaps/child").0, 404);
    let (_, events) = bench.get("/api/v1/namespaces/kube-public/events");
    assert_eq!(events["items"][0]["reason"], "OwnerRefInvalidNamespace");
}

#[test]
fn an_object_with_one_living_owner_is_kept() {
    let mut bench = Bench::new();
    let (first, second) = (bench.create(MAPS, &map("first")), bench.create(MAPS, &map("second")));
    let mut child = owned("child", &first);
    let more = owned("child", &second)["metadata"]["ownerReferences"][0].clone();
    child["metadata"]["ownerReferences"].as_array_mut().unwrap().push(more);
    bench.create(MAPS, &child);
    bench.delete(&format!("{MAPS}/first"), &Value::Null);
    bench.settle();
    let (_, child) = bench.get(&format!("{MAPS}/child"));
    assert_eq!(child["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    bench.delete(&format!("{MAPS}/second"), &Value::Null);
    bench.settle();
    assert_eq!(bench.get(&format!("{MAPS}/child")).0, 404);
}

/// A controller that has lost its watch and its history lists again, and a list does not show what was deleted.
#[test]
fn missed_deletions_are_detected_by_the_next_list() {
    let mut bench = Bench { actors: Actors::with_accounts(), ..Bench::new() };
    for name in ["team", "other"] {
        bench.create("/api/v1/namespaces", &json!({ "metadata": { "name": name } }));
    }
    let account = "/api/v1/namespaces/other/serviceaccounts/default";
    let maps = "/api/v1/namespaces/team/configmaps";
    bench.create(maps, &json!({ "metadata": { "name": "held", "finalizers": ["example.com/held"] } }));
    bench.settle();
    bench.delete("/api/v1/namespaces/team", &Value::Null);
    bench.settle();
    assert_eq!(bench.get("/api/v1/namespaces/team").0, 200, "something holds it");
    bench.delete(account, &Value::Null);
    let patch = json!({ "metadata": { "finalizers": null } });
    bench.send("PATCH", &format!("{maps}/held"), "application/merge-patch+json", &patch);
    bench.server.compact();
    bench.settle();
    assert_eq!(bench.get("/api/v1/namespaces/team").0, 404);
    assert_eq!(bench.get(account).0, 200);
}

#[test]
fn claims_go_once_no_pod_uses_them() {
    let mut bench = Bench::new();
    let core = "/api/v1/namespaces/default";
    bench.create(
        &format!("{core}/persistentvolumeclaims"),
        &json!({
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }),
    );
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    bench.create(
        &format!("{core}/pods"),
        &json!({
            "metadata": {"name": "user"},
            "spec": {"containers": [{"name": "main", "image": "nginx"}], "volumes": volumes},
        }),
    );
    bench.delete(&format!("{core}/persistentvolumeclaims/data"), &Value::Null);
    bench.settle();
    assert_eq!(bench.get(&format!("{core}/persistentvolumeclaims/data")).0, 200);
    bench.delete(&format!("{core}/pods/user"), &Value::Null);
    bench.settle();
    assert_eq!(bench.get(&format!("{core}/persistentvolumeclaims/data")).0, 404);
}

#[test]
fn events_have_two_faces() {
    let mut bench = Bench::new();
    let event = json!({
        "metadata": {"name": "e"}, "type": "Normal", "reason": "Done", "note": "It is done.", "action": "Do",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/c",
        "reportingInstance": "c-0", "regarding": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
    });
    bench.create("/apis/events.k8s.io/v1/namespaces/default/events", &event);
    let (code, core) = bench.get("/api/v1/namespaces/default/events/e");
    assert_eq!(
        (code, &core["message"], &core["involvedObject"]["name"]),
        (200, &json!("It is done."), &json!("a"))
    );
    let patch = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}});
    let path = "/apis/events.k8s.io/v1/namespaces/default/events/e";
    let (code, patched) = bench.send("PATCH", path, "application/merge-patch+json", &patch);
    assert_eq!(
        (code, &patched["note"], &patched["apiVersion"]),
        (200, &json!("It is done."), &json!("events.k8s.io/v1"))
    );
    assert_eq!(bench.get("/api/v1/events").1["items"].as_array().unwrap().len(), 1);
}

#[test]
fn watches_deliver_what_their_selector_matches() {
    let mut bench = Bench::new();
    let all = bench.watch(&format!("{MAPS}?watch=true"));
    let web = bench.watch(&format!("{MAPS}?watch=true&labelSelector=app%3Dweb"));
    let one = bench.watch(&format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Db"));
    bench.create(MAPS, &map("a"));
    let merge = |value: &str| json!({"metadata": {"labels": {"app": value}}});
    let path = format!("{MAPS}/a");
    for value in ["web", "web", "db"] {
        bench.send("PATCH", &path, "application/merge-patch+json", &merge(value));
    }
    bench.create(MAPS, &map("b"));
    bench.delete(&path, &Value::Null);
    assert_eq!(bench.events(all), ["ADDED a", "MODIFIED a", "MODIFIED a", "ADDED b", "DELETED a"]);
    assert_eq!(bench.events(web), ["ADDED a", "DELETED a"]);
    assert_eq!(bench.events(one), ["ADDED b"]);
}

#[test]
fn a_definition_is_removed_after_its_last_object() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    let mut bench = Bench::new();
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    bench.create(
        DEFINITIONS,
        &json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        }),
    );
    let widget =
        |metadata: Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata});
    bench.create(WIDGETS, &widget(json!({"name": "free"})));
    bench.create(WIDGETS, &widget(json!({"name": "held", "finalizers": ["example.com/held"]})));
    let definitions = bench.watch(&format!("{DEFINITIONS}?watch=true"));
    let widgets = bench.watch(&format!("{WIDGETS}?watch=true"));
    bench.delete(&format!("{DEFINITIONS}/widgets.example.com"), &Value::Null);
    // Marked for deletion, then deleting its objects.
    let modified = "MODIFIED widgets.example.com";
    assert_eq!(bench.events(definitions), ["ADDED widgets.example.com", modified, modified]);
    assert_eq!(bench.events(widgets), ["ADDED free", "ADDED held", "DELETED free", "MODIFIED held"]);
    let patch = json!({"metadata": {"finalizers": null}});
    bench.send("PATCH", &format!("{WIDGETS}/held"), "application/merge-patch+json", &patch);
    assert_eq!(bench.events(widgets), ["DELETED held"]);
    assert_eq!(bench.events(definitions), ["DELETED widgets.example.com"]);
    assert_eq!(bench.get(WIDGETS).0, 404);
}

/// A kube-apiserver 1.36 gives the same answer.
#[test]
fn there_is_no_watch_in_yaml() {
    let mut bench = Bench::new();
    for accept in ["application/yaml", "application/yaml, application/json"] {
        let request = http::Request::get(format!("{MAPS}?watch=1")).header("accept", accept);
        let Response::Complete(answer) = bench.server.handle(&request.body(Bytes::new()).unwrap(), bench.now)
        else {
            panic!("it is a watch");
        };
        let status: Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!((answer.status().as_u16(), &status["reason"]), (406, &json!("NotAcceptable")));
        let types = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        assert_eq!(status["message"], json!(format!("only the following media types are accepted: {types}")));
    }
}

#[test]
fn watches_start_with_the_state_and_end_in_time() {
    let mut bench = Bench::new();
    bench.create(MAPS, &map("a"));
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let id = bench.watch(&format!("{MAPS}?{query}&timeoutSeconds=10"));
    let poll = bench.server.poll_watch(id, bench.now);
    assert_eq!(poll.events.len(), 2);
    let annotations = &poll.events[1].object["metadata"]["annotations"];
    assert_eq!(
        (poll.events[1].kind, &annotations["k8s.io/initial-events-end"]),
        ("BOOKMARK", &json!("true"))
    );
    bench.now = poll.wake_at;
    let poll = bench.server.poll_watch(id, bench.now);
    assert_eq!((poll.events[0].kind, poll.closed), ("BOOKMARK", false));
    bench.now = poll.wake_at;
    assert!(bench.server.poll_watch(id, bench.now).closed);
}

#[test]
fn a_clone_goes_its_own_way() {
    let mut bench = Bench::new();
    bench.create(MAPS, &map("a"));
    let before = bench.server.clone();
    bench.create(MAPS, &map("b"));
    let after = std::mem::replace(&mut bench.server, before);
    let (_, list) = bench.get(MAPS);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    // The same request on the same snapshot gives the same object, uid included.
    let again = bench.create(MAPS, &map("b"));
    bench.server = after;
    assert_eq!(bench.get(&format!("{MAPS}/b")).1["metadata"]["uid"], again["metadata"]["uid"]);
}

#[test]
fn a_list_is_the_same_as_objects_and_as_json() {
    const LIST: &str = "/api/v1/namespaces/default/configmaps";
    let mut bench = Bench::new();
    for name in ["a", "b"] {
        bench.create(LIST, &map(name));
    }
    let (_, json) = bench.get(LIST);
    let mut shared = |path: &str| {
        let request = http::Request::get(path).extension(TakesShared).body(Bytes::new()).unwrap();
        let Response::Complete(response) = bench.server.handle(&request, bench.now) else {
            panic!("a watch")
        };
        (response.extensions().get::<SharedList>().cloned(), response.body().is_empty())
    };
    let (Some(list), true) = shared(LIST) else { panic!("no list") };
    assert_eq!(json["metadata"]["resourceVersion"], json!(list.revision.to_string()));
    let items: Vec<Value> = list.items.iter().map(|item| (**item).clone()).collect();
    assert_eq!(items.len(), 2);
    for (item, in_json) in items.into_iter().zip(json["items"].as_array().unwrap()) {
        let mut typed = in_json.clone();
        (typed["apiVersion"], typed["kind"]) = ("v1".into(), "ConfigMap".into());
        assert_eq!(item, typed);
    }
    // The rest of a page is found by its JSON only.
    assert!(matches!(shared(&format!("{LIST}?limit=1")), (None, false)));
}

fn words() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "api",
        "apis",
        "v1",
        "namespaces",
        "default",
        "configmaps",
        "a",
        "status",
        "apps",
        "deployments",
        "openapi",
        "v3",
        "scale",
        "finalize",
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "version",
        "serviceaccounts",
        "token",
        "services",
        "events",
    ]);
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => "[a-z%/.~-]{0,6}"]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zA-Z0-9./-]{0,8}".prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "managedFields",
        "uid",
        "spec",
        "status",
        "data",
        "kind",
        "apiVersion",
        "op",
        "path",
        "value",
        "group",
        "names",
        "versions",
        "schema",
        "openAPIV3Schema",
        "ports",
        "template",
        "containers",
        "replicas",
        "preconditions",
    ]);
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(
        requests in prop::collection::vec(
            (
                prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]),
                prop::collection::vec(words(), 0..7),
                "[a-zA-Z=&%,!.()]{0,20}",
                prop::sample::select(vec![
                    "", "application/json", "application/yaml", "application/json-patch+json",
                    "application/merge-patch+json", "application/strategic-merge-patch+json",
                    "application/apply-patch+yaml", "application/vnd.kubernetes.protobuf",
                ]),
                values(),
            ),
            1..8,
        )
    ) {
        let mut bench = Bench::new();
        for (method, path, query, media_type, body) in requests {
            let uri = format!("/{}?fieldManager=f&{query}", path.join("/"));
            if uri.parse::<http::Uri>().is_ok() {
                bench.send(method, &uri, media_type, &body);
                bench.now += SignedDuration::from_secs(1);
                bench.actors.tick(&mut bench.server, bench.now);
            }
        }
    }
}
