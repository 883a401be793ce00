//! Variables in the resources of a class, with values that differ between namespaces.

use std::time::Duration;

use lockstep_engine::machine::Event;
use lockstep_engine::time::Now;
use lockstep_namespaceclass::controller::Controller;
use lockstep_sim::cluster::What;
use serde_json::{Value, json};

use super::bench::{Bench, config, program, secret, settings};
use crate::recorded::replays;

const CLASS: &str = "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses/web";
const TEAM: &str = "example.com/team";
const WHILE: Duration = Duration::from_mins(20);

/// Returns a class with the resources `a`, which contains the team of the namespace, `b` with its name, and `c` without variables.
/// It is applied in `n1` of the team `red`, and in `n2`, which has no team.
fn bench() -> Bench {
    let mut bench = Bench::new();
    let resources = [settings("a", "of ${team}"), settings("b", "${name} costs $$"), settings("c", "1")];
    let variables = json!([
        { "name": "team", "expression": format!("namespaceObject.metadata.labels[{TEAM:?}]") },
        { "name": "name", "expression": "namespaceObject.metadata.name" },
    ]);
    bench.define("web", &[]);
    bench.merge(CLASS, &json!({ "spec": { "resources": resources, "variables": variables } }));
    for namespace in ["n1", "n2"] {
        bench.namespace(namespace, None);
    }
    team(&mut bench, "n1", &json!("red"));
    for namespace in ["n1", "n2"] {
        bench.label(namespace, Some("web"));
    }
    bench.settle();
    bench
}

fn team(bench: &mut Bench, namespace: &str, team: &Value) {
    let patch = json!({ "metadata": { "labels": { TEAM: team } } });
    bench.merge(&format!("/api/v1/namespaces/{namespace}"), &patch);
}

fn value(bench: &mut Bench, namespace: &str, name: &str) -> Value {
    bench.config_map(namespace, name).map_or(Value::Null, |it| it["data"]["value"].clone())
}

fn writes(bench: &Bench) -> Vec<String> {
    let writes = bench.carried().filter(|carried| carried.action.is_write());
    writes.filter_map(|it| it.action.target()).map(|it| format!("{} {}", it.kind.kind, it.name)).collect()
}

#[test]
fn each_namespace_has_its_own_values() {
    let mut bench = bench();
    let values =
        |bench: &mut Bench, namespace: &str| ["a", "b", "c"].map(|name| value(bench, namespace, name));
    assert_eq!(values(&mut bench, "n1"), [json!("of red"), json!("n1 costs $$"), json!("1")]);
    assert_eq!(values(&mut bench, "n2"), [Value::Null, json!("n2 costs $$"), json!("1")]);
    assert!(bench.ready("n1").starts_with("True ResourcesApplied: 3 resources"));
    assert_eq!(
        bench.ready("n2"),
        "False UnresolvedVariable: spec.resources[0]: ConfigMap a: variable \"team\" has no value, because Namespace n2 has no label \
         \"example.com/team\"; add the label to the namespace, or a default to the expression in the class"
    );
    let class = bench.get(CLASS).expect("exists");
    assert_eq!(class["status"]["conditions"][0]["reason"], "AllResourcesValid");
    team(&mut bench, "n2", &json!("blue"));
    bench.settle();
    assert_eq!(value(&mut bench, "n2", "a"), "of blue");
    assert!(bench.ready("n2").starts_with("True ResourcesApplied"));
}

#[test]
fn a_changed_label_changes_what_reads_it_and_any_other_label_changes_nothing() {
    let mut bench = bench();
    bench.cluster.journal.clear();
    let other =
        json!({ "metadata": { "labels": { "example.com/other": "1" }, "annotations": { TEAM: "no" } } });
    bench.merge("/api/v1/namespaces/n1", &other);
    bench.settle();
    assert_eq!((bench.carried().count(), writes(&bench)), (0, Vec::new()));
    team(&mut bench, "n1", &json!("green"));
    bench.settle();
    assert_eq!(writes(&bench), ["ConfigMap a"], "and no status, because the namespace stays ready");
    assert_eq!(value(&mut bench, "n1", "a"), "of green");
}

#[test]
fn a_lost_label_takes_nothing_away() {
    let mut bench = bench();
    let before = bench.config_map("n1", "a");
    team(&mut bench, "n1", &Value::Null);
    bench.cluster.advance(WHILE);
    assert_eq!(bench.config_map("n1", "a"), before);
    assert!(bench.ready("n1").starts_with("False UnresolvedVariable: "), "{}", bench.ready("n1"));
    let listed = |bench: &mut Bench| bench.binding("n1").map(|it| it["status"]["appliedResources"].clone());
    assert_eq!(listed(&mut bench).and_then(|it| it.as_array().map(Vec::len)), Some(3));
    // What has left the class goes all the same.
    bench.update("web", &[settings("a", "of ${team}"), settings("c", "2")]);
    bench.settle();
    assert_eq!((value(&mut bench, "n1", "b"), value(&mut bench, "n1", "c")), (Value::Null, json!("2")));
    assert_eq!(bench.config_map("n1", "a"), before);
}

#[test]
fn a_new_leader_finds_what_has_changed_and_writes_nothing_else() {
    let mut bench = bench();
    let restart = |bench: &mut Bench| {
        bench.cluster.journal.clear();
        bench.cluster.start(program, true);
        bench.settle();
        writes(bench)
    };
    assert_eq!(restart(&mut bench), Vec::<String>::new());
    bench.cluster.advance(WHILE);
    assert_eq!(writes(&bench), Vec::<String>::new());
}

#[test]
fn drift_is_repaired_to_the_value_of_the_namespace() {
    let mut bench = bench();
    let theirs = json!({ "data": { "value": "theirs" } });
    bench.merge("/api/v1/namespaces/n1/configmaps/a", &theirs);
    bench.settle();
    assert_eq!(value(&mut bench, "n1", "a"), "of red");
}

#[test]
fn a_changed_label_is_applied_although_drift_is_only_reported() {
    let mut bench = bench();
    bench.merge(CLASS, &json!({ "spec": { "drift": "Report" } }));
    bench.settle();
    bench.merge("/api/v1/namespaces/n1/configmaps/b", &json!({ "data": { "value": "theirs" } }));
    team(&mut bench, "n1", &json!("green"));
    bench.settle();
    assert_eq!(
        (value(&mut bench, "n1", "a"), value(&mut bench, "n1", "b")),
        (json!("of green"), json!("theirs"))
    );
    assert!(
        bench.ready("n1").starts_with("False Drifted: spec.resources[1]: ConfigMap b: "),
        "{}",
        bench.ready("n1")
    );
    // An edit of the annotation that identifies the values is drift as well.
    let annotations = json!({ "namespaceclass.akuity.io/values": "theirs" });
    bench.merge("/api/v1/namespaces/n1/configmaps/a", &json!({ "metadata": { "annotations": annotations } }));
    bench.settle();
    assert!(
        bench.ready("n1").contains("spec.resources[0]: ConfigMap a: it differs in"),
        "{}",
        bench.ready("n1")
    );
}

#[test]
fn without_variables_a_placeholder_is_a_text_like_any_other() {
    let mut bench = bench();
    bench.merge(CLASS, &json!({ "spec": { "variables": null } }));
    bench.settle();
    for namespace in ["n1", "n2"] {
        assert_eq!(value(&mut bench, namespace, "a"), "of ${team}");
        assert!(bench.ready(namespace).starts_with("True ResourcesApplied"));
    }
    let map = bench.config_map("n1", "a").expect("exists");
    assert_eq!(map["metadata"]["annotations"].get("namespaceclass.akuity.io/values"), None);
}

#[test]
fn mistakes_are_reported_by_the_class() {
    let mut bench = bench();
    let named = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    let mut hidden = secret("hidden");
    hidden["stringData"]["pin"] = json!("${team}");
    bench.update("web", &[named("${team}"), settings("b", "${tem}"), hidden, settings("c", "of ${team}")]);
    bench.cluster.advance(Duration::from_secs(5));
    let class = bench.get(CLASS).expect("exists");
    let valid = &class["status"]["conditions"][0];
    insta::assert_snapshot!(
        valid["message"].as_str().unwrap_or_default().replace("; spec.resources", ";\nspec.resources")
    );
    assert_eq!(
        (value(&mut bench, "n1", "c"), value(&mut bench, "n1", "b")),
        (json!("of red"), json!("n1 costs $$"))
    );
}

/// A change of the class is limited; a change of a namespace is the change of one namespace alone.
#[test]
fn a_rollout_limits_changes_of_the_class_and_not_of_labels() {
    let mut bench = bench();
    team(&mut bench, "n2", &json!("blue"));
    bench.merge(CLASS, &json!({ "spec": { "rollout": { "maxUnavailable": 1 } } }));
    bench.settle();
    bench.update("web", &[settings("a", "for ${team}"), settings("Not A Name", "1")]);
    bench.cluster.advance(WHILE);
    assert_eq!(
        (value(&mut bench, "n1", "a"), value(&mut bench, "n2", "a")),
        (json!("for red"), json!("of blue"))
    );
    bench.update("web", &[settings("a", "for ${team}")]);
    bench.cluster.advance(WHILE);
    assert_eq!(value(&mut bench, "n2", "a"), "for blue");
    for namespace in ["n1", "n2"] {
        team(&mut bench, namespace, &json!("green"));
    }
    bench.settle();
    assert_eq!(
        (value(&mut bench, "n1", "a"), value(&mut bench, "n2", "a")),
        (json!("for green"), json!("for green"))
    );
}

/// A recording hides what Secrets contain, and the digest of a resource with it.
#[test]
fn a_recording_with_secrets_and_variables_is_replayed_to_the_same_steps() {
    let mut bench = bench();
    bench.cluster.journal.clear();
    bench.cluster.start(program, true);
    let mut hidden = secret("hidden");
    hidden["stringData"]["pin"] = json!("correct horse battery");
    hidden["metadata"]["labels"] = json!({ "team": "${team}" });
    let quoted = settings("quoted", "${team} has correct horse battery");
    bench.update("web", &[hidden, quoted, settings("c", "${name}")]);
    bench.settle();
    team(&mut bench, "n1", &json!("green"));
    bench.settle();
    team(&mut bench, "n1", &Value::Null);
    bench.settle();
    let taken = bench.cluster.journal.iter().filter_map(|entry| match &entry.what {
        What::Stepped { process, now, event, .. } => Some((*process, *now, event.clone())),
        _ => None,
    });
    let taken: Vec<_> = taken.collect();
    let last = taken.iter().map(|(process, ..)| *process).max();
    let taken = taken.into_iter().filter(|(process, ..)| Some(*process) == last);
    let taken: Vec<(Now, Event)> = taken.map(|(_, now, event)| (now, event)).collect();
    assert_eq!(value(&mut bench, "n1", "quoted"), "green has correct horse battery");
    println!("{} lines", replays::<Controller>(&config(), taken, &["correct horse battery"]));
}

#[test]
fn repairs_keep_their_backoff_although_a_variable_has_no_value_for_moments() {
    let mut bench = bench();
    bench.cluster.journal.clear();
    for second in 0..3600 {
        match second % 60 {
            0 => team(&mut bench, "n1", &Value::Null),
            10 => team(&mut bench, "n1", &json!("red")),
            _ => {}
        }
        bench.merge("/api/v1/namespaces/n1/configmaps/a", &json!({ "data": { "value": "theirs" } }));
        bench.cluster.advance(Duration::from_secs(1));
    }
    let repairs = bench.carried().filter(|carried| carried.action.name() == "apply").count();
    assert!((10..40).contains(&repairs), "{repairs} repairs in an hour");
}
