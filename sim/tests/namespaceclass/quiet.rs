//! A converged cluster sends no requests, and a run can be replayed.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_engine::machine::{Event, Machine as _, Note, Step};
use lockstep_engine::time::Now;
use lockstep_sim::cluster::What;
use serde_json::json;

use super::bench::{Bench, operator, program, secret, settings};

fn converged(namespaces: usize) -> Bench {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1"), settings("b", "1"), secret("c")]);
    for number in 0..namespaces {
        bench.namespace(&format!("team-{number}"), Some("web"));
    }
    bench.cluster.settle(200_000).expect("becomes idle");
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

/// A class with empty values, of which the API server records only some in the managed fields.
#[test]
fn a_restart_writes_nothing_although_not_all_empty_values_are_recorded() {
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "name": "recorded" },
        "spec": { "podSelector": {}, "policyTypes": ["Ingress"] },
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "recorded" }, "rules": [],
    });
    let mut map = settings("unrecorded", "1");
    map["metadata"]["finalizers"] = json!([]);
    let mut bench = Bench::new();
    bench.define("web", &[policy, role, secret("recorded"), map]);
    bench.namespace("team", Some("web"));
    bench.settle();
    let (before, binding) = (bench.config_map("team", "unrecorded"), bench.binding("team"));

    bench.cluster.journal.clear();
    bench.cluster.advance(Duration::from_mins(21));
    assert_eq!(bench.carried().count(), 0);
    bench.cluster.start(program, true);
    bench.settle();
    let writes = bench.carried().filter(|carried| carried.action.is_write());
    assert_eq!(writes.count(), 0);
    assert_eq!((bench.config_map("team", "unrecorded"), bench.binding("team")), (before, binding));
}

/// The keys are reconciled without any request.
#[test]
fn every_key_of_a_converged_cluster_is_looked_at_once_in_each_period() {
    let mut bench = converged(10);
    let begun = bench.cluster.elapsed();
    bench.cluster.journal.clear();
    let (period, periods) = (Duration::from_mins(10), 6);
    bench.cluster.advance(period * periods);
    let mut looks = BTreeMap::<_, Vec<_>>::new();
    for entry in &bench.cluster.journal {
        let What::Stepped { step, .. } = &entry.what else { continue };
        for note in &step.notes {
            let Note::Reconciled { object, .. } = note else { continue };
            looks.entry(object).or_default().push(entry.at);
        }
    }
    // The class, each namespace with its binding, and the four namespaces that every cluster has.
    assert_eq!(looks.len(), 25);
    for (object, looks) in looks {
        assert_eq!(
            looks.len(),
            usize::try_from(periods).expect("small"),
            "{object} since {begun:?}: {looks:?}"
        );
        assert!(looks.windows(2).all(|pair| pair[1] == pair[0] + period), "{object}: {looks:?}");
    }
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
    // After a round trip through JSON, it is still the same run.
    let stored = serde_json::to_string(&recorded).expect("a recording is JSON");
    let mut again = operator();
    for (now, event, step) in serde_json::from_str::<Vec<(Now, Event, Step)>>(&stored).expect("reads back") {
        assert_eq!(again.step(event, now), step);
    }
}
