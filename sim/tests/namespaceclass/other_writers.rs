//! Other clients that write to resources and namespaces: repairs have a backoff, and irrelevant writes trigger no reconcile.

use std::time::Duration;

use lockstep_engine::object::Kind;
use serde_json::{Value, json};

use super::bench::{Bench, settings};
use crate::unserved::Unserved;

#[test]
fn a_field_conflict_backs_off_is_reported_and_ends_when_the_other_manager_stops() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "ours"), settings("b", "1")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    bench.cluster.journal.clear();
    let path = "/api/v1/namespaces/team/configmaps/a";
    let mut reported = false;
    for _ in 0..7200 {
        bench.merge(path, &serde_json::json!({ "data": { "value": "theirs" } }));
        bench.cluster.advance(Duration::from_millis(500));
        reported |= bench.ready("team").starts_with("False Contested");
    }
    let repairs = bench.carried().filter(|carried| carried.action.name() == "apply").count();
    println!("{repairs} repairs in an hour");
    assert!((10..40).contains(&repairs), "{repairs} repairs in an hour");
    assert!(reported);
    insta::assert_snapshot!(bench.ready("team"));

    bench.cluster.advance(Duration::from_mins(20));
    assert_eq!(bench.config_map("team", "a").expect("is there")["data"]["value"], "ours");
    assert!(bench.ready("team").starts_with("True ResourcesApplied"));
}

/// While its kind is not served, the resource is none that can be applied. That must not end the history of its repairs.
#[test]
fn repairs_keep_their_backoff_although_their_kind_is_not_served_for_moments() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "ours")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    bench.cluster.journal.clear();
    let (unserved, is_over) = Unserved::new("ConfigMap", "discover");
    bench.cluster.weather = Box::new(unserved);
    let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    for second in 0..3600 {
        is_over.set(second % 60 >= 10);
        if second % 60 == 0 {
            bench.cluster.cut_watches(0, Some(&kind));
        }
        bench.merge("/api/v1/namespaces/team/configmaps/a", &json!({ "data": { "value": "theirs" } }));
        bench.cluster.advance(Duration::from_secs(1));
    }
    let repairs = bench.carried().filter(|carried| carried.action.name() == "apply").count();
    assert!((10..40).contains(&repairs), "{repairs} repairs in an hour");
}

#[test]
fn a_fight_over_one_resource_holds_up_the_repair_of_no_other() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "ours"), settings("b", "ours")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    let edit = |bench: &mut Bench, name: &str, millis: u64| {
        let path = format!("/api/v1/namespaces/team/configmaps/{name}");
        bench.merge(&path, &json!({ "data": { "value": "theirs" } }));
        bench.cluster.advance(Duration::from_millis(millis));
    };
    for _ in 0..1200 {
        edit(&mut bench, "a", 500);
    }
    for _ in 0..2 {
        edit(&mut bench, "b", 100);
    }
    let value = |bench: &mut Bench, name: &str| {
        bench.config_map("team", name).expect("is there")["data"]["value"].clone()
    };
    assert_eq!(value(&mut bench, "b"), "theirs", "the second in a row waits");
    bench.cluster.advance(Duration::from_secs(1));
    assert_eq!((value(&mut bench, "a"), value(&mut bench, "b")), (json!("theirs"), json!("ours")));
}

/// Returns a class of a ConfigMap `a` and of one more entry that can't be applied, in a namespace in which another owner has
/// `taken`.
fn with_a_bad_entry(bad: &Value) -> Bench {
    let mut bench = Bench::new();
    bench.namespace("team", None);
    let owner = bench.post("/api/v1/namespaces/team/configmaps", &settings("owner", "1"));
    let mut taken = settings("taken", "theirs");
    taken["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "controller": true,
    }]);
    bench.post("/api/v1/namespaces/team/configmaps", &taken);
    bench.define("web", &[settings("a", "ours"), bad.clone()]);
    bench.label("team", Some("web"));
    bench.cluster.advance(Duration::from_secs(5));
    bench.cluster.journal.clear();
    bench
}

const CONTESTED: &str = "another client keeps changing or removing it";

#[test]
fn a_field_conflict_backs_off_and_is_reported_despite_other_problems() {
    let mut elsewhere = settings("c", "1");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    let bad = [
        (elsewhere, "False InvalidResources"),
        (settings("taken", "ours"), "False OwnershipConflict"),
        (settings("No Name", "1"), "False Rejected"),
    ];
    for (bad, expected) in bad {
        let mut bench = with_a_bad_entry(&bad);
        let path = "/api/v1/namespaces/team/configmaps/a";
        let mut contested = 0;
        for _ in 0..1200 {
            bench.merge(path, &json!({ "data": { "value": "theirs" } }));
            bench.cluster.advance(Duration::from_millis(500));
            let ready = bench.ready("team");
            assert!(ready.starts_with(expected), "{ready}");
            contested += u32::from(ready.contains(CONTESTED));
        }
        let applies = bench.carried().filter(|carried| carried.action.name() == "apply");
        let repairs =
            applies.filter_map(|carried| carried.action.target()).filter(|it| *it.name == *"a").count();
        assert!((8..16).contains(&repairs), "{expected}: {repairs} repairs in ten minutes");
        assert!(contested > 1100, "{expected}: contested for {contested} half seconds");

        bench.cluster.advance(Duration::from_mins(20));
        assert_eq!(bench.config_map("team", "a").expect("is there")["data"]["value"], "ours");
        let ready = bench.ready("team");
        assert!(ready.starts_with(expected) && !ready.contains(CONTESTED), "{ready}");
    }
}

#[test]
fn a_second_edit_is_undone_in_time_though_something_fails_for_long() {
    let mut bench = with_a_bad_entry(&settings("No Name", "1"));
    bench.cluster.advance(Duration::from_hours(1));
    for _ in 0..2 {
        bench.merge("/api/v1/namespaces/team/configmaps/a", &json!({ "data": { "value": "theirs" } }));
        bench.cluster.advance(Duration::from_millis(100));
    }
    assert_eq!(bench.config_map("team", "a").expect("is there")["data"]["value"], "theirs");
    bench.cluster.advance(Duration::from_secs(1));
    assert_eq!(bench.config_map("team", "a").expect("is there")["data"]["value"], "ours");
    assert!(bench.ready("team").starts_with("False Rejected"));
}

/// Other clients change a namespace, where a resource of its class fails for a long time.
#[test]
fn writes_of_other_clients_to_a_namespace_trigger_no_reconcile() {
    let mut bench = with_a_bad_entry(&settings("No Name", "1"));
    bench.cluster.advance(Duration::from_mins(30));
    bench.cluster.journal.clear();
    for number in 0..600 {
        let touched = json!({ "metadata": { "annotations": { "touched": number.to_string() } } });
        bench.merge("/api/v1/namespaces/team", &touched);
        bench.cluster.advance(Duration::from_secs(1));
    }
    let requests = bench.carried().count();
    assert!((1..20).contains(&requests), "{requests} requests in ten minutes");
    bench.define("other", &[settings("other", "1")]);
    bench.label("team", Some("other"));
    bench.cluster.advance(Duration::from_secs(1));
    assert!(bench.config_map("team", "other").is_some());
}

/// The status of a quota changes all the time with the pods, where another resource of the class fails for a long time.
#[test]
fn a_status_change_of_a_resource_triggers_no_reconcile() {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "pods" }, "spec": { "hard": { "pods": "9" } },
    });
    let mut bench = with_a_bad_entry(&settings("No Name", "1"));
    bench.update("web", &[quota, settings("a", "ours"), settings("No Name", "1")]);
    bench.cluster.advance(Duration::from_mins(30));
    bench.cluster.journal.clear();
    for pods in 0..600 {
        let used = json!({ "status": { "used": { "pods": (pods % 9).to_string() } } });
        bench.merge("/api/v1/namespaces/team/resourcequotas/pods/status", &used);
        bench.cluster.advance(Duration::from_secs(1));
    }
    let requests = bench.carried().count();
    assert!((1..20).contains(&requests), "{requests} requests in ten minutes");
    bench.merge(
        "/api/v1/namespaces/team/resourcequotas/pods",
        &json!({ "spec": { "hard": { "pods": "99" } } }),
    );
    bench.cluster.advance(Duration::from_secs(1));
    let quota = bench.get("/api/v1/namespaces/team/resourcequotas/pods");
    assert_eq!(quota.expect("is there")["spec"]["hard"]["pods"], "9");
}
