//! Ownership: nothing is taken from another owner, and no object of another client is removed.

use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, Failure, KubeRequest};
use lockstep_sim::cluster::{FaultModel, FaultVerdict, Transit};
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
fn an_object_without_a_controller_is_taken_over_without_an_owner() {
    let mut bench = Bench::new();
    bench.namespace("team", None);
    bench.post("/api/v1/namespaces/team/configmaps", &settings("free", "theirs"));
    bench.define("web", &[settings("free", "ours")]);
    bench.label("team", Some("web"));
    bench.settle();
    let taken = bench.config_map("team", "free").expect("is there");
    assert_eq!(taken["data"]["value"], "ours");
    assert_eq!(taken["metadata"]["ownerReferences"], serde_json::Value::Null);
}

const LOST: &str = "/api/v1/namespaces/team/configmaps/lost";

/// Returns a namespace of a class of two config maps.
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

/// This happens while no operator runs: a running operator would restore the owner reference before the class changes.
#[test]
fn an_object_that_lost_its_owner_is_not_removed() {
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

/// If the operator did not create a binding, it must not decide that the binding's objects are deleted.
#[test]
fn resources_of_a_manually_created_binding_are_deleted_with_it() {
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

const FREE: &str = "/api/v1/namespaces/team/configmaps/free";

/// Returns a namespace with a user's ConfigMap, which a class lists as well.
fn with_one_of_a_user(policy: Option<&str>) -> Bench {
    let mut bench = Bench::new();
    bench.namespace("team", None);
    let mut theirs = settings("free", "theirs");
    theirs["data"]["own"] = json!("kept");
    bench.post("/api/v1/namespaces/team/configmaps", &theirs);
    let mut ours = settings("free", "ours");
    if let Some(policy) = policy {
        ours["metadata"]["annotations"] = json!({ "namespaceclass.akuity.io/adoption-policy": policy });
    }
    bench.define("web", &[ours, settings("kept", "1")]);
    bench.label("team", Some("web"));
    bench.settle();
    bench
}

/// Returns the Events of a reason: their type and note.
fn events(bench: &mut Bench, reason: &str) -> Vec<(String, String)> {
    let events = bench.get("/apis/events.k8s.io/v1/events").expect("can be listed")["items"].take();
    let text = |event: &serde_json::Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let events = events.as_array().into_iter().flatten().filter(|event| event["reason"] == reason);
    events.map(|event| (text(event, "type"), text(event, "note"))).collect()
}

fn conditions(bench: &mut Bench) -> Vec<String> {
    let binding = bench.binding("team").expect("is bound");
    let conditions = binding["status"]["conditions"].as_array().into_iter().flatten();
    conditions.map(|condition| condition["type"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns which objects the status shows as taken over.
fn shown(bench: &mut Bench) -> String {
    let binding = bench.binding("team").expect("is bound");
    let adopted = lockstep_sim::conditions::find(&binding, "ObjectsAdopted");
    adopted.map_or_else(String::new, |adopted| adopted["message"].to_string())
}

#[test]
fn an_object_that_is_taken_over_is_announced_once_and_shown_while_it_is_in_the_class() {
    let mut bench = with_one_of_a_user(None);
    let adopted = events(&mut bench, "Adopted");
    assert_eq!(adopted.len(), 1, "{adopted:?}");
    assert_eq!(adopted[0].0, "Warning");
    assert!(adopted[0].1.contains("ConfigMap \"free\" existed before"), "{adopted:?}");
    assert_eq!(conditions(&mut bench), ["Ready", "ObjectsAdopted"]);
    assert!(bench.ready("team").starts_with("True"));
    bench.update("web", &[settings("free", "new"), settings("kept", "2")]);
    bench.settle();
    bench.cluster.advance(Duration::from_mins(21));
    assert_eq!(events(&mut bench, "Adopted").len(), 1);
    bench.update("web", &[settings("kept", "2")]);
    bench.settle();
    assert_eq!(conditions(&mut bench), ["Ready"]);
}

#[test]
fn an_object_that_is_taken_over_is_shown_while_an_entry_has_no_value() {
    let mut bench = with_one_of_a_user(None);
    let variables =
        json!([{ "name": "team", "expression": "namespaceObject.metadata.labels['example.com/team']" }]);
    let update = |bench: &mut Bench, resources: &[serde_json::Value]| {
        let class = "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses/web";
        bench.merge(class, &json!({ "spec": { "resources": resources, "variables": variables } }));
        bench.settle();
    };
    bench.post("/api/v1/namespaces/team/configmaps", &settings("other", "theirs"));
    update(&mut bench, &[settings("free", "${team}"), settings("other", "1"), settings("kept", "1")]);
    assert!(bench.ready("team").starts_with("False UnresolvedVariable"), "{}", bench.ready("team"));
    let adopted = events(&mut bench, "Adopted");
    assert!(adopted.iter().any(|(_, note)| note.contains("\"other\" existed before")), "{adopted:?}");
    let both = shown(&mut bench);
    assert!(both.contains("free") && both.contains("other"), "{both}");
    update(&mut bench, &[settings("free", "${team}"), settings("kept", "1")]);
    let left = shown(&mut bench);
    assert!(left.contains("free") && !left.contains("other"), "{left}");
}

#[test]
fn an_object_that_was_taken_over_stays_however_the_class_lets_go_of_it() {
    type Way = (&'static str, fn(&mut Bench));
    let ways: [Way; 5] = [
        ("it leaves the class", |bench| bench.update("web", &[settings("kept", "1")])),
        ("the namespace leaves the class", |bench| bench.label("team", None)),
        ("the namespace changes its class", |bench| {
            bench.define("db", &[settings("kept", "1")]);
            bench.label("team", Some("db"));
        }),
        ("the class is removed", |bench| bench.remove("web")),
        ("the binding is deleted", |bench| {
            bench.label("team", None);
            let bindings = "/apis/namespaceclass.akuity.io/v1alpha1/namespaces/team/namespaceclassbindings";
            bench.delete(&format!("{bindings}/team"));
        }),
    ];
    for (way, let_go) in ways {
        let mut bench = with_one_of_a_user(None);
        let before = bench.config_map("team", "free").expect("is there");
        assert_eq!(before["metadata"]["ownerReferences"], serde_json::Value::Null, "{way}");
        let_go(&mut bench);
        bench.cluster.advance(Duration::from_mins(21));
        let kept = bench.config_map("team", "free").unwrap_or_else(|| panic!("{way}: it is gone"));
        assert_eq!((&kept["data"]["own"], &kept["data"]["value"]), (&json!("kept"), &json!("ours")), "{way}");
    }
}

#[test]
fn what_leaves_the_class_loses_our_marks() {
    let mut bench = with_one_of_a_user(Some("Keep"));
    bench.update("web", &[settings("kept", "1")]);
    bench.settle();
    let kept = bench.config_map("team", "free").expect("is there");
    assert_eq!(kept["metadata"]["labels"].as_object().map_or(0, serde_json::Map::len), 0, "{kept:#}");
    assert_eq!(kept["metadata"]["annotations"].as_object().map_or(0, serde_json::Map::len), 0, "{kept:#}");
    assert!(bench.ready("team").starts_with("True"));
    // It is in the class again, and is adopted again.
    bench.update("web", &[settings("free", "again"), settings("kept", "1")]);
    bench.settle();
    let taken = bench.config_map("team", "free").expect("is there");
    assert_eq!((&taken["data"]["value"], &taken["data"]["own"]), (&json!("again"), &json!("kept")));
    assert_eq!(conditions(&mut bench), ["Ready", "ObjectsAdopted"]);
}

#[test]
fn an_object_that_was_taken_over_goes_if_the_class_says_so() {
    let mut bench = with_one_of_a_user(Some("Delete"));
    let taken = bench.config_map("team", "free").expect("is there");
    assert_eq!(taken["metadata"]["ownerReferences"][0]["kind"], "NamespaceClassBinding");
    assert!(events(&mut bench, "Adopted")[0].1.contains("it is deleted"));
    // The class may change its policy.
    bench.update("web", &[settings("free", "ours"), settings("kept", "1")]);
    bench.settle();
    let taken = bench.config_map("team", "free").expect("is there");
    assert_eq!(taken["metadata"]["ownerReferences"], serde_json::Value::Null, "{taken:#}");
    let mut ours = settings("free", "ours");
    ours["metadata"]["annotations"] = json!({ "namespaceclass.akuity.io/adoption-policy": "Delete" });
    bench.update("web", &[ours, settings("kept", "1")]);
    bench.settle();
    bench.label("team", None);
    bench.settle();
    assert_eq!(bench.config_map("team", "free"), None);
}

#[test]
fn what_was_taken_over_is_repaired_like_everything_else() {
    let mut bench = with_one_of_a_user(None);
    let edits = [
        json!({ "data": { "value": "edited" } }),
        json!({ "metadata": { "labels": null } }),
        json!({ "metadata": { "annotations": null } }),
        json!({ "metadata": { "annotations": { "namespaceclass.akuity.io/adopted": null } } }),
    ];
    for edit in edits {
        bench.merge(FREE, &edit);
        bench.cluster.advance(Duration::from_mins(3));
        let free = bench.config_map("team", "free").expect("is there");
        assert_eq!(free["data"]["value"], "ours", "{edit}");
        assert_eq!(free["metadata"]["labels"]["namespaceclass.akuity.io/name"], "web", "{edit}");
        assert!(free["metadata"]["annotations"]["namespaceclass.akuity.io/adopted"].is_string(), "{edit}");
        assert_eq!(free["metadata"]["ownerReferences"], serde_json::Value::Null, "{edit}");
    }
    // The user deletes it: the object that replaces it belongs to the operator.
    bench.delete(FREE);
    bench.cluster.advance(Duration::from_mins(11));
    let created = bench.config_map("team", "free").expect("is back");
    assert_eq!(created["metadata"]["ownerReferences"][0]["kind"], "NamespaceClassBinding");
    assert_eq!(conditions(&mut bench), ["Ready"]);
}

#[test]
fn what_a_user_creates_while_it_is_being_applied_is_the_users() {
    struct SlowApplies;
    impl FaultModel for SlowApplies {
        fn delay(&mut self, _: Duration, _: usize, hop: Transit<'_>) -> Duration {
            let is_slow = matches!(hop, Transit::Request(action) if is_apply(action));
            if is_slow { Duration::from_secs(10) } else { Duration::ZERO }
        }
    }
    let mut bench = Bench::new();
    bench.define("web", &[settings("free", "ours")]);
    bench.cluster.weather = Box::new(SlowApplies);
    bench.namespace("team", Some("web"));
    bench.cluster.advance(Duration::from_secs(5));
    bench.post("/api/v1/namespaces/team/configmaps", &settings("free", "theirs"));
    bench.cluster.advance(Duration::from_mins(1));
    let taken = bench.config_map("team", "free").expect("is there");
    assert_eq!(taken["data"]["value"], "ours");
    assert_eq!(taken["metadata"]["ownerReferences"], serde_json::Value::Null, "{taken:#}");
    assert_eq!(events(&mut bench, "Adopted").len(), 1);
}

/// The apply that would leave the object to its user fails, after another one has made it the operator's.
#[test]
fn what_a_user_creates_while_it_is_being_applied_stays_the_users_after_a_failure() {
    struct SlowAppliesAndOneFails(u32);
    impl FaultModel for SlowAppliesAndOneFails {
        fn fate(&mut self, _: u64, _: Duration, _: usize, action: &Action) -> FaultVerdict {
            self.0 += u32::from(is_apply(action));
            if self.0 == 2 && is_apply(action) {
                return FaultVerdict::Failed(Failure::new(ErrorKind::Throttled, "too many requests"));
            }
            FaultVerdict::Served
        }

        fn delay(&mut self, _: Duration, _: usize, hop: Transit<'_>) -> Duration {
            let is_slow = matches!(hop, Transit::Request(action) if is_apply(action));
            if is_slow { Duration::from_secs(10) } else { Duration::ZERO }
        }
    }
    let mut bench = Bench::new();
    bench.define("web", &[settings("free", "ours")]);
    bench.cluster.weather = Box::new(SlowAppliesAndOneFails(0));
    bench.namespace("team", Some("web"));
    bench.cluster.advance(Duration::from_secs(5));
    bench.post("/api/v1/namespaces/team/configmaps", &settings("free", "theirs"));
    bench.cluster.advance(Duration::from_mins(2));
    let taken = bench.config_map("team", "free").expect("is there");
    assert_eq!(taken["metadata"]["ownerReferences"], serde_json::Value::Null, "{taken:#}");
    assert_eq!(conditions(&mut bench), ["Ready", "ObjectsAdopted"]);
    assert_eq!(events(&mut bench, "Adopted").len(), 1);
    bench.label("team", None);
    bench.cluster.advance(Duration::from_mins(21));
    assert!(bench.config_map("team", "free").is_some());
}

fn is_apply(action: &Action) -> bool {
    matches!(action, Action::Kube(KubeRequest::Apply { target, .. }) if target.kind.kind == "ConfigMap")
}
