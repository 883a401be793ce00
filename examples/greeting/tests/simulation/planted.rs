//! A mistake that people make, planted around the greeter. The search must find it, or it would prove nothing.

use std::ops::ControlFlow;

use greeting::Greeter;
use lockstep_engine::operator::Control as _;
use lockstep_sim::bugs::Bug;
use lockstep_sim::{Exploration, Simulation, Timeline};
use serde_json::json;

use super::explored::REPLACED;
use super::{Greetings, search};

static DELETES_BY_NAME: Bug = Bug {
    name: "deletes_by_name",
    sentence: "A ConfigMap is deleted by its name, even if another client has replaced it.",
    controller: Greeter::NAME,
    plant: |machine| machine,
    garble: Some(|action, mut request| {
        if action.name() == "delete" {
            *request.body_mut() =
                json!({ "apiVersion": "v1", "kind": "DeleteOptions" }).to_string().into_bytes();
        }
        request
    }),
};

#[test]
fn a_deletion_by_name_is_found() {
    let summary = search(&Simulation::new(&Greetings).with_bug(&DELETES_BY_NAME));
    let found = summary.failures.values().next().map(|violation| violation.invariant);
    assert_eq!(found, Some("nothing_foreign_is_touched"));
}

#[test]
fn a_deletion_by_name_is_found_by_exploration() {
    let exploration = Exploration { faults: 0, reduced: true };
    let explored =
        exploration.run(&Greetings, &REPLACED, Some(&DELETES_BY_NAME), &|_| ControlFlow::Continue(()));
    let failure = explored.failure.expect("the bug is found");
    let violation = failure.run.violation.as_ref().expect("a violation");
    assert_eq!(violation.invariant, "nothing_foreign_is_touched");
    let text = Timeline::of(&failure.plan, &failure.run).text();
    assert!(text.contains("replace the ConfigMap"), "{text}");
}
