//! `lockstep replay`, of recordings made here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockstep_cli::controllers;
use lockstep_engine::action::{ActionId, ErrorKind, Failure};
use lockstep_engine::machine::{Event, Machine as _};
use lockstep_engine::object::Kind;
use lockstep_engine::operator::Config;
use lockstep_engine::time::{Monotonic, Now, Wall};
use lockstep_runtime::record::{self, Options};

use super::{fails, folder, run, succeeds};

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
        Event::Applied {
            kind,
            object: Arc::new(serde_json::json!({ "metadata": { "name": "sh\u{1b}op" } })),
        },
        Event::Finished { id: ActionId(1), outcome: Err(Failure::new(ErrorKind::Forbidden, "no")) },
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
        (r#"-              "plural": "others","#, r#"+              "plural": "namespaceclasses","#);
    assert_eq!(lines, ["--- recorded", "+++ now", minus, plus]);
}

#[test]
fn replay_errors_name_the_place_and_the_fix() {
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
    fails(&replay(&text.replace("\"format\":3", "\"format\":2")), &["line 1", "format 2", "lockstep 0."]);
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
    // The older segments would be renamed or overwritten as well.
    for name in ["run.jsonl.3", "run.jsonl"] {
        let precious = folder.path().join(name);
        std::fs::write(&precious, "precious").unwrap();
        let settings =
            Config { concurrency: 2, resync: Duration::from_mins(10), instance: "a".to_owned(), seed: 1 };
        let machine = controllers::machine("namespaceclass", &settings).unwrap();
        let options = Options { path: path.clone(), max_bytes: 1 << 20 };
        let error = record::start(machine, serde_json::Value::Null, options).err().unwrap().to_string();
        assert!(error.contains(&format!("{name} exists")) && error.contains("not a recording"), "{error}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    }
}
