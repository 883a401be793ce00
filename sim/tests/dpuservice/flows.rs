//! The flows of services, one by one.

use std::time::Duration;

use lockstep_dpuservice::names::{ARGO_NAMESPACE, PROJECT};
use lockstep_engine::machine::Note;
use lockstep_external::dpu_clusters::{Access, UNREACHABLE};
use lockstep_sim::cluster::What;
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

#[test]
fn at_rest_nothing_is_asked_for() {
    let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
    // Argo CD compares repeatedly, and writes the time of the comparison.
    bench.cluster.advance(Duration::from_hours(49));
    assert_eq!(bench.writes(), Vec::<String>::new());
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
fn what_others_change_is_put_right() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    let changes: [(&str, &str, Value); 7] = [
        ("Application", "hbn-01", json!({ "spec": { "source": { "targetRevision": "v0" } } })),
        ("Application", "hbn-01", json!({ "spec": { "destination": { "server": "https://elsewhere" } } })),
        ("Application", "hbn-01", json!({ "metadata": { "finalizers": null } })),
        ("Application", "hbn-01", json!({ "metadata": { "labels": null } })),
        ("AppProject", PROJECT, json!({ "spec": { "destinations": [] } })),
        ("AppProject", PROJECT, json!({ "spec": { "sourceRepos": ["https://only.this"] } })),
        (
            "Secret",
            "dpu-cluster-01-argocd",
            json!({ "metadata": { "labels": null }, "data": { "server": "eA==" } }),
        ),
    ];
    let before: Vec<Value> =
        changes.iter().map(|(kind, name, _)| bench.cluster.get(kind, ARGO_NAMESPACE, name)).collect();
    for ((kind, name, change), before) in changes.iter().zip(&before) {
        bench.cluster.merge(kind, ARGO_NAMESPACE, name, change);
        bench.settle();
        let after = bench.cluster.get(kind, ARGO_NAMESPACE, name);
        for part in ["spec", "data"] {
            assert_eq!(after[part], before[part], "{kind}: {change}");
        }
        for part in ["labels", "finalizers", "uid"] {
            assert_eq!(after["metadata"][part], before["metadata"][part], "{kind}: {change}");
        }
        assert_eq!(bench.in_argo("Application"), ["hbn-01"], "{change}");
        assert_eq!(bench.ready("hbn"), "True/Success", "{kind}: {change}: {}", bench.conditions("hbn"));
    }
}

/// The watch does not show it any more, and has shown another one since.
#[test]
fn an_application_that_lost_its_labels_is_found_by_its_name() {
    let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
    let before = bench.application("hbn-01");
    let labels = |labels: Value| json!({ "metadata": { "labels": labels } });
    bench.cluster.merge("Application", ARGO_NAMESPACE, "hbn-01", &labels(Value::Null));
    bench.cluster.merge("Application", ARGO_NAMESPACE, "hbn-02", &labels(json!({ "team": "x" })));
    bench.settle();
    let after = bench.application("hbn-01");
    for part in ["labels", "uid"] {
        assert_eq!(after["metadata"][part], before["metadata"][part], "{part}");
    }
    assert_eq!(bench.in_argo("Application"), ["hbn-01", "hbn-02"]);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// The controller gets no event about the end of the deletion that it has just requested.
#[test]
fn an_application_that_loses_its_labels_while_it_is_removed_holds_up_no_service() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.cluster.delete("DPUService", "default", "hbn");
    let asks = |bench: &Bench| {
        bench.cluster.journal.iter().any(|entry| match &entry.what {
            What::Stepped { step, .. } => {
                step.requests.iter().any(|request| request.action.name() == "delete")
            }
            _ => false,
        })
    };
    while !asks(&bench) {
        let until = bench.cluster.elapsed() + Duration::from_secs(1);
        assert!(bench.cluster.step(until), "it asks at once");
    }
    let labels = json!({ "metadata": { "labels": null } });
    bench.cluster.merge("Application", ARGO_NAMESPACE, "hbn-01", &labels);
    bench.settle();
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!(bench.in_argo("Application"), Vec::<String>::new());
    assert_eq!(bench.service("hbn"), Value::Null, "{}", bench.conditions("hbn"));
}

/// Without its project, Argo CD removes nothing.
#[test]
fn a_project_that_is_gone_comes_back_for_the_removal() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.cluster.advance(Duration::from_millis(100));
    bench.cluster.merge(
        "AppProject",
        ARGO_NAMESPACE,
        PROJECT,
        &json!({ "metadata": { "finalizers": null } }),
    );
    bench.cluster.delete("AppProject", ARGO_NAMESPACE, PROJECT);
    bench.settle();
    for kind in ["Application", "AppProject", "Secret"] {
        assert_eq!(bench.in_argo(kind), Vec::<String>::new(), "{kind}");
    }
    assert_eq!(bench.runs_on("dpu-cluster-01"), Vec::<String>::new());
}

#[test]
fn what_others_delete_comes_back() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    for (kind, name) in
        [("Application", "hbn-01"), ("Secret", "dpu-cluster-01-argocd"), ("AppProject", PROJECT)]
    {
        let before = bench.cluster.get(kind, ARGO_NAMESPACE, name);
        bench.cluster.delete(kind, ARGO_NAMESPACE, name);
        bench.settle();
        let after = bench.cluster.get(kind, ARGO_NAMESPACE, name);
        if kind != "AppProject" {
            assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"], "{kind}");
            assert_eq!(bench.ready("hbn"), "True/Success", "{kind}: {}", bench.conditions("hbn"));
        }
    }
    // Argo CD's finalizer is removed when no Application refers to the project any more. Until then, the condition reports it.
    assert_eq!(bench.condition("hbn", "AppProjectReconciled").0, "False/AwaitingDeletion");
}

#[test]
fn an_application_without_a_name_gets_one_when_a_foreign_application_is_deleted() {
    let mut bench = Bench::new();
    bench.join("dpu-cluster-01");
    bench.cluster.create(&service("hbn"));
    bench.settle();
    // The service gets the next name, and the one after, until there are no more names.
    let mut names = Vec::new();
    for _ in 0..3 {
        let name = bench.in_argo("Application").into_iter().find(|name| !names.contains(name));
        let name = name.expect("it has one");
        let nothing = json!({ "labels": null, "annotations": null, "finalizers": null });
        let foreign = json!({ "metadata": nothing, "spec": { "syncPolicy": { "automated": null } } });
        bench.cluster.merge("Application", ARGO_NAMESPACE, &name, &foreign);
        bench.cluster.advance(Duration::from_secs(10));
        names.push(name);
    }
    assert_eq!(names[..2], ["hbn-01", "hbn-dpu-cluster-01"]);
    assert_eq!(bench.in_argo("Application").len(), 3);
    let (state, message) = bench.condition("hbn", "ApplicationsReconciled");
    assert_eq!(state, "False/Error", "{message}");
    assert!(names.iter().all(|name| message.contains(name)), "{message}");
    bench.cluster.delete("Application", ARGO_NAMESPACE, "hbn-dpu-cluster-01");
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
    let application = bench.application("hbn-dpu-cluster-01");
    assert_eq!(application["spec"]["source"]["chart"], "hbn");
}

#[test]
fn objects_of_others_are_left_alone() {
    let mut bench = Bench::new();
    bench.join("dpu-cluster-01");
    let foreign = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": { "namespace": ARGO_NAMESPACE, "name": "hbn-01" },
        "spec": { "project": "default", "destination": { "server": "https://theirs", "namespace": "theirs" } },
    });
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "namespace": ARGO_NAMESPACE, "name": "dpu-cluster-01-argocd" },
        "data": { "theirs": "eA==" },
    });
    bench.cluster.create(&foreign);
    bench.cluster.create(&secret);
    bench.cluster.create(&service("hbn"));
    bench.settle();
    assert_eq!(bench.application("hbn-01")["spec"], foreign["spec"]);
    assert_eq!(bench.in_argo("Application"), ["hbn-01", "hbn-dpu-cluster-01"]);
    let theirs = bench.cluster.get("Secret", ARGO_NAMESPACE, "dpu-cluster-01-argocd");
    assert_eq!(theirs["data"], secret["data"]);
    assert_eq!(bench.in_argo("Secret").len(), 2);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.settle();
    assert_eq!(bench.in_argo("Application"), ["hbn-01"]);
    assert_eq!(bench.in_argo("Secret"), ["dpu-cluster-01-argocd"]);
}

#[test]
fn a_foreign_project_is_reported_and_not_changed() {
    let mut bench = Bench::new();
    bench.join("dpu-cluster-01");
    let foreign = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": { "namespace": ARGO_NAMESPACE, "name": PROJECT },
        "spec": { "destinations": [{ "server": "*", "namespace": "*" }] },
    });
    bench.cluster.create(&foreign);
    bench.cluster.create(&service("hbn"));
    bench.settle();
    insta::assert_snapshot!("conditions_of_a_service_without_its_project", bench.conditions("hbn"));
    assert_eq!(bench.in_argo("Application"), Vec::<String>::new());
    bench.cluster.delete("AppProject", ARGO_NAMESPACE, PROJECT);
    bench.settle();
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
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
