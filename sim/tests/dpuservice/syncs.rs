//! Syncs of Argo CD that fail or do not end.

use std::time::Duration;

use lockstep_external::dpu_clusters::UNREACHABLE;
use serde_json::{Value, json};

use super::bench::{Bench, DPF};
use super::user::User as _;

/// For Argo CD, the Application is still synced and healthy.
#[test]
fn a_hook_that_fails_keeps_a_service_from_being_ready() {
    let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
    let values = |values: Value| json!({ "spec": { "values": values } });
    bench.cluster.merge("DPUService", "default", "hbn", &values(json!({ "failingHook": true })));
    bench.settle();
    let status = bench.application("hbn-01")["status"].clone();
    assert_eq!(
        (&status["sync"]["status"], &status["health"]["status"]),
        (&json!("Synced"), &json!("Healthy"))
    );
    assert_eq!(bench.ready("hbn"), "False/Failure", "{}", bench.conditions("hbn"));
    let (_, message) = bench.condition("hbn", "ApplicationsReady");
    let cause = "PostSync hook Job hbn-check failed: Job has reached the specified backoff limit";
    assert!(message.contains(cause), "{message}");
    assert_eq!(bench.service("hbn")["status"]["rollout"]["clusters"], "0/2");

    // A failure for the previous source does not count for this one.
    bench.cluster.merge("DPUService", "default", "hbn", &values(json!({ "failingHook": null })));
    bench.cluster.advance(Duration::from_mins(2));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// Argo CD waits for it forever, and so does the service. Its status has the hook's name and the time since when it waits.
#[test]
fn a_hook_that_never_ends_is_reported() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    let change = json!({ "spec": { "values": { "hangingHook": true } } });
    bench.cluster.merge("DPUService", "default", "hbn", &change);
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.ready("hbn"), "False/Pending", "{}", bench.conditions("hbn"));
    let started = bench.application("hbn-01")["status"]["operationState"]["startedAt"].clone();
    let expected = format!(
        "the sync that began at {} waits for PostSync hook Job hbn-check",
        started.as_str().expect("a time")
    );
    let (_, message) = bench.condition("hbn", "ApplicationsReady");
    assert!(message.contains(&expected), "{message}");
}

/// Argo CD starts nothing else before the sync has ended. The hook has five more minutes, because it may be about to complete.
#[test]
fn a_change_ends_a_sync_that_waits_for_a_hook() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    let change = |spec: Value| json!({ "spec": spec });
    bench.cluster.merge(
        "DPUService",
        "default",
        "hbn",
        &change(json!({ "values": { "hangingHook": true } })),
    );
    bench.cluster.advance(Duration::from_mins(20));
    assert_eq!(bench.ready("hbn"), "False/Pending", "{}", bench.conditions("hbn"));
    let began = bench.application("hbn-01")["status"]["operationState"]["startedAt"].clone();
    // A change that is reverted in the meantime ends nothing.
    for version in ["v2.0.0", "v1.1.1"] {
        bench.cluster.merge(
            "DPUService",
            "default",
            "hbn",
            &change(json!({ "source": { "version": version } })),
        );
        bench.cluster.advance(Duration::from_mins(4));
    }
    bench.story();

    let better = json!({ "source": { "version": "v2.0.0" }, "values": { "hangingHook": null } });
    bench.cluster.merge("DPUService", "default", "hbn", &change(better));
    bench.cluster.advance(Duration::from_mins(4));
    assert_eq!(bench.application("hbn-01")["status"]["operationState"]["startedAt"], began);
    let (state, message) = bench.condition("hbn", "ApplicationsReady");
    let expected = format!(
        "the sync of the spec before, which began at {}, waits for PostSync hook Job hbn-check: it is terminated 5 minutes \
         after the change",
        began.as_str().expect("a time")
    );
    assert!(state == "False/Pending" && message.contains(&expected), "{state}: {message}");
    bench.cluster.merge("DPUService", "default", "hbn", &change(json!({ "paused": true })));
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.application("hbn-01")["status"]["operationState"]["startedAt"], began);
    let (_, message) = bench.condition("hbn", "ApplicationsReady");
    assert!(message.contains("it is terminated once the service is no longer paused"), "{message}");
    bench.cluster.merge("DPUService", "default", "hbn", &change(json!({ "paused": null })));
    bench.cluster.advance(Duration::from_mins(2));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
    assert_eq!(bench.cluster.list("ConfigMap", DPF)[0]["data"]["version"], "v2.0.0");
    let asked = bench.writes();
    let asked: Vec<&str> =
        asked.iter().filter_map(|write| write.strip_suffix("dpf-argo-cd-system/hbn-01")).collect();
    assert_eq!(asked, ["apply Application.argoproj.io ", "patch Application.argoproj.io "]);
    let event = "Warning SyncTerminated: terminated a sync on dpu-cluster-01 (Application dpf-argo-cd-system/hbn-01): the sync";
    assert!(bench.events().contains(event), "{}", bench.events());
}

/// Argo CD's messages contain the folder of each failed comparison and the number of each attempt, so they change every time.
#[test]
fn what_stays_broken_costs_no_writes() {
    let unreachable = json!({ "metadata": { "annotations": { UNREACHABLE: "true" } } });
    for (what, spec, state, cause) in [
        (
            "chart",
            json!({ "source": { "version": "0.0.0-missing" } }),
            "False/Failure",
            "dpu-cluster-01, dpu-cluster-02 (Unknown, Healthy: Failed to load target state",
        ),
        (
            "hook",
            json!({ "values": { "failingHook": true } }),
            "False/Failure",
            "dpu-cluster-01, dpu-cluster-02 (Synced, Healthy: PostSync hook Job hbn-check failed",
        ),
        ("outage", json!({ "source": { "version": "v2.0.0" } }), "False/Failure", "no route to host"),
    ] {
        let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
        if what == "outage" {
            bench.cluster.merge("DPUCluster", DPF, "dpu-cluster-02", &unreachable);
        }
        bench.cluster.merge("DPUService", "default", "hbn", &json!({ "spec": spec }));
        bench.cluster.advance(Duration::from_mins(15));
        let (found, message) = bench.condition("hbn", "ApplicationsReady");
        assert_eq!(found, state, "{what}: {message}");
        assert!(message.contains(cause), "{what}: {message}");
        bench.story();
        let applications = ["hbn-01", "hbn-02"].map(|name| bench.application(name));
        bench.cluster.advance(Duration::from_hours(6));
        assert_ne!(applications, ["hbn-01", "hbn-02"].map(|name| bench.application(name)), "{what}");
        assert_eq!(bench.writes(), Vec::<String>::new(), "{what}");
    }
}
