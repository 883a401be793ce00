//! Whose objects they are: nothing is taken from another owner, nothing is removed that isn't ours.

use std::time::Duration;

use serde_json::json;

use super::bench::{Bench, settings};

#[test]
fn an_object_that_another_controls_is_left_alone_and_reported() {
    let mut bench = Bench::new();
    bench.namespace("team", None);
    let owner = bench.post("/api/v1/namespaces/team/configmaps", &settings("owner", "1"));
    let mut owned = settings("taken", "theirs");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "controller": true,
    }]);
    let before = bench.post("/api/v1/namespaces/team/configmaps", &owned);
    bench.define("web", &[settings("taken", "ours"), settings("free", "1")]);
    bench.label("team", Some("web"));
    bench.cluster.advance(Duration::from_secs(5));
    assert_eq!(bench.config_map("team", "taken").expect("is there"), before);
    assert!(bench.config_map("team", "free").is_some());
    insta::assert_snapshot!(bench.ready("team"));
    let binding = bench.binding("team").expect("is bound");
    assert_eq!(binding["status"]["appliedResources"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_object_that_nobody_controls_is_taken_over() {
    let mut bench = Bench::new();
    bench.namespace("team", None);
    bench.post("/api/v1/namespaces/team/configmaps", &settings("free", "theirs"));
    bench.define("web", &[settings("free", "ours")]);
    bench.label("team", Some("web"));
    bench.settle();
    let taken = bench.config_map("team", "free").expect("is there");
    assert_eq!(taken["data"]["value"], "ours");
    assert_eq!(taken["metadata"]["ownerReferences"][0]["kind"], "NamespaceClassBinding");
}

const LOST: &str = "/api/v1/namespaces/team/configmaps/lost";

/// A namespace of a class of two config maps.
fn with_two() -> Bench {
    let mut bench = Bench::new();
    bench.define("web", &[settings("lost", "1"), settings("kept", "1")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    bench
}

#[test]
fn an_object_that_someone_took_over_is_neither_repaired_nor_removed() {
    let mut bench = with_two();
    let other = bench.post("/api/v1/namespaces/team/configmaps", &settings("owner", "1"));
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": other["metadata"]["uid"], "controller": true,
    });
    let theirs = json!({ "metadata": { "ownerReferences": [owner] }, "data": { "value": "theirs" } });
    bench.merge(LOST, &theirs);
    bench.cluster.advance(Duration::from_secs(5));
    assert!(bench.ready("team").starts_with("False OwnershipConflict"), "{}", bench.ready("team"));
    let lost = bench.config_map("team", "lost").expect("is there");
    bench.update("web", &[settings("kept", "1")]);
    bench.settle();
    assert_eq!(bench.config_map("team", "lost"), Some(lost));
    assert!(bench.ready("team").starts_with("True"));
    let binding = bench.binding("team").expect("is bound");
    assert_eq!(binding["status"]["appliedResources"].as_array().map(Vec::len), Some(1));
}

/// It happens while no operator runs: one that did would make it its own again before the class changes.
#[test]
fn an_object_that_nobody_owns_any_more_is_not_removed() {
    let mut bench = with_two();
    bench.cluster.crash(0, Some(Duration::from_mins(1)));
    bench.merge(LOST, &json!({ "metadata": { "ownerReferences": null, "labels": null } }));
    let lost = bench.config_map("team", "lost").expect("is there");
    bench.update("web", &[settings("kept", "1")]);
    bench.settle();
    assert_eq!(bench.config_map("team", "lost"), Some(lost));
    assert!(bench.ready("team").starts_with("True"));
}

#[test]
fn an_owner_that_is_made_no_controller_is_drift() {
    let mut bench = with_two();
    let uid = bench.binding("team").expect("is bound")["metadata"]["uid"].clone();
    let owner = json!({
        "apiVersion": "namespaceclass.akuity.io/v1alpha1", "kind": "NamespaceClassBinding", "name": "team", "uid": uid,
    });
    bench.merge(LOST, &json!({ "metadata": { "ownerReferences": [owner] } }));
    bench.settle();
    let found = bench.config_map("team", "lost").expect("is there");
    assert_eq!(found["metadata"]["ownerReferences"][0]["controller"], true);
    bench.merge(LOST, &json!({ "metadata": { "ownerReferences": [owner] } }));
    bench.update("web", &[settings("kept", "1")]);
    bench.settle();
    assert_eq!(bench.config_map("team", "lost"), None);
}

/// Of a binding that the operator did not make, it is not for the operator to say that it goes.
#[test]
fn what_a_binding_made_by_hand_applied_goes_with_that_binding() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.namespace("team", None);
    let binding = json!({
        "apiVersion": "namespaceclass.akuity.io/v1alpha1",
        "kind": "NamespaceClassBinding",
        "metadata": { "name": "team" },
        "spec": { "className": "web" },
    });
    let bindings = "/apis/namespaceclass.akuity.io/v1alpha1/namespaces/team/namespaceclassbindings";
    bench.post(bindings, &binding);
    bench.settle();
    assert!(bench.ready("team").starts_with("True"));
    bench.delete("/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses/web");
    bench.settle();
    assert!(bench.config_map("team", "a").is_some());
    assert!(bench.ready("team").starts_with("False ClassNotFound"), "{}", bench.ready("team"));
    bench.delete(&format!("{bindings}/team"));
    bench.settle();
    assert_eq!(bench.config_map("team", "a"), None);
}

#[test]
fn a_namespace_that_is_being_deleted_is_left_in_peace() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    bench.merge("/api/v1/namespaces/team", &json!({ "metadata": { "finalizers": ["example.com/hold"] } }));
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    bench.merge("/api/v1/namespaces/team/configmaps/a", &held);
    bench.settle();
    bench.cluster.journal.clear();
    bench.delete("/api/v1/namespaces/team");
    bench.settle();
    bench.update("web", &[settings("a", "2"), settings("b", "1")]);
    bench.settle();
    let writes = bench.carried().filter(|carried| {
        let target = carried.action.target();
        carried.action.is_write() && target.is_some_and(|target| target.namespace.as_deref() == Some("team"))
    });
    assert_eq!(writes.count(), 0);
}
