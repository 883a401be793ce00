//! Partial-order reduction: persistent sets over the parts of a world.
//!
//! Transitions of different parts commute: they read and write different objects, and concern different keys of a machine. If
//! nothing that concerns several parts can happen before the time advances, all transitions of one part are a persistent set:
//! whatever the other parts do first, it changes nothing for them. Then only this part needs to proceed, and the order between
//! parts is not explored.

use std::collections::BTreeSet;

use super::moves::part_of;
use super::process::Process;
use super::transition::{Place, Transition};
use super::world::World;

/// Returns the transitions that need to be explored, out of all that are possible.
pub(super) fn persistent(world: &World, all: Vec<Transition>) -> Vec<Transition> {
    let parts: BTreeSet<Option<&str>> = world.processes.iter().flat_map(Process::parts_in_transit).collect();
    if parts.contains(&None) || may_concern_several_parts(world) {
        return all;
    }
    for part in parts.iter().flatten() {
        let set = closure(world, part);
        let (chosen, others): (Vec<_>, Vec<_>) = all
            .iter()
            .cloned()
            .partition(|transition| part_of(world, transition).is_some_and(|part| set.contains(part)));
        if !others.is_empty() {
            return chosen;
        }
    }
    all
}

fn may_concern_several_parts(world: &World) -> bool {
    let users = world.setup.small.users.iter().zip(&world.users);
    let mut ahead = users.filter(|(user, done)| **done < user.operations.len());
    world.faults.iter().any(|place| !matches!(place, Place::Part(_)))
        || world.processes.iter().any(|process| !process.is_alive)
        || ahead.any(|(user, _)| user.part.is_none())
}

/// Returns a part with all parts that it waits for: those of earlier events of the same watch.
fn closure(world: &World, part: &'static str) -> BTreeSet<&'static str> {
    let mut set = BTreeSet::from([part]);
    loop {
        let before = set.len();
        for watch in world.processes.iter().flat_map(|process| process.watches.values()) {
            let parts: Vec<&str> = watch.events.iter().filter_map(|it| it.part).collect();
            if let Some(last) = parts.iter().rposition(|part| set.contains(part)) {
                set.extend(&parts[..last]);
            }
        }
        if set.len() == before {
            return set;
        }
    }
}
