//! Prints the report at the end: the slowest tests, the skipped tests, and the failures with the commands that repeat them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::outcome::{Outcome, Test};
use crate::progress::clock;

/// The number of slowest tests in the report.
const SLOWEST: usize = 15;

/// The prefix of the line that a test prints if a required program is not installed.
const SKIPPED: &str = "SKIPPED: ";

/// Prints the report. Returns whether all tests passed.
pub(crate) fn print(outcomes: &[Outcome], took: Duration) -> bool {
    let mut tests: Vec<(&str, &Test)> = outcomes
        .iter()
        .flat_map(|outcome| outcome.tests.iter().map(|test| (outcome.suite.as_str(), test)))
        .collect();
    tests.sort_by_key(|(_, test)| std::cmp::Reverse(test.took));
    println!("\nslowest tests:");
    for (suite, test) in tests.iter().take(SLOWEST) {
        println!("{:>7.1} s  {suite} {}", test.took.as_secs_f64(), test.name);
    }
    let texts = outcomes.iter().flat_map(|outcome| {
        outcome.stderr.lines().chain(outcome.tests.iter().flat_map(|test| test.output.lines()))
    });
    let skipped: BTreeSet<&str> = texts.filter(|line| line.starts_with(SKIPPED)).collect();
    for line in skipped {
        println!("{line}");
    }
    for outcome in outcomes.iter().filter(|outcome| !outcome.passed()) {
        print_failures(outcome);
    }
    let failures: Vec<String> = outcomes.iter().flat_map(failures).collect();
    let passed = tests.iter().filter(|(_, test)| test.passed).count();
    let ignored: usize = outcomes.iter().map(|outcome| outcome.ignored).sum();
    println!("\n{} suites in {}", outcomes.len(), clock(took));
    println!("{passed} passed, {} failed, {ignored} skipped", failures.len());
    // Once more below everything else: who sees only the end of the output sees what failed.
    for failure in &failures {
        println!("FAILED {failure}");
    }
    failures.is_empty()
}

/// Returns the names of the failed tests of a suite, and the suite itself if it crashed or hung.
fn failures(outcome: &Outcome) -> Vec<String> {
    let failed = outcome.tests.iter().filter(|test| !test.passed);
    let mut names: Vec<String> = failed.map(|test| format!("{} {}", outcome.suite, test.name)).collect();
    names.extend(outcome.broken.as_ref().map(|broken| format!("{}: {broken}", outcome.suite)));
    names
}

fn print_failures(outcome: &Outcome) {
    for test in outcome.tests.iter().filter(|test| !test.passed) {
        println!("\nFAILED {} {}\n{}", outcome.suite, test.name, test.output);
        println!("repeat it with: {} -- --exact {}", command(&outcome.suite), test.name);
    }
    if let Some(broken) = &outcome.broken {
        println!("\nFAILED {}: {broken}\n{}", outcome.suite, outcome.stderr);
        println!("repeat it with: {}", command(&outcome.suite));
    }
}

/// Returns the cargo command that runs a suite.
fn command(suite: &str) -> String {
    let (package, target) = suite.split_once('/').unwrap_or((suite, "lib"));
    match target {
        "lib" => format!("cargo test -p {package} --lib"),
        "bin" => format!("cargo test -p {package} --bins"),
        target => format!("cargo test -p {package} --test {target}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{command, failures};
    use crate::outcome::{Outcome, Test};

    #[test]
    fn each_kind_of_binary_has_its_command() {
        assert_eq!(command("lockstep-sim/lib"), "cargo test -p lockstep-sim --lib");
        assert_eq!(command("lockstep-sim/bridge"), "cargo test -p lockstep-sim --test bridge");
    }

    #[test]
    fn what_failed_is_named() {
        let test = |name: &str, passed| Test {
            name: name.to_owned(),
            passed,
            took: Duration::ZERO,
            output: String::new(),
        };
        let outcome = Outcome {
            suite: "lockstep-sim/bridge".to_owned(),
            took: Duration::ZERO,
            tests: vec![test("a", true), test("b", false)],
            ignored: 0,
            broken: Some("it hung".to_owned()),
            stderr: String::new(),
        };
        assert_eq!(failures(&outcome), ["lockstep-sim/bridge b", "lockstep-sim/bridge: it hung"]);
    }
}
