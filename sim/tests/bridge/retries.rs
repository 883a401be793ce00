//! Writes that fail and are retried: the status names the cause.

use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind};
use lockstep_sim::cluster::{Entry, FaultVerdict, What};
use serde_json::json;

use super::bench::Bench;
use super::objects::{NAMESPACE, UPGRADE, bridge};
use super::scenarios::{creation_unavailable, is, refuse, with};

const RETRIED: &str = "(the last attempt failed: unavailable: injected; it is retried)";

/// Returns the number of status writes since the last call.
fn status_writes(bench: &mut Bench) -> usize {
    let writes = bench.cluster.carried().filter(|(_, carried)| carried.action.name() == "patch_status");
    let count = writes.count();
    bench.transitions();
    count
}

/// For example, the webhook of HyperShift has no endpoints.
#[test]
fn a_creation_that_fails_again_and_again_is_reported_once_and_goes_on() {
    let mut bench = creation_unavailable();
    let (created, message) = bench.condition("prod", "HostedClusterCreated");
    assert_eq!(
        (created.as_str(), message.as_str()),
        ("False/CreationFailed", "the HostedCluster can't be created: injected")
    );
    assert_eq!(bench.condition("prod", "Ready"), ("False/ValidationFailed".to_owned(), message));
    assert_eq!(bench.phase("prod"), "Failed");
    let event = "Warning CreationFailed: the HostedCluster can't be created: injected";
    assert_eq!(bench.events().matches(event).count(), 1, "{}", bench.events());
    status_writes(&mut bench);
    bench.cluster.advance(Duration::from_mins(20));
    assert_eq!(status_writes(&mut bench), 0, "a retry that fails in the same way changes nothing");
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready");

    // The next failure is the first again.
    refuse(&mut bench, ErrorKind::Unavailable, |action| is(action, "create", "HostedCluster"));
    bench.delete("HostedCluster", NAMESPACE, "prod");
    let mut created = bench.condition("prod", "HostedClusterCreated");
    for _ in 0..120 {
        if !created.1.ends_with(RETRIED) {
            bench.cluster.advance(Duration::from_secs(1));
            created = bench.condition("prod", "HostedClusterCreated");
        }
    }
    let expected = format!("HostedCluster '{NAMESPACE}/prod' was deleted {RETRIED}");
    assert_eq!(created, ("False/Deleted".to_owned(), expected));
}

#[test]
fn a_creation_that_fails_once_is_no_failure() {
    let mut bench = Bench::new();
    let mut failures = 0;
    bench.cluster.interfere(move |_, action| {
        let is_creation = is(action, "create", "HostedCluster");
        failures += u32::from(is_creation);
        if is_creation && failures == 1 {
            FaultVerdict::failed(ErrorKind::Unavailable)
        } else {
            FaultVerdict::Served
        }
    });
    bench.create(&bridge("prod"));
    bench.settle();
    let message = format!("the HostedCluster is not created yet {RETRIED}");
    let is_named = |entry: &Entry| match &entry.what {
        What::Changed(change) => change.new.as_deref().is_some_and(|new| new["status"]["message"] == message),
        _ => false,
    };
    assert!(bench.cluster.journal.iter().any(is_named), "{message}");
    assert_eq!(bench.phase("prod"), "Ready");
    bench.transitions();
    assert!(!bench.edges.iter().any(|(_, after)| after == "Failed"), "{:?}", bench.edges);
    assert!(!bench.bridge("prod").to_string().contains("last attempt"));
}

/// A condition, its status and reason while a write fails, which write that is, and a change of the spec.
type Failing = (&'static str, &'static str, fn(&Action) -> bool, Option<serde_json::Value>);

#[test]
fn every_condition_names_the_write_that_it_waits_for() {
    let upgrade = Some(json!({ "ocpReleaseImage": UPGRADE }));
    let table: [Failing; 5] = [
        ("NodePoolReady", "Unknown/WaitingForNodes", |action| is(action, "create", "NodePool"), None),
        ("ServiceExposureReady", "False/LoadBalancerPending", |action| is(action, "patch", "Service"), None),
        ("KubeconfigInjected", "False/KubeconfigPending", |action| is(action, "patch", "DPUCluster"), None),
        (
            "SpecApplied",
            "Unknown/UpdatePending",
            |action| is(action, "apply", "HostedCluster"),
            upgrade.clone(),
        ),
        ("SpecApplied", "Unknown/UpdatePending", |action| is(action, "apply", "NodePool"), upgrade),
    ];
    for (condition, reason, fails, change) in table {
        let mut bench = match change {
            None => with(|bench| refuse(bench, ErrorKind::Unavailable, fails)),
            Some(change) => {
                let mut bench = Bench::ready();
                refuse(&mut bench, ErrorKind::Unavailable, fails);
                bench.change("prod", &change);
                bench
            }
        };
        bench.cluster.advance(Duration::from_mins(10));
        let (found, message) = bench.condition("prod", condition);
        assert_eq!(found, reason, "{message}");
        assert!(message.ends_with(RETRIED), "{condition}: {message}");
        status_writes(&mut bench);
        bench.cluster.advance(Duration::from_mins(10));
        assert_eq!(status_writes(&mut bench), 0, "{condition}");
        bench.cluster.interfere(|_, _| FaultVerdict::Served);
        bench.settle();
        assert!(!bench.bridge("prod").to_string().contains("last attempt"), "{condition}");
    }
}
