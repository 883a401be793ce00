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
use self::suites::{CRATES, flows, simulations, unit_tests};
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
    reached: BTreeSet<u32>,
    noticed: BTreeSet<u32>,
    /// The same for the simulation alone.
    simulation: Judgement,
}

impl Row<'_> {
    /// Lets a suite judge the mutants that no test has noticed so far.
    fn judge(&mut self, suite: &Suite, memory: &Path) -> Result<()> {
        let survivors = self.viable.difference(&self.noticed).copied().collect();
        let judgement = suite.judge(&survivors, memory)?;
        self.reached.extend(judgement.reached.intersection(&survivors));
        self.noticed.extend(judgement.noticed.intersection(&survivors));
        Ok(())
    }

    /// Prints the mutants that the simulation has not noticed.
    fn print_missed(&self, mutants: &[Mutant]) {
        for id in self.viable.difference(&self.simulation.noticed) {
            let by = if self.noticed.contains(id) { "noticed by other tests" } else { "survived" };
            let why = match (self.simulation.reached.contains(id), self.reached.contains(id)) {
                (true, _) => "",
                (false, true) => ", not reached by the simulation",
                (false, false) => ", not reached",
            };
            println!("{by}{why}: {}", mutants[*id as usize].name);
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
        let (reached, noticed, simulation) = (BTreeSet::new(), BTreeSet::new(), Judgement::default());
        Row { name, viable, reached, noticed, simulation }
    };
    let mut rows: Vec<Row<'_>> = CRATES.into_iter().filter(is_chosen).map(of_crate).collect();
    ensure!(rows.iter().any(|row| !row.viable.is_empty()), "the shard has no mutants");
    for row in &mut rows {
        for suite in simulations(row.name, &programs, &tree.root)? {
            row.judge(&suite, &tree.memory)?;
        }
        row.simulation = Judgement { reached: row.reached.clone(), noticed: row.noticed.clone() };
        println!("{}: {} of {} noticed by the simulation", row.name, row.noticed.len(), row.viable.len());
    }
    for row in &mut rows {
        let others = [unit_tests(row.name, &programs, &tree.root)?, flows(row.name, &programs, &tree.root)?];
        for suite in others.iter().flatten() {
            row.judge(suite, &tree.memory)?;
        }
        row.print_missed(&mutants);
    }
    println!(
        "\n{:<16} {:>6} {:>24} {:>14} {:>10}",
        "crate", "viable", "noticed by simulation", "by all tests", "survived"
    );
    for row in rows {
        let [viable, simulated, noticed] =
            [&row.viable, &row.simulation.noticed, &row.noticed].map(BTreeSet::len);
        println!("{:<16} {viable:>6} {simulated:>24} {noticed:>14} {:>10}", row.name, viable - noticed);
    }
    Ok(())
}
