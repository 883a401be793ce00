//! `lockstep replay --what-if`: runs a recording and its counterfactual, and compares them.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
#[cfg(feature = "embedded")]
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use lockstep_cli::controllers;
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::recording::edit::Unfit;
use lockstep_engine::recording::what_if::WhatIf;
use lockstep_engine::recording::{Header, Line, Origin, Recordable, RecordedStep};

use super::super::brief::described;
use super::super::diff;
use super::super::misuse::Misuse;
use super::broken::broken;
use super::comparison::Comparison;
use super::edited::{self, EditedStep};
use super::report;
#[cfg(feature = "embedded")]
use super::timeline;

#[derive(Debug, clap::Args)]
pub(super) struct Counterfactual {
    /// Edit the event of a step, and show what differs: STEP:drop, STEP:fail=CLASS or STEP:patch=JSON
    #[arg(long, value_name = "EDIT", value_parser = edited::parse, conflicts_with = "step")]
    pub(super) what_if: Option<EditedStep>,

    /// Write a page with both runs side by side to this file
    #[cfg(feature = "embedded")]
    #[arg(long, value_name = "FILE", requires = "what_if")]
    timeline: Option<PathBuf>,
}

/// Compares the runs, and prints the differences.
#[cfg_attr(not(feature = "embedded"), expect(unused_variables, reason = "there is no timeline"))]
pub(super) fn run(
    args: &Counterfactual,
    edited: &EditedStep,
    with_diff: bool,
    file: &Path,
    header: &Header,
    lines: Vec<Line>,
) -> anyhow::Result<()> {
    let file = file.display();
    let event = edited_event(edited, &file, &lines).map_err(Misuse)?;
    let comparison = compare(edited.step, event, &file, header, lines)?;
    #[cfg(feature = "embedded")]
    if let Some(path) = &args.timeline {
        timeline::write(path, edited, header, &comparison)?;
    }
    let mut out = io::stdout().lock();
    write!(out, "{}", report::text(edited, header, &comparison))?;
    if let (true, Some(first)) = (with_diff, comparison.first()) {
        let recorded = output(std::slice::from_ref(&first.recorded))?;
        let what_if = output(&first.what_if)?;
        write!(out, "\n{}", diff::unified(("recorded", &recorded), ("what if", &what_if)))?;
    }
    Ok(())
}

/// Returns the output of steps, as if they were one.
fn output(steps: &[RecordedStep]) -> serde_json::Result<String> {
    let mut output = Step::default();
    for Step { requests, notes } in steps.iter().map(|step| step.gave.clone()) {
        output.requests.extend(requests);
        output.notes.extend(notes);
    }
    serde_json::to_string_pretty(&output)
}

fn steps(lines: &[Line]) -> impl DoubleEndedIterator<Item = &RecordedStep> {
    lines.iter().filter_map(|line| match line {
        Line::Step(step) => Some(step),
        Line::Checkpoint(_) => None,
    })
}

/// Returns the edited event of the step.
fn edited_event(edited: &EditedStep, file: &impl Display, lines: &[Line]) -> Result<Option<Event>, String> {
    let EditedStep { step: number, edit, text } = edited;
    let Some(step) = steps(lines).find(|step| step.number == *number) else {
        let known = match (steps(lines).next(), steps(lines).next_back()) {
            (Some(first), Some(last)) => {
                format!("the replayed steps are {} to {}; name one of them", first.number, last.number)
            }
            _ => "no step is replayed; name another recording or a later step in --until".to_owned(),
        };
        return Err(format!("--what-if {text}: {file} has no step {number} here: {known}"));
    };
    edit.apply(&step.event).map_err(|unfit| {
        let what = described(&step.event);
        let fits = |other: &&RecordedStep| other.number > *number && edit.apply(&other.event).is_ok();
        let remedy = match (&unfit, steps(lines).find(fits)) {
            (Unfit::NoOutcome(_), _) => {
                format!("patch the form that the line of step {number} has in the file")
            }
            (_, Some(next)) => format!("the next step that it fits is {}", next.number),
            (_, None) => "no later step fits either; STEP:drop fits every step".to_owned(),
        };
        format!("--what-if {text} does not fit step {number} of {file} ({what}): {unfit}; {remedy}")
    })
}

/// Runs both.
fn compare(
    step: u64,
    event: Option<Event>,
    file: &impl Display,
    header: &Header,
    lines: Vec<Line>,
) -> anyhow::Result<Comparison> {
    let make = |origin: Origin<'_>| {
        controllers::revive(&header.machine, origin).map(|machine| machine as Box<dyn Recordable>)
    };
    let mut runs = WhatIf::new(header, step, event, make).map_err(|error| broken(header, file, &error))?;
    let mut compared = Vec::new();
    for line in lines {
        let number = match &line {
            Line::Step(step) => step.number,
            Line::Checkpoint(_) => 0,
        };
        let taken = catch_unwind(AssertUnwindSafe(|| runs.take(line)));
        let taken = taken.map_err(|_| {
            anyhow!(
                "{file}: step {number} panics; an edited answer must have the type that its request asks for"
            )
        })?;
        let Some(taken) = taken.map_err(|error| broken(header, file, &error))? else { continue };
        if !taken.is_as_recorded {
            bail!(
                "{file}: step {number}: the output differs from the recording without the edit (recorded by lockstep {}, \
                 replayed by lockstep {}); lockstep replay {file} --diff shows how",
                header.program,
                env!("CARGO_PKG_VERSION")
            );
        }
        compared.push(taken);
    }
    Ok(Comparison { steps: compared, rest: runs.finish() })
}
