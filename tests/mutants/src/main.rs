//! Mutates the core, and counts which mutants the tests notice. `docs/mutants.md` explains it and has the results.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for developers")]

mod edit;
mod judge;
mod mutant;
mod suites;
mod switch;
mod tree;
mod weave;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use clap::Parser;

use self::judge::{Judgement, Suite};
use self::mutant::Mutant;
use self::suites::{CRATES, failures, flows, simulations, unit_tests};
use self::tree::Tree;

/// Counts which mutants of the core the tests notice.
#[derive(Parser)]
struct Options {
    /// The part of the mutants of each crate: 0/100 is the first of a hundred shards
    #[arg(value_parser = shard)]
    shard: (usize, usize),
    /// Crates of `core` [default: all]
    crates: Vec<String>,
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    parts
        .filter(|(k, n)| k < n)
        .ok_or_else(|| "the first of 100 shards is 0/100, the last one 99/100".to_owned())
}

/// The mutants of a crate, and what the tests have said about them so far.
struct Row<'a> {
    name: &'a str,
    viable: BTreeSet<u32>,
    tests: Judgement,
    /// The same for the simulation alone.
    simulation: Judgement,
}

impl Row<'_> {
    /// Lets a suite judge the mutants that no test has noticed so far.
    fn judge(&mut self, suite: &Suite, memory: &Path) -> Result<()> {
        let open = self.viable.difference(&self.tests.noticed).copied().collect();
        let Judgement { reached, noticed, differing } = suite.judge(&open, memory)?;
        self.tests.reached.extend(reached.intersection(&open));
        self.tests.noticed.extend(noticed.intersection(&open));
        self.tests.differing.extend(differing.intersection(&open));
        Ok(())
    }

    /// Prints the mutants that the simulation has not noticed, with the reason.
    fn print_missed(&self, mutants: &[Mutant]) {
        let Self { name, viable, simulation, .. } = self;
        println!("{name}: {} of {} noticed by the simulation", simulation.noticed.len(), viable.len());
        for id in viable.difference(&simulation.noticed) {
            println!("{}: {}", self.why_missed(*id), mutants[*id as usize].name);
        }
    }

    /// Says why the simulation has not noticed a mutant.
    fn why_missed(&self, id: u32) -> &'static str {
        let Judgement { reached, differing, .. } = &self.simulation;
        match (differing.contains(&id), reached.contains(&id)) {
            (true, _) => "differs",
            (false, true) => "no difference",
            (false, false) => "not reached",
        }
    }

    /// Returns the number of mutants that the simulation has missed for this reason.
    fn missed(&self, why: &str) -> usize {
        self.viable.difference(&self.simulation.noticed).filter(|id| self.why_missed(**id) == why).count()
    }

    /// Prints the mutants that no test has noticed.
    fn print_survivors(&self, mutants: &[Mutant]) {
        for id in self.viable.difference(&self.tests.noticed) {
            let by_tests = if self.tests.reached.contains(id) { "survived" } else { "survived, not reached" };
            println!("{by_tests}: {}", mutants[*id as usize].name);
        }
    }
}

fn main() -> Result<()> {
    let Options { shard: (shard, shards), crates } = Options::parse();
    let is_chosen = |name: &&str| crates.is_empty() || crates.iter().any(|it| it == name);
    if let Some(unknown) = crates.iter().find(|it| !CRATES.contains(&it.as_str())) {
        bail!("there is no crate core/{unknown} with a simulation: use {}", CRATES.join(", "));
    }
    let tree = Tree::copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))?;
    let mutants = tree.mutants()?;
    let rejected = tree.weave(&mutants)?;
    println!("{} mutants, of which {} are viable", mutants.len(), mutants.len() - rejected.len());
    let programs = tree.tests(&suites::arguments())?;

    let of_crate = |name: &'static str| {
        let package = format!("lockstep-{name}");
        let own: Vec<&Mutant> = mutants.iter().filter(|it| it.package == package).collect();
        let own = own.into_iter().skip(shard).step_by(shards).map(|it| it.id);
        let viable = own.filter(|id| !rejected.contains(id)).collect();
        Row { name, viable, tests: Judgement::default(), simulation: Judgement::default() }
    };
    let mut rows: Vec<Row<'_>> = CRATES.into_iter().filter(is_chosen).map(of_crate).collect();
    ensure!(rows.iter().any(|row| !row.viable.is_empty()), "the shard has no mutants");
    for row in &mut rows {
        for suite in simulations(row.name, &programs, &tree.root)? {
            row.judge(&suite, &tree.memory)?;
        }
        row.simulation = row.tests.clone();
        row.print_missed(&mutants);
    }
    for row in &mut rows {
        for suites in [unit_tests, flows, failures] {
            for suite in suites(row.name, &programs, &tree.root)? {
                row.judge(&suite, &tree.memory)?;
            }
        }
        row.print_survivors(&mutants);
    }
    println!(
        "\n{:<16} {:>6} {:>10} {:>8} {:>14} {:>12} {:>13} {:>9}",
        "", "", "noticed by", "differs", "no difference", "not reached", "noticed by", ""
    );
    println!(
        "{:<16} {:>6} {:>10} {:>37} {:>13} {:>9}",
        "crate", "viable", "simulation", "in the simulation", "all tests", "survived"
    );
    for row in rows {
        let [viable, simulated, noticed] =
            [&row.viable, &row.simulation.noticed, &row.tests.noticed].map(BTreeSet::len);
        let [differs, same, unreached] =
            ["differs", "no difference", "not reached"].map(|why| row.missed(why));
        println!(
            "{:<16} {viable:>6} {simulated:>10} {differs:>8} {same:>14} {unreached:>12} {noticed:>13} {:>9}",
            row.name,
            viable - noticed
        );
    }
    Ok(())
}
