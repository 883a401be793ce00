//! The command line: the arguments of each subcommand, and the exit code of the program.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::misuse::Misuse;

mod age;
mod brief;
mod check;
mod choice;
mod cluster;
mod completions;
mod count;
mod crds;
#[cfg(feature = "embedded")]
mod dev;
mod diff;
mod election;
mod explain;
mod get;
mod kinds;
mod logging;
mod misuse;
mod page;
#[cfg(feature = "embedded")]
mod plan;
mod process;
#[cfg(feature = "embedded")]
mod quoted;
mod replay;
mod run;
mod sentinel;
mod serving;
mod signal;
#[cfg(feature = "embedded")]
mod sim;

/// Kubernetes controllers with simulated fault injection.
#[derive(Debug, Parser)]
#[command(name = "lockstep", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lockstep dev                                      Try it on an API server of its own
  lockstep crds --controllers bridge | kubectl apply --server-side -f -
                                                    Install the CRDs of one of them
  lockstep run                                      Run all controllers against the current cluster
  lockstep run --controllers bridge --record run.jsonl
                                                    Run one of them, and record every step
  lockstep check --controllers bridge               Check whether the cluster has what one of them needs
  lockstep get --all-namespaces                     Show all objects of the controllers, and common problems
  lockstep sentinel --config clusters               Run the HyperFleet Sentinel of a SentinelConfig
  lockstep replay run.jsonl                         Replay a recording and compare
  lockstep plan -f class.yaml                       Show what the controllers would do after a change
  lockstep explain namespaceclass web --recording run.jsonl
                                                    Explain the conditions of an object
  lockstep sim                                      Search for failures by simulation

`lockstep <command> --help` explains each command.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Sentinel(sentinel::Args),
    Check(check::Args),
    Get(get::Args),
    Explain(explain::Args),
    Replay(replay::Args),
    #[cfg(feature = "embedded")]
    Plan(plan::Args),
    #[cfg(feature = "embedded")]
    Dev(dev::Args),
    #[cfg(feature = "embedded")]
    Sim(Box<sim::Args>),
    Crds(crds::Args),
    Completions(completions::Args),
}

/// Parses the command line and runs the command. On failure it prints the reason on stderr.
pub(crate) fn main() -> ExitCode {
    // In a container the Sentinel is called by its own name.
    let command = if sentinel::is_called() { Command::Sentinel(sentinel::parse()) } else { parse() };
    let result = match command {
        Command::Run(args) => block_on(run::run(*args)),
        Command::Sentinel(args) => block_on(sentinel::run(args)),
        Command::Check(args) => match block_on(check::run(args)) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Get(args) => block_on(get::run(args)),
        Command::Explain(args) => block_on(explain::run(args)),
        Command::Replay(args) => replay::run(&args),
        #[cfg(feature = "embedded")]
        Command::Plan(args) => match block_on(plan::run(args)) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        #[cfg(feature = "embedded")]
        Command::Dev(args) => block_on(dev::run(args)),
        #[cfg(feature = "embedded")]
        Command::Sim(args) => match sim::run(&args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Crds(args) => crds::run(&args),
        Command::Completions(args) => completions::run(&args, &mut Cli::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // The prefix is clap's. If stderr is closed, the error can't be reported.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            if error.is::<Misuse>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn parse() -> Command {
    let mut command = Cli::command();
    let matches = command.get_matches_mut();
    #[cfg(feature = "embedded")]
    for (subcommand, flag) in [("dev", "bare"), ("sim", "plan"), ("sim", "together"), ("sim", "museum")] {
        if matches.subcommand_matches(subcommand).is_some_and(|given| contradict(given, flag)) {
            let story = format!("the argument '--{flag}' cannot be used with '--controllers <NAMES>'");
            command.error(clap::error::ErrorKind::ArgumentConflict, story).exit();
        }
    }
    #[cfg(feature = "embedded")]
    if let Some(conflict) = matches.subcommand_matches("sim").and_then(sim::conflict) {
        command.error(clap::error::ErrorKind::ArgumentConflict, conflict).exit();
    }
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit()).command
}

fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(command);
    // The tasks that still run need no wait: the command has waited for the important ones.
    runtime.shutdown_background();
    result
}

/// Returns whether both a flag and --controllers were given on the command line. An environment variable, which clap would
/// count as well, is not specific to one command, so the flag overrides it.
#[cfg(feature = "embedded")]
fn contradict(given: &clap::ArgMatches, flag: &str) -> bool {
    use clap::parser::ValueSource;
    [flag, "controllers"].iter().all(|flag| given.value_source(flag) == Some(ValueSource::CommandLine))
}

/// Returns whether the reader of our output has closed the pipe, as `head` does; that is no failure of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
