//! A converged cluster asks for nothing, and a run can be replayed.

use std::time::Duration;

use lockstep_core::engine::machine::{Event, Machine as _, Step};
use lockstep_core::time::Now;

use lockstep_sim::cluster::What;

use super::bench::{Bench, operator, program, secret, settings};

fn converged(namespaces: usize) -> Bench {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1"), settings("b", "1"), secret("c")]);
    for number in 0..namespaces {
        bench.namespace(&format!("team-{number}"), Some("web"));
    }
    bench.cluster.settle(200_000).expect("comes to rest");
    bench
}

#[test]
fn a_converged_cluster_of_a_thousand_namespaces_asks_for_nothing_over_a_resync() {
    let mut bench = converged(1000);
    assert!(bench.ready("team-999").starts_with("True ResourcesApplied"));
    let before = bench.carried().count();
    println!("{before} requests to converge");
    bench.cluster.advance(Duration::from_mins(21));
    assert_eq!(bench.carried().count() - before, 0);
}

#[test]
fn a_restart_in_a_converged_cluster_writes_nothing() {
    let mut bench = converged(50);
    let before = bench.carried().count();
    bench.cluster.start(program, true);
    bench.settle();
    let writes = bench.carried().skip(before).filter(|carried| carried.action.is_write());
    assert_eq!(writes.count(), 0);
}

#[test]
fn a_class_update_touches_only_the_namespaces_of_the_class_and_only_what_changed() {
    let mut bench = converged(10);
    bench.define("other", &[settings("x", "1")]);
    bench.namespace("bystander", Some("other"));
    bench.settle();
    bench.cluster.journal.clear();
    bench.update("web", &[settings("a", "2"), settings("b", "1"), secret("c")]);
    bench.settle();
    let names: Vec<_> = bench.carried().map(|carried| carried.action.name()).collect();
    let count = |name| names.iter().filter(|other| **other == name).count();
    assert_eq!((count("apply"), count("get"), count("delete")), (10, 0, 0), "{names:?}");
    // The class's own status, and one for each of its namespaces.
    assert_eq!(count("patch_status"), 11);
    let touched = bench.carried().filter_map(|carried| carried.action.target());
    assert!(touched.into_iter().all(|target| target.namespace.as_deref() != Some("bystander")));
}

#[test]
fn a_recorded_run_replays_to_the_same_steps() {
    let mut bench = converged(20);
    bench.update("web", &[settings("a", "2")]);
    bench.settle();
    bench.label("team-3", None);
    bench.settle();
    let recorded = bench.cluster.journal.iter().filter_map(|entry| match &entry.what {
        What::Stepped { now, event, step, .. } => Some((*now, event.clone(), step.clone())),
        _ => None,
    });
    let recorded: Vec<(Now, Event, Step)> = recorded.collect();
    println!("{} steps replayed", recorded.len());
    // Stored and read again, it is still the same run.
    let stored = serde_json::to_string(&recorded).expect("a recording is JSON");
    let mut again = operator();
    for (now, event, step) in serde_json::from_str::<Vec<(Now, Event, Step)>>(&stored).expect("reads back") {
        assert_eq!(again.step(event, now), step);
    }
}
