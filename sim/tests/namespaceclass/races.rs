//! Orders of events that only the worst moment brings about.

use super::bench::{Bench, settings};

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
