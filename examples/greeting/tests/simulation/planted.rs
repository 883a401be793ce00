//! A mistake that people make, planted around the greeter. The search must find it, or it would prove nothing.

use greeting::Greeter;
use lockstep_engine::operator::Control as _;
use lockstep_sim::Simulation;
use lockstep_sim::bugs::Bug;
use serde_json::json;

use super::{Greetings, search};

pub(crate) static DELETES_BY_NAME: Bug = Bug {
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
    assert_eq!(found, Some("only_own_objects_are_changed"));
}
