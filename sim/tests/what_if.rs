//! Counterfactuals of simulated runs: an edit that changes nothing makes no difference, and no answer is invented.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockstep_engine::action::{Action, ActionId, ErrorKind, Outcome};
use lockstep_engine::machine::Event;
use lockstep_engine::recording::edit::Edit;
use lockstep_engine::recording::what_if::{ComparedStep, Remainder, WhatIf};
use lockstep_engine::recording::{Header, Line, Origin, Recordable, RecordedStep, read};
use lockstep_sim::{Search, Simulation, SystemUnderTest, record};
use lockstep_subjects::bridge::Bridge;
use lockstep_subjects::dpuservice::DpuService;
use lockstep_subjects::namespaceclass::NamespaceClass;

/// The number of edited steps of each recording.
const EDITS: usize = 8;

/// Returns the number of seeds of each controller in the tier that `tests/run` sets in the environment.
fn seeds() -> u64 {
    match std::env::var("LOCKSTEP_TIER").as_deref() {
        Ok("quick") => 1,
        Ok("nightly") => 20,
        _ => 2,
    }
}

struct Recording {
    header: Header,
    lines: Vec<Line>,
}

impl Recording {
    /// Records a run with faults and with users who act.
    fn of(subject: &'static dyn SystemUnderTest, seed: u64) -> Self {
        let simulation = Simulation::new(subject);
        let plan =
            Search { stormy: Duration::from_mins(5), ..Search::default() }.range(&simulation).plan(seed);
        let run = simulation.run(&plan, true);
        let recording = record(subject, &plan, &run).expect("a recording is JSON").expect("has a journal");
        let (header, lines) = read::open(&recording).expect("a recording");
        let lines = lines.collect::<Result<_, _>>().expect("readable lines");
        Self { header, lines }
    }

    /// Returns some steps that an edit fits.
    fn some_steps(&self, edit: &Edit) -> Vec<&RecordedStep> {
        let steps = self.lines.iter().filter_map(|line| match line {
            Line::Step(step) if edit.apply(&step.event).is_ok() => Some(step),
            _ => None,
        });
        let steps: Vec<_> = steps.collect();
        let distance = steps.len().div_ceil(EDITS).max(1);
        steps.into_iter().step_by(distance).collect()
    }

    fn run(&self, edit: &Edit, step: &RecordedStep) -> (Vec<ComparedStep>, Remainder) {
        let edited = edit.apply(&step.event).expect("the edit fits");
        let make = |origin: Origin<'_>| revive(&self.header.machine, origin);
        let mut runs = WhatIf::new(&self.header, step.number, edited, make).expect("a configuration");
        let steps = self.lines.iter().map(|line| runs.take(line.clone()).expect("a state").expect("a step"));
        (steps.collect(), runs.finish())
    }
}

fn revive(name: &str, origin: Origin<'_>) -> serde_json::Result<Box<dyn Recordable>> {
    Ok(match name {
        lockstep_crds::bridge::CONTROLLER => Box::new(lockstep_bridge::Operator::revive(origin)?),
        lockstep_crds::dpuservice::CONTROLLER => Box::new(lockstep_dpuservice::Operator::revive(origin)?),
        _ => Box::new(lockstep_namespaceclass::Operator::revive(origin)?),
    })
}

/// Returns the recordings of all controllers.
fn recordings() -> impl Iterator<Item = (&'static str, u64, Recording)> {
    let subjects: [&'static dyn SystemUnderTest; 3] = [&NamespaceClass, &Bridge, &DpuService];
    let runs = subjects.into_iter().flat_map(|subject| (0..seeds()).map(move |seed| (subject, seed)));
    runs.map(|(subject, seed)| (subject.name(), seed, Recording::of(subject, seed)))
}

/// Returns the answers of a run, each with its step and its request.
fn answers<'a>(steps: impl Iterator<Item = &'a RecordedStep>) -> Vec<(u64, ActionId, Action, Outcome)> {
    let (mut asked, mut answers) = (BTreeMap::new(), Vec::new());
    for step in steps {
        if let Event::Finished { id, outcome } = &step.event {
            let action: Action = asked.remove(id).expect("it was requested, and is answered once");
            answers.push((step.number, *id, action, outcome.clone()));
        }
        asked.extend(step.gave.requests.iter().map(|request| (request.id, request.action.clone())));
    }
    answers
}

#[test]
fn the_empty_patch_gives_the_same_run_byte_for_byte() {
    let edit = Edit::Patch(serde_json::Map::new());
    let mut edits = 0;
    for (name, seed, recording) in recordings() {
        for step in recording.some_steps(&edit) {
            let (steps, rest) = recording.run(&edit, step);
            for compared in steps {
                let what = format!("{name}, seed {seed}, edit of step {}", step.number);
                assert!(compared.is_as_recorded && compared.is_same(), "{what}: {compared:?}");
                assert_eq!(compared.what_if, [compared.recorded], "{what}");
            }
            assert_eq!((rest.only_recorded, rest.only_what_if), (Vec::new(), Vec::new()));
            edits += 1;
        }
    }
    assert!(edits > 20, "{edits} edits");
}

#[test]
fn no_answer_is_invented() {
    let (mut differences, mut waiting) = (0, 0);
    for (name, seed, recording) in recordings() {
        for edit in [Edit::Drop, Edit::Fail(ErrorKind::Forbidden)] {
            for edited in recording.some_steps(&edit) {
                let what = format!("{name}, seed {seed}, {edit:?} of step {}", edited.number);
                let (steps, rest) = recording.run(&edit, edited);
                differences += usize::from(steps.iter().any(|step| !step.is_same()));
                let mut recorded = answers(steps.iter().map(|step| &step.recorded));
                let given = answers(steps.iter().flat_map(|step| &step.what_if));
                let answered: BTreeSet<ActionId> = given.iter().map(|(_, id, ..)| *id).collect();
                for (number, _, action, outcome) in given {
                    if number == edited.number && edit != Edit::Drop {
                        continue;
                    }
                    let is_source = |(_, _, asked, given): &(u64, ActionId, Action, Outcome)| {
                        *asked == action && *given == outcome
                    };
                    let source = recorded.iter().position(is_source);
                    let source =
                        source.unwrap_or_else(|| panic!("{what}: invented for {action:?}: {outcome:?}"));
                    assert!(recorded.remove(source).0 <= number, "{what}: {action:?} was answered too early");
                }
                for requested in rest.only_what_if.iter().chain(&rest.dropped) {
                    assert!(!answered.contains(&requested.request.id), "{what}: {requested:?} was answered");
                    waiting += 1;
                }
            }
        }
    }
    assert!(differences > 20 && waiting > 20, "{differences} differences, {waiting} requests wait");
}
