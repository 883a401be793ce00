//! `lockstep replay`.

use std::fmt::Display;
use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use lockstep_cli::controllers;
use lockstep_engine::machine::{Machine, Step};
use lockstep_engine::recording::read::{self, Lines};
use lockstep_engine::recording::{Header, Line, Replay, ReplayedStep};

use self::broken::broken;
use super::brief::Brief;
use super::{count, diff};

mod broken;
mod comparison;
mod edited;
mod report;
#[cfg(feature = "embedded")]
mod timeline;
mod what_if;

/// Replays a recording and checks that the decisions match
///
/// Reads what `lockstep run --record` wrote. Each step is a line: its number, the time since the start, the event,
/// and the requests. The first step with another output ends the replay with exit code 1.
///
/// With --what-if, it runs the recording a second time with one edited event, and shows what differs from there on. Answers to
/// requests that the recording has too are those of the recording; other requests get no answer.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The recording
    file: PathBuf,

    /// Stop after the step of this number
    #[arg(long, value_name = "N")]
    until: Option<u64>,

    /// Wait for Enter before each step
    #[arg(long)]
    step: bool,

    /// Show the recorded output (-) and the other output (+) of the first step that differs
    #[arg(long)]
    diff: bool,

    #[command(flatten)]
    counterfactual: what_if::Counterfactual,
}

const EXAMPLES: &str = "\
Examples:
  lockstep replay run.jsonl
  lockstep replay run.jsonl.1 --until 250
  lockstep replay run.jsonl --diff
  lockstep replay run.jsonl --what-if 31:drop
  lockstep replay run.jsonl --what-if 33:fail=forbidden --timeline what-if.html
  lockstep replay run.jsonl --what-if '31:patch={\"spec\":{\"paused\":true}}'

The edits of --what-if:
  STEP:drop        the event does not happen; if it is an answer, it never arrives
  STEP:fail=CLASS  the answer is a failure: not_found, kind_not_served, already_exists, conflict,
                   invalid, forbidden, gone, throttled, unavailable or unknown
  STEP:patch=JSON  a JSON merge patch of the object of the event or of the answer; an answer without
                   an object is patched in its recorded form, such as {\"Ok\":{\"Objects\":[]}}

Recordings contain placeholders such as hidden-6d0f0e5ac3b71f94 instead of the values of Secrets.";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.step && !io::stdin().is_terminal() {
        bail!("--step waits for Enter between the steps, so it needs a terminal as its input");
    }
    let file = args.file.display();
    let bytes = std::fs::read(&args.file).with_context(|| format!("cannot read {file}"))?;
    let (header, lines) = read::open(&bytes).with_context(|| file.to_string())?;
    if let Some(edited) = &args.counterfactual.what_if {
        let lines = until(args, lines)?;
        return what_if::run(&args.counterfactual, edited, args.diff, &args.file, &header, lines);
    }
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{} of lockstep {}, segment {}, made from {}",
        header.machine, header.program, header.segment, header.config
    )?;
    let make = |origin: lockstep_engine::recording::Origin<'_>| {
        controllers::revive(&header.machine, origin).map(|machine| machine as Box<dyn Machine>)
    };
    let replay = Replay::new(&header, make).map_err(|error| broken(&header, &file, &error))?;
    steps(args, &header, replay, lines, &mut out)
}

/// Returns the lines up to the last step that is replayed.
fn until(args: &Args, lines: Lines<'_>) -> anyhow::Result<Vec<Line>> {
    let mut kept = Vec::new();
    for line in lines {
        let line = line.with_context(|| args.file.display().to_string())?;
        if let (Line::Step(step), Some(until)) = (&line, args.until)
            && step.number > until
        {
            break;
        }
        kept.push(line);
    }
    Ok(kept)
}

fn steps<M, E>(
    args: &Args,
    header: &Header,
    mut replay: Replay<M>,
    mut lines: Lines<'_>,
    out: &mut impl Write,
) -> anyhow::Result<()>
where
    M: FnMut(lockstep_engine::recording::Origin<'_>) -> Result<Box<dyn Machine>, E>,
    E: Display,
{
    let file = args.file.display();
    let (mut brief, mut count, mut last) = (Brief::default(), 0_u64, 0);
    while args.until.is_none_or(|until| last < until)
        && let Some(line) = lines.next()
    {
        let line = line.with_context(|| file.to_string())?;
        let Line::Step(taken) = &line else {
            writeln!(out, "        (the state as it was here)")?;
            replay.take(line).map_err(|error| broken(header, &file, &error))?;
            continue;
        };
        let number = taken.number;
        if let Some(until) = args.until
            && number > until
        {
            bail!("{file} begins with step {number}, after the step {until} that --until names");
        }
        write!(out, "{}", brief.line(taken))?;
        out.flush()?;
        if args.step {
            io::stdin().lock().read_line(&mut String::new())?;
        } else {
            writeln!(out)?;
        }
        let again = catch_unwind(AssertUnwindSafe(|| replay.take(line)));
        let again = again.map_err(|_| anyhow!("{file}: step {number} panics in this lockstep"))?;
        if let Some(ReplayedStep { taken, differs: Some(given) }) =
            again.map_err(|error| broken(header, &file, &error))?
        {
            return differs(args, header, number, &taken.gave, &given, out);
        }
        (count, last) = (count + 1, number);
    }
    let cut = if lines.is_cut() { "; the last line was cut off while it was written" } else { "" };
    let how = if count == 1 { "as" } else { "all as" };
    Ok(writeln!(out, "{} replayed, {how} recorded{cut}", count::count(count, "step"))?)
}

fn differs(
    args: &Args,
    header: &Header,
    number: u64,
    recorded: &Step,
    given: &Step,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let file = args.file.display();
    let (recorded, given) = (serde_json::to_string_pretty(recorded)?, serde_json::to_string_pretty(given)?);
    if args.diff {
        write!(out, "{}", diff::unified(("recorded", &recorded), ("now", &given)))?;
        out.flush()?;
    }
    let hint = if args.diff { "" } else { "; --diff shows how" };
    bail!(
        "{file}: step {number}: the output differs from the recording (recorded by lockstep {}, replayed by \
         lockstep {}){hint}",
        header.program,
        env!("CARGO_PKG_VERSION")
    )
}
