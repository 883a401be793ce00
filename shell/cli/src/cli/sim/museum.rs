//! The search for published bugs of other operators: how many seeds and faults each of them takes.

use std::fmt;
use std::time::{Duration, Instant};

use lockstep_museum::{Exhibit, SEEDS_MAX, exhibits};
use lockstep_sim::shrink::shrink;
use lockstep_sim::{Search, Simulation};
use serde::Serialize;

use super::args::Args;
use super::input::ALL_BUGS;
use super::interrupt::Stop;
use super::progress;

/// The report on the search.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    bugs: Vec<Row>,
    wall_seconds: f64,
}

/// One bug.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    bug: &'static str,
    /// The project and its issue.
    source: String,
    class: String,
    controller: &'static str,
    story: &'static str,
    /// What the search found; none if it found nothing.
    found: Option<Found>,
    /// The time that the search took, without shrinking.
    seconds: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    seeds_needed: u64,
    invariant: &'static str,
    /// The number of faults and operations in the shrunk plan.
    plan_length: usize,
}

/// Searches for the bugs with that name.
pub(super) fn search(args: &Args, name: &str, stop: &Stop) -> Table {
    let began = Instant::now();
    let chosen = exhibits().filter(|exhibit| name == ALL_BUGS || name == exhibit.bug);
    let rows = chosen.map(|exhibit| find(args, exhibit, stop)).take_while(|_| !stop.is_asked_for());
    Table { bugs: rows.collect(), wall_seconds: began.elapsed().as_secs_f64() }
}

fn find(args: &Args, exhibit: &Exhibit, stop: &Stop) -> Row {
    let simulation = Simulation::new(exhibit.subject);
    let stormy: Duration = args.duration.unwrap_or(Search::default().stormy);
    let search = Search { stormy, ..args.search(0..SEEDS_MAX, exhibit.subject) };
    let began = Instant::now();
    let summary =
        progress::of(&search, exhibit.bug, stop, |progress| search.run_while(&simulation, progress));
    let seconds = began.elapsed().as_secs_f64();
    let found = summary.failures.first_key_value().map(|(seed, violation)| {
        let plan = search.range(&simulation).plan(*seed);
        let what = format!("shrinking the plan of {}", exhibit.bug);
        let shrunk = progress::while_it_lasts(what, || shrink(&simulation, &plan));
        Found {
            seeds_needed: seed - search.seeds.start + 1,
            invariant: violation.invariant,
            plan_length: shrunk.map_or(plan.faults.len(), |shrunk| shrunk.plan.faults.len()),
        }
    });
    let (source, class) = (exhibit.source(), exhibit.class.to_string());
    let controller = exhibit.subject.name();
    Row { bug: exhibit.bug, source, class, controller, story: exhibit.story, found, seconds }
}

impl Table {
    pub(super) fn all_found(&self) -> bool {
        self.bugs.iter().all(|row| row.found.is_some())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: fn(&Row) -> &str, title: &str| {
            self.bugs.iter().map(|row| text(row).len()).max().unwrap_or_default().max(title.len())
        };
        let (bug, source) = (width(|row| row.bug, "bug"), width(|row| &row.source, "source"));
        let class = width(|row| &row.class, "class");
        writeln!(
            f,
            "{:bug$}  {:source$}  {:class$}  {:>9}  {:>7}  {:>4}  invariant",
            "bug", "source", "class", "seeds", "seconds", "plan"
        )?;
        for row in &self.bugs {
            let (seeds, plan, invariant) = match &row.found {
                Some(it) => (it.seeds_needed.to_string(), it.plan_length.to_string(), it.invariant),
                None => ("not found".to_owned(), "-".to_owned(), "-"),
            };
            writeln!(
                f,
                "{:bug$}  {:source$}  {:class$}  {seeds:>9}  {:>7.2}  {plan:>4}  {invariant}",
                row.bug, row.source, row.class, row.seconds
            )?;
        }
        let found = self.bugs.iter().filter(|row| row.found.is_some()).count();
        writeln!(f, "\n{found} of {} found, {:.0} s", self.bugs.len(), self.wall_seconds)
    }
}
