//! The exploration of every small world: all runs with at most a given number of faults.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use lockstep_sim::bugs::Bug;
use lockstep_sim::explore::Counterexample;
use lockstep_sim::{Exploration, Explored, SystemUnderTest, Timeline};
use lockstep_subjects::explorable;
use serde::Serialize;

use super::args::Args;
use super::interrupt::Stop;
use super::{files, planted, progress};
use crate::cli::count::count;

type Subject = &'static dyn SystemUnderTest;

/// The report on all explorations.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    explorations: Vec<Row>,
}

/// One small world.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    controller: &'static str,
    world: &'static str,
    faults: usize,
    /// Number of distinct states.
    states: u64,
    transitions: u64,
    /// The number of transitions in the longest run.
    longest_run: usize,
    /// Whether every run was explored. Neither after a violation nor after an interruption.
    is_complete: bool,
    seconds: f64,
    violation: Option<Found>,
}

/// The shortest run with a violation that was found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    invariant: &'static str,
    sentence: &'static str,
    seen: String,
    transitions: usize,
    /// The operations and faults of the run.
    plan: Vec<String>,
    files: Vec<String>,
}

/// Explores each small world of the chosen controllers, with at most this number of faults in each run: the smallest world of each
/// controller first. A violation ends it.
pub(super) fn search(args: &Args, faults: usize, stop: &Stop) -> anyhow::Result<Table> {
    let mut explorations: Vec<Row> = Vec::new();
    let mut worlds: Vec<_> = with_bug(args, &args.subjects())?
        .into_iter()
        .flat_map(|(subject, bug)| {
            explorable(subject.name())
                .iter()
                .enumerate()
                .map(move |(index, small)| (index, subject, bug, small))
        })
        .collect();
    worlds.sort_by_key(|(index, ..)| *index);
    for (index, subject, bug, small) in worlds {
        let began = Instant::now();
        let explored = progress::of_states(small.name, stop, |progress| {
            Exploration { faults, reduced: true }.run(subject, small, bug, progress)
        });
        let seconds = began.elapsed().as_secs_f64();
        let Explored { states, transitions, depth, is_complete, failure, .. } = explored;
        let name = format!("{}-world-{}", subject.name(), index + 1);
        let violation = failure.map(|failure| Found::new(&failure, &args.out, &name)).transpose()?;
        explorations.push(Row {
            controller: subject.name(),
            world: small.name,
            faults,
            states,
            transitions,
            longest_run: depth,
            is_complete,
            seconds,
            violation,
        });
        if !is_complete {
            return Ok(Table { explorations });
        }
    }
    Ok(Table { explorations })
}

/// Returns the controllers, each with the planted bug; without those that do not have it.
fn with_bug(args: &Args, subjects: &[Subject]) -> anyhow::Result<Vec<(Subject, Option<&'static Bug>)>> {
    let Some(name) = &args.planted else { return Ok(subjects.iter().map(|it| (*it, None)).collect()) };
    let mut chosen = Vec::new();
    let mut missing = None;
    for subject in subjects {
        match planted::named(name, subject.name()) {
            Ok(bug) => chosen.push((*subject, Some(bug))),
            Err(misuse) => missing = Some(misuse),
        }
    }
    match missing {
        Some(misuse) if chosen.is_empty() => Err(misuse),
        _ => Ok(chosen),
    }
}

impl Found {
    fn new(failure: &Counterexample, out: &Path, name: &str) -> anyhow::Result<Self> {
        let Counterexample { transitions, plan, run } = failure;
        let violation = run.violation.as_ref().context("the run of a counterexample has no violation")?;
        let timeline = Timeline::of(plan, run);
        let shown = [("txt", timeline.text().into_bytes()), ("html", timeline.html().into_bytes())];
        let files = files::write(out, name, &shown)?;
        Ok(Self {
            invariant: violation.invariant,
            sentence: violation.sentence,
            seen: violation.seen.clone(),
            transitions: *transitions,
            plan: plan.faults.iter().map(ToString::to_string).collect(),
            files: files.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        })
    }
}

impl Table {
    pub(super) fn has_violation(&self) -> bool {
        self.explorations.iter().any(|row| row.violation.is_some())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.explorations {
            let Row { controller, world, states, transitions, longest_run, seconds, .. } = row;
            writeln!(f, "{controller}: {world}; at most {}", count(row.faults as u64, "fault"))?;
            writeln!(
                f,
                "  {}, {}, the longest run has {longest_run}, {seconds:.1} s",
                count(*states, "state"),
                count(*transitions, "transition")
            )?;
            if let Some(found) = &row.violation {
                write!(f, "{found}")?;
            } else if row.is_complete {
                writeln!(f, "  every run was explored; none violates an invariant")?;
            } else {
                writeln!(f, "  interrupted: not every run was explored")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  violated: {}", self.invariant)?;
        writeln!(f, "    {}", self.sentence)?;
        writeln!(f, "    seen: {}", self.seen)?;
        writeln!(
            f,
            "  the shortest run that was found has {}, with",
            count(self.transitions as u64, "transition")
        )?;
        for step in &self.plan {
            writeln!(f, "    {step}")?;
        }
        writeln!(f, "  files: {}", self.files.join(", "))
    }
}
