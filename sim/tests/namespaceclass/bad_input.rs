//! Classes with mistakes: each mistake is reported to the user, and all valid entries are still applied.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, KubeRequest};
use lockstep_engine::machine::{Amount, Measure, Note, ReconcileResult};
use lockstep_namespaceclass::names::{PROBLEM_ANNOTATION, UNRESOLVED_METRIC};
use lockstep_sim::cluster::FaultVerdict;
use serde_json::{Value, json};

use super::bench::{Bench, program, settings};

#[test]
fn a_class_with_mistakes_says_so_and_applies_the_rest() {
    let mut bench = Bench::new();
    let resources = [
        settings("good", "1"),
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "sneaky" } }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "kube-system" } }),
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" } }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {} }),
        settings("good", "2"),
        settings("Not A Name", "3"),
    ];
    bench.define("broken", &resources);
    bench.namespace("team", Some("broken"));
    // The missing kind is discovered repeatedly, so the cluster never becomes completely idle.
    bench.cluster.advance(Duration::from_secs(5));
    let good = bench.config_map("team", "good").expect("the valid entry applies");
    assert_eq!(good["data"]["value"], "1");
    assert!(bench.get("/api/v1/namespaces/sneaky").is_none());
    assert!(bench.config_map("kube-system", "a").is_none() && bench.config_map("team", "a").is_none());
    let class = bench.get("/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses/broken").expect("exists");
    let valid = &class["status"]["conditions"][0];
    insta::assert_snapshot!(format!(
        "class: {} {}\n{}\nbinding: {}",
        valid["status"],
        valid["reason"],
        valid["message"].as_str().unwrap_or_default().replace("; spec", ";\nspec"),
        bench.ready("team").replace("; spec", ";\nspec")
    ));
    assert_eq!(class["status"]["resourceCount"], 2);
}

/// A resource that could not be created is pending until it is created, or until the class drops it. Retries change no status.
#[test]
fn what_is_refused_is_not_listed_as_applied() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("good", "1"), settings("No Name", "1")]);
    bench.namespace("team", Some("web"));
    bench.cluster.advance(Duration::from_mins(20));
    let status = |bench: &mut Bench| bench.binding("team").expect("is bound")["status"].clone();
    let entry = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name });
    let found = status(&mut bench);
    assert!(bench.ready("team").starts_with("False Rejected"), "{}", bench.ready("team"));
    assert_eq!(found["appliedResources"], json!([entry("good")]));
    assert_eq!(found["pendingResources"], json!([entry("No Name")]));

    let version =
        |bench: &mut Bench| bench.binding("team").expect("is bound")["metadata"]["resourceVersion"].clone();
    let before = (version(&mut bench), bench.carried().count());
    bench.cluster.advance(Duration::from_hours(1));
    assert_eq!(version(&mut bench), before.0, "it is tried again without a change of the status");
    assert!(bench.carried().count() > before.1, "it is tried again");

    // A resource that was applied, then deleted manually, and that can't be created again is no longer listed as applied.
    bench.update("web", &[settings("good", "1"), settings("other", "1")]);
    bench.settle();
    let found = status(&mut bench);
    assert_eq!(found["appliedResources"], json!([entry("good"), entry("other")]));
    assert_eq!(found["pendingResources"], json!([]));
    bench.cluster.interfere(|_, action| {
        let is_refused =
            action.name() == "apply" && action.target().is_some_and(|target| target.name == "other");
        if is_refused { FaultVerdict::failed(ErrorKind::Forbidden) } else { FaultVerdict::Served }
    });
    bench.delete("/api/v1/namespaces/team/configmaps/other");
    bench.cluster.advance(Duration::from_mins(1));
    let found = status(&mut bench);
    assert_eq!(found["appliedResources"], json!([entry("good")]));
    assert_eq!(found["pendingResources"], json!([entry("other")]));
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(Duration::from_mins(6));
    assert_eq!(status(&mut bench)["pendingResources"], json!([]));
    assert!(bench.config_map("team", "other").is_some());
}

#[test]
fn a_fixed_class_is_applied_and_no_invalid_resource_is_lost() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("kept", "1")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    let mut spoiled = settings("kept", "2");
    spoiled["metadata"]["namespace"] = json!("other");
    bench.update("web", &[spoiled]);
    bench.settle();
    assert_eq!(bench.config_map("team", "kept").expect("is kept")["data"]["value"], "1");
    assert!(bench.ready("team").starts_with("False InvalidResources"));
    bench.update("web", &[settings("kept", "3")]);
    bench.settle();
    assert_eq!(bench.config_map("team", "kept").expect("is there")["data"]["value"], "3");
    assert!(bench.ready("team").starts_with("True ResourcesApplied"));
}

#[test]
fn a_kind_that_appears_later_is_applied_without_touching_the_class() {
    let mut bench = Bench::new();
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": { "size": 3 } });
    bench.define("factory", &[widget]);
    bench.namespace("team", Some("factory"));
    bench.cluster.advance(Duration::from_secs(5));
    assert!(bench.ready("team").contains("serves no kind Widget"));
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "names": { "kind": "Widget", "plural": "widgets" },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "properties": { "size": { "type": "integer" } } },
                } } },
            }],
        },
    });
    bench.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd);
    bench.cluster.advance(Duration::from_secs(15));
    assert!(bench.get("/apis/example.com/v1/namespaces/team/widgets/w").is_some());
    assert!(bench.ready("team").starts_with("True ResourcesApplied"));
}

#[test]
fn a_label_that_names_no_class_makes_an_event_and_no_binding() {
    let mut bench = Bench::new();
    bench.namespace("team", Some("missing"));
    bench.settle();
    assert!(bench.binding("team").is_none());
    let events = bench.get("/apis/events.k8s.io/v1/namespaces/team/events").expect("can be listed");
    assert_eq!(events["items"][0]["reason"], "ClassNotFound", "{events:#}");
    assert_eq!(events["items"][0]["regarding"]["kind"], "Namespace");
    bench.define("missing", &[settings("found", "1")]);
    bench.settle();
    assert!(bench.config_map("team", "found").is_some());
}

/// Returns the WARN lines of the log, and the last value of the metric.
fn reported(bench: &Bench) -> (Vec<String>, Option<u64>) {
    let (mut warnings, mut unresolved) = (Vec::new(), None);
    for note in bench.cluster.notes() {
        match note {
            Note::Warning { message } => warnings.push(message.clone()),
            Note::Measured(Measure { metric, by: Amount::Set(value), .. }) if metric == UNRESOLVED_METRIC => {
                unresolved = Some(*value);
            }
            _ => {}
        }
    }
    (warnings, unresolved)
}

#[test]
fn a_label_that_names_no_class_is_logged_once_and_counted_until_it_is_corrected() {
    let mut bench = Bench::new();
    bench.namespace("team", Some("missing"));
    bench.namespace("other", Some("missing"));
    bench.cluster.advance(Duration::from_mins(30));
    let (warnings, unresolved) = reported(&bench);
    assert_eq!((warnings.len(), unresolved), (2, Some(2)), "{warnings:?}");
    assert!(warnings.iter().any(|it| it.contains("Namespace team") && it.contains("NamespaceClass missing")));
    bench.label("team", None);
    bench.settle();
    assert_eq!(reported(&bench).1, Some(1));
    bench.define("missing", &[settings("found", "1")]);
    bench.settle();
    assert_eq!(reported(&bench).1, Some(0));
    bench.remove("missing");
    bench.settle();
    assert_eq!(reported(&bench).1, Some(1));
    bench.delete("/api/v1/namespaces/other");
    bench.settle();
    assert_eq!(reported(&bench).1, Some(0));
}

/// Returns the problem annotation of a namespace.
fn problem(bench: &mut Bench, namespace: &str) -> Option<String> {
    let namespace = bench.get(&format!("/api/v1/namespaces/{namespace}")).expect("exists");
    namespace["metadata"]["annotations"][PROBLEM_ANNOTATION].as_str().map(str::to_owned)
}

/// Events expire after an hour.
#[test]
fn a_label_that_names_no_class_is_said_on_the_namespace_for_as_long_as_it_does() {
    let mut bench = Bench::new();
    let expected = |class: &str| {
        let text = "label namespaceclass.akuity.io/name: there is no NamespaceClass";
        Some(format!("{text} {class}; create it, or correct the label"))
    };
    bench.namespace("team", Some("missing"));
    bench.settle();
    assert_eq!(problem(&mut bench, "team"), expected("missing"));
    bench.label("team", Some("wrong"));
    bench.settle();
    assert_eq!(problem(&mut bench, "team"), expected("wrong"));
    // In the final state nothing is written, and a new leader sees the annotation.
    bench.cluster.start(program, true);
    bench.settle();
    let before = bench.carried().filter(|carried| carried.action.name() == "patch").count();
    bench.cluster.advance(Duration::from_hours(2));
    assert_eq!(bench.carried().filter(|carried| carried.action.name() == "patch").count(), before);
    bench.define("wrong", &[settings("found", "1")]);
    bench.settle();
    assert_eq!(problem(&mut bench, "team"), None);
    assert!(bench.ready("team").starts_with("True ResourcesApplied"));
    bench.remove("wrong");
    bench.settle();
    assert_eq!((problem(&mut bench, "team"), bench.binding("team")), (expected("wrong"), None));
    bench.label("team", None);
    bench.settle();
    assert_eq!(problem(&mut bench, "team"), None);
}

/// Once the class exists, the annotation is removed, even if the binding can't be written yet.
#[test]
fn a_class_that_exists_is_not_called_missing_while_the_server_fails() {
    let mut bench = Bench::new();
    bench.namespace("team", Some("web"));
    bench.settle();
    assert!(
        problem(&mut bench, "team").is_some_and(|problem| problem.contains("there is no NamespaceClass web"))
    );
    bench.cluster.interfere(|_, action| {
        let is_bad = action.is_write()
            && action.target().is_some_and(|target| target.kind.kind == "NamespaceClassBinding");
        if is_bad { FaultVerdict::failed(ErrorKind::Unavailable) } else { FaultVerdict::Served }
    });
    bench.define("web", &[settings("found", "1")]);
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!((problem(&mut bench, "team"), bench.binding("team")), (None, None));
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(Duration::from_mins(10));
    assert!(bench.config_map("team", "found").is_some());
}

/// Without the permission, the Event, the log and the metric still report it.
#[test]
fn a_namespace_that_may_not_be_annotated_holds_up_nothing() {
    let mut bench = Bench::new();
    bench.cluster.interfere(|_, action| {
        let is_refused =
            action.name() == "patch" && action.target().is_some_and(|it| it.kind.kind == "Namespace");
        if is_refused { FaultVerdict::failed(ErrorKind::Forbidden) } else { FaultVerdict::Served }
    });
    for name in ["team", "other"] {
        bench.namespace(name, Some("missing"));
    }
    bench.cluster.advance(Duration::from_hours(1));
    assert_eq!(problem(&mut bench, "team"), None);
    let (warnings, unresolved) = reported(&bench);
    let refusals = warnings.iter().filter(|it| it.contains("grant the verb patch on namespaces"));
    assert_eq!((refusals.count(), unresolved), (1, Some(2)), "{warnings:?}");
    let failed = bench
        .cluster
        .notes()
        .filter(|note| matches!(note, Note::Reconciled { result: ReconcileResult::Failed { .. }, .. }));
    assert_eq!(failed.count(), 0);
    bench.define("missing", &[settings("found", "1")]);
    bench.settle();
    assert!(bench.config_map("team", "found").is_some());
}

/// Returns the results of the passes over the binding, as the metric counts them.
fn results(bench: &Bench) -> BTreeSet<&'static str> {
    let of_binding = bench.cluster.notes().filter_map(|note| match note {
        Note::Reconciled { reconciler, result, .. } if reconciler == "binding" => Some(result.name()),
        _ => None,
    });
    of_binding.collect()
}

/// The alert about failing reconciles is for the administrator of the operator.
#[test]
fn what_users_have_to_correct_is_no_failure_of_the_operator() {
    let foreign = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "taken", "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": "Deployment", "name": "theirs", "uid": "u1", "controller": true },
        ] },
    });
    // Refused as invalid; owned by another controller; a missing permission; an unavailable server; both the first and the last.
    for (entries, class, expected) in [
        (vec![settings("No Name", "1")], None, "user_error"),
        (vec![settings("taken", "ours")], None, "user_error"),
        (vec![settings("a", "1")], Some(ErrorKind::Forbidden), "failed"),
        (vec![settings("a", "1")], Some(ErrorKind::Unavailable), "failed"),
        (vec![settings("No Name", "1"), settings("a", "1")], Some(ErrorKind::Unavailable), "failed"),
    ] {
        let mut bench = Bench::new();
        bench.define("web", &entries);
        bench.namespace("team", None);
        bench.post("/api/v1/namespaces/team/configmaps", &foreign);
        if let Some(class) = class {
            bench.cluster.interfere(move |_, action| {
                let is_bad = action.name() == "apply" && action.target().is_some_and(|it| it.name == "a");
                if is_bad { FaultVerdict::failed(class) } else { FaultVerdict::Served }
            });
        }
        bench.label("team", Some("web"));
        bench.cluster.advance(Duration::from_mins(10));
        let mut found = results(&bench);
        found.remove("converged");
        assert_eq!(found, BTreeSet::from([expected]), "{entries:?} {class:?}: {}", bench.ready("team"));
    }
}

#[test]
fn a_refused_binding_is_reported_once_on_its_namespace() {
    let bindings = "/apis/namespaceclass.akuity.io/v1alpha1/namespaces/team/namespaceclassbindings";
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.namespace("team", None);
    let theirs =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u1", "controller": true });
    bench.post(
        bindings,
        &json!({
            "apiVersion": "namespaceclass.akuity.io/v1alpha1",
            "kind": "NamespaceClassBinding",
            "metadata": { "name": "team", "ownerReferences": [theirs] },
            "spec": { "className": "web" },
        }),
    );
    bench.label("team", Some("web"));
    bench.cluster.advance(Duration::from_mins(30));
    let events = bench.get("/apis/events.k8s.io/v1/namespaces/team/events").expect("can be listed");
    let on_namespace = events["items"].as_array().into_iter().flatten();
    let on_namespace: Vec<&Value> =
        on_namespace.filter(|event| event["regarding"]["kind"] == "Namespace").collect();
    assert_eq!(on_namespace.len(), 1, "{events:#}");
    assert_eq!(
        (&on_namespace[0]["reason"], &on_namespace[0]["type"]),
        (&json!("BindingRefused"), &json!("Warning"))
    );
    assert!(on_namespace[0]["series"].is_null(), "{events:#}");
    let note = on_namespace[0]["note"].as_str().unwrap_or_default();
    assert!(
        note.contains("Only one reference")
            && note.contains("delete the binding if another client created it"),
        "{note}"
    );

    // Until the garbage collector has removed the binding, because its owner does not exist, the namespace reports the same
    // problem.
    let says_so = |action: &Action| match action {
        Action::Kube(KubeRequest::Patch { subresource: None, patch, .. }) => {
            patch.to_string().contains("Only one reference")
        }
        _ => false,
    };
    assert!(bench.carried().any(|carried| says_so(&carried.action)));

    bench.delete(&format!("{bindings}/team"));
    bench.cluster.advance(Duration::from_mins(6));
    assert!(bench.config_map("team", "a").is_some());
    assert_eq!(problem(&mut bench, "team"), None);
}
