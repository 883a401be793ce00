//! The arguments of `lockstep sim`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use lockstep_sim::{Search, SystemUnderTest, plan};
use lockstep_subjects as subjects;

use super::input::{self, PlanFile, Seeds};
use crate::cli::choice::Choice;

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
    pub(super) seeds: Option<Seeds>,

    #[command(flatten)]
    choice: Choice,

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
    pub(super) duration: Option<Duration>,

    /// How many runs are made at a time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Go on after a seed that fails
    #[arg(long)]
    pub(super) keep_going: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,

    /// Where the files about failures go
    #[arg(long, value_name = "DIR", default_value = "lockstep-failures")]
    pub(super) out: PathBuf,

    /// Run just the plan of this file, as a failure has left it
    #[arg(
        long,
        value_name = "FILE",
        value_parser = input::plan_file,
        conflicts_with_all = ["seeds", "faults", "duration", "jobs", "keep_going"]
    )]
    pub(super) plan: Option<PlanFile>,

    /// Plant a bug into the controllers, or every one that there is, and tell how many seeds it takes to find it; with --plan,
    /// run the plan with the bug
    #[arg(
        long,
        hide_possible_values = true,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = input::ALL_BUGS,
        value_parser = PossibleValuesParser::new(input::bugs())
    )]
    pub(super) planted: Option<String>,

    /// Search for a published bug of another operator, planted in a small controller, or for all of them, with up to 100 seeds
    /// each, and print how many seeds and faults each takes
    #[arg(
        long,
        hide_possible_values = true,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = input::ALL_BUGS,
        conflicts_with_all = ["controllers", "keep_going", "plan", "planted"],
        value_parser = PossibleValuesParser::new(input::exhibits())
    )]
    pub(super) museum: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  lockstep sim
  lockstep sim --seeds 5000..6000 --controllers namespaceclass --duration 10m
  lockstep sim --faults crash_after,answer_lost,time_travel --keep-going
  lockstep sim --plan lockstep-failures/namespaceclass-17.json
  lockstep sim --museum
  lockstep sim --json | jq '.failures[].replay'

The files of a failure are named by its controller and seed:
  X-17.json  the plan, shrunk: run it with --plan, cut it down further by hand
  X-17.txt   what failed, the plan in words, and what happened
  X-17.html  what happened, as a page

Ctrl-C ends the search after the runs under way, and tells what they found; again, it ends at once.
It ends with 0 if nothing failed, 1 if something did, 2 if it was asked in the wrong way, 130 after Ctrl-C.";

impl Args {
    /// Returns the chosen controllers.
    pub(super) fn subjects(&self) -> Vec<&'static dyn SystemUnderTest> {
        subjects::all().into_iter().filter(|subject| self.chose(subject.name())).collect()
    }

    /// Returns whether a controller is chosen.
    pub(super) fn chose(&self, controller: &str) -> bool {
        self.choice.controllers.is_empty() || self.choice.controllers.iter().any(|name| name == controller)
    }

    /// Returns the search for a controller. The given seeds are the default.
    pub(super) fn search(&self, seeds: Seeds, subject: &dyn SystemUnderTest) -> Search {
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
