//! The arguments of `lockstep sim`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::builder::PossibleValuesParser;
use lockstep_sim::{Search, SystemUnderTest, plan};
use lockstep_subjects as subjects;
use lockstep_subjects::together::{self, Together};

use super::input::{self, PlanFile, Seeds};
use crate::cli::choice::Choice;

/// Searches for failures of the controllers, by simulation
///
/// Each seed is one run. It determines a plan of faults (lost answers, crashes, stale watches, two leaders, ...) and of the
/// operations of users and other controllers. Fault injection lasts for --duration, in simulated time. Then the faults end,
/// and the controller must reach the desired state and write nothing further. The invariants are checked at every step. The
/// same seed gives the same run on every machine; the printed hash proves it.
///
/// The first failure ends the search. Its plan is shrunk to a minimum that still fails, and written to files together with a
/// log of the run. The commands that reproduce the failure are printed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
pub(crate) struct Args {
    /// The seeds to run, from A to B, without B [default: 0..1000; for each bug 0..2000 with --planted, and 0..400 with
    /// --museum]
    #[arg(long, value_name = "A..B", value_parser = input::seeds)]
    pub(super) seeds: Option<Seeds>,

    #[command(flatten)]
    choice: Choice,

    /// Run the controllers together in one cluster, instead of one after the other
    #[arg(long, conflicts_with = "museum")]
    together: bool,

    /// Only these faults; users act nevertheless [default: all]
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(plan::What::NAMES)
    )]
    faults: Vec<String>,

    /// Duration of fault injection in each run, in simulated time, such as 90s, 10m or 1h [default:
    /// depends on the controller, 15m to 1h; 10m with --museum]
    #[arg(long, value_name = "DURATION", value_parser = input::duration)]
    pub(super) duration: Option<Duration>,

    /// Print which combinations of request, view, answer and fault the search reached, and which it never reached
    #[arg(long, conflicts_with_all = ["museum", "plan", "planted"])]
    pub(super) coverage: bool,

    /// Explore every run of each small world of the controllers, with at most this number of faults in a run: any order of
    /// messages, operations and faults. More faults take much longer
    #[arg(
        long,
        value_name = "FAULTS",
        value_parser = clap::value_parser!(u8).range(0..=4),
        conflicts_with_all = ["seeds", "together", "faults", "duration", "coverage", "jobs", "keep_going", "plan", "museum"]
    )]
    pub(super) scope: Option<u8>,

    /// Number of concurrent runs [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Continue after a failed seed
    #[arg(long)]
    pub(super) keep_going: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,

    /// The folder for the files of failures
    #[arg(long, value_name = "DIR", default_value = "lockstep-failures")]
    pub(super) out: PathBuf,

    /// Run only the plan of this file, which a failure has written
    #[arg(
        long,
        value_name = "FILE",
        value_parser = input::plan_file,
        conflicts_with_all = ["seeds", "faults", "duration", "jobs", "keep_going"]
    )]
    pub(super) plan: Option<PlanFile>,

    /// Plant a bug into the controllers, or each of the known bugs, and print how many seeds it takes to find it; with --plan,
    /// run the plan with the bug; with --scope, explore with the bug
    #[arg(
        long,
        hide_possible_values = true,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = input::ALL_BUGS,
        value_parser = PossibleValuesParser::new(input::bugs())
    )]
    pub(super) planted: Option<String>,

    /// Search for a published bug of another operator, planted in a small controller, or for all of them, with up to 400 seeds
    /// each, and print how many seeds and faults each takes
    #[arg(
        long,
        hide_possible_values = true,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = input::ALL_BUGS,
        conflicts_with_all = ["keep_going", "plan", "planted"],
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
  lockstep sim --together --seeds 0..20
  lockstep sim --coverage --controllers bridge --seeds 0..100 --keep-going
  lockstep sim --museum
  lockstep sim --scope 1 --controllers namespaceclass
  lockstep sim --json | jq '.failures[].replay'

The files of a failure are named by its controller and seed:
  X-17.json  the plan, shrunk: run it with --plan, or shorten it manually
  X-17.txt   the violation, the plan as text, and a log of the run
  X-17.html  a timeline of the run, for a browser

Ctrl-C ends the search after the runs in progress and prints their results; a second Ctrl-C ends it at once.
Exit codes: 0 if no run failed, 1 if a run failed, 2 on usage errors, 130 after Ctrl-C.";

/// Returns the message about a conflict that depends on a value, which clap can't express: only a search can plant all bugs, one
/// after the other.
pub(crate) fn conflict(given: &ArgMatches) -> Option<String> {
    let all = given.get_one::<String>("planted").is_some_and(|name| name == input::ALL_BUGS);
    let flags = [("plan", "--plan <FILE>"), ("scope", "--scope <FAULTS>")];
    let (_, flag) = flags.into_iter().find(|(id, _)| all && given.contains_id(id))?;
    Some(format!("the argument '--planted' without the name of a bug cannot be used with '{flag}'"))
}

impl Args {
    /// Returns the chosen controllers.
    pub(super) fn subjects(&self) -> Vec<&'static dyn SystemUnderTest> {
        if self.together {
            return vec![&Together];
        }
        subjects::all().into_iter().filter(|subject| self.chose(subject.name())).collect()
    }

    /// Returns whether a system under test is chosen.
    pub(super) fn chose(&self, controller: &str) -> bool {
        if self.together {
            return controller == together::NAME;
        }
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
