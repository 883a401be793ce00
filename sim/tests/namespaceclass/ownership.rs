//! Whose objects they are: nothing is taken from another owner, nothing is removed that isn't ours.

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
    bench.cluster.advance(std::time::Duration::from_secs(5));
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

#[test]
fn an_object_that_someone_took_over_is_not_removed() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("lost", "1"), settings("kept", "1")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    bench.merge(
        "/api/v1/namespaces/team/configmaps/lost",
        &json!({ "metadata": { "ownerReferences": null, "labels": null } }),
    );
    bench.update("web", &[settings("kept", "1")]);
    bench.settle();
    let lost = bench.config_map("team", "lost");
    // Between the edit and the update the operator may have made it its own again; what counts is whose it is now.
    if let Some(lost) = lost {
        assert!(lost["metadata"]["ownerReferences"].is_null(), "{lost:#}");
    }
    assert!(bench.ready("team").starts_with("True"));
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
