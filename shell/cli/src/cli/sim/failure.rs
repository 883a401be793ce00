//! One failure: the violated invariant, the plan, and the command that reproduces it.

use std::fmt;
use std::path::Path;

use lockstep_engine::duration;
use lockstep_sim::{Plan, Run, Search, Simulation, Timeline, Violation, record, shrink};
use lockstep_subjects::{self as subjects, together};
use serde::Serialize;

use super::files;
use super::input::PlanFile;
use super::progress;
use crate::cli::count::count;
use crate::cli::quoted::quoted;

/// The report on a failure.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure {
    pub(super) controller: String,
    pub(super) seed: u64,
    pub(super) invariant: &'static str,
    pub(super) sentence: &'static str,
    pub(super) seen: String,
    /// The simulated time of the failure.
    pub(super) at_seconds: f64,
    /// The command that replays the plan.
    pub(super) replay: String,
    /// A description of the faults in the plan that was run, or in the shrunk plan. None for a repeated failure.
    pub(super) plan: Option<Vec<String>>,
    /// How the plan was shrunk.
    pub(super) shrunk: Option<Shrunk>,
    pub(super) files: Vec<String>,
    /// What of this failed, and why.
    pub(super) problem: Option<String>,
}

/// The result of shrinking.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shrunk {
    /// The number of runs that it took.
    pub(super) runs: u32,
    /// The command that replays the shrunk plan, if the plan could be written.
    pub(super) replay: Option<String>,
}

impl Failure {
    fn new(controller: &str, seed: u64, violation: &Violation, replay: String) -> Self {
        Self {
            controller: controller.to_owned(),
            seed,
            invariant: violation.invariant,
            sentence: violation.sentence,
            seen: violation.seen.clone(),
            at_seconds: violation.at.as_secs_f64(),
            replay,
            plan: None,
            shrunk: None,
            files: Vec::new(),
            problem: None,
        }
    }

    /// Creates the report on a failed seed of a search.
    pub(super) fn of_seed(search: &Search, controller: &str, seed: u64, violation: &Violation) -> Self {
        let duration = duration::show(search.stormy);
        let what = match controller {
            together::NAME => "--together".to_owned(),
            controller => format!("--controllers {controller}"),
        };
        let mut replay = format!("lockstep sim {what} --seeds {seed}..{} --duration {duration}", seed + 1);
        if !search.faults.is_empty() {
            replay = format!("{replay} --faults {}", search.faults.join(","));
        }
        Self::new(controller, seed, violation, replay)
    }

    /// Creates the report on a failed plan from a file.
    pub(super) fn of_plan(file: &PlanFile, bug: Option<&str>, violation: &Violation) -> Self {
        let mut replay = format!("lockstep sim --plan {}", quoted(&file.path.to_string_lossy()));
        if let Some(bug) = bug {
            replay = format!("{replay} --planted {bug}");
        }
        Self::new(&file.plan.controller, file.plan.seed, violation, replay)
    }

    /// Shrinks the plan and writes the result to a folder.
    pub(super) fn shrink(&mut self, simulation: &Simulation, plan: &Plan, out: &Path) {
        let what = format!("shrinking the plan of seed {}", self.seed);
        let Some(shrunk) = progress::while_it_lasts(what, || shrink::shrink(simulation, plan)) else {
            self.problem = Some("it did not fail again: a bug of the simulator, please report it".to_owned());
            return;
        };
        // The report must agree with the files.
        if let Some(violation) = &shrunk.run.violation {
            self.seen.clone_from(&violation.seen);
            self.at_seconds = violation.at.as_secs_f64();
        }
        let name = format!("{}-{}", self.controller, self.seed);
        self.shrunk = Some(Shrunk { runs: shrunk.runs, replay: None });
        let json = serde_json::to_string_pretty(&shrunk.plan).map(|json| format!("{json}\n").into_bytes());
        let written = json.map_err(Into::into).and_then(|json| files::write(out, &name, &[("json", json)]));
        match written {
            Ok(paths) => {
                self.files = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
                let replay = self.files.first().map(|path| format!("lockstep sim --plan {}", quoted(path)));
                self.shrunk = Some(Shrunk { runs: shrunk.runs, replay });
            }
            Err(error) => self.problem = Some(format!("{error:#}")),
        }
        self.keep(&shrunk.plan, &shrunk.run, out, &name);
    }

    /// Writes the timeline and the recording of the run to a folder.
    pub(super) fn keep(&mut self, plan: &Plan, run: &Run, out: &Path, name: &str) {
        self.plan = Some(plan.faults.iter().map(ToString::to_string).collect());
        if self.problem.is_some() {
            return;
        }
        let shrunk = self.shrunk.as_ref().and_then(|shrunk| shrunk.replay.clone());
        let timeline = Timeline::of(plan, run).with_replay(shrunk.unwrap_or_else(|| self.replay.clone()));
        let (text, page) = (timeline.text(), timeline.html());
        let mut shown = vec![("txt", format!("{self}\n{text}").into_bytes()), ("html", page.into_bytes())];
        let subject = subjects::named(&self.controller);
        // The actions of a controller can always be written as JSON. If that fails, the recording is omitted.
        let recording = subject.and_then(|subject| record(subject, plan, run).ok().flatten());
        shown.extend(recording.map(|recording| ("jsonl", recording)));
        match files::write(out, name, &shown) {
            Ok(paths) => self.files.extend(paths.iter().map(|path| path.to_string_lossy().into_owned())),
            Err(error) => self.problem = Some(format!("{error:#}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} of {} fails: {}", self.seed, self.controller, self.invariant)?;
        writeln!(f, "  {}", self.sentence)?;
        writeln!(f, "  seen after {:.3} s: {}", self.at_seconds, self.seen)?;
        if let Some(faults) = &self.plan {
            match &self.shrunk {
                Some(shrunk) => {
                    writeln!(f, "  the plan, shrunk in {}:", count(shrunk.runs.into(), "run"))?;
                }
                None => writeln!(f, "  the plan:")?,
            }
            if faults.is_empty() {
                writeln!(f, "    no faults and no operations")?;
            }
            for fault in faults {
                writeln!(f, "    {fault}")?;
            }
        }
        match &self.shrunk {
            Some(Shrunk { replay: Some(replay), .. }) => {
                writeln!(f, "  run the whole plan again:  {}", self.replay)?;
                writeln!(f, "  run the shrunk plan again: {replay}")?;
            }
            _ => writeln!(f, "  run it again: {}", self.replay)?,
        }
        if !self.files.is_empty() {
            writeln!(f, "  files: {}", self.files.join(", "))?;
        }
        if let Some(problem) = &self.problem {
            writeln!(f, "  error: {problem}")?;
        }
        Ok(())
    }
}
