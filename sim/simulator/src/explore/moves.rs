//! The transitions that are possible in a state of the world.

use lockstep_engine::action::{Action, ErrorKind, Failure};

use super::process::{Message, Process};
use super::server::LAG_MAX;
use super::transition::Transition;
use super::world::World;
use crate::cluster::FaultVerdict;

/// Two processes lead at most.
const LEADERS_MAX: usize = 2;

/// Returns all transitions, messages first.
pub(super) fn all(world: &World) -> Vec<Transition> {
    let mut moves = messages(world);
    let restarts = world.processes.iter().enumerate().filter(|(_, it)| !it.is_alive);
    moves.extend(restarts.map(|(process, _)| Transition::Restart { process }));
    if moves.is_empty() && world.next_due().is_some() {
        moves.push(Transition::Advance);
    }
    for (user, done) in world.users.iter().enumerate() {
        if *done < world.setup.small.users[user].operations.len() {
            moves.push(Transition::Operate { user });
        }
    }
    moves.extend(faults(world));
    moves
}

/// Returns whether nothing happens any more unless a user acts, a fault is injected, or a resync is due.
pub(super) fn is_at_rest(world: &World) -> bool {
    world.processes.iter().all(|it| it.is_alive && !it.is_busy()) && world.next_due().is_none()
}

/// Returns the part of the world that a transition concerns; none if it concerns several parts.
pub(super) fn part_of(world: &World, transition: &Transition) -> Option<&'static str> {
    match transition {
        Transition::Operate { user } => world.setup.small.users[*user].part,
        Transition::Execute { process, id, verdict }
            if !matches!(verdict, FaultVerdict::CrashedBefore | FaultVerdict::CrashedAfter) =>
        {
            world.processes[*process].messages.get(id)?.part
        }
        Transition::Answer { process, id } => world.processes[*process].messages.get(id)?.part,
        Transition::Deliver { process, kind } => {
            world.processes[*process].watches.get(kind)?.events.front()?.part
        }
        Transition::Execute { .. }
        | Transition::Relist { .. }
        | Transition::Restart { .. }
        | Transition::Lead { .. }
        | Transition::StepDown { .. }
        | Transition::Advance => None,
    }
}

fn messages(world: &World) -> Vec<Transition> {
    let mut moves = Vec::new();
    for (process, it) in world.processes.iter().enumerate() {
        for (id, message) in &it.messages {
            moves.push(match message.answer {
                Some(_) => Transition::Answer { process, id: *id },
                None => Transition::Execute { process, id: *id, verdict: FaultVerdict::Served },
            });
        }
        for (kind, watch) in &it.watches {
            if !watch.events.is_empty() {
                moves.push(Transition::Deliver { process, kind: kind.clone() });
            }
        }
    }
    moves
}

fn faults(world: &World) -> Vec<Transition> {
    let mut moves = Vec::new();
    for (process, it) in world.processes.iter().enumerate() {
        for (id, message) in it.messages.iter().filter(|(_, message)| message.answer.is_none()) {
            let verdicts = verdicts(world, it, message).into_iter();
            moves.extend(verdicts.map(|verdict| Transition::Execute { process, id: *id, verdict }));
        }
    }
    if !world.affords(None) {
        return moves;
    }
    for (process, it) in world.processes.iter().enumerate() {
        for (kind, watch) in &it.watches {
            // Without undelivered events, a list of the current state shows nothing new.
            let lags = u64::from(watch.events.is_empty())..=LAG_MAX as u64;
            moves.extend(lags.map(|lag| Transition::Relist { process, kind: kind.clone(), lag }));
        }
    }
    if world.processes.len() < LEADERS_MAX && world.processes.iter().all(|it| it.is_leading) {
        moves.extend([false, true].map(|previous_notices| Transition::Lead { previous_notices }));
    }
    let leaders = world.processes.iter().filter(|it| it.is_leading).count();
    if leaders == LEADERS_MAX {
        moves.push(Transition::StepDown { process: 0 });
    }
    moves
}

/// Returns the faults of a request. A read without an answer, and a crash at a read, change nothing that a lost request or an
/// earlier crash does not.
fn verdicts(world: &World, process: &Process, message: &Message) -> Vec<FaultVerdict> {
    let mut verdicts = Vec::new();
    let is_write = message.action.is_write();
    if world.affords(message.part) {
        verdicts.push(FaultVerdict::Failed(Failure::new(ErrorKind::Unknown, "no answer in time")));
        if is_write {
            verdicts.push(FaultVerdict::AnswerLost);
        }
        if matches!(&*message.action, Action::Kube(request) if request.is_write()) {
            verdicts.push(FaultVerdict::failed(ErrorKind::Conflict));
        }
    }
    if is_write && process.is_leading && world.affords(None) {
        verdicts.extend([FaultVerdict::CrashedBefore, FaultVerdict::CrashedAfter]);
    }
    verdicts
}
