//! `lockstep sim`: searches for failures.
//!
//! ```text
//!   input ─▶ search ─▶ summary ─────────────▶ report: text or JSON
//!                │ a seed fails                 ▲
//!                └─▶ failure: shrink, files ────┘
//! ```

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::builder::PossibleValuesParser;
use lockstep_sim::{Plan, Search, Simulation, Summary, SystemUnderTest, combine, plan};
use lockstep_subjects as subjects;
use serde::Serialize;

use self::failure::Failure;
use self::input::{PlanFile, Seeds};
use self::interrupt::Stop;
use self::report::Report;

mod failure;
mod files;
mod input;
mod interrupt;
mod planted;
mod progress;
mod report;

/// Searches for failures of the controllers, by simulation
///
/// Each seed is one run: from it follows a plan of faults (lost answers, crashes, stale watches, two leaders, ...) and of
/// what users and other controllers do. For as long as --duration says, in simulated time, the controller goes through the
/// storm; then nothing goes wrong any more, and it must reach the desired state and write nothing further. What must hold
/// is checked at every step. The same seed gives the same run on every machine, and the hash tells whether it did.
///
/// The first failure ends the search. Its plan is cut down to the least that still fails, and written to files together
/// with what happened; the commands that run it again are printed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The seeds to run, from A up to but without B [default: 0..1000]
    #[arg(long, value_name = "A..B", value_parser = input::seeds)]
    seeds: Option<Seeds>,

    #[command(flatten)]
    choice: super::Choice,

    /// Only these faults; users act all the same [default: all]
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(plan::What::NAMES)
    )]
    faults: Vec<String>,

    /// How long things go wrong in each run, in simulated time, such as 90s, 10m or 1h [default: as
    /// long as the controller needs: 15m to 1h]
    #[arg(long, value_name = "DURATION", value_parser = input::duration)]
    duration: Option<Duration>,

    /// How many runs are made at a time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Go on after a seed that fails
    #[arg(long)]
    keep_going: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Where the files about failures go
    #[arg(long, value_name = "DIR", default_value = "lockstep-failures")]
    out: PathBuf,

    /// Run just the plan of this file, as a failure has left it
    #[arg(
        long,
        value_name = "FILE",
        value_parser = input::plan_file,
        conflicts_with_all = ["seeds", "faults", "duration", "jobs", "keep_going"]
    )]
    plan: Option<PlanFile>,

    /// Plant a bug into the controllers, or every one that there is, and tell how many seeds it takes to find it; with --plan,
    /// run the plan with the bug
    #[arg(
        long,
        hide_possible_values = true,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = planted::ALL,
        value_parser = PossibleValuesParser::new(input::bugs())
    )]
    planted: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  lockstep sim
  lockstep sim --seeds 5000..6000 --controllers namespaceclass --duration 10m
  lockstep sim --faults crash_after,answer_lost,time_travel --keep-going
  lockstep sim --plan lockstep-failures/namespaceclass-17.json
  lockstep sim --json | jq '.failures[].replay'

The files of a failure are named by its controller and seed:
  X-17.json  the plan, shrunk: run it with --plan, cut it down further by hand
  X-17.txt   what failed, the plan in words, and what happened
  X-17.html  what happened, as a page

Ctrl-C ends the search after the runs under way, and tells what they found; again, it ends at once.
It ends with 0 if nothing failed, 1 if something did, 2 if it was asked in the wrong way, 130 after Ctrl-C.";

/// The exit code of a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = interrupt::listen()?;
    let well = if let (Some(name), None) = (&args.planted, &args.plan) {
        let table = planted::search(args, name, &stop)?;
        tell(args, &table)?;
        table.all_found()
    } else {
        let report = match &args.plan {
            Some(file) => replay(args, file)?,
            None => search(args, &stop),
        };
        tell(args, &report)?;
        report.failures.is_empty()
    };
    Ok(match (well, stop.is_asked_for()) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(INTERRUPTED),
        (true, false) => ExitCode::SUCCESS,
    })
}

fn tell<T: Serialize + std::fmt::Display>(args: &Args, result: &T) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(result)?)?;
    } else {
        write!(out, "{result}")?;
    }
    Ok(out.flush()?)
}

impl Args {
    fn subjects(&self) -> Vec<&'static dyn SystemUnderTest> {
        subjects::all().into_iter().filter(|subject| self.chose(subject.name())).collect()
    }

    fn chose(&self, controller: &str) -> bool {
        self.choice.controllers.is_empty() || self.choice.controllers.iter().any(|name| name == controller)
    }

    /// Returns the search for a controller. The given seeds are the default.
    fn search(&self, seeds: Seeds, subject: &dyn SystemUnderTest) -> Search {
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Search {
            seeds: self.seeds.clone().unwrap_or(seeds),
            stormy: self.duration.unwrap_or_else(|| subject.stormy()),
            faults: self.faults.clone(),
            threads: self.jobs.map_or_else(processors, usize::from),
            keep_going: self.keep_going,
        }
    }
}

fn search(args: &Args, stop: &Stop) -> Report {
    let (mut summaries, mut failures, mut took) = (Vec::new(), Vec::new(), Duration::ZERO);
    for subject in args.subjects() {
        let search = args.search(0..1000, subject);
        let simulation = Simulation::new(subject);
        let began = Instant::now();
        let summary =
            progress::of(&search, subject.name(), stop, |progress| search.run_while(&simulation, progress));
        took += began.elapsed();
        failures.extend(find(&simulation, &search, &summary, &args.out));
        summaries.push((subject.name(), summary));
        if stop.is_asked_for() || (!failures.is_empty() && !args.keep_going) {
            break;
        }
    }
    let mut report = Report::new(&summaries, took, failures);
    report.interrupted = stop.is_asked_for();
    report
}

/// Returns the failures of a search. Of the seeds that violate the same invariant, the first is shrunk.
fn find(simulation: &Simulation, search: &Search, summary: &Summary, out: &Path) -> Vec<Failure> {
    let mut failures: Vec<Failure> = Vec::new();
    for (seed, violation) in &summary.failures {
        let mut failure = Failure::of_seed(search, simulation.subject().name(), *seed, violation);
        if failures.iter().all(|earlier| earlier.invariant != failure.invariant) {
            failure.shrink(simulation, &search.range(simulation).plan(*seed), out);
        }
        failures.push(failure);
    }
    failures
}

/// Runs a plan twice and compares the hashes.
fn replay(args: &Args, file: &PlanFile) -> anyhow::Result<Report> {
    let Plan { controller, seed, .. } = &file.plan;
    let mut simulation = Simulation::new(input::subject(controller)?);
    if let Some(name) = &args.planted {
        simulation = simulation.with_bug(planted::named(name, controller)?);
    }
    let began = Instant::now();
    let [first, run] = [false, true].map(|keep| simulation.run(&file.plan, keep));
    let took = began.elapsed() / 2;
    ensure!(
        first.hash == run.hash,
        "the plan did not run the same way twice (hashes {} and {}), which is a bug of the simulator; please report it \
         with {}",
        first.hash,
        run.hash,
        file.path.display()
    );
    let failure = run.violation.as_ref().map(|violation| {
        let mut failure = Failure::of_plan(file, args.planted.as_deref(), violation);
        failure.keep(&file.plan, &run, &args.out, &file.stem());
        failure
    });
    let summary = Summary {
        runs: 1,
        steps: run.steps,
        requests: run.requests,
        simulated: run.simulated,
        struck: run.struck,
        failures: run.violation.map(|violation| (*seed, violation)).into_iter().collect(),
        hash: combine([run.hash.as_str()].into_iter()),
    };
    Ok(Report::new(&[(controller.as_str(), summary)], took, failure.into_iter().collect()))
}

#[cfg(test)]
mod tests;
