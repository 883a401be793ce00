//! Orders of events that occur only with unfortunate timing.

use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, KubeRequest};
use lockstep_engine::object::Kind;
use lockstep_namespaceclass::names::PROBLEM_ANNOTATION;
use lockstep_sim::cluster::{FaultModel, FaultVerdict, SlowPatches, Transit};

use super::bench::{Bench, account, program, settings};

/// Moves a namespace to another class and removes the old class, with this many steps in between.
fn moved_with_steps_between(steps: u32) -> (Bench, serde_json::Value, serde_json::Value) {
    let mut bench = Bench::new();
    bench.define("old", &[settings("shared", "old"), settings("only-old", "1")]);
    bench.define("new", &[settings("shared", "new")]);
    bench.namespace("team", Some("old"));
    bench.settle();
    let binding = bench.binding("team").expect("is bound");
    let shared = bench.config_map("team", "shared").expect("is applied");
    bench.label("team", Some("new"));
    for _ in 0..steps {
        bench.cluster.step(bench.cluster.elapsed());
    }
    bench.remove("old");
    bench.settle();
    (bench, binding, shared)
}

#[test]
fn a_namespace_that_moved_on_loses_nothing_with_the_class_that_it_left() {
    for steps in 0..40 {
        let (mut bench, binding, shared) = moved_with_steps_between(steps);
        let kept = bench.binding("team").expect("is still bound");
        assert_eq!(kept["metadata"]["uid"], binding["metadata"]["uid"], "after {steps} steps");
        let kept = bench.config_map("team", "shared").expect("is still there");
        assert_eq!(kept["metadata"]["uid"], shared["metadata"]["uid"], "after {steps} steps");
        assert_eq!(kept["data"]["value"], "new");
        assert!(bench.config_map("team", "only-old").is_none());
    }
}

#[test]
fn a_class_that_comes_back_at_once_is_applied() {
    for steps in 0..40 {
        let mut bench = Bench::new();
        bench.define("web", &[settings("a", "1")]);
        bench.namespace("team", Some("web"));
        bench.settle();
        bench.remove("web");
        for _ in 0..steps {
            bench.cluster.step(bench.cluster.elapsed());
        }
        bench.define("web", &[settings("a", "2")]);
        bench.settle();
        assert_eq!(bench.config_map("team", "a").expect("is applied")["data"]["value"], "2", "{steps} steps");
        assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{steps} steps");
    }
}

/// Delays all applies of accounts by the first process.
struct SlowAccounts;

impl FaultModel for SlowAccounts {
    fn delay(&mut self, _: Duration, process: usize, hop: Transit<'_>) -> Duration {
        match hop {
            Transit::Request(Action::Kube(KubeRequest::Apply { target, .. }))
                if process == 0 && target.kind.kind == "ServiceAccount" =>
            {
                Duration::from_secs(50)
            }
            _ => Duration::ZERO,
        }
    }
}

#[test]
fn what_an_earlier_leader_creates_late_is_removed_though_no_class_holds_its_kind() {
    for is_leading in [true, false] {
        let mut bench = Bench::new();
        bench.define("web", &[settings("a", "1")]);
        bench.namespace("team", Some("web"));
        bench.settle();
        bench.cluster.weather = Box::new(SlowAccounts);
        bench.update("web", &[settings("a", "1"), account("robot")]);
        bench.cluster.advance(Duration::from_secs(1));
        bench.cluster.lead(0, is_leading);
        bench.update("web", &[settings("a", "1")]);
        bench.cluster.start(program, true);
        bench.cluster.advance(Duration::from_secs(10));
        assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{}", bench.ready("team"));
        let listed = bench.binding("team").expect("is bound")["status"]["appliedResources"].to_string();
        assert!(!listed.contains("robot"), "it was seen to be gone: {listed}");

        bench.cluster.journal.clear();
        bench.cluster.advance(Duration::from_mins(2));
        let requests: Vec<&str> = bench.carried().map(|carried| carried.action.name()).collect();
        assert!(requests.contains(&"apply"), "it was created: {requests:?}");
        let robot = bench.get("/api/v1/namespaces/team/serviceaccounts/robot");
        assert_eq!(robot, None, "is_leading: {is_leading}");
        assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{}", bench.ready("team"));
    }
}

/// Delays the watch events of a kind by an hour, for one process.
struct Slow(&'static str, usize);

impl FaultModel for Slow {
    fn delay(&mut self, _: Duration, process: usize, hop: Transit<'_>) -> Duration {
        match hop {
            Transit::Watch(Kind { kind, .. }) if (kind.as_str(), process) == (self.0, self.1) => {
                Duration::from_hours(1)
            }
            _ => Duration::ZERO,
        }
    }
}

/// The answer shows the new label before the watch does, so the watch event shows no change any more.
#[test]
fn a_label_in_the_answer_to_the_annotation_is_reconciled_though_the_watch_lags() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.namespace("team", None);
    bench.settle();
    bench.cluster.weather = Box::new(SlowPatches("Namespace"));
    bench.label("team", Some("missing"));
    bench.cluster.advance(Duration::from_secs(1));
    bench.cluster.weather = Box::new(Slow("Namespace", 0));
    bench.label("team", Some("web"));
    bench.cluster.advance(Duration::from_secs(30));
    assert!(bench.config_map("team", "a").is_some());
    let namespace = bench.get("/api/v1/namespaces/team").expect("exists");
    assert_eq!(namespace["metadata"]["annotations"][PROBLEM_ANNOTATION], serde_json::Value::Null);
}

fn uid(bench: &mut Bench, config_map: &str) -> serde_json::Value {
    bench.config_map("team", config_map).expect("is there")["metadata"]["uid"].take()
}

#[test]
fn what_both_classes_list_survives_a_switch_though_the_watch_of_classes_lags() {
    let mut bench = Bench::new();
    bench.define("foo", &[settings("data", "foo"), settings("only-foo", "1")]);
    bench.define("bar", &[settings("other", "1")]);
    bench.namespace("team", Some("foo"));
    bench.settle();
    let data = uid(&mut bench, "data");

    bench.cluster.weather = Box::new(Slow("NamespaceClass", 0));
    bench.update("bar", &[settings("other", "1"), settings("data", "bar")]);
    bench.label("team", Some("bar"));
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(uid(&mut bench, "data"), data);
    assert_eq!(bench.config_map("team", "data").expect("is there")["data"]["value"], "bar");
    assert!(bench.config_map("team", "only-foo").is_none());
    assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{}", bench.ready("team"));
}

/// An account is deleted with the answer to its deletion; the answer still contains the account.
#[test]
fn a_resource_dropped_and_listed_again_is_recreated_despite_a_lagging_watch() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1"), account("robot")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    bench.cluster.weather = Box::new(Slow("ServiceAccount", 0));
    bench.update("web", &[settings("a", "1")]);
    bench.cluster.advance(Duration::from_secs(10));
    let path = "/api/v1/namespaces/team/serviceaccounts/robot";
    assert_eq!(bench.get(path), None);
    bench.update("web", &[settings("a", "1"), account("robot")]);
    bench.cluster.advance(Duration::from_secs(10));
    assert!(bench.get(path).is_some());
    assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{}", bench.ready("team"));
}

#[test]
fn a_removal_that_is_tried_again_heeds_what_the_class_lists_by_then() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1"), settings("data", "1")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    let data = uid(&mut bench, "data");
    bench.cluster.interfere(|_, action| match action {
        Action::Kube(KubeRequest::Delete { .. }) => FaultVerdict::failed(ErrorKind::Unavailable),
        _ => FaultVerdict::Served,
    });
    bench.update("web", &[settings("a", "1")]);
    bench.cluster.advance(Duration::from_mins(1));
    assert!(bench.ready("team").starts_with("False PruneFailed"), "{}", bench.ready("team"));

    bench.cluster.weather = Box::new(Slow("NamespaceClass", 0));
    bench.update("web", &[settings("a", "1"), settings("data", "2")]);
    bench.cluster.advance(Duration::from_mins(6));
    assert_eq!(uid(&mut bench, "data"), data);
    assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{}", bench.ready("team"));
}

#[test]
fn a_new_leader_that_knows_only_the_class_of_before_removes_nothing_of_the_one_that_replaced_it() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    bench.cluster.start(program, false);
    bench.settle();
    bench.cluster.weather = Box::new(Slow("NamespaceClass", 1));
    bench.remove("web");
    bench.define("web", &[settings("b", "1")]);
    bench.cluster.advance(Duration::from_mins(1));
    assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{}", bench.ready("team"));
    let b = uid(&mut bench, "b");

    bench.cluster.lead(0, false);
    bench.cluster.lead(1, true);
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(uid(&mut bench, "b"), b);
    assert!(bench.config_map("team", "a").is_none());
    assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{}", bench.ready("team"));
}

#[test]
fn a_label_that_comes_back_at_once_is_heeded_though_the_watch_of_bindings_lags() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    let before = bench.binding("team").expect("is bound");
    bench.cluster.weather = Box::new(Slow("NamespaceClassBinding", 0));
    bench.label("team", None);
    bench.cluster.advance(Duration::from_secs(10));
    assert!(bench.binding("team").is_none() && bench.config_map("team", "a").is_none());

    bench.label("team", Some("web"));
    bench.cluster.advance(Duration::from_mins(1));
    let after = bench.binding("team").expect("is bound");
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(bench.config_map("team", "a").is_some());
    assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{}", bench.ready("team"));
    bench.cluster.advance(Duration::from_hours(2));
    assert_eq!(bench.binding("team").expect("is bound")["metadata"]["uid"], after["metadata"]["uid"]);
    assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{}", bench.ready("team"));
}

/// The API server refuses new objects in a namespace that is being deleted with code 403. No permission is missing.
#[test]
fn a_namespace_that_is_being_deleted_lacks_no_permission() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.namespace("team", None);
    let held = serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "held", "finalizers": ["example.com/hold"] } });
    bench.post("/api/v1/namespaces/team/configmaps", &held);
    bench.settle();
    let is_bind = |action: &Action| matches!(action, Action::Kube(KubeRequest::Apply { target, .. }) if target.name == "team");
    bench.cluster.interfere(move |_, action| {
        if is_bind(action) { FaultVerdict::failed(ErrorKind::Unavailable) } else { FaultVerdict::Served }
    });
    bench.label("team", Some("web"));
    bench.cluster.advance(Duration::from_secs(1));
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.weather = Box::new(Slow("Namespace", 0));
    bench.delete("/api/v1/namespaces/team");
    bench.cluster.journal.clear();
    bench.cluster.advance(Duration::from_mins(1));
    let failures: Vec<ErrorKind> = bench.carried().filter_map(|carried| carried.failed).collect();
    assert!(
        !failures.is_empty() && failures.iter().all(|class| *class == ErrorKind::Conflict),
        "{failures:?}"
    );
    let complaints =
        bench.cluster.notes().filter(|note| format!("{note:?}").contains("BindingRefused")).count();
    assert_eq!(complaints, 0);
}
