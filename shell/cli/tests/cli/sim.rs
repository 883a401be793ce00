//! `lockstep sim`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::terminal::terminal;
use super::{folder, lockstep, misused, run, succeeds};

fn object(output: &Output) -> serde_json::Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn sim_finds_nothing_and_goes_the_same_way_twice() {
    let folder = folder();
    let args = ["sim", "--seeds", "0..5", "--duration", "10m", "--json"];
    let first = run(folder.path(), &args);
    assert_eq!(succeeds(&first).lines().count(), 1);
    // A slow machine makes it tell how far it has come.
    let progress = String::from_utf8_lossy(&first.stderr);
    assert!(progress.lines().all(|line| line.contains(" of 5 runs, about ")), "{progress}");
    let one = object(&first);
    assert_eq!(one["failures"], serde_json::json!([]));
    assert_eq!(one["runs"], 20);
    assert_eq!(one["controllers"], serde_json::json!(["bridge", "dpuservice", "namespaceclass", "sentinel"]));
    assert!(one["steps"].as_u64() > Some(1000) && one["requests"].as_u64() > Some(100), "{one}");
    // The storm of each run, and the calm after it.
    assert!(one["simulatedSeconds"].as_f64() > Some(5.0 * 600.0), "{one}");
    assert!(one["faults"]["act"]["-"].as_u64() > Some(20), "{one}");
    assert!(!folder.path().join("lockstep-failures").exists());

    let again = object(&run(folder.path(), &[&args[..], &["--jobs", "1"]].concat()));
    for field in ["hash", "runs", "steps", "requests", "faults", "simulatedSeconds"] {
        assert_eq!(one[field], again[field], "{field}");
    }
    let other = object(&run(folder.path(), &["sim", "--seeds", "1..3", "--duration", "10m", "--json"]));
    assert_ne!(one["hash"], other["hash"]);
}

#[test]
fn sim_shows_its_progress_in_a_pipe_and_keeps_its_result_on_ctrl_c() {
    let folder = folder();
    let args =
        ["sim", "--seeds", "0..100000", "--controllers", "namespaceclass", "--duration", "5m", "--json"];
    let mut sim =
        lockstep(folder.path()).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(sim.stderr.take().unwrap());
    // It comes after ten seconds, while some of the runs are still ahead.
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let rest = line.strip_prefix("namespaceclass: ").expect(&line);
    let (done, left) = rest.split_once(" of 100000 runs, about ").expect(&line);
    let left = left.strip_suffix(" s left\n").expect(&line);
    assert!(done.parse::<u64>().unwrap() > 0 && left.parse::<u64>().unwrap() > 0, "{line}");

    kill_process(Pid::from_child(&sim), Signal::INT).unwrap();
    let output = sim.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let report = object(&output);
    assert_eq!(report["interrupted"], true);
    let runs = report["runs"].as_u64();
    assert!(runs >= done.parse().ok() && runs < Some(100_000), "{report}");
}

#[test]
fn sim_draws_a_bar_on_a_terminal_and_clears_it() {
    let folder = folder();
    let (mut screen, end) = terminal();
    let args =
        ["sim", "--seeds", "0..100000", "--controllers", "namespaceclass", "--duration", "5m", "--json"];
    let mut command = lockstep(folder.path());
    let sim = command.args(args).env("TERM", "xterm").stdout(Stdio::piped()).stderr(end).spawn().unwrap();
    // The test has no end of the program, so that reading ends with the program.
    drop(command);
    let (mut shown, mut bytes, mut bar) = (Vec::new(), [0; 4096], None);
    while let Ok(count @ 1..) = screen.read(&mut bytes) {
        shown.extend(&bytes[..count]);
        if bar.is_none() {
            bar = String::from_utf8_lossy(&shown).split('\r').find_map(bar_with_runs);
            if bar.is_some() {
                kill_process(Pid::from_child(&sim), Signal::INT).unwrap();
            }
        }
    }
    let shown = String::from_utf8_lossy(&shown);
    let (bar, rest) = bar.unwrap_or_else(|| panic!("no bar in {shown:?}"));
    // All 100 columns are used. The width of the bar depends on the texts beside it.
    assert!(bar.chars().count() > 30, "{bar}");
    let [per_second, left] = rest.split("  ").collect::<Vec<_>>()[..] else { panic!("{rest}") };
    assert!(per_second.ends_with("/s") && left.starts_with(|letter: char| letter.is_ascii_digit()), "{rest}");
    // The cursor is in an empty line, and no line for pipes was printed.
    assert!(shown.ends_with("\r\u{1b}[2K") && !shown.contains("about"), "{shown:?}");
    let output = sim.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(object(&output)["interrupted"], true);
}

/// Returns the bar and the texts after the number of runs, if the line is complete and at least one run was made.
fn bar_with_runs(line: &str) -> Option<(String, String)> {
    let (before, rest) = line.split_once("/100000 runs  ")?;
    let (bar, done) = before.split_once("namespaceclass  ")?.1.split_once("  ")?;
    let rest = rest.split_once(" left")?.0;
    (done.parse::<u64>().ok()? > 0).then(|| (bar.to_owned(), rest.to_owned()))
}

#[test]
fn sim_sums_up_for_people() {
    let folder = folder();
    let summary = succeeds(&run(
        folder.path(),
        &["sim", "--seeds", "0..2", "--faults", "pause,conflict", "--duration", "5m"],
    ));
    for part in ["runs         8", "simulated ", "h a minute", "hash ", "act ", "nothing failed"] {
        assert!(summary.contains(part), "{part:?} is not in {summary}");
    }
    assert!(!summary.contains("handover"), "{summary}");
}

#[test]
fn sim_reports_usage_errors() {
    let folder = folder();
    let sim = |args: &[&str]| run(folder.path(), &[&["sim"], args].concat());
    misused(&sim(&["--seeds", "17"]), &["--seeds", "17", "a range such as 0..1000"]);
    misused(&sim(&["--seeds", "3..3"]), &["--seeds", "3..3", "empty"]);
    misused(&sim(&["--controllers", "x"]), &["--controllers", "'x'", "namespaceclass"]);
    misused(&sim(&["--faults", "pause,rain"]), &["--faults", "'rain'", "crash_after", "time_travel"]);
    misused(&sim(&["--duration", "soon"]), &["--duration", "soon", "30m"]);
    misused(&sim(&["--jobs", "0"]), &["--jobs"]);
    for flag in ["--together", "--museum"] {
        misused(&sim(&[flag, "--controllers", "bridge"]), &[flag, "--controllers <NAMES>"]);
    }
    misused(&sim(&["--plan", "x.json", "--seeds", "0..1"]), &["x.json"]);
    misused(&sim(&["--plan", "missing.json"]), &["--plan", "missing.json", "No such file"]);
    misused(&sim(&["--plan", "."]), &["--plan", "directory"]);

    let plan = folder.path().join("plan.json");
    let fault = |what: &str, rest: &str| {
        format!(
            "{{\"controller\": \"namespaceclass\", \"seed\": 1, \"stormyMs\": 60000, \"faults\": [\n\
             {{\"what\": {what}, \"fromMs\": 1, \"untilMs\": 2, \"perMille\": 1, \"times\": 1{rest}}}]}}"
        )
    };
    for (content, parts) in [
        ("{\n  \"controller\": 1\n}".to_owned(), &["plan.json", "line 2 column 17"][..]),
        (r#"{"controller": "namespaceclass"}"#.to_owned(), &["missing field `seed`", "line 1"]),
        (
            r#"{"controller": "x", "seed": 1, "stormyMs": 1, "faults": []}"#.to_owned(),
            &["\"x\"", "namespaceclass"],
        ),
        (fault(r#"{"kind": "rain"}"#, ""), &["rain", "watch_cut", "line 2"]),
        (fault(r#"{"kind": "act", "name": "dance", "seed": 1}"#, ""), &["\"dance\"", "there are: "]),
        (fault(r#"{"kind": "watch_cut"}"#, ", \"aim\": \"dance\""), &["\"dance\"", "apply"]),
        (fault(r#"{"kind": "pause", "by_ms": 18446744073709551615}"#, ""), &["by_ms", "week"]),
    ] {
        std::fs::write(&plan, content).unwrap();
        misused(&sim(&["--plan", "plan.json"]), parts);
    }
}

#[test]
fn sim_runs_the_plan_of_a_file() {
    let folder = folder();
    let plan = r#"{"controller": "namespaceclass", "seed": 7, "stormyMs": 60000, "faults": [
        {"what": {"kind": "watch_cut"}, "fromMs": 1000, "untilMs": 1000, "perMille": 1000, "times": 1}]}"#;
    std::fs::write(folder.path().join("plan.json"), plan).unwrap();
    let one = object(&run(folder.path(), &["sim", "--plan", "plan.json", "--json"]));
    assert_eq!(one["failures"], serde_json::json!([]));
    assert_eq!(one["runs"], 1);
    assert_eq!(one["faults"], serde_json::json!({"watch_cut": {"-": 1}}));
}

#[test]
fn sim_finds_a_bug_of_the_museum() {
    let folder = folder();
    let table = run(folder.path(), &["sim", "--museum", "never_prunes", "--json"]);
    let found = &object(&table)["bugs"][0];
    assert_eq!((table.status.code(), &found["bug"]), (Some(0), &"never_prunes".into()), "{found}");
    assert_eq!(found["source"], "stackabletech/nifi-operator#244");
    let found = &found["found"];
    assert_eq!(found["invariant"], "desired_state_is_reached");
    assert!(found["seedsNeeded"].as_u64() >= Some(1) && found["planLength"].as_u64() >= Some(1), "{found}");
    // The variable chooses for all commands, so the flag overrides it.
    let museum = ["sim", "--museum", "never_prunes"];
    let output = lockstep(folder.path()).args(museum).env("LOCKSTEP_CONTROLLERS", "bridge").output().unwrap();
    let text = succeeds(&output);
    assert!(text.starts_with("bug ") && text.contains("1 of 1 found"), "{text}");
    misused(&run(folder.path(), &["sim", "--museum", "rain"]), &["'rain'", "never_prunes", "all"]);
}

#[test]
fn sim_explores_every_run_in_a_small_world() {
    let folder = folder();
    let scope = |args: &[&str]| run(folder.path(), &[&["sim", "--scope", "0"], args].concat());
    let found = scope(&["--planted", "no_status_ahead", "--json"]);
    let world = &object(&found)["explorations"][0];
    assert_eq!((found.status.code(), &world["isComplete"]), (Some(1), &false.into()), "{world}");
    let violation = &world["violation"];
    assert_eq!(violation["invariant"], "created_resources_are_listed_first");
    assert!(
        violation["plan"][0].as_str().is_some_and(|step| step.contains("label namespace red")),
        "{world}"
    );
    for file in violation["files"].as_array().unwrap() {
        assert!(folder.path().join(file.as_str().unwrap()).exists(), "{file}");
    }
    let text = String::from_utf8(scope(&["--planted", "no_status_ahead"]).stdout).unwrap();
    for part in ["namespaceclass: a namespace is labelled; at most 0 faults", "violated: created_resources"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    misused(
        &scope(&["--controllers", "namespaceclass", "--planted", "phases_go_back"]),
        &["namespaceclass has no bug \"phases_go_back\""],
    );
    misused(&scope(&["--seeds", "0..1"]), &["--scope", "--seeds"]);
    misused(&scope(&["--planted"]), &["--planted", "without the name of a bug", "--scope <FAULTS>"]);
}

#[test]
fn sim_finds_a_planted_bug_and_reports_a_failing_plan() {
    let folder = folder();
    let table = run(folder.path(), &["sim", "--planted", "wrong_namespace", "--duration", "5m", "--json"]);
    let found = &object(&table)["bugs"][0];
    assert_eq!((table.status.code(), &found["bug"]), (Some(0), &"wrong_namespace".into()), "{found}");
    assert!(found["seedsNeeded"].as_u64() >= Some(1) && found["invariant"].is_string(), "{found}");
    misused(&run(folder.path(), &["sim", "--planted", "rain"]), &["'rain'", "no_label", "all"]);
    let help = succeeds(&run(folder.path(), &["sim", "--help"]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for default in [
        "[default: 0..1000; for each bug 0..2000 with --planted, and 0..400 with --museum]",
        "[default: depends on the controller, 15m to 1h; 10m with --museum]",
    ] {
        assert!(help.contains(default), "{default:?} is not in {help}");
    }

    // Nothing goes wrong and nobody acts: the bug shows on the stage as it is.
    let plan = r#"{"controller": "namespaceclass", "seed": 7, "stormyMs": 60000, "faults": []}"#;
    std::fs::write(folder.path().join("quiet.json"), plan).unwrap();
    let args = ["sim", "--plan", "quiet.json", "--planted", "wrong_namespace", "--out", "seen", "--json"];
    let failed = run(folder.path(), &args);
    assert_eq!(failed.status.code(), Some(1));
    let failure = &object(&failed)["failures"][0];
    assert_eq!(failure["replay"], "lockstep sim --plan quiet.json --planted wrong_namespace");
    let unnamed = run(folder.path(), &["sim", "--plan", "quiet.json", "--planted"]);
    misused(&unnamed, &["--planted", "without the name of a bug", "--plan <FILE>"]);
    assert_eq!(
        failure["files"],
        serde_json::json!(["seen/quiet.txt", "seen/quiet.html", "seen/quiet.jsonl"])
    );
    let text = std::fs::read_to_string(folder.path().join("seen/quiet.txt")).unwrap();
    assert!(text.contains(failure["sentence"].as_str().unwrap()), "{text}");
}
