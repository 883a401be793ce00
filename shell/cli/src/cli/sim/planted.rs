//! The search for planted bugs: whether they are found, and after how many seeds.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::ensure;
use lockstep_sim::bugs::Bug;
use lockstep_sim::{Search, Simulation};
use lockstep_subjects::bugs;
use serde::Serialize;

use super::args::Args;
use super::input::ALL_BUGS;
use super::interrupt::Stop;
use super::{input, progress};
use crate::cli::misuse::Misuse;

/// The report on the search for planted bugs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    bugs: Vec<Row>,
    /// The median number of seeds to find a bug; none if half of the bugs were not found.
    median: Option<f64>,
    wall_seconds: f64,
}

/// One planted bug.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    bug: &'static str,
    sentence: &'static str,
    controller: &'static str,
    /// None if it was not found.
    seeds_needed: Option<u64>,
    /// The seed that found it.
    seed: Option<u64>,
    invariant: Option<&'static str>,
}

/// Searches for the bugs with that name.
pub(super) fn search(args: &Args, name: &str, stop: &Stop) -> anyhow::Result<Table> {
    let chosen = |bug: &&'static Bug| (name == ALL_BUGS || name == bug.name) && args.chose(bug.controller);
    let began = Instant::now();
    let rows = bugs::all().into_iter().filter(chosen).map(|bug| find(args, bug, stop));
    let rows = rows.take_while(|_| !stop.is_asked_for());
    let rows = rows.collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(!rows.is_empty() || stop.is_asked_for(), "there is no such bug to plant");
    Ok(Table::new(rows, began.elapsed()))
}

/// Returns the bug with that name, which must belong to the controller.
pub(super) fn named(name: &str, controller: &str) -> anyhow::Result<&'static Bug> {
    let found = bugs::all().into_iter().find(|bug| bug.name == name && bug.controller == controller);
    let missing = || format!("{controller} has no bug {name:?} that could be planted: --planted names one");
    found.ok_or_else(|| Misuse(missing()).into())
}

fn find(args: &Args, bug: &'static Bug, stop: &Stop) -> anyhow::Result<Row> {
    let simulation = Simulation::new(input::subject(bug.controller)?).with_bug(bug);
    let search = Search { keep_going: false, ..args.search(0..2000, simulation.subject()) };
    let summary = progress::of(&search, bug.name, stop, |progress| search.run_while(&simulation, progress));
    let found = summary.failures.first_key_value();
    Ok(Row {
        bug: bug.name,
        sentence: bug.sentence,
        controller: bug.controller,
        seeds_needed: found.map(|(seed, _)| seed - search.seeds.start + 1),
        seed: found.map(|(seed, _)| *seed),
        invariant: found.map(|(_, violation)| violation.invariant),
    })
}

impl Table {
    fn new(bugs: Vec<Row>, took: Duration) -> Self {
        let median = median(bugs.iter().map(|row| row.seeds_needed).collect());
        Self { bugs, median, wall_seconds: took.as_secs_f64() }
    }

    pub(super) fn all_found(&self) -> bool {
        self.bugs.iter().all(|row| row.seed.is_some())
    }
}

/// Returns the median. A bug that was not found counts as the largest number.
#[expect(clippy::cast_precision_loss, reason = "there are fewer seeds than that")]
fn median(mut needed: Vec<Option<u64>>) -> Option<f64> {
    needed.sort_by_key(|seeds| seeds.unwrap_or(u64::MAX));
    let upper = (*needed.get(needed.len() / 2)?)?;
    let lower = needed[(needed.len() - 1) / 2]?;
    Some(f64::midpoint(lower as f64, upper as f64))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.bugs.iter().map(|row| row.bug.len()).max().unwrap_or_default().max("bug".len());
        writeln!(f, "{:first$}  {:>12}  invariant", "bug", "seeds needed")?;
        for row in &self.bugs {
            let seeds = row.seeds_needed.map_or("not found".to_owned(), |seeds| seeds.to_string());
            writeln!(f, "{:first$}  {seeds:>12}  {}", row.bug, row.invariant.unwrap_or("-"))?;
        }
        let median = self.median.map_or("none".to_owned(), |median| {
            if median.to_string() == "1" { "1 seed".to_owned() } else { format!("{median} seeds") }
        });
        let found = self.bugs.iter().filter(|row| row.seed.is_some()).count();
        writeln!(f, "\n{found} of {} found, median {median}, {:.0} s", self.bugs.len(), self.wall_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle_and_what_is_missing_at_the_end() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![Some(9), Some(1), Some(2)]), Some(2.0));
        assert_eq!(median(vec![Some(4), Some(1), Some(9), Some(2)]), Some(3.0));
        assert_eq!(median(vec![None, Some(1), Some(2)]), Some(2.0));
        assert_eq!(median(vec![None, Some(1), None]), None);
        assert_eq!(median(vec![None, Some(1)]), None);
    }
}
