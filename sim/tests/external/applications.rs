//! Argo CD's handling of Applications that are not deleted.

use std::time::Duration;

use lockstep_external as external;
use lockstep_external::argocd;
use lockstep_external::dpu_clusters::UNREACHABLE;
use lockstep_sim::cluster::What;
use serde_json::{Value, json};

use super::bench::Bench;
use super::deployed::{
    APPLICATION, RELEASE, bench, chart, conditions, deployed, merge, state, status, version,
};
use super::manifests::{application, server};

#[test]
fn a_chart_is_brought_to_its_cluster() {
    let mut bench = bench();
    bench.deploy("dpus");
    insta::assert_snapshot!("argo_deploys", bench.transitions());
    insta::assert_yaml_snapshot!("application", status(&mut bench));
    let release = bench.get("ConfigMap", RELEASE);
    let (labels, owners) = (&release["metadata"]["labels"], &release["metadata"]["ownerReferences"]);
    insta::assert_yaml_snapshot!(
        "release",
        json!({ "data": release["data"], "labels": labels, "owner": owners[0]["kind"] })
    );
}

#[test]
fn before_the_first_comparison_there_is_no_status() {
    let mut bench = bench();
    bench.create(&application(APPLICATION, "dpus"));
    bench.advance(Duration::from_millis(100));
    assert_eq!(status(&mut bench), Value::Null);
    bench.settle();
    assert_eq!(state(&mut bench), "Unknown Unknown -");
}

#[test]
fn each_write_of_a_status_counts_up_the_generation() {
    let mut bench = deployed();
    let application = bench.get("Application", APPLICATION);
    let generation = application["metadata"]["generation"].as_i64().expect("a number");
    assert!(generation > 5, "{generation}");
    let (code, _) =
        bench.try_merge("Application", &format!("{APPLICATION}/status"), &json!({ "status": {} }));
    assert_eq!(code, 404);
}

#[test]
fn without_a_policy_nothing_is_synced_until_a_user_syncs() {
    let mut bench = deployed();
    bench.delete("Application", APPLICATION);
    bench.settle();
    let mut manual = application(APPLICATION, "dpus");
    manual["spec"]["syncPolicy"] = json!({ "syncOptions": ["CreateNamespace=true"] });
    bench.create(&manual);
    bench.settle();
    assert_eq!(state(&mut bench), "OutOfSync Missing -");
    assert_eq!(bench.get("ConfigMap", RELEASE), Value::Null);
    merge(&mut bench, &json!({ "operation": { "initiatedBy": { "username": "admin" }, "sync": {} } }));
    bench.settle();
    assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
    assert_eq!(status(&mut bench)["history"][0]["initiatedBy"], json!({ "username": "admin" }));
    assert_eq!(bench.get("Application", APPLICATION)["operation"], Value::Null);
}

#[test]
fn an_invalid_application_is_reported_until_it_is_fixed() {
    let with = |path: &str, value: &str| {
        let mut patch = json!(value);
        for field in path.rsplit('.') {
            patch = json!({ field: patch });
        }
        patch
    };
    let elsewhere = "https://elsewhere.example.com:6443";
    let table = [
        (
            with("spec.project", "other"),
            "InvalidSpecError: Application referencing project other which does not exist".to_owned(),
        ),
        (
            with("spec.destination.server", elsewhere),
            format!(
                "InvalidSpecError: error getting cluster by server \"{elsewhere}\": rpc error: code = NotFound desc = cluster \"{elsewhere}\" not found"
            ),
        ),
        (
            with("spec.destination.name", "dpus"),
            format!(
                "InvalidSpecError: application destination can't have both name and server defined: dpus {}",
                server("dpus")
            ),
        ),
        (
            with("spec.source.targetRevision", ""),
            "InvalidSpecError: spec.source.targetRevision is required if the manifest source is a helm chart"
                .to_owned(),
        ),
    ];
    let mut bench = deployed();
    let before = bench.get("Application", APPLICATION)["spec"].clone();
    for (patch, message) in table {
        merge(&mut bench, &patch);
        bench.settle();
        assert_eq!(state(&mut bench), "Unknown Unknown Succeeded", "{message}");
        assert_eq!(conditions(&mut bench), [message]);
        let fixed = json!({ "spec": { "destination": { "name": null } } });
        merge(&mut bench, &fixed);
        merge(&mut bench, &json!({ "spec": before }));
        bench.settle();
        assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
        assert_eq!(conditions(&mut bench), Vec::<String>::new());
    }
}

#[test]
fn a_project_that_permits_no_more_makes_the_application_invalid() {
    let mut bench = deployed();
    let table = [
        (
            json!({ "sourceRepos": ["https://other.example.com"] }),
            "application repo https://charts.example.com is not permitted in project 'platform'".to_owned(),
        ),
        (
            json!({ "destinations": [{ "server": server("other"), "namespace": "*" }] }),
            format!(
                "application destination server '{}' and namespace 'services' do not match any of the allowed destinations in project 'platform'",
                server("dpus")
            ),
        ),
    ];
    for (spec, message) in table {
        bench.merge("AppProject", "platform", &json!({ "spec": spec }));
        bench.settle();
        assert_eq!(state(&mut bench), "Synced Healthy Succeeded", "it is not compared again yet");
        bench.cluster.advance(Duration::from_mins(4));
        assert_eq!(state(&mut bench), "Unknown Unknown Succeeded");
        assert_eq!(conditions(&mut bench), [format!("InvalidSpecError: {message}")]);
        let all = json!({ "sourceRepos": ["*"], "destinations": [{ "server": "*", "namespace": "*" }] });
        bench.merge("AppProject", "platform", &json!({ "spec": all }));
        bench.cluster.advance(Duration::from_mins(4));
        assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
    }
}

#[test]
fn a_new_version_is_rolled_out_and_remembered() {
    let mut bench = deployed();
    for version in ["1.1.0", "1.2.0"] {
        let values = json!({ "a": null, "b": null, "version": version });
        let source = json!({ "targetRevision": version, "helm": { "valuesObject": values } });
        merge(&mut bench, &json!({ "spec": { "source": source } }));
        bench.settle();
    }
    insta::assert_snapshot!("argo_upgrades", bench.transitions());
    let status = status(&mut bench);
    let history = status["history"].as_array().expect("a history");
    let reported: Vec<_> =
        history.iter().map(|entry| (entry["id"].clone(), entry["revision"].clone())).collect();
    assert_eq!(json!(reported), json!([[0, "1.0.0"], [1, "1.1.0"], [2, "1.2.0"]]));
    assert_eq!(status["sync"]["comparedTo"]["source"]["helm"]["valuesObject"], json!({ "version": "1.2.0" }));
    assert_eq!(bench.get("ConfigMap", RELEASE)["data"]["values"], "{\"version\":\"1.2.0\"}");
}

#[test]
fn a_chart_may_not_come_up() {
    let mut bench = deployed();
    let degraded =
        |value: Value| json!({ "spec": { "source": { "helm": { "valuesObject": { "degraded": value } } } } });
    let version = |version: &str| json!({ "spec": { "source": { "targetRevision": version } } });
    for (patch, expected) in [
        (degraded(true.into()), "Synced Degraded Succeeded"),
        (degraded(Value::Null), "Synced Healthy Succeeded"),
        (version("0.0.0-broken"), "Synced Degraded Succeeded"),
        (version("0.0.0-missing"), "Unknown Healthy Succeeded"),
        (version("1.0.0"), "Synced Healthy Succeeded"),
    ] {
        merge(&mut bench, &patch);
        bench.settle();
        assert_eq!(state(&mut bench), expected, "{patch}");
    }
}

#[test]
fn a_hook_may_fail_or_never_end() {
    let mut bench = deployed();
    let values = |values: Value| json!({ "spec": { "source": { "helm": { "valuesObject": values } } } });
    for (patch, expected, hook) in [
        (json!({ "failingHook": true }), "Synced Healthy Failed", json!("Failed")),
        (json!({ "failingHook": null }), "Synced Healthy Succeeded", Value::Null),
        (json!({ "hangingHook": true }), "Synced Healthy Running", json!("Running")),
    ] {
        merge(&mut bench, &values(patch.clone()));
        bench.settle();
        assert_eq!(state(&mut bench), expected, "{patch}");
        assert_eq!(conditions(&mut bench), Vec::<String>::new(), "{patch}");
        let result = &status(&mut bench)["operationState"]["syncResult"]["resources"];
        assert_eq!(result[1]["hookPhase"], hook, "{result}");
    }
    // Nothing else starts while it runs: no change, and no drift correction.
    let (before, began) = (status(&mut bench), chart(&mut bench));
    merge(&mut bench, &values(json!({ "hangingHook": null, "other": true })));
    version(&mut bench, "1.1.0");
    bench.merge("ConfigMap", RELEASE, &json!({ "data": { "version": "0.9.0" } }));
    bench.advance(Duration::from_hours(1));
    let after = status(&mut bench);
    assert_eq!(after["operationState"], before["operationState"]);
    assert_eq!((&after["sync"]["status"], chart(&mut bench)), (&json!("OutOfSync"), json!("0.9.0")));
    // Nothing starts either after it is terminated and the previous version is wanted again.
    version(&mut bench, began.as_str().expect("text"));
    merge(&mut bench, &values(json!({ "hangingHook": true, "other": null })));
    merge(&mut bench, &json!({ "status": { "operationState": { "phase": "Terminating" } } }));
    bench.advance(Duration::from_hours(1));
    assert_eq!(state(&mut bench), "OutOfSync Healthy Failed");
    assert_eq!(status(&mut bench)["operationState"]["message"], "Operation terminated");
    version(&mut bench, "1.2.0");
    merge(&mut bench, &values(json!({ "hangingHook": null })));
    bench.advance(Duration::from_mins(5));
    assert_eq!((state(&mut bench).as_str(), chart(&mut bench)), ("Synced Healthy Succeeded", json!("1.2.0")));
}

#[test]
fn a_chart_that_no_repository_has_is_no_success() {
    let charts = argocd::Charts::from([("https://charts.example.com".to_owned(), "agent".to_owned())]);
    let mut bench = Bench::offering(&external::definitions(&external::DPUSERVICE), charts);
    bench.deploy("dpus");
    assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
    merge(&mut bench, &json!({ "spec": { "source": { "chart": "nginx" } } }));
    bench.settle();
    assert_eq!(state(&mut bench), "Unknown Healthy Succeeded");
    let reported = conditions(&mut bench).join("");
    assert!(reported.contains("chart \"nginx\" version \"1.0.0\" not found in"), "{reported}");
}

#[test]
fn integers_pass_through_floats() {
    let mut bench = deployed();
    let values = json!({ "a": 9_007_199_254_740_993_u64, "b": [u64::MAX], "c": 1.0 });
    merge(&mut bench, &json!({ "spec": { "source": { "helm": { "valuesObject": values } } } }));
    bench.settle();
    assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
    let given = bench.get("ConfigMap", RELEASE)["data"]["values"].clone();
    let given: Value = serde_json::from_str(given.as_str().expect("text")).expect("JSON");
    assert_eq!((&given["a"], &given["c"]), (&json!(9_007_199_254_740_992_u64), &json!(1)));
    let compared = &status(&mut bench)["sync"]["comparedTo"]["source"]["helm"]["valuesObject"];
    assert_eq!(compared["a"], 9_007_199_254_740_992_u64);
}

#[test]
fn drift_is_repaired_and_leaves_no_trace_in_the_history() {
    let mut bench = deployed();
    bench.merge("ConfigMap", RELEASE, &json!({ "data": { "version": "0.9.0" } }));
    bench.settle();
    assert_eq!(bench.get("ConfigMap", RELEASE)["data"]["version"], "1.0.0");
    bench.delete("ConfigMap", RELEASE);
    bench.settle();
    assert_eq!(bench.get("ConfigMap", RELEASE)["data"]["version"], "1.0.0");
    assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
    insta::assert_snapshot!("argo_heals", bench.transitions());
    assert_eq!(status(&mut bench)["history"].as_array().map(Vec::len), Some(1));
    merge(&mut bench, &json!({ "spec": { "syncPolicy": { "automated": { "selfHeal": false } } } }));
    bench.delete("ConfigMap", RELEASE);
    bench.settle();
    assert_eq!(state(&mut bench), "OutOfSync Missing Succeeded");
}

#[test]
fn a_sync_that_failed_is_not_tried_again_before_the_source_changes() {
    let mut bench = bench();
    let mut without = application(APPLICATION, "dpus");
    without["spec"]["syncPolicy"]["syncOptions"] = Value::Null;
    bench.create(&without);
    let mut other = application("agent-other", "dpus");
    other["spec"]["source"]["helm"]["releaseName"] = "other".into();
    bench.deploy("other");
    bench.delete("Application", "agent-other");
    bench.settle();
    bench.transitions();
    // Now the destination cluster of the first one is registered.
    let mut patch = json!({ "spec": { "destination": { "server": server("other") } } });
    merge(&mut bench, &patch);
    bench.settle();
    assert_eq!(state(&mut bench), "OutOfSync Missing Failed");
    let failed = "one or more objects failed to apply, reason: namespaces \"services\" not found";
    let failed = format!("SyncError: Failed last sync attempt to [1.0.0]: {failed} (retried 5 times).");
    assert_eq!(conditions(&mut bench), [failed]);
    patch = json!({ "spec": { "syncPolicy": { "syncOptions": ["CreateNamespace=true"] } } });
    merge(&mut bench, &patch);
    bench.settle();
    assert_eq!(state(&mut bench), "OutOfSync Missing Failed");
    merge(&mut bench, &json!({ "spec": { "source": { "targetRevision": "1.0.1" } } }));
    bench.settle();
    assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
    assert_eq!(conditions(&mut bench), Vec::<String>::new());
}

#[test]
fn a_refresh_changes_nothing_but_its_time() {
    let mut bench = deployed();
    let before = bench.get("Application", APPLICATION);
    let refresh = json!({ "metadata": { "annotations": { argocd::REFRESH: "normal" } } });
    bench.advance(Duration::from_secs(30));
    merge(&mut bench, &refresh);
    bench.settle();
    let after = bench.get("Application", APPLICATION);
    assert_ne!(after["status"]["reconciledAt"], before["status"]["reconciledAt"]);
    assert_eq!(after["metadata"]["annotations"][argocd::REFRESH], Value::Null);
    assert_eq!((&after["spec"], without_time(&after)), (&before["spec"], without_time(&before)));
}

fn without_time(application: &Value) -> Value {
    let mut status = application["status"].clone();
    status.as_object_mut().expect("a status").remove("reconciledAt");
    status
}

#[test]
fn at_rest_nothing_is_written_but_the_time_of_refreshes() {
    let mut bench = deployed();
    let mut before = bench.get("Application", APPLICATION);
    bench.advance(Duration::from_hours(1));
    let mut refreshes = 0;
    for entry in std::mem::take(&mut bench.cluster.journal) {
        let What::Changed(change) = entry.what else { continue };
        let new = change.new.expect("nothing goes");
        assert_eq!(without_time(&new), without_time(&before));
        assert_ne!(new["status"]["reconciledAt"], before["status"]["reconciledAt"]);
        before = Value::clone(&new);
        refreshes += 1;
    }
    assert_eq!(refreshes, 20);
}

#[test]
fn what_is_to_be_skipped_is_left_alone() {
    let skip = |value: Value| json!({ "metadata": { "annotations": { argocd::SKIP_RECONCILE: value } } });
    for (kind, name) in [("Application", APPLICATION), ("Secret", "dpf-argo-cd-system/dpus-argocd")] {
        let mut bench = deployed();
        bench.merge(kind, name, &skip("true".into()));
        bench.delete("ConfigMap", RELEASE);
        bench.advance(Duration::from_hours(1));
        bench.settle();
        assert_eq!(state(&mut bench), "Synced Healthy Succeeded", "{kind}");
        assert_eq!(bench.get("ConfigMap", RELEASE), Value::Null, "{kind}");
        bench.merge(kind, name, &skip(Value::Null));
        bench.settle();
        assert_eq!(bench.get("ConfigMap", RELEASE)["data"]["version"], "1.0.0", "{kind}");
    }
}

#[test]
fn an_application_elsewhere_is_nothing_to_argo() {
    let mut bench = deployed();
    let mut elsewhere = application("elsewhere", "dpus");
    elsewhere["metadata"]["namespace"] = "clusters".into();
    bench.create(&elsewhere);
    bench.advance(Duration::from_hours(1));
    assert_eq!(bench.get("Application", "clusters/elsewhere")["status"], Value::Null);
}

#[test]
fn several_applications_go_their_own_ways() {
    let mut bench = deployed();
    for cluster in ["east", "west"] {
        bench.deploy(cluster);
    }
    bench.merge("DPUCluster", "west", &json!({ "metadata": { "annotations": { UNREACHABLE: "true" } } }));
    for cluster in ["dpus", "east", "west"] {
        let patch = json!({ "spec": { "source": { "targetRevision": "2.0.0" } } });
        bench.merge("Application", &format!("agent-{cluster}"), &patch);
    }
    bench.settle();
    let versions = ["dpus", "east", "west"].map(|cluster| {
        bench.get("ConfigMap", &format!("{cluster}.services.agent"))["data"]["version"].clone()
    });
    assert_eq!(versions, ["2.0.0", "2.0.0", "1.0.0"]);
}
