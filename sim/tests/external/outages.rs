//! Argo CD's handling of Applications on clusters that can't be reached, or that refuse its credentials.

use std::time::Duration;

use lockstep_external::dpu_clusters::{Access, UNREACHABLE};
use serde_json::{Value, json};

use super::deployed::{
    APPLICATION, bench, chart, conditions, cut_off, deployed, merge, retry, state, status, version,
};
use super::manifests::{access, application, cluster_secret, kubeconfig, server};

#[test]
fn a_cluster_that_never_answered_can_not_be_compared() {
    let mut bench = bench();
    let mut dpus = super::manifests::dpu_cluster("dpus", "static");
    dpus["spec"]["kubeconfig"] = "dpus-kubeconfig".into();
    dpus["metadata"]["annotations"] = json!({ UNREACHABLE: "true" });
    bench.create(&dpus);
    bench.create(&kubeconfig("dpus", &access("dpus", "t1")));
    bench.create(&cluster_secret("dpus", &access("dpus", "t1")));
    bench.create(&super::manifests::project("platform", &["https://*".to_owned()]));
    bench.create(&application(APPLICATION, "dpus"));
    bench.settle();
    // The real Argo CD also reports nothing worse about a cluster that it can't reach.
    assert_eq!(state(&mut bench), "Unknown Healthy -");
    insta::assert_snapshot!("argo_unreachable", conditions(&mut bench).join("\n"));
    assert_eq!(status(&mut bench)["resources"], Value::Null);
    cut_off(&mut bench, false);
    bench.settle();
    assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
    assert_eq!(conditions(&mut bench), Vec::<String>::new());
}

#[test]
fn a_cluster_that_does_not_answer_any_more_is_compared_from_a_cache() {
    let mut bench = deployed();
    cut_off(&mut bench, true);
    bench.advance(Duration::from_hours(1));
    assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
    assert_eq!(conditions(&mut bench), Vec::<String>::new());

    // A change there is tried six times, and never again.
    version(&mut bench, "1.1.0");
    let began = bench.cluster.elapsed();
    bench.settle();
    let took = bench.cluster.elapsed().saturating_sub(began);
    assert!((Duration::from_secs(310)..Duration::from_secs(330)).contains(&took), "{took:?}");
    assert_eq!(state(&mut bench), "OutOfSync Healthy Failed");
    let reported = "SyncError: Failed last sync attempt to [1.1.0]: one or more synchronization tasks are not valid (retried 5 times).";
    assert_eq!(conditions(&mut bench), [reported]);
    let object = status(&mut bench)["operationState"]["syncResult"]["resources"][0].clone();
    assert_eq!(object["status"], "SyncFailed");
    assert!(object["message"].as_str().is_some_and(|why| why.ends_with("no route to host")), "{object}");
    cut_off(&mut bench, false);
    bench.advance(Duration::from_hours(1));
    assert_eq!((state(&mut bench).as_str(), chart(&mut bench)), ("OutOfSync Healthy Failed", json!("1.0.0")));
    version(&mut bench, "1.1.1");
    bench.settle();
    assert_eq!((state(&mut bench).as_str(), chart(&mut bench)), ("Synced Healthy Succeeded", json!("1.1.1")));
    assert_eq!(conditions(&mut bench), Vec::<String>::new());
}

#[test]
fn an_operation_without_a_limit_is_tried_again_until_the_cluster_answers() {
    for refresh in [false, true] {
        let mut bench = deployed();
        retry(&mut bench, refresh);
        cut_off(&mut bench, true);
        version(&mut bench, "1.1.0");
        bench.advance(Duration::from_hours(2));
        assert_eq!(state(&mut bench), "OutOfSync Healthy Running");
        // After 10, 20 and 40 seconds, and then every minute plus the duration of an attempt.
        let tries = status(&mut bench)["operationState"]["retryCount"].as_u64().expect("a number");
        assert!((110..=122).contains(&tries), "{tries}");
        version(&mut bench, "1.2.0");
        bench.advance(Duration::from_mins(5));
        bench.transitions();
        cut_off(&mut bench, false);
        bench.advance(Duration::from_mins(2));
        assert_eq!(chart(&mut bench), "1.2.0");
        assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
        // It first deploys the source with which it began.
        assert!(bench.transitions().contains("chart 1.1.0"));
    }
}

#[test]
fn an_operation_that_is_terminated_ends_at_once() {
    let mut bench = deployed();
    retry(&mut bench, true);
    cut_off(&mut bench, true);
    version(&mut bench, "1.1.0");
    bench.advance(Duration::from_mins(10));
    bench.delete("Application", APPLICATION);
    cut_off(&mut bench, false);
    bench.merge("Secret", "dpf-argo-cd-system/dpus-argocd", &json!({ "metadata": { "labels": null } }));
    bench.advance(Duration::from_hours(1));
    assert_eq!(status(&mut bench)["operationState"]["phase"], "Running", "the removal waits for it");
    merge(&mut bench, &json!({ "status": { "operationState": { "phase": "Terminating" } } }));
    bench.settle();
    assert_eq!(bench.get("Application", APPLICATION), Value::Null);
}

#[test]
fn rotated_credentials_keep_argo_out_until_its_secret_has_them() {
    let mut bench = deployed();
    let rotated = access("dpus", "t2");
    bench.merge("Secret", "dpus-kubeconfig", &json!({ "data": rotated.secret_data() }));
    // For a while, Argo CD does not notice it.
    bench.advance(Duration::from_secs(74));
    assert_eq!((state(&mut bench).as_str(), conditions(&mut bench).len()), ("Synced Healthy Succeeded", 0));
    bench.settle();
    assert_eq!(state(&mut bench), "Unknown Healthy Succeeded");
    let reported = conditions(&mut bench);
    let refused = "the server has asked for the client to provide credentials";
    assert!(
        reported
            .iter()
            .all(|reported| reported.starts_with("ComparisonError: ") && reported.ends_with(refused)),
        "{reported:?}"
    );
    assert_eq!(reported.len(), 2);
    let data = cluster_secret("dpus", &rotated)["data"].clone();
    bench.merge("Secret", "dpf-argo-cd-system/dpus-argocd", &json!({ "data": data }));
    bench.settle();
    assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
}

#[test]
fn every_form_of_credentials_opens_its_cluster() {
    let mut bench = deployed();
    let url = server("dpus");
    let password =
        Access { username: "u".into(), password: "p".into(), token: String::new(), ..access("dpus", "") };
    let insecure = Access { insecure: true, authority: String::new(), ..access("dpus", "t3") };
    for (form, access) in [
        ("certificate", Access::by_certificate(&url, "a2V5")),
        ("password", password),
        ("insecure", insecure),
        ("token", Access::by_token(&format!("{url}/"), "t4")),
    ] {
        bench.merge("Secret", "dpus-kubeconfig", &json!({ "data": kubeconfig("dpus", &access)["data"] }));
        bench.settle();
        assert_eq!(state(&mut bench), "Unknown Healthy Succeeded", "{form}");
        let data = cluster_secret("dpus", &access)["data"].clone();
        bench.merge("Secret", "dpf-argo-cd-system/dpus-argocd", &json!({ "data": data }));
        bench.settle();
        assert_eq!(state(&mut bench), "Synced Healthy Succeeded", "{form}");
    }
}
