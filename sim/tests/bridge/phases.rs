//! The phases of a bridge: a run for each edge of the specification's table, and no other edge in any run.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_external::hypershift;
use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::{DPF, NAMESPACE, RELEASE, bridge, docker_config, dpu_cluster, pull_secret, secret};
use super::scenarios as when;

/// "Status Phases" and "Phase Transition Rules", line by line. A bridge starts without a phase, and then is Pending.
const EDGES: [(&str, &str); 11] = [
    ("none", "Pending"),
    ("Pending", "Provisioning"),
    ("Pending", "Failed"),
    ("Pending", "Deleting"),
    ("Provisioning", "Ready"),
    ("Provisioning", "Failed"),
    ("Provisioning", "Deleting"),
    ("Ready", "Failed"),
    ("Ready", "Deleting"),
    ("Failed", "Provisioning"),
    ("Failed", "Deleting"),
];

/// Returns whether one phase may follow another.
pub(super) fn is_edge((before, after): &(String, String)) -> bool {
    EDGES.contains(&(before, after))
}

/// The name of a flow, and the function that runs it.
type Flow = (&'static str, fn() -> Bench);

const FLOWS: &[Flow] = &[
    ("pending_fails_and_is_fixed", pending_fails_and_is_fixed),
    ("provisioning_fails_and_is_fixed", provisioning_fails_and_is_fixed),
    ("provisioning_loses_its_dpucluster", provisioning_loses_its_dpucluster),
    ("provisioning_takes_too_long_and_goes_on", provisioning_takes_too_long_and_goes_on),
    ("ready_fails_and_recovers", ready_fails_and_recovers),
    ("ready_comes_and_goes", ready_comes_and_goes),
    ("pending_is_deleted", pending_is_deleted),
    ("provisioning_is_deleted", provisioning_is_deleted),
    ("ready_is_deleted", ready_is_deleted),
    ("failed_is_deleted", failed_is_deleted),
];

#[test]
fn every_edge_of_the_table_is_taken_and_no_other() {
    let mut taken = BTreeSet::new();
    for (name, run) in FLOWS {
        let mut bench = run();
        insta::assert_snapshot!(*name, bench.transitions());
        taken.extend(bench.edges);
    }
    let edges = EDGES.map(|(before, after)| (before.to_owned(), after.to_owned()));
    assert_eq!(taken, BTreeSet::from(edges));
}

/// Waits until the bridge prod is in a phase.
fn reaches(bench: &mut Bench, phase: &str, within: Duration) {
    bench.cluster.advance(within);
    assert_eq!(bench.phase("prod"), phase, "{:#}", bench.bridge("prod")["status"]);
}

const SOON: Duration = Duration::from_mins(1);

fn pending_fails_and_is_fixed() -> Bench {
    let mut bench = Bench::new();
    bench.delete("Secret", NAMESPACE, "pull");
    bench.create(&bridge("prod"));
    reaches(&mut bench, "Pending", SOON);
    bench.create(&secret("pull", ".dockerconfigjson", "{"));
    reaches(&mut bench, "Failed", SOON);
    bench.merge("Secret", NAMESPACE, "pull", &json!({ "data": pull_secret()["data"] }));
    reaches(&mut bench, "Ready", SOON);
    bench
}

/// HyperShift can't continue with the image.
fn provisioning_fails_and_is_fixed() -> Bench {
    let mut bench = when::blocked();
    assert_eq!(bench.phase("prod"), "Failed");
    bench.change("prod", &json!({ "ocpReleaseImage": RELEASE }));
    reaches(&mut bench, "Ready", SOON);
    bench
}

fn provisioning_loses_its_dpucluster() -> Bench {
    let mut bench = when::load_balancer_pending();
    assert_eq!(bench.phase("prod"), "Provisioning");
    bench.delete("DPUCluster", DPF, "dpus");
    reaches(&mut bench, "Failed", SOON);
    bench.create(&dpu_cluster("dpus"));
    reaches(&mut bench, "Provisioning", SOON);
    bench
}

fn provisioning_takes_too_long_and_goes_on() -> Bench {
    let mut bench = Bench::new();
    bench.silence_for("IPAddressPool", Duration::from_mins(90));
    bench.create(&bridge("prod"));
    reaches(&mut bench, "Provisioning", Duration::from_mins(59));
    reaches(&mut bench, "Failed", Duration::from_mins(2));
    reaches(&mut bench, "Ready", Duration::from_mins(31));
    bench
}

/// The user fixes a problem of a cluster that was ready.
fn ready_fails_and_recovers() -> Bench {
    let mut bench = Bench::ready();
    let write = |bench: &mut Bench, content: &str| {
        let data = secret("pull", ".dockerconfigjson", content)["data"].clone();
        bench.merge("Secret", NAMESPACE, "pull", &json!({ "data": data }));
    };
    write(&mut bench, "{");
    reaches(&mut bench, "Failed", SOON);
    write(&mut bench, &docker_config("another-password"));
    reaches(&mut bench, "Ready", SOON);
    bench
}

/// The control plane is available, then unavailable, then available again.
fn ready_comes_and_goes() -> Bench {
    let mut bench = Bench::ready();
    when::ail(&mut bench, &json!(hypershift::FLAPPING));
    bench.cluster.advance(Duration::from_secs(10));
    when::ail(&mut bench, &Value::Null);
    reaches(&mut bench, "Ready", SOON);
    bench
}

/// Deletes the bridge prod in this phase, and waits until it is removed.
fn is_deleted(mut bench: Bench, phase: &str) -> Bench {
    assert_eq!(bench.phase("prod"), phase);
    bench.transitions();
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.cluster.advance(SOON);
    assert!(bench.bridge("prod").is_null(), "{:#}", bench.bridge("prod"));
    bench
}

fn pending_is_deleted() -> Bench {
    is_deleted(when::without_dpu_cluster(), "Pending")
}

fn provisioning_is_deleted() -> Bench {
    is_deleted(when::load_balancer_pending(), "Provisioning")
}

fn ready_is_deleted() -> Bench {
    is_deleted(Bench::ready(), "Ready")
}

fn failed_is_deleted() -> Bench {
    is_deleted(when::dpu_cluster_lost(), "Failed")
}
