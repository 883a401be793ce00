//! Which tests notice mutants of which crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::judge::Suite;

/// The crates with mutants. Each is compiled with those of all, so that nothing is compiled again for another crate.
pub(crate) const CRATES: [&str; 5] = ["namespaceclass", "bridge", "dpuservice", "sentinel", "engine"];

/// Test programs by name.
pub(crate) type Programs = BTreeMap<String, PathBuf>;

/// Returns the programs that simulate a crate's controller, or all controllers for the engine.
fn searched_by(name: &str) -> &'static [&'static str] {
    match name {
        "namespaceclass" => &["simulation"],
        "bridge" => &["simulated_bridge"],
        "dpuservice" => &["simulated_dpuservice"],
        "sentinel" => &["sentinel"],
        _ => &["simulation", "simulated_bridge", "simulated_dpuservice", "sentinel"],
    }
}

/// Returns the programs with the flows of a crate's controller, or of all controllers for the engine. The Sentinel has none.
fn flows_in(name: &str) -> &'static [&'static str] {
    match name {
        "namespaceclass" => &["namespaceclass"],
        "bridge" => &["bridge"],
        "dpuservice" => &["dpuservice"],
        "sentinel" => &[],
        _ => &["namespaceclass", "bridge", "dpuservice"],
    }
}

/// Returns the searches that judge the mutants of a crate.
pub(crate) fn simulations(name: &str, programs: &Programs, root: &Path) -> Result<Vec<Suite>> {
    let searches = searched_by(name).iter();
    searches.map(|name| suite(programs, root, name, "sim/tests", "every_seed", &[], "mutants")).collect()
}

/// Returns the unit tests of a crate, or of all crates for the engine.
pub(crate) fn unit_tests(name: &str, programs: &Programs, root: &Path) -> Result<Vec<Suite>> {
    let names: &[&str] = if name == "engine" { &CRATES } else { &[name] };
    let tests = names.iter().map(|name| {
        suite(programs, root, &format!("lockstep_{name}"), &format!("core/{name}"), "", &[], "quick")
    });
    tests.collect()
}

/// What the names of the flows contain that inject a failure at every request.
const FAILURES: [&str; 2] = ["any_single_failure", "failed_in_any_way"];

/// Returns the flows that judge the mutants of a crate, without [`FAILURES`].
pub(crate) fn flows(name: &str, programs: &Programs, root: &Path) -> Result<Vec<Suite>> {
    let skipped = &[FAILURES[0], FAILURES[1], "replay::", "scale::"];
    let flows = flows_in(name).iter();
    flows.map(|name| suite(programs, root, name, "sim/tests", "", skipped, "quick")).collect()
}

/// Returns [`FAILURES`] for the mutants of a crate. They take long.
pub(crate) fn failures(name: &str, programs: &Programs, root: &Path) -> Result<Vec<Suite>> {
    let flows = flows_in(name).iter().flat_map(|name| FAILURES.map(|filter| (name, filter)));
    flows.map(|(name, filter)| suite(programs, root, name, "sim/tests", filter, &[], "quick")).collect()
}

/// Returns the arguments of `cargo test` for the programs of all these tests.
pub(crate) fn arguments() -> Vec<String> {
    let mut arguments = vec!["--package=lockstep-sim-tests".to_owned(), "--lib".to_owned()];
    for name in CRATES {
        arguments.push(format!("--package=lockstep-{name}"));
    }
    let tests: BTreeSet<&str> =
        CRATES.into_iter().flat_map(|name| searched_by(name).iter().chain(flows_in(name))).copied().collect();
    arguments.extend(tests.into_iter().map(|test| format!("--test={test}")));
    arguments
}

fn suite(
    programs: &Programs,
    root: &Path,
    name: &str,
    directory: &str,
    filter: &'static str,
    skipped: &'static [&'static str],
    tier: &'static str,
) -> Result<Suite> {
    let program = programs.get(name).with_context(|| format!("there is no test {name}"))?.clone();
    Ok(Suite { program, directory: root.join(directory), filter, skipped, tier })
}
