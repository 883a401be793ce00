//! Rollouts with unreachable clusters, hooks that fail or hang, API failures and controller crashes, in any order. Two minutes
//! after the end of all faults, every cluster has the version of the service.

use std::time::Duration;

use lockstep_engine::action::ErrorKind;
use lockstep_engine::random::Random;
use lockstep_external::dpu_clusters::UNREACHABLE;
use lockstep_sim::cluster::FaultVerdict;
use serde_json::{Value, json};

use super::bench::{Bench, DPF, operator, service};
use super::user::User as _;

const CLUSTERS: [&str; 4] = ["dpu-01", "dpu-02", "dpu-03", "dpu-04"];
const VERSIONS: [&str; 3] = ["v1.1.1", "v2.0.0", "v3.0.0"];
/// Number of random faults before the checked rollout.
const OPERATIONS: u64 = 8;
/// Maximum time until recovery after the end of all faults.
const RECOVERY: Duration = Duration::from_mins(2);

fn seeds() -> u64 {
    match std::env::var("LOCKSTEP_TIER").as_deref() {
        Ok("quick") => 5,
        Ok("nightly") => 1000,
        _ => 10,
    }
}

fn reach(bench: &mut Bench, cluster: &str, is_down: bool) {
    let unreachable = if is_down { json!("true") } else { Value::Null };
    let patch = json!({ "metadata": { "annotations": { UNREACHABLE: unreachable } } });
    bench.cluster.merge("DPUCluster", DPF, cluster, &patch);
}

fn change(bench: &mut Bench, version: &str, values: &Value) {
    let spec = json!({ "source": { "version": version }, "values": values });
    bench.cluster.merge("DPUService", "default", "hbn", &json!({ "spec": spec }));
}

/// Makes some of all writes fail; some of those take effect.
fn disturb(bench: &mut Bench, seed: u64) {
    let mut random = Random::from_seed(seed);
    bench.cluster.interfere(move |_, action| match random.below(6) {
        0 if action.is_write() => FaultVerdict::AnswerLost,
        1 => FaultVerdict::failed(ErrorKind::Unavailable),
        _ => FaultVerdict::Served,
    });
}

fn act(bench: &mut Bench, controller: usize, random: &mut Random) {
    let cluster = random.pick(&CLUSTERS);
    match random.below(8) {
        0 | 1 => reach(bench, cluster, true),
        2 => reach(bench, cluster, false),
        3 | 4 => change(bench, random.pick(&VERSIONS), &json!({ "failingHook": null, "hangingHook": null })),
        5 => {
            let hook = random.pick(&["failingHook", "hangingHook"]);
            change(bench, random.pick(&VERSIONS), &json!({ hook: true }));
        }
        6 => bench.cluster.crash(controller, Some(Duration::from_secs(random.below(60)))),
        _ => disturb(bench, random.bits()),
    }
}

#[test]
fn whatever_went_wrong_every_cluster_is_deployed_two_minutes_after_all_is_back() {
    for seed in 0..seeds() {
        let mut random = Random::from_seed(seed);
        let mut bench = Bench::without_controller();
        let controller = bench.cluster.start(operator, true);
        for cluster in CLUSTERS {
            bench.join(cluster);
        }
        bench.cluster.create(&service("hbn"));
        bench.settle();
        for _ in 0..OPERATIONS {
            act(&mut bench, controller, &mut random);
            bench.cluster.advance(Duration::from_secs(random.pick(&[1, 20, 90, 400, 4000])));
        }
        bench.cluster.interfere(|_, _| FaultVerdict::Served);
        for cluster in [random.pick(&CLUSTERS), random.pick(&CLUSTERS)] {
            reach(&mut bench, cluster, true);
        }
        let version = random.pick(&VERSIONS);
        change(
            &mut bench,
            version,
            &json!({ "a": seed.to_string(), "failingHook": null, "hangingHook": null }),
        );
        bench.cluster.advance(Duration::from_mins(random.pick(&[10, 40, 200])));
        for cluster in CLUSTERS {
            reach(&mut bench, cluster, false);
        }
        bench.cluster.advance(RECOVERY);

        let details = format!("seed {seed}:\n{}", bench.conditions("hbn"));
        assert_eq!(bench.ready("hbn"), "True/Success", "{details}");
        assert_eq!(bench.service("hbn")["status"]["rollout"]["clusters"], "4/4", "{details}");
        for cluster in CLUSTERS {
            let application = bench.application(&format!("hbn-{}", &cluster["dpu-".len()..]));
            assert_eq!(application["status"]["sync"]["status"], "Synced", "{details}");
            assert_eq!(application["status"]["operationState"]["phase"], "Succeeded", "{details}");
            assert_eq!(
                application["status"]["sync"]["comparedTo"]["source"]["targetRevision"], version,
                "{details}"
            );
        }
    }
}

/// While a hook fails or hangs, the status has the names of the hook and its cluster.
#[test]
fn a_hook_that_fails_or_hangs_is_named() {
    for (hook, word) in [("failingHook", "fail"), ("hangingHook", "hook")] {
        let mut bench = Bench::serving(&CLUSTERS);
        change(&mut bench, VERSIONS[1], &json!({ hook: true }));
        bench.cluster.advance(Duration::from_mins(10));
        let (state, message) = bench.condition("hbn", "ApplicationsReady");
        assert!(state.starts_with("False/") && message.contains(word), "{state}: {message}");
        assert!(
            message.contains("hbn-check") && CLUSTERS.iter().all(|cluster| message.contains(cluster)),
            "{message}"
        );
    }
}
