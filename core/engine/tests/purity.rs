//! The core stays pure: what it is built from can't wait, talk, read a clock or draw a random number.

#![expect(clippy::disallowed_types, reason = "a test of the core asks cargo")]

use std::collections::BTreeSet;
use std::process::Command;

/// Async runtimes, clients, clocks and random sources, by the beginning of their names.
const IMPURE: [&str; 20] = [
    "async-std",
    "chrono",
    "fastrand",
    "futures",
    "getrandom",
    "hyper",
    "kube-client",
    "kube-runtime",
    "lapin",
    "mio",
    "parking_lot",
    "quanta",
    "rand",
    "reqwest",
    "rustls",
    "smol",
    "socket2",
    "time",
    "tokio",
    "uuid",
];

/// The pure crates; all depend on the engine.
const CONTROLLERS: [&str; 4] =
    ["lockstep-bridge", "lockstep-dpuservice", "lockstep-namespaceclass", "lockstep-sentinel"];

/// The library of the Sentinel's expressions. Its parser takes locks and knows UUIDs, and its times are those of chrono, but no
/// expression can read a clock or draw a number (decision 94).
const EXPRESSIONS: &str = "kube-cel";

/// Returns all dependencies, without those that are only there for the pruned one.
fn dependencies(pruned: Option<&str>) -> BTreeSet<String> {
    let controllers = CONTROLLERS.iter().flat_map(|controller| ["-p", controller]);
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "-e", "normal,no-proc-macro", "--prefix", "none"])
        .args(controllers)
        .args(pruned.iter().flat_map(|pruned| ["--prune", pruned]))
        .args(["--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo prints the dependencies");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names are text");
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_core_depends_on_no_runtime_client_clock_or_random_source() {
    let dependencies = dependencies(Some(EXPRESSIONS));
    assert!(dependencies.contains("lockstep-crds") && dependencies.contains("serde"), "{dependencies:?}");
    let impure: Vec<_> =
        dependencies.iter().filter(|name| IMPURE.iter().any(|impure| name.starts_with(impure))).collect();
    assert!(impure.is_empty(), "the core must not depend on {impure:?}");
}

/// Every dependency that comes or goes is seen by a reviewer.
#[test]
fn the_dependencies_of_the_core_are_these() {
    let names: Vec<_> = dependencies(None).into_iter().collect();
    insta::assert_snapshot!(names.join("\n"));
}
