//! Pausing a class, and changing few of its namespaces at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_sim::cluster::{Author, SlowPatches, What};
use serde_json::{Value, json};

use super::bench::{Bench, program, settings};

const CLASS: &str = "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses/web";
const NAMESPACES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];
const WHILE: Duration = Duration::from_mins(20);

/// Returns a class with these further fields in its spec, which is applied in six namespaces.
fn bench(spec: &Value) -> Bench {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.merge(CLASS, &json!({ "spec": spec }));
    for namespace in NAMESPACES {
        bench.namespace(namespace, Some("web"));
    }
    bench.settle();
    bench.cluster.journal.clear();
    bench
}

fn limited(limit: i64) -> Bench {
    bench(&json!({ "rollout": { "maxUnavailable": limit } }))
}

/// Returns the namespaces whose ConfigMap has a value.
fn with_value(bench: &mut Bench, value: &str) -> Vec<&'static str> {
    let has =
        |namespace: &&str| bench.config_map(namespace, "a").is_some_and(|it| it["data"]["value"] == value);
    NAMESPACES.into_iter().filter(has).collect()
}

fn is_ready(binding: &Value) -> bool {
    let conditions = binding["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// Returns the largest number of namespaces that were unready at a time since the journal was cleared.
fn most_unready(bench: &Bench) -> usize {
    let (mut unready, mut most) = (BTreeSet::new(), 0);
    for entry in &bench.cluster.journal {
        let What::Changed(change) = &entry.what else { continue };
        if change.object.kind.kind != "NamespaceClassBinding" || !matches!(change.by, Author::Process(_)) {
            continue;
        }
        match change.new.as_deref() {
            Some(binding) if !is_ready(binding) => unready.insert(change.object.name.clone()),
            _ => unready.remove(&change.object.name),
        };
        most = most.max(unready.len());
    }
    most
}

fn condition(bench: &mut Bench) -> Value {
    let class = bench.get(CLASS).expect("exists");
    let conditions = class["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|it| it["type"] == "RolledOut").cloned().unwrap_or_default()
}

fn rolled_out_message(bench: &mut Bench) -> String {
    condition(bench)["message"].as_str().unwrap_or_default().to_owned()
}

fn rolled_out(bench: &mut Bench) -> String {
    let found = condition(bench);
    format!("{} {}", found["status"].as_str().unwrap_or("-"), found["reason"].as_str().unwrap_or("-"))
}

/// Replaces the leader. It must not report progress in between.
fn assert_a_new_leader_writes_no_status(bench: &mut Bench) {
    let version =
        |bench: &mut Bench| bench.get(CLASS).expect("exists")["metadata"]["resourceVersion"].clone();
    let before = version(bench);
    bench.cluster.crash(0, None);
    bench.cluster.start(program, true);
    bench.cluster.advance(WHILE);
    assert_eq!(version(bench), before);
}

#[test]
fn a_paused_class_changes_nothing_until_it_is_no_longer_paused() {
    let mut bench = bench(&json!({ "paused": false }));
    bench.merge(CLASS, &json!({ "spec": { "paused": true, "resources": [settings("a", "2")] } }));
    bench.delete("/api/v1/namespaces/n1/configmaps/a");
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "1"), NAMESPACES[1..], "neither updated nor repaired");
    bench.merge(CLASS, &json!({ "spec": { "paused": false } }));
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "2"), NAMESPACES);
}

#[test]
fn a_namespace_leaves_a_paused_class_with_its_resources_removed() {
    let mut bench = bench(&json!({ "paused": true }));
    assert!(with_value(&mut bench, "1").is_empty(), "nothing was applied");
    bench.merge(CLASS, &json!({ "spec": { "paused": false } }));
    bench.cluster.advance(WHILE);
    bench.merge(CLASS, &json!({ "spec": { "paused": true } }));
    bench.label("n1", None);
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "1"), NAMESPACES[1..]);
}

#[test]
fn no_more_namespaces_change_at_a_time_than_the_class_permits() {
    for limit in [1, 2, 3] {
        let mut bench = limited(limit);
        bench.update("web", &[settings("a", "2"), settings("b", "2")]);
        bench.cluster.advance(WHILE);
        assert_eq!(with_value(&mut bench, "2"), NAMESPACES);
        assert_eq!(most_unready(&bench), usize::try_from(limit).expect("is small"));
        assert_eq!(rolled_out(&mut bench), "True AllNamespacesChanged");
    }
}

#[test]
fn all_namespaces_change_at_once_without_a_limit() {
    let mut bench = bench(&json!({}));
    bench.update("web", &[settings("a", "2"), settings("b", "2")]);
    bench.cluster.advance(WHILE);
    assert_eq!(most_unready(&bench), 5, "as many as are reconciled at a time");
}

#[test]
fn a_change_that_breaks_namespaces_stops_after_the_permitted_number() {
    let mut bench = limited(2);
    bench.update("web", &[settings("a", "2"), settings("No Name", "2")]);
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "2").len(), 2);
    assert_eq!(rolled_out(&mut bench), "False Halted");
    bench.update("web", &[settings("a", "3")]);
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "3"), NAMESPACES);
    assert_eq!(rolled_out(&mut bench), "True AllNamespacesChanged");
}

/// The condition that the class has until then is the one that it should have afterwards.
#[test]
fn a_rollout_that_ends_while_its_beginning_is_being_reported_is_reported_as_ended() {
    let mut bench = limited(2);
    bench.cluster.crash(0, None);
    let binding = "/apis/namespaceclass.akuity.io/v1alpha1/namespaces/n1/namespaceclassbindings/n1/status";
    bench.merge(binding, &json!({ "status": { "observedClassGeneration": 0 } }));
    bench.cluster.weather = Box::new(SlowPatches("NamespaceClass"));
    bench.cluster.journal.clear();
    bench.cluster.start(program, true);
    bench.cluster.advance(Duration::from_mins(1));
    let writes = bench.carried().filter(|carried| {
        carried.action.name() == "patch_status"
            && carried.action.target().is_some_and(|it| it.kind.kind == "NamespaceClass")
    });
    assert_eq!(writes.count(), 2);
    assert_eq!(rolled_out(&mut bench), "True AllNamespacesChanged");
}

fn with_canaries(canaries: &[&str]) -> Bench {
    bench(&json!({ "rollout": { "maxUnavailable": 6, "canaries": canaries } }))
}

#[test]
fn canaries_get_a_change_first() {
    let mut bench = with_canaries(&["n4", "n2", "unknown"]);
    bench.update("web", &[settings("a", "2"), settings("b", "2")]);
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "2"), NAMESPACES);
    assert_eq!(rolled_out(&mut bench), "True AllNamespacesChanged");
    let changes = bench.cluster.journal.iter().filter_map(|entry| match &entry.what {
        What::Changed(change) if change.object.kind.kind == "NamespaceClassBinding" => Some(change),
        _ => None,
    });
    // Each becomes unready once and ready once.
    let mut order: Vec<(&str, bool)> = Vec::new();
    for change in changes.filter(|change| matches!(change.by, Author::Process(_))) {
        let now = (&*change.object.name, change.new.as_deref().is_some_and(is_ready));
        if !order.contains(&now) {
            order.push(now);
        }
    }
    let mut first: Vec<_> = order[..4].to_vec();
    first.sort_unstable();
    assert_eq!(first, [("n2", false), ("n2", true), ("n4", false), ("n4", true)], "{order:?}");
    assert_eq!(order.len(), 12, "{order:?}");
}

#[test]
fn a_change_that_breaks_a_canary_reaches_no_other_namespace() {
    let mut bench = with_canaries(&["n2"]);
    bench.update("web", &[settings("a", "2"), settings("No Name", "2")]);
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "2"), ["n2"]);
    assert_eq!(rolled_out(&mut bench), "False Halted");
    assert_eq!(
        rolled_out_message(&mut bench),
        "no further namespace is brought to generation 3, because these namespaces in spec.rollout.canaries are not ready \
         with it: n2; correct the class, or what their bindings report"
    );
    // A new leader does not go on either.
    assert_a_new_leader_writes_no_status(&mut bench);
    assert_eq!(with_value(&mut bench, "2"), ["n2"]);
    bench.update("web", &[settings("a", "3")]);
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "3"), NAMESPACES);
    assert_eq!(rolled_out(&mut bench), "True AllNamespacesChanged");
}

#[test]
fn a_broken_canary_that_leaves_the_class_no_longer_halts_the_rollout_if_another_is_left() {
    let mut bench = with_canaries(&["n2", "n3"]);
    let owner = bench.post(
        "/api/v1/namespaces/n2/configmaps",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "owner" } }),
    );
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "controller": true,
    });
    bench.post(
        "/api/v1/namespaces/n2/configmaps",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "b", "ownerReferences": [owner] } }),
    );
    bench.update("web", &[settings("a", "2"), settings("b", "2")]);
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "2"), ["n2", "n3"]);
    assert_eq!(rolled_out(&mut bench), "False Halted");
    bench.label("n2", None);
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "2"), ["n1", "n3", "n4", "n5", "n6"]);
}

#[test]
fn nothing_changes_while_no_canary_has_the_class() {
    let mut bench = with_canaries(&["n7"]);
    bench.update("web", &[settings("a", "2")]);
    bench.cluster.advance(WHILE);
    assert!(with_value(&mut bench, "2").is_empty());
    assert_eq!(
        rolled_out_message(&mut bench),
        "no further namespace is brought to generation 3, because none of the namespaces in spec.rollout.canaries has the \
         class; correct the list"
    );
    assert_a_new_leader_writes_no_status(&mut bench);
    bench.namespace("n7", Some("web"));
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "2"), NAMESPACES);
}

#[test]
fn a_halted_rollout_ends_at_once_when_every_namespace_leaves_the_class() {
    for other in [None, Some("db")] {
        let mut bench = with_canaries(&["n7"]);
        bench.define("db", &[settings("b", "1")]);
        bench.update("web", &[settings("a", "2")]);
        bench.cluster.advance(WHILE);
        assert_eq!(rolled_out(&mut bench), "False Halted");
        for namespace in NAMESPACES {
            bench.label(namespace, other);
        }
        bench.cluster.advance(Duration::from_secs(30));
        assert_eq!(rolled_out(&mut bench), "True AllNamespacesChanged", "they get {other:?}");
    }
}

#[test]
fn a_halted_rollout_stays_halted_when_the_leader_changes() {
    let mut bench = limited(1);
    bench.update("web", &[settings("a", "2"), settings("No Name", "2")]);
    bench.cluster.advance(WHILE);
    let before = with_value(&mut bench, "2");
    assert_a_new_leader_writes_no_status(&mut bench);
    assert_eq!(with_value(&mut bench, "2"), before);
    assert_eq!(before.len(), 1);
}

#[test]
fn a_limit_delays_neither_a_new_namespace_nor_the_repair_of_one_that_has_the_change() {
    let mut bench = limited(1);
    bench.update("web", &[settings("a", "2"), settings("No Name", "2")]);
    bench.cluster.advance(WHILE);
    let changed = with_value(&mut bench, "2");
    bench.delete(&format!("/api/v1/namespaces/{}/configmaps/a", changed[0]));
    bench.namespace("new", Some("web"));
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "2"), changed);
    assert!(bench.config_map("new", "a").is_some());
}

/// A change that breaks all namespaces, of which there are no more than the class permits to be unready.
#[test]
fn a_change_that_breaks_every_namespace_has_not_rolled_out() {
    let mut bench = limited(10);
    bench.update("web", &[settings("a", "2"), settings("No Name", "2")]);
    bench.cluster.advance(WHILE);
    assert_eq!(with_value(&mut bench, "2"), NAMESPACES);
    assert_eq!(rolled_out(&mut bench), "False Halted");
    let expected = "every namespace has been brought to generation 3, but some are not ready with it, such as n1, n2, n3; correct \
                    the class, or what their bindings report";
    assert_eq!(rolled_out_message(&mut bench), expected);
    assert_a_new_leader_writes_no_status(&mut bench);
    bench.update("web", &[settings("a", "3")]);
    bench.cluster.advance(WHILE);
    assert_eq!(rolled_out(&mut bench), "True AllNamespacesChanged");
}

/// What other clients do later says nothing about the change.
#[test]
fn drift_after_a_rollout_does_not_undo_it() {
    let mut bench = bench(&json!({ "rollout": { "maxUnavailable": 1 }, "drift": "Report" }));
    bench.merge("/api/v1/namespaces/n1/configmaps/a", &json!({ "data": { "value": "theirs" } }));
    bench.cluster.advance(WHILE);
    assert!(bench.ready("n1").starts_with("False Drifted: "), "{}", bench.ready("n1"));
    assert_eq!(rolled_out(&mut bench), "True AllNamespacesChanged");
}
