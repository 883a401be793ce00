//! Writes a simulated run in the recording format of live runs, so that it can be replayed in the same way.

use lockstep_engine::recording::{FORMAT, Header, Line, RecordedStep};

use super::plan::Plan;
use super::run::{Run, seed_of};
use super::subject::SystemUnderTest;
use crate::cluster::What;

/// Returns a recording of the last incarnation of the process that took the last step; none if the run has no journal. The
/// recording keeps the secrets of a simulation, which are made up.
pub fn record(subject: &dyn SystemUnderTest, plan: &Plan, run: &Run) -> serde_json::Result<Option<Vec<u8>>> {
    let last = run.journal.iter().rev().find_map(|entry| match &entry.what {
        What::Stepped { process, .. } => Some(*process),
        _ => None,
    });
    let Some(process) = last else { return Ok(None) };
    let controller = run.controllers.get(&process);
    let members = subject.members().iter().copied();
    let subject = members.into_iter().find(|it| controller == Some(&it.name())).unwrap_or(subject);
    let begins = |what: &What| *what == What::Started { process };
    let incarnations = run.journal.iter().filter(|entry| begins(&entry.what)).count() as u64;
    let from = run.journal.iter().rposition(|entry| begins(&entry.what)).unwrap_or(0);
    let header = Header {
        format: FORMAT,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        machine: subject.name().to_owned(),
        config: subject.config(seed_of(plan.seed, process, incarnations.saturating_sub(1))),
        segment: 0,
    };
    let mut recording = header.to_json()?;
    let steps = run.journal[from..].iter().filter_map(|entry| match &entry.what {
        What::Stepped { process: other, now, event, step } if *other == process => Some((now, event, step)),
        _ => None,
    });
    for (number, (now, event, step)) in (1..).zip(steps) {
        let taken = RecordedStep { number, now: *now, event: event.clone(), gave: step.clone() };
        recording.extend(Line::Step(taken).to_json()?);
    }
    Ok(Some(recording))
}
