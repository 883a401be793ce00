//! Every reason of every condition, with its cause and what ends it. The table is a snapshot, and each line of it is run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, KubeRequest};
use lockstep_namespaceclass::names::{namespace, reason};
use lockstep_sim::cluster::{FaultModel, FaultVerdict, Transit};
use serde_json::{Value, json};

use super::bench::{Bench, settings};

const CLASSES: &str = "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses";
/// Longer than the backoff of any failing key.
const WHILE: Duration = Duration::from_mins(6);

/// A condition, its status and reason, its cause, and what ends it.
struct Line {
    condition: &'static str,
    reason: &'static str,
    scenario: &'static str,
    begin: fn(&mut Bench),
    end: fn(&mut Bench),
}

const TABLE: &[Line] = &[
    Line {
        condition: "Valid",
        reason: "True/AllResourcesValid",
        scenario: "an invalid resource is fixed, until it is invalid again",
        begin: fix_after_spoiling,
        end: spoil,
    },
    Line {
        condition: "Valid",
        reason: "False/InvalidResources",
        scenario: "a resource names a namespace, until it no longer does",
        begin: spoil,
        end: fix,
    },
    Line {
        condition: "Valid",
        reason: "Unknown/WatchFailed",
        scenario: "namespaces may not be watched any more, until they may",
        begin: |bench| bench.cluster.permit_watches(&namespace(), false),
        end: |bench| bench.cluster.permit_watches(&namespace(), true),
    },
    Line {
        condition: "Paused",
        reason: "True/Paused",
        scenario: "a class is paused, until it is not",
        begin: |bench| set(bench, &json!({ "paused": true })),
        end: |bench| set(bench, &json!({ "paused": false })),
    },
    Line {
        condition: "Ready",
        reason: "False/Paused",
        scenario: "a namespace is put into a paused class, until that is not paused any more",
        begin: join_paused,
        end: |bench| set(bench, &json!({ "paused": false })),
    },
    Line {
        condition: "Ready",
        reason: "False/Drifted",
        scenario: "a resource is changed while drift is only reported, until it is repaired",
        begin: drift,
        end: |bench| set(bench, &json!({ "drift": "Repair" })),
    },
    Line {
        condition: "Ready",
        reason: "False/RemovalHeld",
        scenario: "a class that holds removals is emptied, until it has a resource",
        begin: empty_guarded,
        end: fix,
    },
    Line {
        condition: "RolledOut",
        reason: "True/AllNamespacesChanged",
        scenario: "a class limits its rollout, until it does no longer",
        begin: |bench| set(bench, &json!({ "rollout": { "maxUnavailable": 1 } })),
        end: |bench| set(bench, &json!({ "rollout": null })),
    },
    Line {
        condition: "RolledOut",
        reason: "False/RollingOut",
        scenario: "a change is on its way, until it arrives",
        begin: slow_rollout,
        end: |_| {},
    },
    Line {
        condition: "RolledOut",
        reason: "False/Halted",
        scenario: "a change breaks the first namespace, until it is corrected",
        begin: bad_rollout,
        end: fix,
    },
    Line {
        condition: "Ready",
        reason: "True/ResourcesApplied",
        scenario: "an invalid resource is fixed, until it is invalid again",
        begin: fix_after_spoiling,
        end: spoil,
    },
    Line {
        condition: "Ready",
        reason: "False/Applying",
        scenario: "a new resource is on its way, until it arrives",
        begin: slow_addition,
        end: |_| {},
    },
    Line {
        condition: "Ready",
        reason: "False/InvalidResources",
        scenario: "a resource names a namespace, until it no longer does",
        begin: spoil,
        end: fix,
    },
    Line {
        condition: "Ready",
        reason: "False/InvalidResources",
        scenario: "the cluster does not serve a kind, until its CRD comes",
        begin: |bench| bench.update("web", &[settings("a", "1"), widget()]),
        end: serve_widgets,
    },
    Line {
        condition: "Ready",
        reason: "False/UnresolvedVariable",
        scenario: "a variable reads a label that the namespace lacks, until it has it",
        begin: read_missing_label,
        end: |bench| {
            let labels = json!({ "example.com/team": "red" });
            bench.merge("/api/v1/namespaces/team", &json!({ "metadata": { "labels": labels } }));
        },
    },
    Line {
        condition: "Ready",
        reason: "False/ClassNotFound",
        scenario: "a binding that a user created names a missing class, until that is defined",
        begin: |bench| bind_manually(bench, "missing"),
        end: |bench| bench.define("missing", &[settings("a", "1")]),
    },
    Line {
        condition: "Ready",
        reason: "False/NamespaceExcluded",
        scenario: "a binding that a user created names a class that excludes the namespace, until it no longer does",
        begin: |bench| {
            set(bench, &json!({ "excludedNamespaces": ["team"] }));
            bind_manually(bench, "web");
        },
        end: |bench| set(bench, &json!({ "excludedNamespaces": null })),
    },
    Line {
        condition: "Ready",
        reason: "False/OwnershipConflict",
        scenario: "an object of that name has another owner, until it is deleted",
        begin: taken,
        end: |bench| bench.delete("/api/v1/namespaces/team/configmaps/taken"),
    },
    Line {
        condition: "Ready",
        reason: "False/Forbidden",
        scenario: "resources may not be applied, until they may",
        begin: |bench| {
            refuse(bench, "apply", ErrorKind::Forbidden);
            bench.update("web", &[settings("a", "2")]);
        },
        end: serve,
    },
    Line {
        condition: "Ready",
        reason: "False/Rejected",
        scenario: "the server finds a resource wrong, until it is right",
        begin: |bench| bench.update("web", &[settings("a", "1"), settings("No Name", "1")]),
        end: fix,
    },
    Line {
        condition: "Ready",
        reason: "False/ApplyFailed",
        scenario: "the server takes no resource, until it does",
        begin: |bench| {
            refuse(bench, "apply", ErrorKind::Unavailable);
            bench.update("web", &[settings("a", "2")]);
        },
        end: serve,
    },
    Line {
        condition: "Ready",
        reason: "False/PruneFailed",
        scenario: "the server removes no resource, until it does",
        begin: |bench| {
            refuse(bench, "delete", ErrorKind::Unavailable);
            bench.update("web", &[settings("b", "1")]);
        },
        end: serve,
    },
    Line {
        condition: "Ready",
        reason: "False/Contested",
        scenario: "another client keeps changing a resource, until it stops",
        begin: contest,
        end: |bench| bench.cluster.advance(Duration::from_mins(10)),
    },
    Line {
        condition: "Ready",
        reason: "False/WaitingForDeletion",
        scenario: "a resource that goes is held by a finalizer, until that is taken off",
        begin: |bench| {
            hold(bench, &json!(["example.com/hold"]));
            bench.update("web", &[settings("b", "1")]);
        },
        end: |bench| hold(bench, &Value::Null),
    },
    Line {
        condition: "ObjectsAdopted",
        reason: "True/Adopted",
        scenario: "an object of that name has no owner, until the class no longer names it",
        begin: adopt,
        end: fix,
    },
];

fn adopt(bench: &mut Bench) {
    bench.post("/api/v1/namespaces/team/configmaps", &settings("theirs", "1"));
    bench.update("web", &[settings("a", "1"), settings("theirs", "2")]);
}

fn fix(bench: &mut Bench) {
    bench.update("web", &[settings("a", "3")]);
}

fn spoil(bench: &mut Bench) {
    let mut elsewhere = settings("c", "1");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    bench.update("web", &[settings("a", "1"), elsewhere]);
}

fn fix_after_spoiling(bench: &mut Bench) {
    spoil(bench);
    bench.settle();
    bench.cluster.journal.clear();
    fix(bench);
}

/// Delays every apply by a minute.
struct SlowApplies;

impl FaultModel for SlowApplies {
    fn delay(&mut self, _: Duration, _: usize, hop: Transit<'_>) -> Duration {
        let is_slow = matches!(hop, Transit::Request(Action::Kube(KubeRequest::Apply { target, .. })) if target.kind.kind == "ConfigMap");
        if is_slow { Duration::from_mins(1) } else { Duration::ZERO }
    }
}

fn slow_addition(bench: &mut Bench) {
    bench.cluster.weather = Box::new(SlowApplies);
    bench.update("web", &[settings("a", "1"), settings("b", "1")]);
}

fn set(bench: &mut Bench, spec: &Value) {
    bench.merge(&format!("{CLASSES}/web"), &json!({ "spec": spec }));
}

fn drift(bench: &mut Bench) {
    set(bench, &json!({ "drift": "Report" }));
    bench.cluster.advance(WHILE);
    bench.merge("/api/v1/namespaces/team/configmaps/a", &json!({ "data": { "value": "theirs" } }));
}

fn empty_guarded(bench: &mut Bench) {
    let guard = json!({ "maxPercent": 50, "windowMinutes": 1 });
    set(bench, &json!({ "removalGuard": guard, "resources": [] }));
}

fn read_missing_label(bench: &mut Bench) {
    let expression = "namespaceObject.metadata.labels[\"example.com/team\"]";
    let variables = json!([{ "name": "team", "expression": expression }]);
    set(bench, &json!({ "variables": variables, "resources": [settings("a", "of ${team}")] }));
}

fn join_paused(bench: &mut Bench) {
    bench.label("team", None);
    set(bench, &json!({ "paused": true }));
    bench.settle();
    bench.cluster.journal.clear();
    bench.label("team", Some("web"));
}

fn limit(bench: &mut Bench) {
    bench.namespace("other", Some("web"));
    set(bench, &json!({ "rollout": { "maxUnavailable": 1 } }));
    bench.settle();
    bench.cluster.journal.clear();
}

fn slow_rollout(bench: &mut Bench) {
    limit(bench);
    slow_addition(bench);
}

fn bad_rollout(bench: &mut Bench) {
    limit(bench);
    bench.update("web", &[settings("a", "1"), settings("No Name", "1")]);
}

fn widget() -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" } })
}

fn serve_widgets(bench: &mut Bench) {
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "names": { "kind": "Widget", "plural": "widgets" },
            "scope": "Namespaced",
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
    });
    bench.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd);
}

/// Creates a binding manually. The namespace has no label, so the binding belongs only to the user who created it.
fn bind_manually(bench: &mut Bench, class: &str) {
    bench.label("team", None);
    bench.settle();
    bench.cluster.journal.clear();
    let binding = json!({
        "apiVersion": "namespaceclass.akuity.io/v1alpha1",
        "kind": "NamespaceClassBinding",
        "metadata": { "name": "team" },
        "spec": { "className": class },
    });
    bench.post("/apis/namespaceclass.akuity.io/v1alpha1/namespaces/team/namespaceclassbindings", &binding);
}

fn taken(bench: &mut Bench) {
    let owner = bench.post("/api/v1/namespaces/team/configmaps", &settings("owner", "1"));
    let mut taken = settings("taken", "theirs");
    taken["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "controller": true,
    }]);
    bench.post("/api/v1/namespaces/team/configmaps", &taken);
    bench.update("web", &[settings("a", "1"), settings("taken", "ours")]);
}

/// Makes every action on objects of the kind `ConfigMap` with that name fail.
fn refuse(bench: &mut Bench, name: &'static str, class: ErrorKind) {
    bench.cluster.interfere(move |_, action| {
        let fits =
            action.name() == name && action.target().is_some_and(|target| target.kind.kind == "ConfigMap");
        if fits { FaultVerdict::failed(class) } else { FaultVerdict::Served }
    });
}

fn serve(bench: &mut Bench) {
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
}

fn contest(bench: &mut Bench) {
    for _ in 0..20 {
        let theirs = json!({ "data": { "value": "theirs" } });
        bench.merge("/api/v1/namespaces/team/configmaps/a", &theirs);
        bench.cluster.advance(Duration::from_millis(500));
    }
}

fn hold(bench: &mut Bench, finalizers: &Value) {
    let held = json!({ "metadata": { "finalizers": finalizers } });
    bench.merge("/api/v1/namespaces/team/configmaps/a", &held);
}

/// Returns the status and reason of a condition, and its message.
fn found(bench: &mut Bench, condition: &str) -> (String, String) {
    let object = if ["Valid", "Paused", "RolledOut"].contains(&condition) {
        bench.get(&format!("{CLASSES}/web")).expect("exists")
    } else {
        bench.binding("team").expect("is bound")
    };
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    // One of the conditions exists only while it is true.
    let Some(found) = conditions.into_iter().find(|found| found["type"] == condition) else {
        return Default::default();
    };
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (format!("{}/{}", text("status"), text("reason")), text("message"))
}

/// Returns a class that is applied in one namespace.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    bench.cluster.journal.clear();
    bench
}

#[test]
fn every_reason_comes_and_goes() {
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for Line { condition, reason, scenario, begin, end } in TABLE {
        let mut bench = bench();
        begin(&mut bench);
        bench.cluster.advance(Duration::from_secs(5));
        let (begun, message) = found(&mut bench, condition);
        let came = bench.transitions();
        bench.cluster.journal.clear();
        end(&mut bench);
        bench.cluster.advance(WHILE);
        let (ended, _) = found(&mut bench, condition);
        let went = bench.transitions();
        if begun != *reason || ended == *reason {
            wrong.push(format!("{condition}: {scenario}: {begun}, then {ended}, not {reason}: {message}"));
        }
        writeln!(table, "{condition} {reason}: {scenario}\n  {message}").expect("a string takes it");
        for (sign, transitions) in [("+", came), ("-", went)] {
            for transition in transitions.lines() {
                writeln!(table, "  {sign} {transition}").expect("a string takes it");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    insta::assert_snapshot!("reasons", table);
}

#[test]
fn no_reason_is_left_out() {
    let covered = TABLE.iter().filter_map(|line| line.reason.split_once('/')).map(|(_, reason)| reason);
    let covered: BTreeSet<&str> = covered.collect();
    assert_eq!(covered, BTreeSet::from(reason::ALL));
}
