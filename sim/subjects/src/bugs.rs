//! The planted bugs of the four controllers.

use std::collections::BTreeMap;

use lockstep_engine::action::{Action, ActionId, Request};
use lockstep_engine::machine::{Event, Machine};
use lockstep_sim::bugs::{Bug, Flaw, plant};

mod answers;
mod bridge;
mod clocks;
mod common;
mod dpuservice;
mod events;
mod requests;
mod sentinel;

/// Returns all bugs.
pub fn all() -> Vec<&'static Bug> {
    [
        answers::BUGS,
        bridge::BUGS,
        clocks::BUGS,
        dpuservice::BUGS,
        events::BUGS,
        requests::BUGS,
        sentinel::BUGS,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The controller in which the bugs of most files are planted.
const HOST: &str = lockstep_crds::namespaceclass::CONTROLLER;

/// Changes nothing in a machine.
fn sound(machine: Box<dyn Machine>) -> Box<dyn Machine> {
    machine
}

/// The requested actions without an answer.
#[derive(Default)]
struct Asked(BTreeMap<ActionId, Action>);

impl Asked {
    fn note(&mut self, request: &Request) {
        self.0.insert(request.id, request.action.clone());
    }

    fn answered(&mut self, event: &Event) -> Option<Action> {
        match event {
            Event::Finished { id, .. } => self.0.remove(id),
            _ => None,
        }
    }
}
