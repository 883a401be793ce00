//! Builds a timeline of a recorded run and its counterfactual.

use std::collections::BTreeMap;

use lockstep_engine::machine::Note;
use lockstep_engine::object::ObjectRef;
use lockstep_engine::recording::RecordedStep;
use lockstep_engine::recording::what_if::ComparedStep;

use super::build::{Draft, millis};
use super::model::{Compared, Condition, Kind, Lane, Timeline};
use crate::plan::Plan;

/// The runs, in the order of their lanes.
const RUNS: [&str; 2] = ["recorded", "what if"];
/// Marks the items of a step with different output.
const DIFFERS: &str = "≠ ";

/// Returns the timeline of both runs.
pub(super) fn timeline(controller: &str, edited: u64, edit: &str, steps: &[ComparedStep]) -> Timeline {
    let plan =
        Plan { controller: controller.to_owned(), seed: 0, stormy_ms: 0, standby: false, faults: Vec::new() };
    let mut draft = Draft::new(&plan);
    // The first item of each step, with the step's number, and the items of steps that differ.
    let (mut begins, mut differing) = (Vec::new(), Vec::new());
    for step in steps {
        let at = time(&step.recorded);
        let from = draft.len();
        if step.recorded.number == edited {
            draft.push(at, Lane::Faults, Kind::Fault, format!("edit {edit}"));
        }
        let runs = std::iter::once((0, &step.recorded)).chain(step.what_if.iter().map(|step| (1, step)));
        for (run, RecordedStep { number, event, gave, .. }) in runs {
            begins.push((draft.len(), *number));
            draft.step(at, run, event, gave);
        }
        if !step.is_same() {
            differing.extend(from..draft.len());
        }
    }
    let end = steps.last().map(|step| step.recorded.now.monotonic.elapsed()).unwrap_or_default();
    let mut timeline = draft.finish(None, end);
    for (item, number) in begins {
        let text = &mut timeline.items[item].text;
        *text = format!("step {number}: {text}");
    }
    for item in differing {
        timeline.items[item].text.insert_str(0, DIFFERS);
    }
    for lane in &mut timeline.lanes {
        *lane = match *lane {
            Lane::Process(run) => Lane::Actor(RUNS[run]),
            Lane::Faults => Lane::Actor("edit"),
            other => other,
        };
    }
    let count = steps.iter().filter(|step| !step.is_same()).count();
    let summary = match count {
        0 => "The edit makes no difference.".to_owned(),
        _ => format!(
            "{count} of {} steps differ. Their items begin with {DIFFERS}: filter by it.",
            steps.len()
        ),
    };
    timeline.comparison = Some(Compared { title: format!("{controller}: what if {edit}"), summary });
    timeline.conditions = both(steps, timeline.end);
    timeline
}

fn time(step: &RecordedStep) -> u64 {
    millis(step.now.monotonic.elapsed())
}

/// Returns the conditions of both runs, those of one object and type next to each other.
fn both(steps: &[ComparedStep], end: u64) -> Vec<Condition> {
    let recorded = conditions(steps.iter().map(|step| &step.recorded), end);
    let what_if = conditions(steps.iter().flat_map(|step| &step.what_if), end);
    let mut all: Vec<(usize, Condition)> = recorded.into_iter().map(|condition| (0, condition)).collect();
    all.extend(what_if.into_iter().map(|condition| (1, condition)));
    all.sort_by(|(a_run, a), (b_run, b)| {
        (&a.object, &a.kind, a_run, a.from).cmp(&(&b.object, &b.kind, b_run, b.from))
    });
    let named = |(run, condition): (usize, Condition)| Condition {
        object: format!("{}: {}", RUNS[run], condition.object),
        ..condition
    };
    all.into_iter().map(named).collect()
}

/// Returns the conditions of a run, from the step that decided each.
fn conditions<'a>(steps: impl Iterator<Item = &'a RecordedStep>, end: u64) -> Vec<Condition> {
    let mut current: BTreeMap<(&ObjectRef, &str), Condition> = BTreeMap::new();
    let mut past = Vec::new();
    for step in steps {
        let from = time(step);
        for note in &step.gave.notes {
            if let Note::ConditionChanged { object, condition: kind, status, reason, message, .. } = note {
                let decided = Condition {
                    object: object.to_string(),
                    kind: kind.clone(),
                    status: status.clone(),
                    reason: reason.clone(),
                    message: message.clone(),
                    from,
                    to: end,
                };
                let last = current.insert((object, kind), decided);
                past.extend(last.map(|last| Condition { to: from, ..last }));
            }
        }
    }
    past.extend(current.into_values());
    past.retain(|condition| condition.to > condition.from);
    past
}
