//! The program as its users meet it: what it prints, and how it ends.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use lockstep_core::engine::action::{ActionId, Class, Failure};
use lockstep_core::engine::machine::{Event, Machine as _};
use lockstep_core::engine::operator::Config;
use lockstep_core::object::Kind;
use lockstep_core::time::{Monotonic, Now, Wall};
use lockstep_shell::controllers;
use lockstep_shell::record::{self, Options};

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
    assert!(stderr.starts_with("lockstep: ") && stderr.trim_end().lines().count() == 1, "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part:?} is not in {stderr}");
    }
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A program that serves; killed if the test ends before it does.
struct Served {
    child: Child,
    url: String,
    lines: Receiver<String>,
}

impl Served {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let mut child = lockstep(folder).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let url = first.strip_prefix("API server  ").expect(&first).to_owned();
        let (sender, receiver) = mpsc::channel();
        // All that it prints is read, so that the pipe never fills up.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Self { child, url, lines: receiver }
    }

    /// Waits for lines that hold the texts, in any order, for half a minute at most.
    fn shows(&self, texts: &[&str]) {
        let end = Instant::now() + Duration::from_secs(30);
        let mut missing = texts.to_vec();
        let mut seen = Vec::new();
        while !missing.is_empty() {
            let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) else {
                panic!("{missing:?} not shown in:\n{}", seen.join("\n"));
            };
            missing.retain(|text| !line.contains(text));
            seen.push(line);
        }
    }

    /// Asks it to end and tells how it did; it has two seconds.
    fn terminate(mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("still runs two seconds after SIGTERM");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn help_shows_what_to_do_first() {
    let folder = folder();
    let help = succeeds(&run(folder.path(), &["--help"]));
    for command in [
        "run",
        "replay",
        "dev",
        "sim",
        "crds",
        "completions",
        "lockstep crds | kubectl apply --server-side -f -",
    ] {
        assert!(help.contains(command), "{command}");
    }
    for command in ["run", "replay", "dev", "sim", "crds", "completions"] {
        let help = succeeds(&run(folder.path(), &[command, "--help"]));
        assert!(help.contains("Examples:"), "{command}");
    }
    let run_help = succeeds(&run(folder.path(), &["run", "--help"]));
    for line in run_help.lines().filter(|line| line.trim_start().starts_with("--")) {
        let name = line.trim_start().trim_start_matches("--").split(['[', ' ']).next().unwrap();
        let variable = format!("LOCKSTEP_{}", name.replace('-', "_").to_uppercase());
        assert!(run_help.contains(&variable), "{variable}");
    }
}

#[test]
fn bad_flags_are_usage_errors() {
    let folder = folder();
    for args in [
        &["run", "--resync", "soon"][..],
        &["run", "--metrics-bind-address", "8080"],
        &["run", "--leader-elect=perhaps"],
        &["run", "--concurrency", "0"],
        &["run", "--record-max-size", "1Ki"],
        &["replay"],
        &["replay", "x", "--until", "soon"],
        &["dev", "--listen", "8001"],
        &["dev", "--bare", "--controllers", "namespaceclass"],
        &["completions", "tcsh"],
        &["frobnicate"],
        &[],
    ] {
        assert_eq!(run(folder.path(), args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn crds_are_printed_as_they_are_checked_in() {
    let folder = folder();
    let printed = succeeds(&run(folder.path(), &["crds"]));
    let checked_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/lockstep/crds");
    for crd in lockstep_crds::all().iter().flat_map(|set| &set.crds) {
        let text = std::fs::read_to_string(checked_in.join(lockstep_shell::yaml::file_name(crd))).unwrap();
        assert!(printed.contains(&text));
    }
    let some = succeeds(&run(folder.path(), &["crds", "--controllers", "namespaceclass"]));
    assert!(some.matches("kind: CustomResourceDefinition").count() == 2 && printed.contains(&some));
    fails(&run(folder.path(), &["crds", "--controllers", "x"]), &["\"x\"", "namespaceclass"]);
}

#[test]
fn completions_exist_for_common_shells() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish"] {
        let script = succeeds(&run(folder.path(), &["completions", shell]));
        assert!(script.contains("metrics-bind-address") && script.contains("keep-going"), "{shell}");
    }
}

#[test]
fn run_needs_a_cluster_that_it_can_reach() {
    let folder = folder();
    fails(&run(folder.path(), &["run"]), &["no cluster to connect to"]);
    fails(&run(folder.path(), &["run", "--kubeconfig", "missing"]), &["missing"]);
    fails(&run(folder.path(), &["run", "--controllers", "a"]), &["\"a\"", "namespaceclass"]);
    fails(&run(folder.path(), &["run", "--log-level", "lots=of=it"]), &["log level"]);

    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{{name: x, context: {{cluster: x, user: x}}}}]\n\
         clusters: [{{name: x, cluster: {{server: '{url}'}}}}]\nusers: [{{name: x, user: {{}}}}]\n"
    );
    std::fs::write(folder.path().join("config"), kubeconfig).unwrap();
    fails(&run(folder.path(), &["run", "--kubeconfig", "config"]), &["cannot reach", &url, "refused"]);
    fails(&run(folder.path(), &["run", "--kubeconfig", "config", "--context", "y"]), &["y"]);
}

/// Records a short run into the file.
fn record(path: &Path) {
    let settings =
        Config { concurrency: 2, resync: Duration::from_mins(10), instance: "a".to_owned(), seed: 1 };
    let machine = controllers::machine("namespaceclass", &settings).unwrap();
    let options = Options { path: path.to_owned(), max_bytes: 1 << 20 };
    let config = serde_json::to_value(&settings).unwrap();
    let (mut machine, recording) = record::start(machine, config, options).unwrap();
    let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
    let events = [
        Event::Started,
        Event::LeadershipChanged { leading: true },
        Event::ListStarted { kind: Arc::clone(&kind) },
        Event::Observed {
            kind,
            object: Arc::new(serde_json::json!({ "metadata": { "name": "sh\u{1b}op" } })),
        },
        Event::Finished { id: ActionId(1), outcome: Err(Failure::new(Class::Forbidden, "no")) },
    ];
    for (millis, event) in (0..).zip(events) {
        let wall = Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH);
        let now = Now { wall, monotonic: Monotonic::from_elapsed(Duration::from_millis(millis)) };
        let _step = machine.step(event, now);
    }
    drop(machine);
    recording.finish();
}

#[test]
fn a_recording_is_replayed_step_by_step() {
    let folder = folder();
    record(&folder.path().join("run.jsonl"));
    let shown = succeeds(&run(folder.path(), &["replay", "run.jsonl"]));
    let expected = [
        "      1       0.000s  started  =>  watch Namespace, watch NamespaceClass.namespaceclass.akuity.io, watch NamespaceClassBinding.namespaceclass.akuity.io",
        "      2       0.001s  leads",
        "      3       0.002s  list of Namespace begins",
        "      4       0.003s  saw Namespace sh op",
        "      5       0.004s  watch Namespace: forbidden: no",
        "5 steps replayed, all as recorded",
    ];
    let (header, steps) = shown.split_once('\n').unwrap();
    assert_eq!(steps.lines().collect::<Vec<_>>(), expected);
    assert!(header.starts_with("namespaceclass of lockstep 0.") && header.contains("\"seed\":1"), "{header}");
    let shown = succeeds(&run(folder.path(), &["replay", "run.jsonl", "--until", "2"]));
    assert!(shown.ends_with("leads\n2 steps replayed, all as recorded\n"), "{shown}");
    fails(&run(folder.path(), &["replay", "run.jsonl", "--step"]), &["--step", "terminal"]);
}

#[test]
fn a_step_that_differs_is_shown() {
    let folder = folder();
    record(&folder.path().join("run.jsonl"));
    let text = std::fs::read_to_string(folder.path().join("run.jsonl")).unwrap();
    let other = text.replacen("\"plural\":\"namespaceclasses\"", "\"plural\":\"others\"", 1);
    std::fs::write(folder.path().join("other.jsonl"), other).unwrap();
    let output = run(folder.path(), &["replay", "other.jsonl"]);
    fails(&output, &["other.jsonl", "step 1", "--diff"]);
    let output = run(folder.path(), &["replay", "other.jsonl", "--diff"]);
    fails(&output, &["other.jsonl", "step 1"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> =
        shown.lines().filter(|line| line.starts_with(['+', '-'])).map(str::trim_end).collect();
    let (minus, plus) =
        (r#"-            "plural": "others","#, r#"+            "plural": "namespaceclasses","#);
    assert_eq!(lines, ["--- recorded", "+++ now", minus, plus]);
}

#[test]
fn what_can_not_be_replayed_is_told_with_the_place_and_the_remedy() {
    let folder = folder();
    record(&folder.path().join("run.jsonl"));
    let text = std::fs::read_to_string(folder.path().join("run.jsonl")).unwrap();
    let replay = |content: &str| {
        std::fs::write(folder.path().join("x"), content).unwrap();
        run(folder.path(), &["replay", "x"])
    };
    fails(&run(folder.path(), &["replay", "missing"]), &["missing", "No such file"]);
    fails(&replay(""), &["x: ", "empty"]);
    fails(&replay("{}\n"), &["x: ", "line 1", "no format"]);
    fails(&replay(&text.replace("\"format\":1", "\"format\":2")), &["line 1", "format 2", "lockstep 0."]);
    fails(
        &replay(&text.replace("\"machine\":\"namespaceclass\"", "\"machine\":\"y\"")),
        &["\"y\"", "namespaceclass"],
    );
    fails(
        &replay(&text.replace("\"seed\":1", "\"seed\":null")),
        &["configuration", "namespaceclass", "0.1.0"],
    );
    fails(
        &replay(&text.replace("\"number\":3", "\"number\":7")),
        &["line 4", "step 7 follows step 2", "--until 2"],
    );
    let (before, _) = text.rsplit_once("\"Err\"").unwrap();
    fails(&replay(&format!("{before}\n{{}}\n")), &["line 6", "--until 4"]);
    // The program died while it wrote: that is no fault of the recording.
    let shown = succeeds(&replay(before));
    assert!(
        shown
            .ends_with("4 steps replayed, all as recorded; the last line was cut off while it was written\n")
    );
}

#[test]
fn nothing_but_a_recording_is_put_aside_for_a_new_one() {
    let folder = folder();
    let path = folder.path().join("run.jsonl");
    let sizes = || {
        let files = [path.clone(), folder.path().join("run.jsonl.1"), folder.path().join("run.jsonl.4")];
        files.map(|file| std::fs::metadata(file).is_ok())
    };
    for _ in 0..5 {
        record(&path);
    }
    assert_eq!(sizes(), [true, true, false]);
    std::fs::write(&path, "precious").unwrap();
    let settings =
        Config { concurrency: 2, resync: Duration::from_mins(10), instance: "a".to_owned(), seed: 1 };
    let machine = controllers::machine("namespaceclass", &settings).unwrap();
    let options = Options { path: path.clone(), max_bytes: 1 << 20 };
    let error = record::start(machine, serde_json::Value::Null, options).err().unwrap().to_string();
    assert!(error.contains("run.jsonl") && error.contains("no recording"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn run_tells_how_to_install_missing_definitions() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--bare", "--listen", "127.0.0.1:0"]);
    let output = run(folder.path(), &["run", "--kubeconfig", "lockstep.kubeconfig"]);
    let remedy = "lockstep crds | kubectl apply --server-side -f -";
    fails(&output, &["namespaceclasses.namespaceclass.akuity.io", &served.url, remedy]);
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn bare_dev_serves_the_api_and_ends_at_sigterm() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--bare", "--listen", "127.0.0.1:0"]);
    let kubeconfig = std::fs::read_to_string(folder.path().join("lockstep.kubeconfig")).unwrap();
    assert!(kubeconfig.contains(&served.url), "{kubeconfig}");
    assert_eq!(served.terminate(), Some(0));
    assert!(!folder.path().join("lockstep.kubeconfig").exists());
}

#[test]
fn dev_tells_in_one_line_why_it_can_not_start() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails(&run(folder.path(), &["dev", "--listen", &address]), &[&address, "in use", "--listen"]);

    let free = ["dev", "--bare", "--listen", "127.0.0.1:0", "--kubeconfig"];
    fails(&run(folder.path(), &[&free[..], &["no/such/folder/config"]].concat()), &["no/such/folder/config"]);
    std::fs::write(folder.path().join("precious"), "x").unwrap();
    fails(&run(folder.path(), &[&free[..], &["precious"]].concat()), &["precious", "not ours"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("precious")).unwrap(), "x");
}

#[test]
fn dev_runs_the_controllers_on_the_examples() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--listen", "127.0.0.1:0"]);
    served.shows(&[
        "shop/web-settings               created by lockstep-namespaceclass",
        "vault/closed                    created by lockstep-namespaceclass",
        "shop/shop                       Ready=True",
        "vault/vault                     Ready=True",
        "Publishing=True",
        "cluster payments is Pending, validated",
        "cluster payments is Ready",
    ]);
    assert_eq!(served.terminate(), Some(0));
    assert!(!folder.path().join("lockstep.kubeconfig").exists());
}

/// Fails as a wrong use, with the whole story in the first line on stderr.
fn misused(output: &Output, parts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(output.stdout, b"");
    let story = stderr.split("\n\n").next().unwrap();
    for part in parts {
        assert!(story.contains(part), "{part:?} is not in {stderr}");
    }
}

fn object(output: &Output) -> serde_json::Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn sim_finds_nothing_and_goes_the_same_way_twice() {
    let folder = folder();
    let args = ["sim", "--seeds", "0..20", "--duration", "10m", "--json"];
    let first = run(folder.path(), &args);
    assert_eq!(succeeds(&first).lines().count(), 1);
    assert_eq!(String::from_utf8_lossy(&first.stderr), "");
    let one = object(&first);
    assert_eq!(one["failures"], serde_json::json!([]));
    assert_eq!(one["runs"], 80);
    assert_eq!(one["controllers"], serde_json::json!(["bridge", "dpuservice", "namespaceclass", "sentinel"]));
    assert!(one["steps"].as_u64() > Some(1000) && one["requests"].as_u64() > Some(100), "{one}");
    // The storm of each run, and the calm after it.
    assert!(one["simulatedSeconds"].as_f64() > Some(20.0 * 600.0), "{one}");
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
fn sim_sums_up_for_people() {
    let folder = folder();
    let told = succeeds(&run(
        folder.path(),
        &["sim", "--seeds", "0..2", "--faults", "pause,conflict", "--duration", "5m"],
    ));
    for part in ["runs         8", "simulated ", "h a minute", "hash ", "act ", "nothing failed"] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    assert!(!told.contains("handover"), "{told}");
}

#[test]
fn sim_tells_what_is_wrong_with_what_it_was_asked() {
    let folder = folder();
    let sim = |args: &[&str]| run(folder.path(), &[&["sim"], args].concat());
    misused(&sim(&["--seeds", "17"]), &["--seeds", "17", "a range such as 0..1000"]);
    misused(&sim(&["--seeds", "3..3"]), &["--seeds", "3..3", "empty"]);
    misused(&sim(&["--controller", "x"]), &["--controller", "'x'", "namespaceclass"]);
    misused(&sim(&["--faults", "pause,rain"]), &["--faults", "'rain'", "crash_after", "time_travel"]);
    misused(&sim(&["--duration", "soon"]), &["--duration", "soon", "10m"]);
    misused(&sim(&["--jobs", "0"]), &["--jobs"]);
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
fn sim_finds_a_planted_bug_and_tells_of_a_plan_that_fails() {
    let folder = folder();
    let table = run(folder.path(), &["sim", "--planted", "wrong_namespace", "--duration", "5m", "--json"]);
    let found = &object(&table)["bugs"][0];
    assert_eq!((table.status.code(), &found["bug"]), (Some(0), &"wrong_namespace".into()), "{found}");
    assert!(found["seedsNeeded"].as_u64() >= Some(1) && found["invariant"].is_string(), "{found}");
    misused(&run(folder.path(), &["sim", "--planted", "rain"]), &["'rain'", "no_label", "all"]);

    // Nothing goes wrong and nobody acts: the bug shows on the stage as it is.
    let plan = r#"{"controller": "namespaceclass", "seed": 7, "stormyMs": 60000, "faults": []}"#;
    std::fs::write(folder.path().join("quiet.json"), plan).unwrap();
    let args = ["sim", "--plan", "quiet.json", "--planted", "wrong_namespace", "--out", "seen", "--json"];
    let failed = run(folder.path(), &args);
    assert_eq!(failed.status.code(), Some(1));
    let failure = &object(&failed)["failures"][0];
    assert_eq!(failure["replay"], "lockstep sim --plan quiet.json --planted wrong_namespace");
    assert_eq!(
        failure["files"],
        serde_json::json!(["seen/quiet.txt", "seen/quiet.html", "seen/quiet.jsonl"])
    );
    let text = std::fs::read_to_string(folder.path().join("seen/quiet.txt")).unwrap();
    assert!(text.contains(failure["sentence"].as_str().unwrap()), "{text}");
}
