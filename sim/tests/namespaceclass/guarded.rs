//! Drift that is only reported, namespaces that a class excludes, and removals that it holds.

use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_sim::cluster::Carried;
use serde_json::{Value, json};

use super::bench::{Bench, CLASS_LABEL, program, settings};

const CLASS: &str = "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses/web";
const WHILE: Duration = Duration::from_mins(20);

/// Returns a class with these further fields in its spec, and the resources `a` and `b`, which is applied in two namespaces.
fn bench(spec: &Value) -> Bench {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1"), settings("b", "1")]);
    bench.merge(CLASS, &json!({ "spec": spec }));
    for namespace in ["n1", "n2"] {
        bench.namespace(namespace, Some("web"));
    }
    bench.cluster.advance(WHILE);
    bench
}

fn edit(bench: &mut Bench, value: &str) {
    bench.merge("/api/v1/namespaces/n1/configmaps/a", &json!({ "data": { "value": value } }));
    bench.cluster.advance(WHILE);
}

fn value(bench: &mut Bench, name: &str) -> Value {
    bench.config_map("n1", name).map_or(Value::Null, |it| it["data"]["value"].clone())
}

#[test]
fn drift_that_is_only_reported_stays_and_the_message_names_the_fields() {
    let mut bench = bench(&json!({ "drift": "Report" }));
    bench.cluster.journal.clear();
    edit(&mut bench, "theirs");
    bench.delete("/api/v1/namespaces/n1/configmaps/b");
    bench.cluster.advance(WHILE);
    assert_eq!(value(&mut bench, "a"), "theirs");
    assert!(bench.config_map("n1", "b").is_none());
    let remedy = "undo the change, or set spec.drift of the class to Repair (metadata.managedFields names the writers)";
    let expected = format!(
        "False Drifted: spec.resources[0]: ConfigMap a: it differs in data.value; {remedy}; \
         spec.resources[1]: ConfigMap b: it is missing; {remedy}"
    );
    assert_eq!(bench.ready("n1"), expected);
    assert!(bench.ready("n2").starts_with("True ResourcesApplied: "));
    let applies = bench.carried().filter(|it| it.action.name() == "apply").count();
    assert_eq!(applies, 0);
    let events = bench.get("/apis/events.k8s.io/v1/namespaces/n1/events").expect("can be listed");
    let mut events = events["items"].as_array().into_iter().flatten();
    let event = events.find(|event| event["reason"] == "Drifted").expect("an Event");
    let note = event["note"].as_str().unwrap_or_default();
    assert!(event["type"] == "Warning" && note.contains("it differs in data.value"), "{note}");
}

#[test]
fn a_lost_label_and_an_object_of_another_client_are_drift() {
    let mut bench = bench(&json!({ "drift": "Report" }));
    let unlabelled = json!({ "metadata": { "labels": { CLASS_LABEL: null } } });
    bench.merge("/api/v1/namespaces/n1/configmaps/a", &unlabelled);
    bench.delete("/api/v1/namespaces/n1/configmaps/b");
    bench.post("/api/v1/namespaces/n1/configmaps", &settings("b", "theirs"));
    bench.cluster.advance(WHILE);
    assert_eq!(value(&mut bench, "b"), "theirs");
    let ready = bench.ready("n1");
    for resource in ["ConfigMap a", "ConfigMap b"] {
        assert!(ready.contains(&format!("{resource}: it lost its label or its owner")), "{ready}");
    }
    let binding = bench.binding("n1").expect("is bound");
    let adopted = lockstep_sim::conditions::find(&binding, "ObjectsAdopted");
    assert_eq!(adopted, None, "what is left as it is was not taken over");
}

#[test]
fn the_next_change_of_the_class_sets_what_has_drifted() {
    let mut bench = bench(&json!({ "drift": "Report" }));
    edit(&mut bench, "theirs");
    bench.update("web", &[settings("a", "1"), settings("b", "2")]);
    bench.cluster.advance(WHILE);
    assert_eq!((value(&mut bench, "a"), value(&mut bench, "b")), (json!("1"), json!("2")));
    assert!(bench.ready("n1").starts_with("True ResourcesApplied: "));
    edit(&mut bench, "theirs");
    bench.merge(CLASS, &json!({ "spec": { "drift": "Repair" } }));
    bench.cluster.advance(WHILE);
    assert_eq!(value(&mut bench, "a"), "1");
    edit(&mut bench, "theirs");
    assert_eq!(value(&mut bench, "a"), "1", "from now on it is repaired at once");
}

/// The binding has another class for a moment, whose apply is not in the status.
#[test]
fn what_another_class_has_applied_is_no_drift() {
    let mut bench = bench(&json!({ "drift": "Report" }));
    bench.define("db", &[settings("a", "2"), settings("b", "1")]);
    bench.merge(&CLASS.replace("web", "db"), &json!({ "spec": { "drift": "Report" } }));
    bench.settle();
    let binding = "/apis/namespaceclass.akuity.io/v1alpha1/namespaces/n1/namespaceclassbindings/n1";
    bench.merge(binding, &json!({ "spec": { "className": "db" } }));
    bench.cluster.advance(WHILE);
    assert!(bench.ready("n1").starts_with("True ResourcesApplied: "), "{}", bench.ready("n1"));
    assert_eq!(value(&mut bench, "a"), "1");
}

#[test]
fn reported_drift_is_no_different_for_a_new_leader() {
    let mut bench = bench(&json!({ "drift": "Report" }));
    edit(&mut bench, "theirs");
    let before = bench.ready("n1");
    bench.cluster.crash(0, None);
    bench.cluster.start(program, true);
    bench.cluster.advance(WHILE);
    assert_eq!(value(&mut bench, "a"), "theirs");
    assert_eq!(bench.ready("n1"), before);
}

/// The API server records no owner of an empty list whose items merge by key.
#[test]
fn an_empty_list_is_no_drift_for_a_new_leader() {
    for drift in ["Report", "Repair"] {
        let mut bench = bench(&json!({ "drift": drift }));
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" }, "secrets": [],
        });
        bench.update("web", &[account]);
        bench.cluster.advance(WHILE);
        bench.cluster.crash(0, None);
        bench.cluster.journal.clear();
        bench.cluster.start(program, true);
        bench.cluster.advance(WHILE);
        assert!(bench.ready("n1").starts_with("True ResourcesApplied: "), "{}", bench.ready("n1"));
        assert_eq!(bench.carried().filter(|it| it.action.name() == "apply").count(), 0);
    }
}

/// Removes the status of a binding, as another client or a restored backup does.
fn remove_status(bench: &mut Bench, namespace: &str) {
    let binding = format!(
        "/apis/namespaceclass.akuity.io/v1alpha1/namespaces/{namespace}/namespaceclassbindings/{namespace}/status"
    );
    bench.merge(&binding, &json!({ "status": null }));
}

#[test]
fn reported_drift_stays_although_the_status_was_removed() {
    let mut bench = bench(&json!({ "drift": "Report" }));
    edit(&mut bench, "theirs");
    let unlabelled = json!({ "metadata": { "labels": { CLASS_LABEL: null } } });
    bench.merge("/api/v1/namespaces/n1/configmaps/b", &unlabelled);
    bench.cluster.advance(WHILE);
    let before = bench.ready("n1");
    remove_status(&mut bench, "n1");
    bench.cluster.advance(WHILE);
    assert_eq!((value(&mut bench, "a"), bench.ready("n1")), (json!("theirs"), before.clone()));
    bench.cluster.crash(0, None);
    remove_status(&mut bench, "n1");
    bench.cluster.start(program, true);
    bench.cluster.advance(WHILE);
    assert_eq!((value(&mut bench, "a"), bench.ready("n1")), (json!("theirs"), before));
}

#[test]
fn an_excluded_namespace_gets_no_class_and_says_why() {
    let mut bench = bench(&json!({ "excludedNamespaces": ["kube-*", "n2"] }));
    assert!(bench.binding("n1").is_some());
    assert!(bench.binding("n2").is_none());
    bench.namespace("kube-proxies", Some("web"));
    bench.cluster.advance(WHILE);
    assert!(bench.binding("kube-proxies").is_none());
    let namespace = bench.get("/api/v1/namespaces/kube-proxies").expect("exists");
    let problem = namespace["metadata"]["annotations"]["namespaceclass.akuity.io/problem"].as_str();
    let expected = "label namespaceclass.akuity.io/name: NamespaceClass web excludes this namespace; remove the label, or \
                    correct spec.excludedNamespaces of the class";
    assert_eq!(problem, Some(expected));
}

#[test]
fn a_namespace_that_is_excluded_later_loses_its_resources_until_it_is_no_longer_excluded() {
    let mut bench = bench(&json!({}));
    bench.merge(CLASS, &json!({ "spec": { "excludedNamespaces": ["n1"] } }));
    bench.cluster.advance(WHILE);
    assert!(bench.binding("n1").is_none() && bench.config_map("n1", "a").is_none());
    assert!(bench.config_map("n2", "a").is_some());
    bench.merge(CLASS, &json!({ "spec": { "excludedNamespaces": null } }));
    bench.cluster.advance(WHILE);
    assert_eq!(value(&mut bench, "a"), "1");
}

/// One edit excludes a namespace and changes the content. Its adopted object would keep the new content for good.
#[test]
fn a_namespace_that_is_excluded_with_a_change_does_not_get_the_change() {
    let mut bench = bench(&json!({}));
    bench.namespace("n3", None);
    bench.post("/api/v1/namespaces/n3/configmaps", &settings("a", "theirs"));
    bench.label("n3", Some("web"));
    bench.cluster.advance(WHILE);
    let excluded =
        json!({ "excludedNamespaces": ["n3"], "resources": [settings("a", "2"), settings("c", "2")] });
    bench.merge(CLASS, &json!({ "spec": excluded }));
    bench.cluster.advance(WHILE);
    assert!(bench.binding("n3").is_none() && bench.config_map("n3", "c").is_none());
    assert_eq!(bench.config_map("n3", "a").expect("is kept")["data"]["value"], "1");
    assert_eq!(value(&mut bench, "a"), "2");
}

#[test]
fn a_namespace_that_is_excluded_gets_no_change_while_its_removal_is_held() {
    let mut bench = bench(&json!({ "removalGuard": { "maxPercent": 25, "windowMinutes": 60 } }));
    bench.merge(
        CLASS,
        &json!({ "spec": { "excludedNamespaces": ["n1"], "rollout": { "maxUnavailable": 1 } } }),
    );
    bench.cluster.advance(WHILE);
    bench.update("web", &[settings("a", "2"), settings("b", "1")]);
    bench.cluster.advance(WHILE);
    assert_eq!(value(&mut bench, "a"), "1");
    assert_eq!(bench.config_map("n2", "a").expect("is changed")["data"]["value"], "2");
    let class = bench.get(CLASS).expect("exists");
    let rolled_out = lockstep_sim::conditions::find(&class, "RolledOut").expect("has a limit").clone();
    assert_eq!(rolled_out["status"], "True", "{rolled_out}");
}

/// Creates a binding to the class `web` in a namespace without a label.
fn bind_manually(bench: &mut Bench, namespace: &str) {
    let binding = json!({
        "apiVersion": "namespaceclass.akuity.io/v1alpha1",
        "kind": "NamespaceClassBinding",
        "metadata": { "name": namespace },
        "spec": { "className": "web" },
    });
    let path =
        format!("/apis/namespaceclass.akuity.io/v1alpha1/namespaces/{namespace}/namespaceclassbindings");
    bench.post(&path, &binding);
}

#[test]
fn a_binding_that_a_user_created_gives_an_excluded_namespace_no_class() {
    let mut bench = bench(&json!({ "excludedNamespaces": ["n3"], "rollout": { "maxUnavailable": 1 } }));
    bench.namespace("n3", None);
    bind_manually(&mut bench, "n3");
    bench.cluster.advance(WHILE);
    assert!(bench.config_map("n3", "a").is_none());
    let expected = "False NamespaceExcluded: class web excludes this namespace, so nothing is applied or removed here; remove \
                    this binding, or correct spec.excludedNamespaces of the class";
    assert_eq!(bench.ready("n3"), expected);
    bench.update("web", &[settings("a", "2")]);
    bench.cluster.advance(WHILE);
    assert_eq!(value(&mut bench, "a"), "2", "it takes no place of the rollout");
    bench.merge(CLASS, &json!({ "spec": { "excludedNamespaces": null } }));
    bench.cluster.advance(WHILE);
    assert!(
        bench.config_map("n3", "a").is_some() && bench.ready("n3").starts_with("True ResourcesApplied: ")
    );
}

const GUARD: &str = "namespaceclass.akuity.io/confirm-removal";

/// Returns a class that may lose a quarter of its namespaces within five minutes, applied in eight of them.
fn with_guard() -> Bench {
    let mut bench = bench(&json!({ "removalGuard": { "maxPercent": 25, "windowMinutes": 5 } }));
    for number in 3..=8 {
        bench.namespace(&format!("n{number}"), Some("web"));
    }
    bench.cluster.advance(WHILE);
    bench
}

/// Removes the label from all namespaces of [`with_guard`].
fn remove_all_labels(bench: &mut Bench) {
    for number in 1..=8 {
        bench.label(&format!("n{number}"), None);
    }
    bench.cluster.advance(WHILE);
}

/// Returns the namespaces that have the resource `a` of the class.
fn holding(bench: &mut Bench) -> usize {
    (1..=8).filter(|number| bench.config_map(&format!("n{number}"), "a").is_some()).count()
}

#[test]
fn a_label_that_is_removed_everywhere_removes_nothing_until_that_is_confirmed() {
    let mut bench = with_guard();
    remove_all_labels(&mut bench);
    assert_eq!(holding(&mut bench), 8);
    let namespace = bench.get("/api/v1/namespaces/n1").expect("exists");
    let problem = namespace["metadata"]["annotations"]["namespaceclass.akuity.io/problem"].as_str();
    let expected = "NamespaceClass web stays applied here, because more than 25 % of its namespaces have lost it; restore the \
                    label, or annotate the class with namespaceclass.akuity.io/confirm-removal=true, and remove the annotation \
                    afterwards";
    assert_eq!(problem, Some(expected));
    bench.cluster.crash(0, None);
    bench.cluster.journal.clear();
    bench.cluster.start(program, true);
    bench.cluster.advance(WHILE);
    assert_eq!(holding(&mut bench), 8, "a new leader holds them as well");
    let is_write = |it: &&Carried| matches!(it.action, Action::Kube(KubeRequest::Patch { .. }));
    assert_eq!(bench.carried().filter(is_write).count(), 0, "what it holds is reported already");
    bench.merge(CLASS, &json!({ "metadata": { "annotations": { GUARD: "true" } } }));
    bench.cluster.advance(Duration::from_secs(5));
    assert_eq!(holding(&mut bench), 0);
    let namespace = bench.get("/api/v1/namespaces/n1").expect("exists");
    assert!(namespace["metadata"]["annotations"]["namespaceclass.akuity.io/problem"].is_null());
}

#[test]
fn few_namespaces_lose_a_guarded_class_after_its_window() {
    let mut bench = with_guard();
    for number in 1..=2 {
        bench.label(&format!("n{number}"), None);
    }
    bench.cluster.advance(Duration::from_mins(4));
    assert_eq!(holding(&mut bench), 8);
    bench.cluster.advance(Duration::from_mins(2));
    assert_eq!(holding(&mut bench), 6);
    // Those that follow within one window are counted together.
    for number in 3..=5 {
        bench.label(&format!("n{number}"), None);
        bench.cluster.advance(Duration::from_mins(1));
    }
    bench.cluster.advance(WHILE);
    assert_eq!(holding(&mut bench), 6);
    bench.label("n3", Some("web"));
    bench.label("n4", Some("web"));
    bench.cluster.advance(WHILE);
    assert_eq!(holding(&mut bench), 5, "one always may");
}

#[test]
fn a_guarded_class_that_is_emptied_removes_nothing_until_that_is_confirmed() {
    let mut bench = with_guard();
    bench.update("web", &[]);
    bench.cluster.advance(WHILE);
    assert_eq!(holding(&mut bench), 8);
    assert!(bench.ready("n1").starts_with("False RemovalHeld: class web has no resources any more; "));
    bench.merge(CLASS, &json!({ "metadata": { "annotations": { GUARD: "true" } } }));
    bench.cluster.advance(Duration::from_secs(5));
    assert_eq!(holding(&mut bench), 0);
    assert!(bench.ready("n1").starts_with("True ResourcesApplied: "));
}

#[test]
fn a_guarded_class_that_is_emptied_removes_nothing_although_the_status_was_removed() {
    let mut bench = with_guard();
    bench.update("web", &[]);
    bench.cluster.advance(Duration::from_secs(5));
    remove_status(&mut bench, "n1");
    bench.merge(CLASS, &json!({ "spec": { "removalGuard": { "maxPercent": 50 } } }));
    bench.cluster.advance(Duration::from_secs(5));
    assert!(bench.ready("n1").starts_with("False RemovalHeld: "), "{}", bench.ready("n1"));
    bench.cluster.advance(WHILE);
    assert_eq!(holding(&mut bench), 8);
}

#[test]
fn without_its_guard_a_class_holds_nothing_any_more() {
    let mut bench = with_guard();
    remove_all_labels(&mut bench);
    bench.merge(CLASS, &json!({ "spec": { "removalGuard": null } }));
    bench.cluster.advance(Duration::from_secs(10));
    assert_eq!(holding(&mut bench), 0);
}

/// The removal of their binding is not decided by a label.
#[test]
fn bindings_that_users_created_do_not_count_as_lost() {
    let mut bench = with_guard();
    for number in 11..=14 {
        bench.namespace(&format!("n{number}"), None);
        bind_manually(&mut bench, &format!("n{number}"));
    }
    bench.label("n8", None);
    bench.cluster.advance(WHILE);
    assert_eq!(holding(&mut bench), 7);
}

#[test]
fn a_switch_to_an_empty_guarded_class_removes_the_resources_of_the_former_class() {
    let mut bench = bench(&json!({}));
    bench.define("empty", &[]);
    let guard = json!({ "maxPercent": 25, "windowMinutes": 5 });
    bench.merge(&CLASS.replace("web", "empty"), &json!({ "spec": { "removalGuard": guard } }));
    let hold = |finalizers: Value| json!({ "metadata": { "finalizers": finalizers } });
    bench.merge("/api/v1/namespaces/n1/configmaps/a", &hold(json!(["example.com/hold"])));
    bench.label("n1", Some("empty"));
    bench.cluster.advance(WHILE);
    assert!(bench.config_map("n1", "b").is_none());
    assert!(bench.ready("n1").starts_with("False WaitingForDeletion: "), "{}", bench.ready("n1"));
    bench.merge("/api/v1/namespaces/n1/configmaps/a", &hold(Value::Null));
    bench.cluster.advance(WHILE);
    assert!(bench.config_map("n1", "a").is_none());
    assert!(bench.ready("n1").starts_with("True ResourcesApplied: "), "{}", bench.ready("n1"));
}

#[test]
fn a_class_says_that_its_confirmed_guard_holds_nothing() {
    let mut bench = with_guard();
    let valid = |bench: &mut Bench| {
        let class = bench.get(CLASS).expect("exists");
        lockstep_sim::conditions::find(&class, "Valid").expect("is judged")["message"].clone()
    };
    assert_eq!(valid(&mut bench), "2 resources can be applied");
    bench.merge(CLASS, &json!({ "metadata": { "annotations": { GUARD: "true" } } }));
    bench.cluster.advance(Duration::from_secs(5));
    let expected = "2 resources can be applied; spec.removalGuard holds nothing until the annotation \
                    namespaceclass.akuity.io/confirm-removal is removed from the class";
    assert_eq!(valid(&mut bench), expected);
    bench.merge(CLASS, &json!({ "metadata": { "annotations": { GUARD: null } } }));
    bench.cluster.advance(Duration::from_secs(5));
    assert_eq!(valid(&mut bench), "2 resources can be applied");
}
