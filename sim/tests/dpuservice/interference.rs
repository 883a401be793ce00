//! Other clients: they change and delete the controller's objects, and have objects of their own.

use std::time::Duration;

use lockstep_dpuservice::names::{self, APPLIED, ARGO_NAMESPACE, PROJECT};
use lockstep_sim::cluster::What;
use serde_json::{Value, json};

use super::bench::{Bench, service};
use super::user::User as _;

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

/// Argo CD reads a project when it compares an Application, at most three minutes later. Until then, an Application that a wrong
/// project did not permit keeps this error, and so does the service.
#[test]
fn what_a_project_did_not_permit_recovers_at_the_next_comparison() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.cluster.crash(bench.cluster.processes() - 1, Some(Duration::from_mins(1)));
    bench.cluster.merge("AppProject", ARGO_NAMESPACE, PROJECT, &json!({ "spec": { "destinations": [] } }));
    let refresh = json!({ "metadata": { "annotations": { "argocd.argoproj.io/refresh": "normal" } } });
    bench.cluster.merge("Application", ARGO_NAMESPACE, "hbn-01", &refresh);
    bench.cluster.advance(Duration::from_secs(90));
    let project = bench.cluster.get("AppProject", ARGO_NAMESPACE, PROJECT);
    assert_eq!(project["spec"]["destinations"].as_array().map(Vec::len), Some(1), "it was repaired");
    let error = bench.application("hbn-01")["status"]["conditions"][0].clone();
    assert_eq!(error["type"], "InvalidSpecError", "{error}");
    let (ready, why) = bench.condition("hbn", "ApplicationsReady");
    assert_eq!(ready, "False/Failure");
    assert!(why.contains("do not match any of the allowed destinations"), "{why}");
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// Returns how often the controller has sent this write of an object.
fn writes_of(bench: &mut Bench, verb: &str, kind: &str, name: &str) -> usize {
    let writes = bench.writes().into_iter();
    writes.filter(|it| it.starts_with(&format!("{verb} {kind}")) && it.ends_with(&format!("/{name}"))).count()
}

/// Lets another client change an object back whenever the controller has repaired it, for this long. Returns how often the
/// controller wrote it, and the states of a condition, in the order in which they first appeared.
fn fight(
    bench: &mut Bench,
    kind: &str,
    name: &str,
    theirs: &Value,
    condition: &str,
    lasts: Duration,
) -> (usize, Vec<String>) {
    bench.story();
    let end = bench.cluster.elapsed() + lasts;
    let mut states = Vec::new();
    while bench.cluster.elapsed() < end {
        bench.cluster.merge(kind, ARGO_NAMESPACE, name, theirs);
        bench.cluster.advance(Duration::from_millis(200));
        let (state, message) = bench.condition("hbn", condition);
        let is_explained = message.contains("keeps changing or removing it");
        assert!(state != "False/Error" || is_explained, "{message}");
        if !states.contains(&state) {
            states.push(state);
        }
    }
    let repairs = writes_of(bench, "apply", kind, name);
    (repairs, states)
}

#[test]
fn what_another_client_keeps_changing_is_repaired_less_often_and_reported() {
    let whole = json!({
        "metadata": { "annotations": { APPLIED: "theirs" } },
        "spec": { "source": { "targetRevision": "v0" } },
    });
    let fights = [
        ("Application", "hbn-01", "ApplicationsReconciled", json!({ "spec": whole["spec"] })),
        // It restores the whole object, as from a backup.
        ("Application", "hbn-01", "ApplicationsReconciled", whole),
        (
            "Secret",
            "dpu-cluster-01-argocd",
            "ClusterSecretsReconciled",
            json!({ "data": { "config": "e30=" } }),
        ),
        (
            "AppProject",
            PROJECT,
            "AppProjectReconciled",
            json!({ "spec": { "sourceRepos": ["https://only.this"] } }),
        ),
    ];
    for (kind, name, condition, theirs) in fights {
        let mut bench = Bench::serving(&["dpu-cluster-01"]);
        bench.cluster.advance(Duration::from_mins(1));
        let before = bench.cluster.get(kind, ARGO_NAMESPACE, name);
        let (repairs, states) = fight(&mut bench, kind, name, &theirs, condition, Duration::from_mins(30));
        assert!((8..20).contains(&repairs), "{kind}: {repairs} repairs in half an hour");
        assert_eq!(states.last().map(String::as_str), Some("False/Error"), "{kind}: {states:?}");
        let waits = bench.ready("hbn");
        assert_eq!(waits, "False/Error", "{kind}: {}", bench.conditions("hbn"));

        // When the other client stops, it is repaired within the longest delay, and reported for twice as long.
        bench.cluster.advance(Duration::from_mins(5));
        let after = bench.cluster.get(kind, ARGO_NAMESPACE, name);
        assert_eq!((&after["spec"], &after["data"]), (&before["spec"], &before["data"]), "{kind}");
        bench.cluster.advance(Duration::from_mins(10));
        assert_eq!(bench.ready("hbn"), "True/Success", "{kind}: {}", bench.conditions("hbn"));
    }
}

/// Another client deletes an Application whenever it appears, and Argo CD does not delay that.
#[test]
fn what_another_client_keeps_removing_is_created_less_and_less_often() {
    for (kind, name) in [("Application", "hbn-01"), ("Secret", "dpu-cluster-01-argocd")] {
        let mut bench = Bench::serving(&["dpu-cluster-01"]);
        bench.story();
        for _ in 0..(30 * 60 * 5) {
            if !bench.cluster.get(kind, ARGO_NAMESPACE, name).is_null() {
                let unheld = json!({ "metadata": { "finalizers": null } });
                bench.cluster.merge(kind, ARGO_NAMESPACE, name, &unheld);
                bench.cluster.delete(kind, ARGO_NAMESPACE, name);
            }
            bench.cluster.advance(Duration::from_millis(200));
        }
        let [created, applied] = ["create", "apply"].map(|verb| writes_of(&mut bench, verb, kind, name));
        assert!(
            (5..30).contains(&created) && applied < 30,
            "{kind}: {created} and {applied} in half an hour"
        );
        assert_eq!(bench.ready("hbn"), "False/Error", "{kind}: {}", bench.conditions("hbn"));
        bench.cluster.advance(Duration::from_mins(20));
        assert_eq!(bench.ready("hbn"), "True/Success", "{kind}: {}", bench.conditions("hbn"));
    }
}

/// The fight is over the Application on one cluster.
#[test]
fn a_fight_holds_up_neither_a_new_version_nor_another_cluster() {
    let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
    let theirs = json!({ "spec": { "syncPolicy": { "automated": null } } });
    let lasts = Duration::from_mins(10);
    fight(&mut bench, "Application", "hbn-01", &theirs, "ApplicationsReconciled", lasts);
    let version =
        |bench: &mut Bench, name: &str| bench.application(name)["spec"]["source"]["targetRevision"].clone();
    let spec = json!({ "spec": { "source": { "targetRevision": "v0" } } });
    bench.cluster.merge("Application", ARGO_NAMESPACE, "hbn-02", &spec);
    bench.cluster.advance(Duration::from_secs(1));
    assert_eq!(version(&mut bench, "hbn-02"), "v1.1.1", "that on another cluster is repaired at once");
    let spec = json!({ "spec": { "source": { "version": "v2.0.0" } } });
    bench.cluster.merge("DPUService", "default", "hbn", &spec);
    bench.cluster.advance(Duration::from_secs(1));
    assert_eq!(version(&mut bench, "hbn-01"), "v2.0.0");
    // And the service can be deleted.
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.cluster.advance(Duration::from_mins(2));
    assert_eq!(bench.in_argo("Application"), Vec::<String>::new());
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

/// While Applications can't be watched, only the answer to the deletion shows that this one is another client's.
#[test]
fn an_application_that_another_client_takes_over_unseen_is_deleted_once() {
    for with_service in [true, false] {
        let mut bench = Bench::serving(&["dpu-cluster-01"]);
        bench.cluster.permit_watches(&names::application(), false);
        bench.cluster.advance(Duration::from_secs(10));
        let nothing = json!({ "metadata": { "labels": null, "annotations": null } });
        bench.cluster.merge("Application", ARGO_NAMESPACE, "hbn-01", &nothing);
        if !with_service {
            // The orphans of a service that is gone are removed as well.
            bench.cluster.merge(
                "DPUService",
                "default",
                "hbn",
                &json!({ "metadata": { "finalizers": null } }),
            );
        }
        bench.story();
        bench.cluster.delete("DPUService", "default", "hbn");
        bench.cluster.advance(Duration::from_mins(1));
        let writes = bench.writes();
        let deletions = writes.iter().filter(|write| write.starts_with("delete Application"));
        assert_eq!(deletions.count(), 1, "{writes:?}");
        bench.cluster.permit_watches(&names::application(), true);
        bench.settle();
        assert_eq!(bench.service("hbn"), Value::Null, "{}", bench.conditions("hbn"));
    }
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
    for is_unseen in [false, true] {
        gets_a_name_that_is_free(is_unseen);
    }
}

/// The watch may show the deletion, or break off before and show it by its next list.
fn gets_a_name_that_is_free(is_unseen: bool) {
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
    if is_unseen {
        bench.cluster.cut_watches(bench.cluster.processes() - 1, Some(&names::application()));
    }
    bench.cluster.advance(Duration::from_secs(1));
    let application = bench.application("hbn-dpu-cluster-01");
    assert_eq!(application["spec"]["source"]["chart"], "hbn", "before the service is retried");
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
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
