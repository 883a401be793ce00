//! The flows of services, one by one.

use std::time::Duration;

use lockstep_dpuservice::names::{ARGO_NAMESPACE, PROJECT};
use lockstep_engine::machine::Note;
use lockstep_external::dpu_clusters::{Access, UNREACHABLE};
use serde_json::{Value, json};

use super::bench::{Bench, DPF, TOKEN, dpu_cluster, kubeconfig, server, service};
use super::user::User as _;

#[test]
fn a_service_is_deployed_to_every_cluster_and_removed_again() {
    let mut bench = Bench::new();
    bench.join("dpu-cluster-01");
    bench.join("dpu-cluster-02");
    bench.settle();
    assert_eq!(bench.in_argo("Secret"), Vec::<String>::new(), "it is not needed yet");
    bench.story();
    bench.cluster.create(&service("hbn"));
    bench.settle();
    insta::assert_snapshot!("created", bench.story());
    insta::assert_snapshot!("conditions_of_a_service_that_is_ready", bench.conditions("hbn"));
    assert_eq!(bench.in_argo("Application"), ["hbn-01", "hbn-02"]);
    assert_eq!(bench.in_argo("Secret"), ["dpu-cluster-01-argocd", "dpu-cluster-02-argocd"]);
    assert_eq!(
        (bench.runs_on("dpu-cluster-01"), bench.runs_on("dpu-cluster-02")),
        (vec!["hbn".to_owned()], vec!["hbn".to_owned()])
    );

    bench.cluster.delete("DPUService", "default", "hbn");
    bench.settle();
    insta::assert_snapshot!("deleted", bench.story());
    for kind in ["Application", "AppProject", "Secret"] {
        assert_eq!(bench.in_argo(kind), Vec::<String>::new(), "{kind}");
    }
    assert_eq!(bench.runs_on("dpu-cluster-01"), Vec::<String>::new());
    insta::assert_snapshot!("events", bench.events());
}

#[test]
fn the_status_shows_the_argo_cd_state_of_each_cluster() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    let mut status = bench.service("hbn")["status"].clone();
    status["conditions"] = json!(null);
    insta::assert_yaml_snapshot!("status", status);
}

/// Argo CD reads numbers as 64-bit floats, so the chart gets rounded numbers.
#[test]
fn an_integer_beyond_2_53_is_deployed_rounded_and_reported() {
    let mut bench = Bench::new();
    bench.join("dpu-cluster-01");
    let mut rounded = service("hbn");
    rounded["spec"]["values"] = json!({ "limits": { "bytes": 9_007_199_254_740_993_u64, "max": u64::MAX } });
    bench.cluster.create(&rounded);
    bench.settle();
    let release = &bench.cluster.list("ConfigMap", DPF)[0]["data"]["values"];
    assert!(release.as_str().expect("text").contains("9007199254740992"), "{release}");
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
    let (state, message) = bench.condition("hbn", "ApplicationsReconciled");
    assert_eq!(state, "True/ValuesRounded", "{message}");
    assert!(message.ends_with("in quotes: limits.bytes; limits.max"), "{message}");
    assert!(bench.events().contains("Warning ApplicationsReconciledValuesRounded: "), "{}", bench.events());

    let quoted = json!({ "spec": { "values": { "limits": { "bytes": "9007199254740993", "max": null } } } });
    bench.cluster.merge("DPUService", "default", "hbn", &quoted);
    bench.settle();
    assert_eq!(bench.condition("hbn", "ApplicationsReconciled").0, "True/Success");
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

#[test]
fn at_rest_nothing_is_asked_for() {
    let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
    // Argo CD compares repeatedly, and writes the time of the comparison.
    bench.cluster.advance(Duration::from_hours(49));
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[test]
fn argo_cd_status_of_other_applications_triggers_no_reconcile() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    let metadata = json!({ "namespace": ARGO_NAMESPACE, "name": "theirs" });
    let mut theirs = bench.application("hbn-01");
    theirs["metadata"] = metadata;
    theirs["spec"]["project"] = json!("theirs");
    bench.cluster.create(&theirs);
    bench.settle();
    bench.story();
    bench.notes.clear();
    for look in 0..10 {
        let looked = json!({ "status": { "reconciledAt": format!("2026-01-01T00:00:0{look}Z") } });
        bench.cluster.merge("Application", ARGO_NAMESPACE, "theirs", &looked);
        bench.settle();
    }
    bench.story();
    let passes = bench.notes.iter().filter(|note| matches!(note, Note::Reconciled { .. }));
    assert_eq!(passes.count(), 0);
}

#[test]
fn a_change_is_one_write_per_cluster_and_its_completion_is_reported() {
    let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
    let change = json!({ "spec": { "source": { "version": "v1.2.0" }, "values": { "a": null } } });
    bench.cluster.merge("DPUService", "default", "hbn", &change);
    bench.settle();
    insta::assert_snapshot!("changed", bench.story());
    let application = bench.application("hbn-01");
    assert_eq!(application["spec"]["source"]["targetRevision"], "v1.2.0");
    let values = &application["spec"]["source"]["helm"]["valuesObject"];
    assert_eq!(
        *values,
        json!({ "serviceDaemonSet": {}, "kept": null }),
        "what was taken out is out, nulls are kept"
    );
}

#[test]
fn clusters_join_and_leave() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.join("dpu-cluster-02");
    bench.settle();
    assert_eq!(bench.in_argo("Application"), ["hbn-01", "hbn-02"]);
    assert_eq!(bench.ready("hbn"), "True/Success");
    bench.story();
    bench.cluster.delete("DPUCluster", DPF, "dpu-cluster-01");
    bench.settle();
    insta::assert_snapshot!("left", bench.story());
    assert_eq!(bench.in_argo("Application"), ["hbn-02"]);
    assert_eq!(bench.in_argo("Secret"), ["dpu-cluster-02-argocd"]);
    let project = bench.cluster.get("AppProject", ARGO_NAMESPACE, PROJECT);
    assert_eq!(
        project["spec"]["destinations"],
        json!([{ "server": server("dpu-cluster-02"), "namespace": "*" }])
    );
}

#[test]
fn a_kubeconfig_that_is_rotated_costs_one_write() {
    let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
    bench.cluster.create(&service("firefly"));
    bench.settle();
    bench.story();
    bench.rotate("dpu-cluster-01", &Access::by_token(&server("dpu-cluster-01"), "another"));
    bench.cluster.advance(Duration::from_millis(500));
    assert_eq!(bench.writes(), ["apply Secret dpf-argo-cd-system/dpu-cluster-01-argocd"]);
    bench.settle();
    assert_eq!(
        (bench.ready("hbn"), bench.ready("firefly")),
        ("True/Success".to_owned(), "True/Success".to_owned())
    );
    bench.story();
    let label = json!({ "metadata": { "labels": { "rotated": "true" } } });
    bench.cluster.merge("Secret", DPF, "dpu-cluster-01-admin-kubeconfig", &label);
    bench.settle();
    assert_eq!(bench.writes(), [""; 0], "the same credentials cost nothing");
}

#[test]
fn a_server_that_moves_takes_its_applications_along() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.rotate("dpu-cluster-01", &Access::by_token("https://elsewhere.example.com", TOKEN));
    bench.settle();
    assert_eq!(bench.application("hbn-01")["spec"]["destination"]["server"], "https://elsewhere.example.com");
    let project = bench.cluster.get("AppProject", ARGO_NAMESPACE, PROJECT);
    assert_eq!(project["spec"]["destinations"][0]["server"], "https://elsewhere.example.com");
    assert_eq!(
        project["spec"]["destinations"].as_array().map(Vec::len),
        Some(1),
        "the old one is no longer permitted"
    );
    assert_eq!(bench.ready("hbn"), "True/Success");
}

#[test]
fn what_is_shared_stays_until_the_last_service_goes() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.cluster.create(&service("firefly"));
    bench.settle();
    bench.story();
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.settle();
    insta::assert_snapshot!("one_of_two_deleted", bench.story());
    assert_eq!(bench.in_argo("Application"), ["firefly-01"]);
    assert_eq!((bench.in_argo("Secret").len(), bench.in_argo("AppProject").len()), (1, 1));
    bench.cluster.delete("DPUService", "default", "firefly");
    bench.settle();
    assert_eq!((bench.in_argo("Secret").len(), bench.in_argo("AppProject").len()), (0, 0));
    let writes = bench.writes();
    let deletion = |kind: &str| writes.iter().position(|write| write.starts_with(&format!("delete {kind}")));
    assert!(deletion("AppProject").is_some() && deletion("AppProject") < deletion("Secret"), "{writes:?}");
}

#[test]
fn objects_deleted_with_the_last_service_are_recreated_for_the_next() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.cluster.delete("DPUService", "default", "hbn");
    // While Applications, the project and Secrets are removed, one after the other.
    for millis in [300, 900, 700, 500, 300] {
        bench.cluster.advance(Duration::from_millis(millis));
        bench.cluster.create(&service(&format!("next-{millis}{}", bench.cluster.journal.len())));
    }
    bench.settle();
    for service in bench.cluster.list("DPUService", "default") {
        let name = service["metadata"]["name"].as_str().expect("a name").to_owned();
        assert_eq!(bench.ready(&name), "True/Success", "{}", bench.conditions(&name));
    }
    assert_eq!((bench.in_argo("Secret").len(), bench.in_argo("AppProject").len()), (1, 1));
}

#[test]
fn services_and_clusters_of_one_name_do_not_meet() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.cluster.create(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "lab" } }));
    bench.cluster.create(&kubeconfig(
        "lab",
        "dpu-cluster-01",
        &Access::by_token("https://lab.example.com", TOKEN),
    ));
    bench.cluster.create(&dpu_cluster("lab", "dpu-cluster-01"));
    let mut other = service("hbn");
    other["metadata"]["namespace"] = json!("lab");
    bench.cluster.create(&other);
    bench.settle();
    assert_eq!(bench.in_argo("Application").len(), 4);
    assert_eq!(bench.in_argo("Secret").len(), 2);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
    let status = bench.service("hbn")["status"].clone();
    let titles: Vec<&String> = status["health"].as_object().expect("a map").keys().collect();
    assert_eq!(titles, ["dpf-operator-system/dpu-cluster-01", "lab/dpu-cluster-01"]);
}

#[test]
fn applications_of_a_cluster_that_is_gone_and_unreachable_are_given_up() {
    let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
    let cut_off = json!({ "metadata": { "annotations": { UNREACHABLE: "true" }, "finalizers": null } });
    bench.cluster.merge("DPUCluster", DPF, "dpu-cluster-01", &cut_off);
    bench.cluster.delete("DPUCluster", DPF, "dpu-cluster-01");
    bench.cluster.advance(Duration::from_mins(4));
    assert_eq!(bench.in_argo("Secret").len(), 2, "Argo CD may still do it");
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.in_argo("Application"), ["hbn-02"]);
    assert_eq!(bench.in_argo("Secret"), ["dpu-cluster-02-argocd"]);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// Argo CD needs access until everything is removed.
#[test]
fn a_kubeconfig_fixed_during_the_removal_is_copied_to_argo_cd() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.rotate("dpu-cluster-01", &Access::by_token(&server("dpu-cluster-01"), "another"));
    let broken = json!({ "data": { "super-admin.conf": "bm9uZQ==" } });
    bench.cluster.merge("Secret", DPF, "dpu-cluster-01-admin-kubeconfig", &broken);
    bench.cluster.advance(Duration::from_secs(1));
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.cluster.advance(Duration::from_mins(1));
    bench.rotate("dpu-cluster-01", &Access::by_token(&server("dpu-cluster-01"), "a third"));
    bench.settle();
    assert_eq!(bench.service("hbn"), Value::Null, "{}", bench.conditions("hbn"));
    assert_eq!(bench.runs_on("dpu-cluster-01"), Vec::<String>::new());
}

#[test]
fn what_is_left_of_a_service_that_was_forced_out_is_swept_away() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.cluster.merge("DPUService", "default", "hbn", &json!({ "metadata": { "finalizers": null } }));
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.settle();
    for kind in ["Application", "AppProject", "Secret"] {
        assert_eq!(bench.in_argo(kind), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn a_missing_argo_cd_is_reported_and_used_once_it_is_installed() {
    let mut bench = Bench::new();
    bench.join("dpu-cluster-01");
    bench.settle();
    for kind in ["applications", "appprojects"] {
        bench.cluster.delete("CustomResourceDefinition", "", &format!("{kind}.argoproj.io"));
    }
    bench.cluster.advance(Duration::from_mins(1));
    bench.cluster.create(&service("hbn"));
    bench.cluster.advance(Duration::from_mins(1));
    insta::assert_snapshot!("conditions_without_argo_cd", bench.conditions("hbn"));
    for definition in lockstep_external::definitions(&[lockstep_external::System::ArgoCd]) {
        bench.cluster.create(&definition);
    }
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));

    // A service can be deleted without Argo CD, too.
    for kind in ["applications", "appprojects"] {
        bench.cluster.delete("CustomResourceDefinition", "", &format!("{kind}.argoproj.io"));
    }
    bench.cluster.advance(Duration::from_mins(1));
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!(bench.service("hbn"), Value::Null, "{}", bench.conditions("hbn"));
    assert_eq!(bench.in_argo("Secret"), Vec::<String>::new());
}

/// The CRD of Argo CD before 3.2 does not declare `retry.refresh`, and an apply with an undeclared field is refused.
#[test]
fn services_are_deployed_although_the_crd_lacks_a_field() {
    let definition = lockstep_external::definitions(&[lockstep_external::System::ArgoCd])
        .into_iter()
        .find(|definition| definition["metadata"]["name"] == "applications.argoproj.io")
        .expect("the CRD of Applications");
    let mut without = definition.clone();
    let retry = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/syncPolicy/properties/retry/properties";
    let retry = without.pointer_mut(retry).and_then(Value::as_object_mut).expect("the fields of retry");
    assert!(retry.remove("refresh").is_some());
    let refresh =
        |bench: &mut Bench| bench.application("hbn-01")["spec"]["syncPolicy"]["retry"]["refresh"].clone();
    let install = |bench: &mut Bench, definition: &Value| {
        let versions = json!({ "spec": { "versions": definition["spec"]["versions"] } });
        bench.cluster.merge("CustomResourceDefinition", "", "applications.argoproj.io", &versions);
        bench.cluster.advance(Duration::from_mins(1));
    };

    let mut bench = Bench::new();
    install(&mut bench, &without);
    for cluster in ["dpu-cluster-01", "dpu-cluster-02"] {
        bench.join(cluster);
    }
    for name in ["hbn", "dms"] {
        bench.cluster.create(&service(name));
    }
    bench.cluster.advance(Duration::from_mins(5));
    for name in ["hbn", "dms"] {
        assert_eq!(bench.ready(name), "True/Success", "{}", bench.conditions(name));
    }
    assert_eq!(refresh(&mut bench), Value::Null);

    // After an upgrade, the next leader sends the field with the next change.
    install(&mut bench, &definition);
    bench.cluster.crash(bench.cluster.processes() - 1, Some(Duration::ZERO));
    bench.cluster.advance(Duration::from_mins(30));
    assert_eq!(refresh(&mut bench), Value::Null);
    let change = json!({ "spec": { "source": { "version": "v2.0.0" } } });
    bench.cluster.merge("DPUService", "default", "hbn", &change);
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!(refresh(&mut bench), true);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

#[test]
fn no_cluster_is_no_error() {
    let mut bench = Bench::new();
    bench.cluster.create(&service("hbn"));
    bench.settle();
    insta::assert_snapshot!("conditions_without_clusters", bench.conditions("hbn"));
    bench.join("dpu-cluster-01");
    bench.settle();
    assert_eq!(bench.ready("hbn"), "True/Success");
}
