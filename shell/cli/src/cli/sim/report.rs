//! The result of a search.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use lockstep_sim::{Summary, combine};
use serde::Serialize;

use super::coverage::Coverage;
use super::failure::Failure;
use crate::cli::count::count;

/// The maximum number of seeds with a repeated failure that the text names.
const NAMED: usize = 10;

/// The report on a search.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    controllers: Vec<String>,
    /// Whether the user interrupted the search before all runs.
    pub(super) interrupted: bool,
    runs: u64,
    steps: u64,
    requests: u64,
    requests_per_second: f64,
    /// The number of injections of each fault, by the action in progress (`-` for none).
    faults: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    simulated_seconds: f64,
    wall_seconds: f64,
    simulated_hours_per_minute: f64,
    /// A hash over the traces of all runs.
    hash: String,
    pub(super) failures: Vec<Failure>,
    /// The coverage of each search, if it was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) coverage: Vec<Coverage>,
}

impl Report {
    /// Combines the results of all controllers, with the elapsed wall-clock time.
    pub(super) fn new(summaries: &[(&str, Summary)], took: Duration, failures: Vec<Failure>) -> Self {
        let summed = || summaries.iter().map(|(_, summary)| summary);
        let mut faults: BTreeMap<_, BTreeMap<_, u64>> = BTreeMap::new();
        for ((fault, action), times) in summed().flat_map(|summary| &summary.struck) {
            *faults.entry(*fault).or_default().entry(*action).or_default() += times;
        }
        let simulated = summed().map(|summary| summary.simulated).sum::<Duration>().as_secs_f64();
        let wall = took.as_secs_f64();
        let requests: u64 = summed().map(|summary| summary.requests).sum();
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let requests_per_second = requests as f64 / wall.max(f64::EPSILON);
        Self {
            controllers: summaries.iter().map(|(controller, _)| (*controller).to_owned()).collect(),
            interrupted: false,
            runs: summed().map(|summary| summary.runs).sum(),
            steps: summed().map(|summary| summary.steps).sum(),
            requests,
            requests_per_second,
            faults,
            simulated_seconds: simulated,
            wall_seconds: wall,
            simulated_hours_per_minute: simulated / 60.0 / wall.max(f64::EPSILON),
            hash: combine(summed().map(|summary| summary.hash.as_str())),
            failures,
            coverage: Vec::new(),
        }
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actions: BTreeSet<&str> = self.faults.values().flat_map(BTreeMap::keys).copied().collect();
        let first = self.faults.keys().map(|fault| fault.len()).max().unwrap_or_default();
        writeln!(f, "\nfaults injected, by the action under way (- for none):")?;
        write!(f, "  {:first$}", "")?;
        for action in &actions {
            write!(f, "  {action:>7}")?;
        }
        writeln!(f)?;
        for (fault, by_action) in &self.faults {
            write!(f, "  {fault:first$}")?;
            for action in &actions {
                let times = by_action.get(action).map_or(".".to_owned(), ToString::to_string);
                write!(f, "  {times:>0$}", action.len().max(7))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    /// Prints shrunk failures in full, and failures of the same kind by their seeds.
    fn failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_like = |one: &Failure, other: &Failure| {
            (&one.controller, one.invariant) == (&other.controller, other.invariant)
        };
        for (index, failure) in self.failures.iter().enumerate() {
            if self.failures[..index].iter().any(|earlier| is_like(earlier, failure)) {
                continue;
            }
            write!(f, "\n{failure}")?;
            let seeds = self.failures[index + 1..].iter().filter(|later| is_like(failure, later));
            let mut seeds: Vec<String> = seeds.map(|later| later.seed.to_string()).collect();
            let more = seeds.len().saturating_sub(NAMED);
            seeds.truncate(NAMED);
            if more > 0 {
                seeds.push(format!("and {more} more (--json names all)"));
            }
            if !seeds.is_empty() {
                let (fails, noun) = if seeds.len() == 1 { ("fails", "seed") } else { ("fail", "seeds") };
                writeln!(f, "  in the same way {fails} the {noun} {}", seeds.join(", "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "controllers  {}", self.controllers.join(", "))?;
        writeln!(f, "runs         {}", self.runs)?;
        writeln!(f, "steps        {}", self.steps)?;
        writeln!(f, "requests     {}: {:.0} a second", self.requests, self.requests_per_second)?;
        writeln!(
            f,
            "simulated    {:.1} h in {:.1} s: {:.0} h a minute",
            self.simulated_seconds / 3600.0,
            self.wall_seconds,
            self.simulated_hours_per_minute
        )?;
        writeln!(f, "hash         {}", self.hash)?;
        if !self.faults.is_empty() {
            self.table(f)?;
        }
        for coverage in &self.coverage {
            write!(f, "{coverage}")?;
        }
        self.failures(f)?;
        if self.interrupted {
            writeln!(f, "\ninterrupted: not all seeds were run")?;
        }
        match self.failures.len() {
            0 => writeln!(f, "\nnothing failed"),
            some => writeln!(f, "\n{} failed", count(some as u64, "run")),
        }
    }
}
