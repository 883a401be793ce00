//! The fingerprint of a whole world.

use super::print::hash;
use super::process::{Message, Process};
use super::server::Server;
use super::transition::Place;
use super::world::World;

/// Returns the fingerprint of a world and of the faults that are still permitted in it.
pub(super) fn of(world: &World) -> u64 {
    let may_list_stale = world.faults.iter().any(|place| !matches!(place, Place::Part(_)));
    let latest = may_list_stale.then(|| world.server.latest());
    hash(&(of_state(world), latest, &world.faults))
}

/// Returns the fingerprint of a world alone.
pub(super) fn of_state(world: &World) -> u64 {
    let processes: Vec<u64> = world.processes.iter().map(|it| of_process(it, &world.server)).collect();
    hash(&(processes, world.server.fingerprint(), &world.users, world.clock))
}

fn of_process(process: &Process, server: &Server) -> u64 {
    // Requests and answers arrive in any order.
    let message = |Message { request, answer, .. }: &Message| {
        hash(&(server.resolve(request), answer.as_ref().map(|answer| server.resolve(&answer.print))))
    };
    let messages = process.messages.values().map(message).fold(0, u64::wrapping_add);
    let watches = process.watches.iter().map(|(kind, watch)| {
        let events: Vec<u64> = watch.events.iter().map(|it| server.resolve(&it.print)).collect();
        (&kind.kind, events)
    });
    let state = (process.is_alive, process.is_leading, process.began, server.resolve(&process.state));
    hash(&(state, messages, watches.collect::<Vec<_>>()))
}
