//! The program as its users meet it: what it prints, and how it ends.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use lockstep_cli::controllers;

#[path = "cli/check.rs"]
mod check;
#[path = "cli/completions.rs"]
mod completions;
#[path = "cli/crds.rs"]
mod crds;
#[path = "cli/dev.rs"]
mod dev;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/get.rs"]
mod get;
#[path = "cli/plan.rs"]
mod plan;
#[path = "cli/replay.rs"]
mod replay;
#[path = "cli/run_command.rs"]
mod run_command;
#[path = "cli/served.rs"]
mod served;
#[path = "cli/sim.rs"]
mod sim;
#[path = "cli/simulated.rs"]
mod simulated;
#[path = "cli/situations.rs"]
mod situations;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/usage.rs"]
mod usage;
#[path = "cli/what_if.rs"]
mod what_if;

fn lockstep(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    // Neither the environment nor the home of whoever runs the tests may matter.
    command.env_clear().env("HOME", folder).current_dir(folder);
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    lockstep(folder).args(args).stdin(Stdio::null()).output().unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Fails with one line on stderr that holds all of `parts`.
fn fails(output: &Output, parts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.trim_end().lines().count() == 1, "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part:?} is not in {stderr}");
    }
}

/// Fails as a wrong use, with the whole story in the first lines on stderr.
fn misused(output: &Output, parts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty() && stderr.starts_with("error: "), "{stderr}");
    let story = stderr.split("\n\n").next().unwrap();
    for part in parts {
        assert!(story.contains(part), "{part:?} is not in {stderr}");
    }
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn help_shows_what_to_do_first() {
    let folder = folder();
    let help = succeeds(&run(folder.path(), &["--help"]));
    for command in [
        "run",
        "check",
        "get",
        "explain",
        "replay",
        "plan",
        "dev",
        "sim",
        "crds",
        "completions",
        "lockstep crds --controllers bridge | kubectl apply --server-side -f -",
    ] {
        assert!(help.contains(command), "{command}");
    }
    for command in ["run", "check", "get", "explain", "replay", "plan", "dev", "sim", "crds", "completions"] {
        let help = succeeds(&run(folder.path(), &[command, "--help"]));
        assert!(help.contains("Examples:"), "{command}");
    }
    let run_help = succeeds(&run(folder.path(), &["run", "--help"]));
    for line in run_help.lines().filter(|line| line.trim_start().starts_with("--")) {
        let name = line.trim_start().trim_start_matches("--").split(['[', ' ']).next().unwrap();
        let variable = format!("LOCKSTEP_{}", name.replace('-', "_").to_uppercase());
        assert!(run_help.contains(&variable), "{variable}");
    }
    let [bridge, other] = ["bridge", "namespaceclass"].map(controllers::concurrency);
    let default = format!("[default: {other}; bridge: {bridge}]");
    assert!(bridge == 5 && run_help.contains(&default), "{default}: {run_help}");
}

/// One flag, with one meaning and one explanation.
#[test]
fn controllers_are_chosen_alike_by_every_command() {
    let folder = folder();
    let explained = ["run", "check", "crds", "dev", "plan", "sim"].map(|command| {
        let help = succeeds(&run(folder.path(), &[command, "--help"]));
        let of_flag = help.split("--controllers <NAMES>").nth(1).expect("has the flag");
        let description = of_flag.split_once("LOCKSTEP_CONTROLLERS").expect("has its variable").0;
        description.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    assert!(explained.iter().all(|help| *help == explained[0]), "{explained:#?}");
    for command in ["run", "check", "crds", "dev", "plan", "sim"] {
        let unknown = run(folder.path(), &[command, "--controller", "x"]);
        misused(&unknown, &["'x'", "--controllers <NAMES>", "namespaceclass"]);
    }
    // The last one counts.
    let printed =
        succeeds(&run(folder.path(), &["crds", "--controllers", "bridge", "--controller", "sentinel"]));
    assert!(printed.contains("kind: SentinelConfig") && !printed.contains("kind: DPFHCPBridge"), "{printed}");
    let plan = r#"{"controller": "namespaceclass", "seed": 7, "stormyMs": 60000, "faults": []}"#;
    std::fs::write(folder.path().join("plan.json"), plan).unwrap();
    for args in [&["dev", "--bare"][..], &["sim", "--plan", "plan.json"]] {
        let both = run(folder.path(), &[args, &["--controllers", "bridge"]].concat());
        misused(&both, &["cannot be used with '--controllers <NAMES>'"]);
    }
}

#[test]
fn crds_are_printed_as_they_are_checked_in() {
    let folder = folder();
    let printed = succeeds(&run(folder.path(), &["crds"]));
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/lockstep");
    for set in lockstep_crds::all() {
        for crd in &set.crds {
            let path = lockstep_cli::definitions::path_in_chart(&set, crd);
            assert!(printed.contains(&std::fs::read_to_string(chart.join(path)).unwrap()));
        }
    }
    let some = succeeds(&run(folder.path(), &["crds", "--controllers", "namespaceclass"]));
    assert!(some.matches("kind: CustomResourceDefinition").count() == 2 && printed.contains(&some));
    assert_eq!(succeeds(&run(folder.path(), &["crds", "--controller", "namespaceclass"])), some);
}
