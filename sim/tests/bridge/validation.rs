//! The tests from the specification of the DPUCluster validation, and its table of requeues.

use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, Failure};
use lockstep_engine::machine::{Amount, Note, ReconcileResult};
use lockstep_sim::cluster::{FaultModel, FaultVerdict, Transit};
use serde_json::json;

use super::bench::Bench;
use super::objects::{DPF, NAMESPACE, bridge, dpu_cluster};

fn condition(bench: &mut Bench) -> (String, String) {
    bench.condition("prod", "DPUClusterValid")
}

/// Returns the last result of a pass over the bridge.
fn last_result(bench: &mut Bench) -> ReconcileResult {
    bench.transitions();
    let mut results = bench.notes.iter().filter_map(|note| match note {
        Note::Reconciled { result, .. } => Some(result.clone()),
        _ => None,
    });
    results.next_back().expect("a pass")
}

#[test]
fn validate_dpucluster_success() {
    let mut bench = Bench::ready();
    let message = "DPUCluster 'dpus' found in namespace 'dpf-operator-system'".to_owned();
    assert_eq!(condition(&mut bench), ("True/DPUClusterFound".to_owned(), message));
    let event = "Normal DPUClusterValidated: DPUCluster 'dpf-operator-system/dpus' validated successfully";
    assert!(bench.events().contains(event), "{}", bench.events());
    assert_eq!(last_result(&mut bench), ReconcileResult::Converged);
}

#[test]
fn validate_dpucluster_not_found() {
    let mut bench = Bench::new();
    bench.delete("DPUCluster", DPF, "dpus");
    bench.create(&bridge("prod"));
    bench.settle();
    let message = "DPUCluster 'dpus' not found in namespace 'dpf-operator-system'".to_owned();
    assert_eq!(condition(&mut bench), ("False/DPUClusterNotFound".to_owned(), message));
    let event = "Warning DPUClusterNotFound: Referenced DPUCluster 'dpf-operator-system/dpus' not found";
    assert!(bench.events().contains(event), "{}", bench.events());
    // The watch enqueues it, so no requeue is needed.
    assert_eq!(last_result(&mut bench), ReconcileResult::Converged);
}

#[test]
fn validate_dpucluster_not_specified() {
    let mut bench = super::scenarios::dpu_cluster_not_specified();
    assert_eq!(condition(&mut bench).0, "False/DPUClusterNotSpecified");
    let event = "Warning DPUClusterNotSpecified: spec.dpuClusterRef.name and namespace are required";
    assert!(bench.events().contains(event), "{}", bench.events());
    assert_eq!(bench.bridge("prod")["status"]["observedGeneration"], 1);
    assert_eq!(last_result(&mut bench), ReconcileResult::Converged);
}

/// A reference with an empty name or namespace counts as missing ("Extract DPUCluster `NamespacedName`"), and a user has to fix
/// it.
#[test]
fn validate_dpucluster_not_specified_completely() {
    for reference in [
        json!({ "name": "", "namespace": DPF }),
        json!({ "name": "dpus", "namespace": "" }),
        json!({ "name": "", "namespace": "" }),
    ] {
        let mut bench = Bench::new();
        bench.admit_anything();
        let mut wanted = bridge("prod");
        wanted["spec"]["dpuClusterRef"] = reference.clone();
        bench.create(&wanted);
        bench.settle();
        let (found, message) = condition(&mut bench);
        assert_eq!(found, "False/DPUClusterNotSpecified", "{reference}");
        assert!(
            message.ends_with("dpuClusterRef.name and dpuClusterRef.namespace are required"),
            "{message}"
        );
        assert_eq!(bench.condition("prod", "Ready"), ("False/ValidationFailed".to_owned(), message));
        assert_eq!(bench.phase("prod"), "Failed", "{reference}");
        assert!(bench.get("HostedCluster", NAMESPACE, "prod").is_null(), "{reference}");
        let event = "Warning DPUClusterNotSpecified: spec.dpuClusterRef.name and namespace are required";
        assert!(bench.events().contains(event), "{}", bench.events());
        assert_eq!(last_result(&mut bench), ReconcileResult::Converged);
        bench.change("prod", &json!({ "dpuClusterRef": { "name": "dpus", "namespace": DPF } }));
        bench.settle();
        assert_eq!(bench.phase("prod"), "Ready", "{reference}");
    }
}

/// For each result, the number of counts and of measured durations.
#[test]
fn each_validation_is_counted_with_its_result() {
    let count = |bench: &mut Bench, result: &str| {
        bench.transitions();
        let counted = |metric: &str| {
            let measures = bench.notes.iter().filter_map(|note| match note {
                Note::Measured(measure) => Some(measure),
                _ => None,
            });
            measures.filter(|measure| measure.metric == metric && measure.labels == [result]).count()
        };
        let total = counted("dpfhcpbridge_dpucluster_validation_total");
        assert_eq!(counted("dpfhcpbridge_dpucluster_validation_duration_seconds"), total);
        total
    };
    let mut bench = Bench::new();
    bench.delete("DPUCluster", DPF, "dpus");
    bench.settle();
    bench.create(&bridge("prod"));
    bench.settle();
    assert!(count(&mut bench, "not_found") > 0);
    assert_eq!((count(&mut bench, "success"), count(&mut bench, "error")), (0, 0));
    bench.create(&dpu_cluster("dpus"));
    bench.settle();
    assert!(count(&mut bench, "success") > 0);
    let mut bench = unreadable(ErrorKind::Forbidden);
    bench.cluster.advance(Duration::from_mins(1));
    assert!(count(&mut bench, "error") > 0);
    assert_eq!(count(&mut bench, "not_found"), 0);
    let mut bench = super::scenarios::dpu_cluster_not_specified();
    assert!(count(&mut bench, "error") > 0);
    assert_eq!(count(&mut bench, "not_found"), 0);
}

/// Delays the answers about DPUClusters.
struct SlowReads;

impl FaultModel for SlowReads {
    fn delay(&mut self, _: Duration, _: usize, hop: Transit<'_>) -> Duration {
        match hop {
            Transit::Answer(action) if action.target().is_some_and(|it| it.kind.kind == "DPUCluster") => {
                Duration::from_secs(3)
            }
            _ => Duration::ZERO,
        }
    }
}

/// "Metrics", `dpfhcpbridge_dpucluster_validation_duration_seconds`.
#[test]
fn the_duration_of_a_validation_is_measured() {
    let mut bench = Bench::new();
    bench.forbid_watch("DPUCluster");
    bench.cluster.weather = Box::new(SlowReads);
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_mins(1));
    bench.transitions();
    let durations: Vec<Amount> = bench.notes.iter().filter_map(duration).collect();
    let is_measured = |duration: &Amount| *duration == Amount::Observe(Duration::from_secs(3));
    assert!(!durations.is_empty() && durations.iter().all(is_measured), "{durations:?}");
}

/// Returns the duration of a validation that a note reports.
fn duration(note: &Note) -> Option<Amount> {
    match note {
        Note::Measured(measure)
            if measure.metric == "dpfhcpbridge_dpucluster_validation_duration_seconds" =>
        {
            Some(measure.by)
        }
        _ => None,
    }
}

/// Returns a bridge that can't read its DPUCluster.
fn unreadable(class: ErrorKind) -> Bench {
    unanswered(Failure::new(class, "injected"))
}

/// Returns a bridge with this answer to every read of its DPUCluster.
fn unanswered(failure: Failure) -> Bench {
    let mut bench = Bench::new();
    bench.forbid_watch("DPUCluster");
    bench.cluster.interfere(move |_, action: &Action| {
        let is_read =
            action.name() == "get" && action.target().is_some_and(|it| it.kind.kind == "DPUCluster");
        if is_read { FaultVerdict::Failed(failure.clone()) } else { FaultVerdict::Served }
    });
    bench.create(&bridge("prod"));
    bench
}

#[test]
fn validate_dpucluster_access_error() {
    let mut bench = unreadable(ErrorKind::Forbidden);
    bench.cluster.advance(Duration::from_secs(10));
    let (found, message) = condition(&mut bench);
    assert_eq!(found, "False/DPUClusterAccessError");
    assert!(
        message.contains("Failed to retrieve DPUCluster 'dpus'") && message.contains("permission denied")
    );
    let events = bench.events();
    assert!(events.contains("Warning DPUClusterAccessError: Failed to access DPUCluster"), "{events}");
    assert!(matches!(last_result(&mut bench), ReconcileResult::Failed { .. }));
}

#[test]
fn the_event_of_an_access_error_quotes_the_whole_cause() {
    let mut bench = unanswered(Failure::new(ErrorKind::Forbidden, "admission webhook 'guard': not today"));
    bench.cluster.advance(Duration::from_secs(10));
    let events = bench.events();
    assert!(events.contains("permission denied (admission webhook 'guard': not today)"), "{events}");
}

/// Returns the delays after failed passes: the announced delay, and the actual time until the next pass.
fn pauses(bench: &mut Bench) -> Vec<(Duration, Duration)> {
    bench.cluster.advance(Duration::from_mins(20));
    bench.transitions();
    let pairs = bench.passes.iter().zip(bench.passes.iter().skip(1));
    let failed = pairs.filter_map(|((_, ended, retry_after), (began, ..))| {
        Some(((*retry_after)?, began.saturating_sub(*ended)))
    });
    failed.collect()
}

/// Checks the delays of a bridge that fails repeatedly: this many seconds before each retry, less a jitter, unless a related
/// event ends the delay.
fn backs_off(bench: &mut Bench, seconds: &[u64]) {
    let pauses = pauses(bench);
    assert!(pauses.len() >= seconds.len(), "{pauses:?}");
    for ((announced, _), ceiling) in pauses.iter().zip(seconds) {
        let ceiling = Duration::from_secs(*ceiling);
        assert!(*announced <= ceiling && *announced >= ceiling * 3 / 4, "{pauses:?}");
    }
    assert!(pauses.iter().all(|(announced, pause)| pause <= announced), "{pauses:?}");
    let kept = pauses.iter().filter(|(announced, pause)| pause == announced);
    assert!(kept.count() >= 3, "{pauses:?}");
}

#[test]
fn who_is_denied_waits_from_half_a_minute_to_five() {
    backs_off(&mut unreadable(ErrorKind::Forbidden), &[30, 60, 120, 240, 300]);
}

#[test]
fn who_meets_no_such_kind_waits_from_half_a_minute_to_five() {
    backs_off(&mut super::scenarios::unserved("DPUCluster"), &[30, 60, 120, 240, 300]);
}

/// A `Retry-After` of the server has priority over the table.
#[test]
fn retry_after_determines_the_delay() {
    let retry_after = Duration::from_secs(100);
    let busy =
        Failure { retry_after: Some(retry_after), ..Failure::new(ErrorKind::Throttled, "too many requests") };
    let is_heeded = |mut bench: Bench| {
        bench.transitions();
        bench.passes.clear();
        let pauses = pauses(&mut bench);
        assert!(
            pauses.len() > 10 && pauses.iter().all(|pause| *pause == (retry_after, retry_after)),
            "{pauses:?}"
        );
    };
    let mut bench = unanswered(busy.clone());
    bench.cluster.advance(Duration::from_secs(10));
    let (found, message) = condition(&mut bench);
    assert_eq!(found, "False/DPUClusterAccessError");
    assert!(message.ends_with("too many requests"), "{message}");
    is_heeded(bench);

    let mut bench = Bench::new();
    bench.cluster.interfere(move |_, action| match action.name() {
        "patch_status" => FaultVerdict::Failed(busy.clone()),
        _ => FaultVerdict::Served,
    });
    bench.create(&bridge("prod"));
    is_heeded(bench);
}

#[test]
fn who_meets_no_server_waits_from_five_seconds_to_a_minute() {
    backs_off(&mut unreadable(ErrorKind::Unavailable), &[5, 10, 20, 40, 60, 60]);
}

#[test]
fn validate_dpucluster_cross_namespace() {
    let mut bench = Bench::ready();
    let bridge = bench.bridge("prod");
    assert_ne!(bridge["metadata"]["namespace"], bridge["spec"]["dpuClusterRef"]["namespace"]);
    assert!(condition(&mut bench).1.contains(DPF));
}

#[test]
fn validate_dpucluster_status_update_failure() {
    let mut bench = Bench::new();
    bench.cluster.interfere(|_, action| {
        if action.name() == "patch_status" {
            FaultVerdict::failed(ErrorKind::Unavailable)
        } else {
            FaultVerdict::Served
        }
    });
    bench.create(&bridge("prod"));
    backs_off(&mut bench, &[1, 2, 4, 8, 16, 32, 60, 60]);
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.phase("prod"), "Ready");
}

#[test]
fn validate_dpucluster_spec_change() {
    // The CRD forbids this change; the controller follows an object that was changed anyway.
    let mut bench = Bench::new();
    bench.admit_anything();
    let mut other = dpu_cluster("others");
    other["metadata"]["namespace"] = json!(NAMESPACE);
    bench.create(&other);
    let mut wanted = bridge("prod");
    wanted["spec"]["dpuClusterRef"]["name"] = json!("missing");
    bench.create(&wanted);
    bench.settle();
    assert_eq!(condition(&mut bench).0, "False/DPUClusterNotFound");
    bench.change("prod", &json!({ "dpuClusterRef": { "name": "others", "namespace": NAMESPACE } }));
    bench.settle();
    let (found, message) = condition(&mut bench);
    assert_eq!(found, "True/DPUClusterFound");
    assert!(message.contains("'others' found in namespace 'dpf-hcp-bridge-system'"), "{message}");
    assert_eq!(bench.bridge("prod")["status"]["observedGeneration"], 2);
}

#[test]
fn validate_dpucluster_idempotent_condition_update() {
    let mut bench = Bench::ready();
    let before = bench.bridge("prod");
    bench.cluster.journal.clear();
    bench.merge("DPUCluster", DPF, "dpus", &json!({ "metadata": { "labels": { "touched": "yes" } } }));
    bench.cluster.advance(Duration::from_mins(21));
    let after = bench.bridge("prod");
    assert_eq!(after["status"], before["status"]);
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    // A write that changes nothing leaves the resource version as it is, and is a write all the same.
    let writes: Vec<_> = bench.cluster.carried().filter(|(_, carried)| carried.action.is_write()).collect();
    assert!(writes.is_empty(), "{writes:?}");
}

#[test]
fn a_dpucluster_wakes_its_own_bridges_only() {
    let mut bench = Bench::new();
    for (index, name) in ["one", "two", "three"].into_iter().enumerate() {
        bench.create(&dpu_cluster(name));
        let mut wanted = bridge(name);
        wanted["spec"]["dpuClusterRef"]["name"] = json!(name);
        wanted["spec"]["metalLBVirtualIP"] = json!(format!("192.0.2.{}", 30 + index));
        bench.create(&wanted);
    }
    bench.settle();
    bench.transitions();
    bench.notes.clear();
    bench.delete("DPUCluster", DPF, "two");
    bench.settle();
    bench.transitions();
    let reconciled = bench.notes.iter().filter_map(|note| match note {
        Note::Reconciled { object, .. } => Some(object.name.as_str()),
        _ => None,
    });
    let mut reconciled: Vec<&str> = reconciled.collect();
    reconciled.dedup();
    assert_eq!(reconciled, ["two"]);
}
