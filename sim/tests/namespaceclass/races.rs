//! Orders of events that only the worst moment brings about.

use std::time::Duration;

use lockstep_core::engine::action::Action;
use lockstep_sim::cluster::{Hop, Weather};

use super::bench::{Bench, account, program, settings};

/// A namespace moves to another class and the class that it leaves is removed, with so many steps in between.
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

/// Whatever accounts the first process applies are long under way.
struct SlowAccounts;

impl Weather for SlowAccounts {
    fn delay(&mut self, _: Duration, process: usize, hop: Hop<'_>) -> Duration {
        match hop {
            Hop::Request(Action::Apply { target, .. })
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
