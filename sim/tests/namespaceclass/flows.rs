//! The flows of the specification, and that none of them depends on any action being carried out just once.

use lockstep_core::engine::action::{Action, Class};
use lockstep_sim::cluster::{Carried, Fate};

use super::bench::{Bench, account, secret, settings};

/// A flow: what stands before it, and what a user does.
struct Flow {
    name: &'static str,
    before: fn(&mut Bench),
    act: fn(&mut Bench),
}

/// What every flow begins with: two classes that share a resource, and objects that are none of the operator's business.
fn classes(bench: &mut Bench) {
    bench.define("web", &[settings("shared", "web"), settings("only-web", "1"), secret("pin")]);
    bench.define("batch", &[settings("shared", "batch"), account("worker")]);
    bench.namespace("team", None);
    bench.namespace("other", None);
    bench.post("/api/v1/namespaces/team/configmaps", &settings("own", "users"));
    bench.post("/api/v1/namespaces/other/configmaps", &settings("shared", "users"));
}

fn bound(bench: &mut Bench) {
    classes(bench);
    bench.label("team", Some("web"));
}

const FLOWS: [Flow; 8] = [
    Flow { name: "define", before: |_| {}, act: classes },
    Flow { name: "apply", before: classes, act: |bench| bench.label("team", Some("web")) },
    Flow { name: "remove_label", before: bound, act: |bench| bench.label("team", None) },
    Flow { name: "switch", before: bound, act: |bench| bench.label("team", Some("batch")) },
    Flow {
        name: "update",
        before: bound,
        act: |bench| bench.update("web", &[settings("shared", "new"), settings("added", "1")]),
    },
    Flow { name: "remove_class", before: bound, act: |bench| bench.remove("web") },
    Flow {
        name: "repair_drift",
        before: bound,
        act: |bench| {
            let path = "/api/v1/namespaces/team/configmaps/shared";
            bench.merge(path, &serde_json::json!({ "data": { "value": "edited" } }));
            bench.delete("/api/v1/namespaces/team/configmaps/only-web");
        },
    },
    Flow { name: "delete_namespace", before: bound, act: |bench| bench.delete("/api/v1/namespaces/team") },
];

fn prepared(flow: &Flow) -> Bench {
    let mut bench = Bench::new();
    (flow.before)(&mut bench);
    bench.settle();
    bench.cluster.journal.clear();
    bench
}

fn run(flow: &Flow, interference: impl Fn(u64) -> Fate + 'static) -> Bench {
    let mut bench = prepared(flow);
    bench.cluster.interfere(move |number, _| interference(number));
    (flow.act)(&mut bench);
    bench.settle();
    bench
}

#[test]
fn every_flow_ends_as_the_specification_says() {
    for flow in &FLOWS {
        let mut bench = run(flow, |_| Fate::Served);
        let world = bench.world();
        let shown = serde_json::to_string_pretty(&world).expect("JSON");
        insta::assert_snapshot!(format!("{}_world", flow.name), shown);
        insta::assert_snapshot!(format!("{}_transitions", flow.name), bench.transitions());
    }
}

/// What the operator asked for in each flow, so that a reviewer sees every request that a change adds.
#[test]
fn every_flow_asks_for_no_more_than_it_needs() {
    for flow in &FLOWS {
        let bench = run(flow, |_| Fate::Served);
        let lines = bench.carried().map(line).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(format!("{}_requests", flow.name), lines);
    }
}

fn line(carried: &Carried) -> String {
    let target = match &carried.action {
        Action::Discover { api_version } => api_version.clone(),
        // An event's name ends in random digits.
        action if action.target().is_some_and(|target| target.kind.kind == "Event") => "Event".to_owned(),
        action => action.target().map(ToString::to_string).unwrap_or_default(),
    };
    let failed = carried.failed.map(|class| format!(" -> {class}")).unwrap_or_default();
    format!("{} {target}{failed}", carried.action.name())
}

/// This befalls the request at that position, and nothing befalls any other.
fn at(position: u64, fate: Fate) -> impl Fn(u64) -> Fate {
    move |number| if number == position { fate.clone() } else { Fate::Served }
}

#[test]
fn killed_at_any_action_every_flow_ends_the_same() {
    let mut runs = 0;
    for flow in &FLOWS {
        let mut undisturbed = run(flow, |_| Fate::Served);
        let expected = undisturbed.world();
        for position in 0..undisturbed.carried().count() as u64 {
            for crash in [Fate::CrashedBefore, Fate::CrashedAfter] {
                let mut bench = run(flow, at(position, crash.clone()));
                assert_eq!(bench.world(), expected, "{}: {crash:?} at {position}", flow.name);
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
        let mut undisturbed = run(flow, |_| Fate::Served);
        let expected = undisturbed.world();
        let carried: Vec<Carried> = undisturbed.carried().cloned().collect();
        for (position, undisturbed) in (0..).zip(&carried) {
            for fate in Class::ALL.into_iter().map(Fate::failed).chain([Fate::AnswerLost]) {
                // A lie is no failure: who is told that an object is gone, when it is there, must believe it.
                if is_a_lie(undisturbed, &fate) {
                    continue;
                }
                let mut bench = run(flow, at(position, fate.clone()));
                assert_eq!(bench.world(), expected, "{}: {fate:?} at {position}", flow.name);
                let more = bench.carried().count().saturating_sub(carried.len());
                assert!(more <= 20, "{}: {fate:?} at {position}: {more} more requests", flow.name);
                runs += 1;
            }
        }
    }
    println!("{runs} runs with a failure");
    assert!(runs > 450);
}

fn is_a_lie(carried: &Carried, fate: &Fate) -> bool {
    matches!(carried.action, Action::Get { .. })
        && *fate == Fate::failed(Class::NotFound)
        && carried.failed.is_none()
}
