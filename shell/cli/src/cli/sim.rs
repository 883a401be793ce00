//! `lockstep sim`: searches for failures.
//!
//! ```text
//!   input ─▶ search ─▶ summary ─────────────▶ report: text or JSON
//!                │ a seed fails                 ▲
//!                └─▶ failure: shrink, files ────┘
//! ```

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::ensure;
use lockstep_sim::{Plan, Search, Simulation, Summary, combine};
use serde::Serialize;

use self::coverage::Coverage;
use self::failure::Failure;
use self::input::PlanFile;
use self::interrupt::{INTERRUPTED, Stop};
use self::report::Report;

pub(crate) use self::args::{Args, conflict};

mod args;
mod coverage;
mod explored;
mod failure;
mod files;
mod input;
mod interrupt;
mod museum;
mod planted;
mod progress;
mod report;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = interrupt::listen()?;
    let well = if let Some(name) = &args.museum {
        let table = museum::search(args, name, &stop);
        print(args, &table)?;
        table.all_found()
    } else if let Some(faults) = args.scope {
        let table = explored::search(args, faults.into(), &stop)?;
        print(args, &table)?;
        !table.has_violation()
    } else if let (Some(name), None) = (&args.planted, &args.plan) {
        let table = planted::search(args, name, &stop)?;
        print(args, &table)?;
        table.all_found()
    } else {
        let report = match &args.plan {
            Some(file) => replay(args, file)?,
            None => search(args, &stop),
        };
        print(args, &report)?;
        report.failures.is_empty()
    };
    Ok(match (well, stop.is_asked_for()) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(INTERRUPTED),
        (true, false) => ExitCode::SUCCESS,
    })
}

fn print<T: Serialize + std::fmt::Display>(args: &Args, result: &T) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(result)?)?;
    } else {
        write!(out, "{result}")?;
    }
    Ok(out.flush()?)
}

fn search(args: &Args, stop: &Stop) -> Report {
    let (mut summaries, mut failures, mut took) = (Vec::new(), Vec::new(), Duration::ZERO);
    let mut coverage = Vec::new();
    for subject in args.subjects() {
        let search = args.search(0..1000, subject);
        let mut simulation = Simulation::new(subject);
        if args.coverage {
            simulation = simulation.covering();
        }
        let began = Instant::now();
        let summary =
            progress::of(&search, subject.name(), stop, |progress| search.run_while(&simulation, progress));
        took += began.elapsed();
        failures.extend(find(&simulation, &search, &summary, &args.out));
        if args.coverage {
            coverage.push(Coverage::new(subject, &summary.reached, &search.faults));
        }
        summaries.push((subject.name(), summary));
        if stop.is_asked_for() || (!failures.is_empty() && !args.keep_going) {
            break;
        }
    }
    let mut report = Report::new(&summaries, took, failures);
    report.interrupted = stop.is_asked_for();
    report.coverage = coverage;
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
        "two runs of the plan differ (hashes {} and {}), which is a bug of the simulator; please report it \
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
        reached: run.reached,
    };
    Ok(Report::new(&[(controller.as_str(), summary)], took, failure.into_iter().collect()))
}

#[cfg(test)]
mod tests;
