//! Broken clusters do not delay the others, and the status reports the problem of each.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_engine::action::ErrorKind;
use lockstep_external::dpu_clusters::{Access, UNREACHABLE};
use lockstep_sim::cluster::FaultVerdict;
use serde_json::{Value, json};

use super::bench::{Bench, DPF, TOKEN, dpu_cluster, kubeconfig, server, service};
use super::user::User as _;

/// Returns ten clusters: one without a kubeconfig, one with a malformed kubeconfig, and one that is unreachable.
fn ten_clusters() -> Bench {
    let mut bench = Bench::new();
    for number in 1..=7 {
        bench.join(&format!("dpu-{number:02}"));
    }
    let mut without = dpu_cluster(DPF, "dpu-08");
    without["spec"]["kubeconfig"] = Value::Null;
    bench.cluster.create(&without);
    let mut malformed = kubeconfig(DPF, "dpu-09", &Access::by_token(&server("dpu-09"), TOKEN));
    malformed["data"] = json!({ "super-admin.conf": "bm90IGEga3ViZWNvbmZpZw==" });
    bench.cluster.create(&malformed);
    bench.cluster.create(&dpu_cluster(DPF, "dpu-09"));
    bench.join("dpu-10");
    let cut_off = json!({ "metadata": { "annotations": { UNREACHABLE: "true" } } });
    bench.cluster.merge("DPUCluster", DPF, "dpu-10", &cut_off);
    bench
}

fn well(bench: &mut Bench, clusters: &[u32]) {
    let status = bench.service("hbn")["status"].clone();
    for number in clusters {
        let cluster = format!("dpu-{number:02}");
        assert_eq!(status["health"][&cluster]["status"], "Healthy", "{cluster}: {status:#}");
        assert_eq!(status["sync"][&cluster]["status"], "Synced", "{cluster}");
        assert_eq!(bench.runs_on(&cluster), ["hbn"], "{cluster}");
    }
}

#[test]
fn seven_of_ten_clusters_converge_and_stay_so() {
    let mut bench = ten_clusters();
    bench.cluster.create(&service("hbn"));
    bench.settle();
    let sound: Vec<u32> = (1..=7).collect();
    well(&mut bench, &sound);
    assert_eq!(bench.service("hbn")["status"]["rollout"]["clusters"], "7/10");
    insta::assert_snapshot!("conditions_with_three_of_ten_broken", bench.conditions("hbn"));

    // They remain so, and broken clusters are not retried all the time.
    bench.story();
    bench.cluster.advance(Duration::from_hours(1));
    well(&mut bench, &sound);
    assert_eq!(bench.writes(), Vec::<String>::new());

    // Changes reach the healthy clusters.
    let change = json!({ "spec": { "source": { "version": "v2.0.0" } } });
    bench.cluster.merge("DPUService", "default", "hbn", &change);
    bench.settle();
    well(&mut bench, &sound);
    for number in &sound {
        let application = bench.application(&format!("hbn-{number:02}"));
        assert_eq!(application["status"]["sync"]["revision"], "v2.0.0");
    }

    // A fix is picked up immediately.
    bench.cluster.create(&kubeconfig(DPF, "dpu-08", &Access::by_token(&server("dpu-08"), TOKEN)));
    let named = json!({ "spec": { "kubeconfig": "dpu-08-admin-kubeconfig" } });
    bench.cluster.merge("DPUCluster", DPF, "dpu-08", &named);
    bench.rotate("dpu-09", &Access::by_token(&server("dpu-09"), TOKEN));
    let back = json!({ "metadata": { "annotations": { UNREACHABLE: null } } });
    bench.cluster.merge("DPUCluster", DPF, "dpu-10", &back);
    bench.cluster.advance(Duration::from_mins(5));
    well(&mut bench, &(1..=10).collect::<Vec<_>>());
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

#[test]
fn a_kubeconfig_that_breaks_takes_nothing_down() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    let broken = json!({ "data": { "super-admin.conf": "bm9uZQ==" } });
    bench.cluster.merge("Secret", DPF, "dpu-01-admin-kubeconfig", &broken);
    bench.cluster.advance(Duration::from_secs(2));
    let (secrets, message) = bench.condition("hbn", "ClusterSecretsReconciled");
    assert_eq!(secrets, "False/Error", "{message}");
    assert_eq!(bench.in_argo("Secret").len(), 2, "the last one that worked is kept");
    let change = json!({ "spec": { "source": { "version": "v2.0.0" } } });
    bench.cluster.merge("DPUService", "default", "hbn", &change);
    bench.settle();
    let application = bench.application("hbn-01");
    assert_eq!(application["spec"]["source"]["targetRevision"], "v2.0.0");
}

/// Argo CD repeats its last observation, as long as no change for that cluster is pending.
#[test]
fn what_may_be_stale_is_named_with_the_time_since_when() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    let unreachable = |value: Value| json!({ "metadata": { "annotations": { UNREACHABLE: value } } });
    bench.cluster.advance(Duration::from_hours(1));
    bench.cluster.merge("DPUCluster", DPF, "dpu-02", &unreachable(json!("true")));
    bench.cluster.advance(Duration::from_mins(5));
    let dpu_cluster = bench.cluster.get("DPUCluster", DPF, "dpu-02");
    let conditions = dpu_cluster["status"]["conditions"].as_array().expect("conditions");
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").expect("Ready");
    let since = ready["lastTransitionTime"].as_str().expect("a time");
    let status = bench.service("hbn")["status"].clone();
    assert_eq!(status["health"]["dpu-02"]["status"], "Healthy", "as Argo CD says");
    let rollout = json!({ "sync": "Synced", "health": "Healthy", "clusters": "1/2", "staleSince": { "dpu-02": since } });
    assert_eq!(status["rollout"], rollout);
    let (state, message) = bench.condition("hbn", "DPUClustersReady");
    let expected = format!("1 of 2 DPUClusters are not ready: dpu-02 (NotReady since {since}: ");
    assert!(state == "False/NotReady" && message.starts_with(&expected), "{state}: {message}");
    let (state, message) = bench.condition("hbn", "ApplicationsReady");
    assert!(state == "True/Success" && message.ends_with("this may be stale: dpu-02"), "{state}: {message}");

    bench.story();
    bench.cluster.advance(Duration::from_hours(1));
    assert_eq!(bench.writes(), Vec::<String>::new());
    bench.cluster.merge("DPUCluster", DPF, "dpu-02", &unreachable(Value::Null));
    bench.cluster.advance(Duration::from_mins(2));
    let rollout = json!({ "sync": "Synced", "health": "Healthy", "clusters": "2/2" });
    assert_eq!(bench.service("hbn")["status"]["rollout"], rollout);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// DPF leaves its condition `Ready` True if another one makes the phase `NotReady`.
#[test]
fn a_cluster_that_another_condition_makes_unready_is_named_with_the_time_of_that_condition() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    bench.cluster.advance(Duration::from_hours(1));
    let mut conditions = bench.cluster.get("DPUCluster", DPF, "dpu-02")["status"]["conditions"].clone();
    let since = "2030-01-01T00:00:00Z";
    conditions.as_array_mut().expect("conditions").push(json!({
        "type": "KeepalivedReady",
        "status": "False",
        "reason": "NotRunning",
        "message": "keepalived does not run",
        "lastTransitionTime": since,
    }));
    let status = json!({ "status": { "conditions": conditions } });
    bench.cluster.merge("DPUCluster", DPF, "dpu-02/status", &status);
    bench.cluster.advance(Duration::from_mins(1));
    let conditions = bench.cluster.get("DPUCluster", DPF, "dpu-02")["status"]["conditions"].clone();
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    assert!(conditions.as_array().is_some_and(|all| all.iter().any(is_ready)), "{conditions:#}");
    assert_eq!(bench.service("hbn")["status"]["rollout"]["staleSince"], json!({ "dpu-02": since }));
    let (state, message) = bench.condition("hbn", "DPUClustersReady");
    let expected = format!("dpu-02 (NotReady since {since}: keepalived does not run)");
    assert!(state == "False/NotReady" && message.contains(&expected), "{state}: {message}");
}

/// An outage of any length: by default, Argo CD gives up on a change after five minutes.
#[test]
fn clusters_that_were_down_during_a_roll_out_are_deployed_within_two_minutes_of_their_return() {
    let unreachable = |value: Value| json!({ "metadata": { "annotations": { UNREACHABLE: value } } });
    for minutes in [1, 4, 7, 20, 100, 101] {
        let mut bench = Bench::serving(&["dpu-01", "dpu-02", "dpu-03"]);
        for cluster in ["dpu-02", "dpu-03"] {
            bench.cluster.merge("DPUCluster", DPF, cluster, &unreachable(json!("true")));
        }
        let change = json!({ "spec": { "source": { "version": "v2.0.0" } } });
        bench.cluster.merge("DPUService", "default", "hbn", &change);
        bench.cluster.advance(Duration::from_mins(minutes));
        let status = bench.service("hbn")["status"].clone();
        assert_eq!(status["rollout"]["clusters"], "1/3", "{minutes}: {}", bench.conditions("hbn"));
        if minutes > 1 {
            let (state, message) = bench.condition("hbn", "ApplicationsReady");
            assert_eq!(state, "False/Failure", "{minutes}: {message}");
            assert!(message.contains("no route to host"), "{minutes}: {message}");
        }
        for cluster in ["dpu-02", "dpu-03"] {
            bench.cluster.merge("DPUCluster", DPF, cluster, &unreachable(Value::Null));
        }
        bench.cluster.advance(Duration::from_mins(2));
        well(&mut bench, &[1, 2, 3]);
        assert_eq!(bench.ready("hbn"), "True/Success", "{minutes}: {}", bench.conditions("hbn"));
    }
}

/// Each attempt has the source with which its operation began. Between two attempts, a change ends the operation and does not
/// wait for a step that may take long.
#[test]
fn a_change_during_an_outage_is_deployed_within_two_minutes_of_its_end() {
    let unreachable = |value: Value| json!({ "metadata": { "annotations": { UNREACHABLE: value } } });
    for minutes in [1, 4, 20] {
        let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
        bench.cluster.merge("DPUCluster", DPF, "dpu-02", &unreachable(json!("true")));
        for version in ["v2.0.0", "v3.0.0"] {
            let change = json!({ "spec": { "source": { "version": version } } });
            bench.cluster.merge("DPUService", "default", "hbn", &change);
            bench.cluster.advance(Duration::from_mins(minutes));
        }
        bench.cluster.merge("DPUCluster", DPF, "dpu-02", &unreachable(Value::Null));
        bench.cluster.advance(Duration::from_mins(2));
        well(&mut bench, &[1, 2]);
        assert_eq!(bench.ready("hbn"), "True/Success", "{minutes}: {}", bench.conditions("hbn"));
    }
}

/// A failed chart is retried every minute: its fix does not wait any longer.
#[test]
fn the_fix_of_a_chart_that_fails_is_deployed_at_once() {
    let mut bench = Bench::serving(&["dpu-01"]);
    let values = |fails: Value| json!({ "spec": { "values": { "failingHook": fails } } });
    bench.cluster.merge("DPUService", "default", "hbn", &values(json!(true)));
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.ready("hbn"), "False/Failure", "{}", bench.conditions("hbn"));
    bench.cluster.merge("DPUService", "default", "hbn", &values(Value::Null));
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// Argo CD removes nothing while an operation is running, and this operation is retried forever.
#[test]
fn what_can_not_be_deployed_can_be_removed() {
    let unreachable = |value: Value| json!({ "metadata": { "annotations": { UNREACHABLE: value } } });
    for (values, outage) in [
        (json!({ "a": "another" }), true),
        (json!({ "failingHook": true }), false),
        (json!({ "hangingHook": true }), false),
    ] {
        let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
        if outage {
            bench.cluster.merge("DPUCluster", DPF, "dpu-01", &unreachable(json!("true")));
        }
        bench.cluster.merge("DPUService", "default", "hbn", &json!({ "spec": { "values": values } }));
        bench.cluster.advance(Duration::from_mins(20));
        bench.cluster.delete("DPUService", "default", "hbn");
        bench.cluster.advance(Duration::from_mins(1));
        bench.cluster.merge("DPUCluster", DPF, "dpu-01", &unreachable(Value::Null));
        bench.cluster.advance(Duration::from_mins(2));
        assert_eq!(bench.service("hbn"), Value::Null, "{values}: {}", bench.conditions("hbn"));
        assert_eq!(bench.runs_on("dpu-01"), Vec::<String>::new(), "{values}");
    }
}

/// A status does not report success while a write is missing.
#[test]
fn a_missing_write_is_reported() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    bench.fail_writes("hbn-02", ErrorKind::Unavailable);
    let change = json!({ "spec": { "source": { "version": "v2.0.0" } } });
    bench.cluster.merge("DPUService", "default", "hbn", &change);
    bench.cluster.advance(Duration::from_mins(2));
    insta::assert_snapshot!("conditions_with_a_write_that_fails", bench.conditions("hbn"));
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(Duration::from_mins(6));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));

    bench.fail_writes("dpu-02-argocd", ErrorKind::Unavailable);
    bench.rotate("dpu-02", &Access::by_token(&server("dpu-02"), "another"));
    bench.cluster.advance(Duration::from_mins(2));
    insta::assert_snapshot!("conditions_with_a_secret_that_fails", bench.conditions("hbn"));
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(Duration::from_mins(6));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// For any answer of the server: the status does not report success until the Application matches the service.
#[test]
fn no_answer_but_success_passes_for_a_write() {
    for class in ErrorKind::ALL {
        let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
        bench.fail_writes("hbn-02", class);
        let change = json!({ "spec": { "source": { "version": "v2.0.0" } } });
        bench.cluster.merge("DPUService", "default", "hbn", &change);
        bench.cluster.advance(Duration::from_secs(20));
        let service = bench.service("hbn");
        let is_current = service["status"]["observedGeneration"] == service["metadata"]["generation"];
        let (reconciled, message) = bench.condition("hbn", "ApplicationsReconciled");
        assert!(!is_current || reconciled.starts_with("False/"), "{class}: {reconciled}: {message}");
    }
}

#[test]
fn no_secret_value_is_exposed() {
    let mut bench = ten_clusters();
    bench.cluster.create(&service("hbn"));
    bench.settle();
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.settle();
    bench.story();
    let mut output = bench.events() + &bench.service("hbn").to_string();
    write!(output, "{:?}", bench.notes).expect("a string takes it");
    for object in bench.cluster.list("Application", ARGO_NAMESPACE) {
        output.push_str(&object.to_string());
    }
    let encoded = STANDARD.encode(TOKEN);
    for secret in [TOKEN, encoded.trim_end_matches('=')] {
        assert!(!output.contains(secret), "{secret}");
    }
    assert!(output.len() > 1000);
}

/// DPF, Argo CD and the kubeconfigs name each cluster, and its server, in the same message.
#[test]
fn a_cause_that_six_clusters_share_is_named_once() {
    let clusters = ["dpu-01", "dpu-02", "dpu-03", "dpu-04", "dpu-05", "dpu-06"];
    let named = clusters.join(", ");
    let mut bench = Bench::serving(&clusters);
    // One after the other, and Argo CD has a change for them.
    for cluster in clusters {
        let cut_off = json!({ "metadata": { "annotations": { UNREACHABLE: "true" } } });
        bench.cluster.merge("DPUCluster", DPF, cluster, &cut_off);
        bench.cluster.advance(Duration::from_secs(2));
    }
    let change = json!({ "spec": { "source": { "version": "v2.0.0" } } });
    bench.cluster.merge("DPUService", "default", "hbn", &change);
    bench.cluster.advance(Duration::from_mins(30));
    let (_, message) = bench.condition("hbn", "DPUClustersReady");
    let expected =
        format!("6 of 6 DPUClusters are not ready: {named} (NotReady: https://<server> does not answer.)");
    assert_eq!(message, expected);
    let (_, message) = bench.condition("hbn", "ApplicationsReady");
    let expected = format!("0 of 6 Applications are synced and healthy; not: {named} (");
    assert!(message.starts_with(&expected) && message.contains("https://<server>/"), "{message}");

    for cluster in clusters {
        let back = json!({ "metadata": { "annotations": { UNREACHABLE: null } } });
        bench.cluster.merge("DPUCluster", DPF, cluster, &back);
        let broken = json!({ "data": { "super-admin.conf": "bm9uZQ==" } });
        bench.cluster.merge("Secret", DPF, &format!("{cluster}-admin-kubeconfig"), &broken);
    }
    bench.cluster.advance(Duration::from_mins(30));
    let (_, message) = bench.condition("hbn", "Ready");
    let expected = format!(
        "ClusterSecretsReconciled: 6 of 6 clusters: {named} (Secret {DPF}/<cluster>-admin-kubeconfig can't be used: "
    );
    assert!(
        message.starts_with(&expected) && message.matches("kubeconfig in YAML").count() == 1,
        "{message}"
    );
}
