//! The flows of the specification. None of them may depend on an action being executed exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, KubeRequest};
use lockstep_engine::machine::{Note, ReconcileResult};
use lockstep_engine::object::ObjectRef;
use lockstep_sim::cluster::{Carried, FaultVerdict};
use serde_json::{Value, json};

use super::bench::{Bench, CLASS_LABEL, account, secret, settings};
use crate::bystanders::{self, Lasting, Objects};

/// A flow: the state before it, and the operation of a user.
pub(super) struct Flow {
    pub(super) name: &'static str,
    before: fn(&mut Bench),
    pub(super) act: fn(&mut Bench),
}

/// Creates the initial state of every flow: two classes that share a resource, and unrelated objects, one of which has the
/// operator's label.
fn classes(bench: &mut Bench) {
    bench.define("web", &[settings("shared", "web"), settings("only-web", "1"), secret("pin")]);
    bench.define("batch", &[settings("shared", "batch"), account("worker")]);
    bench.namespace("team", None);
    bench.namespace("other", None);
    let mut copied = settings("copied", "web");
    copied["metadata"]["labels"] = json!({ CLASS_LABEL: "web" });
    bench.post("/api/v1/namespaces/team/configmaps", &copied);
    bench.post("/api/v1/namespaces/team/configmaps", &settings("own", "users"));
    bench.post("/api/v1/namespaces/other/configmaps", &settings("shared", "users"));
}

fn bound(bench: &mut Bench) {
    classes(bench);
    bench.label("team", Some("web"));
}

/// Updates a class so that one entry has no name and another one no kind.
fn spoil(bench: &mut Bench) {
    let unnamed =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": { "value": "1" } });
    let of_another_kind = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "pin" } });
    bench.update("web", &[settings("shared", "new"), unnamed, of_another_kind, settings("added", "1")]);
}

fn spoiled(bench: &mut Bench) {
    bound(bench);
    bench.settle();
    spoil(bench);
}

pub(super) const FLOWS: [Flow; 10] = [
    Flow { name: "define", before: |_| {}, act: classes },
    Flow { name: "apply", before: classes, act: |bench| bench.label("team", Some("web")) },
    Flow { name: "remove_label", before: bound, act: |bench| bench.label("team", None) },
    Flow { name: "switch", before: bound, act: |bench| bench.label("team", Some("batch")) },
    Flow {
        name: "update",
        before: bound,
        act: |bench| bench.update("web", &[settings("shared", "new"), settings("added", "1")]),
    },
    Flow { name: "spoil", before: bound, act: spoil },
    Flow {
        name: "fix",
        before: spoiled,
        act: |bench| {
            bench.update("web", &[settings("shared", "new"), settings("only-web", "2"), secret("pin")]);
        },
    },
    Flow { name: "remove_class", before: bound, act: |bench| bench.remove("web") },
    Flow {
        name: "repair_drift",
        before: bound,
        act: |bench| {
            let path = "/api/v1/namespaces/team/configmaps/shared";
            bench.merge(path, &json!({ "data": { "value": "edited" } }));
            bench.delete("/api/v1/namespaces/team/configmaps/only-web");
        },
    },
    Flow { name: "delete_namespace", before: bound, act: |bench| bench.delete("/api/v1/namespaces/team") },
];

pub(super) fn prepared(flow: &Flow) -> Bench {
    let mut bench = Bench::new();
    (flow.before)(&mut bench);
    bench.settle();
    bench.cluster.journal.clear();
    bench
}

fn run(flow: &Flow, interference: impl Fn(u64) -> FaultVerdict + 'static) -> Bench {
    observe(flow, interference).0
}

/// Runs a flow, and returns the objects that existed after the user operation.
fn observe(flow: &Flow, interference: impl Fn(u64) -> FaultVerdict + 'static) -> (Bench, Objects) {
    let mut bench = prepared(flow);
    bench.cluster.interfere(move |number, _| interference(number));
    (flow.act)(&mut bench);
    let objects = Objects::of(&bench.cluster.server);
    bench.settle();
    (bench, objects)
}

/// The expected final state of a flow, for any fault of the operator.
pub(super) struct End {
    world: BTreeMap<String, Value>,
    ours: BTreeSet<ObjectRef>,
    lasting: Lasting,
    carried: Vec<Carried>,
}

impl End {
    pub(super) fn of(flow: &Flow) -> Self {
        let (mut bench, objects) = observe(flow, |_| FaultVerdict::Served);
        let lasting = objects.lasting(&bench.cluster.server);
        let in_team: &[&str] = if flow.name == "delete_namespace" { &[] } else { &["copied", "own"] };
        assert!(lasting.has_untouched(&["shared"]) && lasting.has_untouched(in_team), "{}", flow.name);
        let ours = bystanders::owned(&bench.cluster.server, flow.name);
        Self { carried: bench.carried().cloned().collect(), world: bench.world(), ours, lasting }
    }

    /// Checks that the final state is the same, every object of ours has its owner, and objects of other clients are not even
    /// rewritten.
    pub(super) fn is_reached(&self, bench: &mut Bench, objects: &Objects, what: &str) {
        assert_eq!(bench.world(), self.world, "{what}");
        let server = &bench.cluster.server;
        assert_eq!(bystanders::owned(server, what), self.ours, "{what}");
        objects.lasting(server).assert_as_in(&self.lasting, what);
    }
}

#[test]
fn every_flow_ends_as_the_specification_says() {
    for flow in &FLOWS {
        let mut bench = run(flow, |_| FaultVerdict::Served);
        let world = bench.world();
        let shown = serde_json::to_string_pretty(&world).expect("JSON");
        insta::assert_snapshot!(format!("{}_world", flow.name), shown);
        insta::assert_snapshot!(format!("{}_transitions", flow.name), bench.transitions());
    }
}

#[test]
fn every_flow_is_through_within_a_second() {
    for flow in &FLOWS {
        let mut bench = prepared(flow);
        (flow.act)(&mut bench);
        bench.cluster.advance(Duration::from_secs(1));
        let world = bench.world();
        bench.settle();
        assert_eq!(bench.world(), world, "{}", flow.name);
    }
}

#[test]
fn no_flow_reports_a_failure() {
    for flow in &FLOWS {
        let bench = run(flow, |_| FaultVerdict::Served);
        let is_failure = |note: &&Note| {
            let failed = matches!(note, Note::Reconciled { result: ReconcileResult::Failed { .. }, .. });
            // When a class is removed, the labels remain, which is reported.
            let is_expected = |message: &str| message.contains("there is no NamespaceClass");
            failed || matches!(note, Note::Warning { message } if !is_expected(message))
        };
        let failures: Vec<&Note> = bench.cluster.notes().filter(is_failure).collect();
        assert!(failures.is_empty(), "{}: {failures:?}", flow.name);
    }
}

/// The requests of the operator in each flow, so that a reviewer sees every request that a change adds.
#[test]
fn every_flow_asks_for_no_more_than_it_needs() {
    for flow in &FLOWS {
        let bench = run(flow, |_| FaultVerdict::Served);
        let lines = bench.carried().map(line).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(format!("{}_requests", flow.name), lines);
    }
}

fn line(carried: &Carried) -> String {
    let target = match &carried.action {
        Action::Kube(KubeRequest::Discover { api_version }) => api_version.clone(),
        // An Event's name ends in random digits.
        action if action.target().is_some_and(|target| target.kind.kind == "Event") => "Event".to_owned(),
        action => action.target().map(ToString::to_string).unwrap_or_default(),
    };
    let failed = carried.failed.map(|class| format!(" -> {class}")).unwrap_or_default();
    format!("{} {target}{failed}", carried.action.name())
}

/// Injects this fault into the request at that position, and none into any other.
fn at(position: u64, fate: FaultVerdict) -> impl Fn(u64) -> FaultVerdict {
    move |number| if number == position { fate.clone() } else { FaultVerdict::Served }
}

#[test]
fn killed_at_any_action_every_flow_ends_the_same() {
    let mut runs = 0;
    for flow in &FLOWS {
        let end = End::of(flow);
        for position in 0..end.carried.len() as u64 {
            for crash in [FaultVerdict::CrashedBefore, FaultVerdict::CrashedAfter] {
                let (mut bench, objects) = observe(flow, at(position, crash.clone()));
                end.is_reached(&mut bench, &objects, &format!("{}: {crash:?} at {position}", flow.name));
                runs += 1;
            }
        }
    }
    println!("{runs} runs with a crash");
    assert!(runs > 90);
}

#[test]
fn failed_in_any_way_at_any_action_every_flow_ends_the_same() {
    let mut runs = 0;
    for flow in &FLOWS {
        let end = End::of(flow);
        for (position, undisturbed) in (0..).zip(&end.carried) {
            for fate in ErrorKind::ALL.into_iter().map(FaultVerdict::failed).chain([FaultVerdict::AnswerLost])
            {
                // A false answer is not a failure: a controller must believe that an object does not exist.
                if is_a_lie(undisturbed, &fate) {
                    continue;
                }
                let what = format!("{}: {fate:?} at {position}", flow.name);
                let (mut bench, objects) = observe(flow, at(position, fate));
                end.is_reached(&mut bench, &objects, &what);
                let more = bench.carried().count().saturating_sub(end.carried.len());
                assert!(more <= 20, "{what}: {more} more requests");
                runs += 1;
            }
        }
    }
    println!("{runs} runs with a failure");
    assert!(runs > 450);
}

fn is_a_lie(carried: &Carried, fate: &FaultVerdict) -> bool {
    matches!(carried.action, Action::Kube(KubeRequest::Get { .. }))
        && *fate == FaultVerdict::failed(ErrorKind::NotFound)
        && carried.failed.is_none()
}

/// By then the status looks the same as what was known before, so no later pass has anything to announce.
#[test]
fn a_status_write_with_a_lost_answer_is_still_announced() {
    let mut runs = 0;
    for flow in &FLOWS {
        let undisturbed = run(flow, |_| FaultVerdict::Served);
        let expected = undisturbed.transitions();
        let numbered = (0..).zip(undisturbed.carried());
        let writes = numbered.filter(|(_, carried)| carried.action.name() == "patch_status");
        for (position, _) in writes {
            let output = run(flow, at(position, FaultVerdict::AnswerLost)).transitions();
            for line in expected.lines() {
                let times = output.lines().filter(|other| *other == line).count();
                assert_eq!(times, 1, "{}: {line}\namong\n{output}", flow.name);
            }
            runs += 1;
        }
    }
    println!("{runs} runs with a lost answer");
    assert!(runs > 10);
}
