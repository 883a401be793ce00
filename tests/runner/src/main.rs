//! Runs the test binaries of the workspace in parallel. It reports what `cargo test` does not: the running tests, the slowest
//! tests, and for each failure the one command that repeats it.
//!
//! `tests/run` calls it. The table in [`suites`] defines the suites of each tier; this program does nothing else.
//!
//! It reads libtest's JSON events, which stable compilers print only with `RUSTC_BOOTSTRAP=1` in the environment of the
//! test binary. Nothing is compiled with that variable.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::suites::Tier;

mod cargo;
mod lanes;
mod outcome;
mod progress;
mod report;
mod suites;
mod watchdog;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("test runner: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<bool> {
    let mut arguments = std::env::args().skip(1);
    let tier = arguments.next().context("usage: lockstep-test-runner quick|full|nightly [SUITE]...")?;
    let tier = Tier::parse(&tier).with_context(|| format!("no tier \"{tier}\": quick, full or nightly"))?;
    let wanted: Vec<String> = arguments.collect();
    let binaries = cargo::build(&|name| suites::is_run(tier, name))?;
    let jobs = suites::plan(tier, binaries, &wanted)?;
    if jobs.is_empty() {
        bail!("no suite is called {wanted:?}; names are such as lockstep-sim/bridge");
    }
    let start = Instant::now();
    let results = lanes::run_all(jobs, tier);
    Ok(report::print(&results, start.elapsed()))
}
