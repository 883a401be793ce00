//! The shortest run with a violation, as a plan and a run that a timeline can show.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::ErrorKind;

use super::depth_first::{DepthFirst, Path, violation};
use super::fingerprint;
use super::outcome::Counterexample;
use super::setup::Setup;
use super::transition::{Place, Transition};
use super::world::World;
use crate::cluster::{FaultVerdict, What as Happened};
use crate::coverage::Reached;
use crate::plan::{Fault, Plan, What};
use crate::planned_faults::Injection;
use crate::run::Run;

/// The effort of the search for a shorter run, in states, for each state that was visited until the first violation.
const EFFORT: u64 = 4;
/// The effort if the first violation was found at once.
const EFFORT_MIN: u64 = 2_000;

/// A run with a violation.
pub(super) struct Found<'a> {
    pub(super) setup: &'a Arc<Setup>,
    pub(super) faults: Vec<Place>,
    pub(super) path: Path,
}

/// Searches for shorter runs, as long as there is one, and returns the shortest.
pub(super) fn shortest(
    mut found: Found<'_>,
    search: &DepthFirst<'_>,
    progress: &dyn Fn(u64) -> ControlFlow<()>,
) -> Option<Counterexample> {
    let visited = search.visited.len() as u64;
    let mut left = (visited * EFFORT).max(EFFORT_MIN);
    while !found.path.is_empty() && left > 0 {
        let limited = |states| if states < left { progress(visited) } else { ControlFlow::Break(()) };
        let mut shorter = DepthFirst::new(search.reduced, Some(found.path.len() - 1), &limited);
        let Ok(root) = World::new(Arc::clone(found.setup), found.faults.clone(), false) else { break };
        let Some(path) = shorter.run(root) else { break };
        found.path = path;
        let states = shorter.visited.len() as u64;
        left = left.saturating_sub(states);
    }
    replay(&found)
}

/// Repeats the run with a journal.
fn replay(found: &Found<'_>) -> Option<Counterexample> {
    let (mut faults, mut strikes, mut prints) = (Vec::new(), Vec::new(), Vec::new());
    let mut world = match World::new(Arc::clone(found.setup), found.faults.clone(), true) {
        Ok(world) => world,
        Err(violation) => return Some(counterexample(found, Vec::new(), run(None, violation, Vec::new()))),
    };
    let mut last = Ok(());
    for transition in &found.path {
        prints.push(fingerprint::of(&world));
        if let Some((what, affected)) = describe(&world, transition) {
            strikes.push(Injection { at: world.at(), fault: faults.len(), affected });
            faults.push(fault(what, world.at()));
        }
        last = world.take(transition);
    }
    let violation = violation(&prints, &world, last)?;
    Some(counterexample(found, faults, run(Some(&world), violation, strikes)))
}

fn counterexample(found: &Found<'_>, faults: Vec<Fault>, run: Run) -> Counterexample {
    let stormy_ms = millis(run.simulated);
    let plan = Plan {
        controller: found.setup.subject.name().to_owned(),
        seed: 0,
        stormy_ms,
        standby: false,
        faults,
    };
    Counterexample { transitions: found.path.len(), plan, run }
}

fn run(world: Option<&World>, violation: crate::run::Violation, strikes: Vec<Injection>) -> Run {
    let journal = world.and_then(|world| world.journal.clone()).unwrap_or_default();
    let steps = journal.iter().filter(|entry| matches!(entry.what, Happened::Stepped { .. })).count();
    let requests = journal.iter().filter(|entry| matches!(entry.what, Happened::Carried(_))).count();
    Run {
        simulated: violation.at,
        violation: Some(violation),
        steps: steps as u64,
        requests: requests as u64,
        struck: crate::planned_faults::Struck::new(),
        strikes,
        controllers: BTreeMap::new(),
        hash: String::new(),
        journal,
        reached: Reached::new(),
    }
}

fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

fn fault(what: What, at: Duration) -> Fault {
    Fault {
        what,
        from_ms: millis(at),
        until_ms: millis(at),
        aim: None,
        controller: None,
        per_mille: 1000,
        times: 1,
    }
}

/// Returns the fault or operation of a transition, and the request that it affects.
fn describe(world: &World, transition: &Transition) -> Option<(What, String)> {
    let of_request = |what: What| match transition {
        Transition::Execute { process, id, .. } => {
            let action = &world.processes[*process].messages.get(id)?.action;
            let target = action.target().map(ToString::to_string).unwrap_or_default();
            Some((what, format!("{} {target}", action.name())))
        }
        _ => None,
    };
    match transition {
        Transition::Operate { user } => {
            let operation = &world.setup.small.users[*user].operations[world.users[*user]];
            Some((What::Operation { name: operation.name.to_owned(), seed: 0 }, String::new()))
        }
        Transition::Execute { verdict, .. } => match verdict {
            FaultVerdict::Served => None,
            FaultVerdict::Failed(failure) => of_request(fails(failure.class)),
            FaultVerdict::AnswerLost => of_request(What::AnswerLost),
            FaultVerdict::CrashedBefore => of_request(What::CrashBefore { restart_ms: 0 }),
            FaultVerdict::CrashedAfter => of_request(What::CrashAfter { restart_ms: 0 }),
        },
        Transition::Relist { process, kind, lag } => {
            let what = if *lag == 0 { What::WatchCut } else { What::TimeTravel { changes: *lag } };
            Some((what, format!("process {process}, {kind} only")))
        }
        Transition::Lead { previous_notices: false } => Some((What::TwoLeaders { for_ms: 0 }, String::new())),
        Transition::Lead { previous_notices: true } => Some((What::Handover { gap_ms: 0 }, String::new())),
        Transition::StepDown { process } => {
            Some((What::Handover { gap_ms: 0 }, format!("process {process} stops leading")))
        }
        Transition::Answer { .. }
        | Transition::Deliver { .. }
        | Transition::Restart { .. }
        | Transition::Advance => None,
    }
}

fn fails(class: ErrorKind) -> What {
    What::Fail { class, retry_after_ms: None }
}
