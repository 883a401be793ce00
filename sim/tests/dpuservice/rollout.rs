//! Pausing a service, and changing few of its clusters at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_engine::action::ErrorKind;
use lockstep_external::argocd::repo_server_outage;
use lockstep_external::dpu_clusters::UNREACHABLE;
use lockstep_external::dpu_clusters::release::{BROKEN, DEGRADED, MISSING};
use lockstep_sim::cluster::{Author, FaultVerdict, What};
use serde_json::{Value, json};

use super::bench::{Bench, DPF, operator};
use super::user::User as _;

const CLUSTERS: [&str; 5] = ["dpu-01", "dpu-02", "dpu-03", "dpu-04", "dpu-05"];
const WHILE: Duration = Duration::from_mins(30);

/// Returns a service on five clusters, with these further fields in its spec.
fn bench(spec: &Value) -> Bench {
    let mut bench = Bench::serving(&CLUSTERS);
    change(&mut bench, spec);
    bench.cluster.advance(WHILE);
    bench.story();
    bench
}

fn limited(limit: &Value) -> Bench {
    bench(&json!({ "rollout": { "maxUnavailable": limit } }))
}

fn change(bench: &mut Bench, spec: &Value) {
    bench.cluster.merge("DPUService", "default", "hbn", &json!({ "spec": spec }));
}

fn choose(bench: &mut Bench, version: &str) {
    change(bench, &json!({ "source": { "version": version } }));
    bench.cluster.advance(WHILE);
}

/// Returns the clusters with an Application that names a version.
fn with_version(bench: &mut Bench, version: &str) -> Vec<&'static str> {
    let has = |cluster: &&str| {
        let application = bench.application(&format!("hbn-{}", &cluster[4..]));
        application["spec"]["source"]["targetRevision"] == version
    };
    CLUSTERS.into_iter().filter(has).collect()
}

fn set_reachable(bench: &mut Bench, cluster: &str, reachable: bool) {
    let unreachable = if reachable { Value::Null } else { json!("true") };
    let patch = json!({ "metadata": { "annotations": { UNREACHABLE: unreachable } } });
    bench.cluster.merge("DPUCluster", DPF, cluster, &patch);
    bench.cluster.advance(Duration::from_mins(5));
}

/// Stops Argo CD's repo-server, or starts it again.
fn set_repo_server(bench: &mut Bench, answers: bool) {
    let outage = repo_server_outage();
    let namespace = outage.namespace.as_deref().expect("a namespace");
    if answers {
        bench.cluster.delete("ConfigMap", namespace, &outage.name);
    } else {
        bench.cluster.create(&json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "namespace": namespace, "name": outage.name },
        }));
    }
    bench.cluster.advance(Duration::from_mins(5));
}

/// Returns the largest number of Applications at a time that had a version and were not reported as healthy with it.
fn most_in_change(bench: &Bench, version: &str) -> usize {
    let (mut in_change, mut most) = (BTreeSet::new(), 0);
    for entry in &bench.cluster.journal {
        let What::Changed(change) = &entry.what else { continue };
        let Some(new) = change.new.as_deref().filter(|_| change.object.kind.kind == "Application") else {
            continue;
        };
        let (status, compared) = (&new["status"], &new["status"]["sync"]["comparedTo"]["source"]);
        let is_well = compared["targetRevision"] == version
            && (&status["sync"]["status"], &status["health"]["status"])
                == (&json!("Synced"), &json!("Healthy"));
        if new["spec"]["source"]["targetRevision"] == version && !is_well {
            in_change.insert(change.object.name.clone());
        } else {
            in_change.remove(&change.object.name);
        }
        most = most.max(in_change.len());
    }
    most
}

fn writes_of_applications(bench: &Bench) -> usize {
    let is_write = |what: &What| match what {
        What::Changed(change) => {
            change.object.kind.kind == "Application" && matches!(change.by, Author::Process(_))
        }
        _ => false,
    };
    bench.cluster.journal.iter().filter(|entry| is_write(&entry.what)).count()
}

/// A policy refuses to change the Application of one cluster, which is the first in the order of the rollout.
#[test]
fn a_refused_application_does_not_keep_the_others_from_a_change() {
    let mut bench = limited(&json!(1));
    bench.fail_writes("hbn-01", ErrorKind::Forbidden);
    choose(&mut bench, "v2.0.0");
    assert_eq!(with_version(&mut bench, "v2.0.0"), CLUSTERS[1..], "{}", bench.conditions("hbn"));
    assert_eq!(most_in_change(&bench, "v2.0.0"), 1);
    let (state, message) = bench.condition("hbn", "RolledOut");
    assert_eq!(state, "False/RollingOut");
    assert!(message.ends_with("which can't be changed: dpu-01"), "{message}");
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(WHILE);
    assert_eq!(with_version(&mut bench, "v2.0.0"), CLUSTERS);
}

#[test]
fn a_paused_service_changes_no_application_until_it_is_no_longer_paused() {
    let mut bench = bench(&json!({ "paused": true }));
    assert_eq!(bench.ready("hbn"), "True/Success", "nothing is pending: {}", bench.conditions("hbn"));
    assert_eq!(bench.condition("hbn", "Paused").0, "True/Paused");
    choose(&mut bench, "v2.0.0");
    bench.cluster.merge(
        "Application",
        ARGO_NAMESPACE,
        "hbn-02",
        &json!({ "spec": { "syncPolicy": { "automated": null } } }),
    );
    bench.join("dpu-06");
    bench.cluster.advance(WHILE);
    assert_eq!(writes_of_applications(&bench), 0, "neither updated, repaired nor created");
    let (state, message) = bench.condition("hbn", "ApplicationsReconciled");
    assert_eq!(state, "False/Paused");
    assert!(
        message.starts_with("6 of 6 Applications: dpu-01, ") && message.ends_with("(the service is paused)"),
        "{message}"
    );
    assert_eq!(bench.ready("hbn"), "False/Paused");
    change(&mut bench, &json!({ "paused": null }));
    bench.cluster.advance(WHILE);
    assert_eq!(with_version(&mut bench, "v2.0.0"), CLUSTERS);
    assert_eq!(bench.condition("hbn", "Paused").0, "absent");
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
    insta::assert_snapshot!("events_of_a_paused_service", bench.events());
}

#[test]
fn a_paused_service_leaves_a_deleted_cluster_and_is_itself_deleted() {
    let mut bench = bench(&json!({ "paused": true }));
    bench.cluster.delete("DPUCluster", DPF, "dpu-05");
    bench.cluster.advance(WHILE);
    assert_eq!(bench.in_argo("Application").len(), 4);
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.cluster.advance(WHILE);
    assert!(bench.in_argo("Application").is_empty());
}

#[test]
fn no_more_clusters_change_at_a_time_than_the_service_permits() {
    for (limit, most) in [(json!(1), 1), (json!("40%"), 2), (json!(3), 3)] {
        let mut bench = limited(&limit);
        choose(&mut bench, "v2.0.0");
        assert_eq!(with_version(&mut bench, "v2.0.0"), CLUSTERS);
        assert_eq!(most_in_change(&bench, "v2.0.0"), most, "{limit}");
        assert_eq!(bench.condition("hbn", "RolledOut").0, "True/AllClustersChanged");
    }
    let mut bench = bench(&json!({}));
    choose(&mut bench, "v2.0.0");
    assert_eq!(most_in_change(&bench, "v2.0.0"), 5, "without a limit, all change at once");
    assert_eq!(bench.condition("hbn", "RolledOut").0, "absent");
}

#[test]
fn a_bad_version_halts_and_the_corrected_one_reaches_the_broken_clusters_first() {
    let mut bench = limited(&json!(2));
    choose(&mut bench, BROKEN);
    let broken = with_version(&mut bench, BROKEN);
    assert_eq!(broken.len(), 2);
    let (state, message) = bench.condition("hbn", "RolledOut");
    assert_eq!(state, "False/Halted");
    let expected = "no further cluster is brought to generation 3, because as many are not ready as \
                    spec.rollout.maxUnavailable permits (2), such as dpu-01, dpu-02; ";
    assert!(message.starts_with(expected), "{message}");
    assert!(bench.events().contains("Warning RolledOutHalted: "), "{}", bench.events());
    change(&mut bench, &json!({ "source": { "version": "v3.0.0" } }));
    bench.cluster.advance(Duration::from_secs(1));
    assert_eq!(with_version(&mut bench, "v3.0.0"), broken);
    bench.cluster.advance(WHILE);
    assert_eq!(with_version(&mut bench, "v3.0.0"), CLUSTERS);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// Argo CD never reports pods that do not start as failed.
#[test]
fn a_rollout_that_waits_for_progress_says_since_when() {
    let mut bench = limited(&json!(1));
    // Nothing becomes healthy on the clusters.
    bench.cluster.pause(1, Duration::from_hours(10));
    choose(&mut bench, "v2.0.0");
    let said = bench.condition("hbn", "RolledOut");
    let since = bench.application("hbn-01")["status"]["health"]["lastTransitionTime"].clone();
    let since = since.as_str().expect("a time");
    let expected = format!("; not ready yet: dpu-01 (Progressing since {since})");
    assert!(said.0 == "False/RollingOut" && said.1.ends_with(&expected), "{said:?}");
    bench.cluster.advance(WHILE);
    assert_eq!(bench.condition("hbn", "RolledOut"), said, "it is not written again");
    assert_eq!(with_version(&mut bench, "v2.0.0"), ["dpu-01"]);
}

#[test]
fn a_halted_rollout_stays_halted_when_the_leader_changes() {
    let mut bench = limited(&json!(1));
    choose(&mut bench, BROKEN);
    let before = with_version(&mut bench, BROKEN);
    bench.cluster.crash(0, None);
    bench.cluster.start(operator, true);
    bench.cluster.advance(WHILE);
    assert_eq!(with_version(&mut bench, BROKEN), before);
    assert_eq!(before.len(), 1);
    assert_eq!(bench.condition("hbn", "RolledOut").0, "False/Halted");
}

fn with_canaries(canaries: &[&str]) -> Bench {
    let canaries: Vec<String> = canaries.iter().map(|cluster| format!("{DPF}/{cluster}")).collect();
    bench(&json!({ "rollout": { "maxUnavailable": "100%", "canaries": canaries } }))
}

#[test]
fn canaries_get_a_change_first() {
    let mut bench = with_canaries(&["dpu-04", "dpu-02", "unknown"]);
    change(&mut bench, &json!({ "source": { "version": "v2.0.0" } }));
    bench.cluster.advance(Duration::from_secs(1));
    assert_eq!(with_version(&mut bench, "v2.0.0"), ["dpu-02", "dpu-04"]);
    let (_, message) = bench.condition("hbn", "ApplicationsReconciled");
    assert!(message.contains(": dpu-01, dpu-03, dpu-05 (waiting for spec.rollout.canaries)"), "{message}");
    assert_eq!(bench.condition("hbn", "RolledOut").0, "False/RollingOut");
    bench.cluster.advance(WHILE);
    assert_eq!(with_version(&mut bench, "v2.0.0"), CLUSTERS);
    assert_eq!(bench.condition("hbn", "RolledOut").0, "True/AllClustersChanged");
}

#[test]
fn a_version_that_breaks_a_canary_reaches_no_other_cluster() {
    let mut bench = with_canaries(&["dpu-02"]);
    choose(&mut bench, BROKEN);
    assert_eq!(with_version(&mut bench, BROKEN), ["dpu-02"]);
    let (state, message) = bench.condition("hbn", "RolledOut");
    assert_eq!(state, "False/Halted");
    assert_eq!(
        message,
        "no further cluster is brought to generation 3, because these clusters in spec.rollout.canaries are not ready with \
         it: dpu-02; correct the service, or what ApplicationsReady reports"
    );
    bench.cluster.crash(0, None);
    bench.cluster.start(operator, true);
    choose(&mut bench, "v3.0.0");
    assert_eq!(with_version(&mut bench, "v3.0.0"), CLUSTERS);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

#[test]
fn nothing_changes_while_no_canary_has_the_service_or_one_is_down() {
    let mut bench = with_canaries(&["unknown"]);
    choose(&mut bench, "v2.0.0");
    assert!(with_version(&mut bench, "v2.0.0").is_empty());
    let (state, message) = bench.condition("hbn", "RolledOut");
    assert_eq!(state, "False/Halted");
    assert_eq!(
        message,
        "no further cluster is brought to generation 3, because none of the clusters in spec.rollout.canaries has the \
         service; correct the list"
    );
    set_reachable(&mut bench, "dpu-03", false);
    change(&mut bench, &json!({ "rollout": { "canaries": [format!("{DPF}/dpu-03")] } }));
    bench.cluster.advance(WHILE);
    assert!(with_version(&mut bench, "v2.0.0").is_empty());
    assert_eq!(bench.condition("hbn", "RolledOut").0, "False/Halted");
    set_reachable(&mut bench, "dpu-03", true);
    bench.cluster.advance(WHILE);
    assert_eq!(with_version(&mut bench, "v2.0.0"), CLUSTERS);
}

#[test]
fn clusters_that_were_down_before_neither_delay_the_others_nor_get_a_bad_version() {
    let mut bench = limited(&json!(1));
    for cluster in ["dpu-01", "dpu-04"] {
        set_reachable(&mut bench, cluster, false);
    }
    choose(&mut bench, BROKEN);
    assert_eq!(with_version(&mut bench, BROKEN), ["dpu-02"]);
    choose(&mut bench, "v2.0.0");
    assert_eq!(with_version(&mut bench, "v2.0.0"), CLUSTERS, "they have it when they return");
    assert_eq!(bench.condition("hbn", "RolledOut").0, "True/AllClustersChanged");
}

#[test]
fn a_cluster_that_returns_during_a_halted_rollout_keeps_its_version() {
    let mut bench = limited(&json!(1));
    set_reachable(&mut bench, "dpu-01", false);
    choose(&mut bench, BROKEN);
    set_reachable(&mut bench, "dpu-01", true);
    bench.cluster.advance(WHILE);
    assert_eq!(with_version(&mut bench, BROKEN), ["dpu-02"]);
    let (_, message) = bench.condition("hbn", "ApplicationsReconciled");
    assert!(
        message.contains(": dpu-01, dpu-03, dpu-04, dpu-05 (waiting for its turn in the rollout)"),
        "{message}"
    );
}

#[test]
fn changed_values_are_rolled_out_like_a_version() {
    let mut bench = limited(&json!(2));
    change(&mut bench, &json!({ "values": { DEGRADED: true } }));
    bench.cluster.advance(WHILE);
    let degraded: Vec<bool> = CLUSTERS
        .iter()
        .map(|cluster| {
            let application = bench.application(&format!("hbn-{}", &cluster[4..]));
            application["spec"]["source"]["helm"]["valuesObject"][DEGRADED] == true
        })
        .collect();
    assert_eq!(degraded, [true, true, false, false, false]);
}

/// Argo CD reports an Application that it can't compare as Healthy, with an unknown sync status. What runs stays as it is.
#[test]
fn a_change_keeps_the_limit_while_argo_cd_compares_nothing() {
    let mut bench = limited(&json!(1));
    set_repo_server(&mut bench, false);
    let (state, message) = bench.condition("hbn", "ApplicationsReady");
    assert!(state == "False/Failure" && message.contains("(Unknown, Healthy: "), "{state}: {message}");
    choose(&mut bench, BROKEN);
    assert_eq!(with_version(&mut bench, BROKEN), ["dpu-01"]);
    assert_eq!(bench.condition("hbn", "RolledOut").0, "False/Halted");
    set_repo_server(&mut bench, true);
    bench.cluster.advance(WHILE);
    assert_eq!(with_version(&mut bench, BROKEN), ["dpu-01"], "the others keep what works");
    choose(&mut bench, "v2.0.0");
    assert_eq!(with_version(&mut bench, "v2.0.0"), CLUSTERS);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

#[test]
fn a_change_waits_for_the_canaries_while_argo_cd_compares_nothing() {
    let mut bench = with_canaries(&["dpu-02"]);
    set_repo_server(&mut bench, false);
    choose(&mut bench, BROKEN);
    assert_eq!(with_version(&mut bench, BROKEN), ["dpu-02"]);
    set_repo_server(&mut bench, true);
    bench.cluster.advance(WHILE);
    assert_eq!(with_version(&mut bench, BROKEN), ["dpu-02"]);
}

/// No Application occupies a place because Argo CD can't compare it, so the correction begins.
#[test]
fn the_correction_of_a_version_that_no_repository_has_keeps_the_limit() {
    let mut bench = bench(&json!({}));
    choose(&mut bench, MISSING);
    assert_eq!(with_version(&mut bench, MISSING), CLUSTERS, "without a limit");
    change(&mut bench, &json!({ "rollout": { "maxUnavailable": 2 } }));
    choose(&mut bench, "v2.0.0");
    assert_eq!(with_version(&mut bench, "v2.0.0"), CLUSTERS);
    assert_eq!(most_in_change(&bench, "v2.0.0"), 2);
    choose(&mut bench, MISSING);
    let tried = with_version(&mut bench, MISSING);
    assert_eq!((tried.len(), &*bench.condition("hbn", "RolledOut").0), (2, "False/Halted"));
    change(&mut bench, &json!({ "source": { "version": "v3.0.0" } }));
    bench.cluster.advance(Duration::from_secs(1));
    assert_eq!(with_version(&mut bench, "v3.0.0"), tried);
    bench.cluster.advance(WHILE);
    assert_eq!(with_version(&mut bench, "v3.0.0"), CLUSTERS);
}

/// A newer chart within the range reaches all clusters without a change of the service.
#[test]
fn a_range_of_versions_is_reported_because_no_limit_holds_for_it() {
    let mut bench = limited(&json!(1));
    choose(&mut bench, "1.x");
    assert_eq!(with_version(&mut bench, "1.x"), CLUSTERS);
    let (state, message) = bench.condition("hbn", "RolledOut");
    assert_eq!(state, "True/AllClustersChanged");
    let words = "; version 1.x is a range: Argo CD moves every cluster to a newer chart at once, without regard to \
                 spec.rollout; name one version";
    assert!(message.ends_with(words), "{message}");
    choose(&mut bench, "v2.0.0");
    assert!(!bench.condition("hbn", "RolledOut").1.contains("range"));
}
