//! Usage errors have one prefix and one exit code, whichever command finds them.

use super::{fails, folder, misused, run, succeeds};

/// Returns all commands that the help lists.
pub(crate) fn commands() -> Vec<String> {
    let help = succeeds(&run(folder().path(), &["--help"]));
    let listed = help.split("Commands:\n").nth(1).expect("has commands").split("\n\n").next().unwrap();
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.len() > 10 && names.iter().any(|name| name == "sentinel"), "{names:?}");
    names
}

#[test]
fn every_command_rejects_a_wrong_use_alike() {
    let folder = folder();
    for command in commands() {
        let unknown = run(folder.path(), &[command.as_str(), "--no-such-flag"]);
        misused(&unknown, &["unexpected argument '--no-such-flag'"]);
    }
    for command in ["sentinel", "explain", "replay", "plan", "completions"] {
        misused(&run(folder.path(), &[command]), &["required arguments were not provided"]);
    }
}

#[test]
fn bad_values_are_usage_errors() {
    let folder = folder();
    for args in [
        &["run", "--resync", "soon"][..],
        &["run", "--metrics-bind-address", "8080"],
        &["run", "--status-bind-address", "8082"],
        &["run", "--leader-elect=perhaps"],
        &["run", "--concurrency", "0"],
        &["run", "--record-max-size", "1Ki"],
        &["replay", "x", "--until", "soon"],
        &["dev", "--listen", "8001"],
        &["dev", "--bare", "--controllers", "namespaceclass"],
        &["dev", "--controllers", "x"],
        &["crds", "--controllers", "x"],
        &["run", "--controllers", "x"],
        &["run", "--controllers", "sentinel"],
        &["run", "--record", "run.jsonl"],
        &["run", "--log-level", "warning"],
        &["dev", "--log-level", "lots=of=it"],
        &["sentinel", "--config", "a", "--metrics-bind-address", "here"],
        &["get", "--output", "yaml"],
        &["check", "--output", "yaml"],
        &["completions", "tcsh"],
        &["frobnicate"],
    ] {
        misused(&run(folder.path(), args), &[]);
    }
    // Without any argument it prints the help.
    assert_eq!(run(folder.path(), &[]).status.code(), Some(2));
}

#[test]
fn every_command_reports_a_missing_cluster_alike() {
    let folder = folder();
    std::fs::write(
        folder.path().join("class.yaml"),
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
    )
    .unwrap();
    for args in [&["run"][..], &["get"], &["plan", "-f", "class.yaml"], &["sentinel", "--config", "a"]] {
        fails(&run(folder.path(), args), &["no cluster to connect to"]);
    }
}
