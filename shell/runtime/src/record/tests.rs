//! Records runs in the simulator, in virtual time, and replays them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::action::ErrorKind;
use lockstep_engine::recording::{Line, Origin, read};
use lockstep_namespaceclass::Operator;
use lockstep_sim::cluster::FaultVerdict;
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;

mod bench;

use self::bench::{Bench, CLASSES, around, config_map, hides, operator, replay, replays, secret};

#[test]
fn a_recorded_run_replays_to_the_same_steps() {
    let mut bench = Bench::new(1 << 26);
    bench.define("web", &json!([config_map("a", "1"), secret("b", "hunter2hunter2")]));
    bench.namespace("one", "web");
    bench.namespace("two", "web");
    bench.settle();
    bench.redefine("web", &json!([config_map("a", "2"), secret("b", "correct horse battery")]));
    bench.settle();
    bench.cluster.advance(Duration::from_mins(11));
    let folder = bench.end();
    let (steps, _) = replays(folder.path());
    assert!(steps > 50, "{steps}");
}

#[test]
fn a_secret_is_hidden_wherever_it_turns_up_and_decisions_stay_the_same() {
    let mut bench = Bench::new(1 << 26);
    let value = "hunter2 \"<hunter2>\"";
    let manifest = secret("applied", value).to_string();
    let resources = json!([
        secret("raw", value),
        { "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "encoded" }, "data": { "value": STANDARD.encode(value) } },
        { "apiVersion": "v1", "kind": "secret", "metadata": { "name": "wrong" }, "data": { "value": STANDARD.encode(value) } },
        { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "leaks", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": manifest, "note": format!("it is {value}!"),
        } }, "data": { "raw": value, "encoded": STANDARD.encode(value), "within": format!("a={value}\nb=1") } },
        { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "refused" }, "data": { "a": { "b": value } } },
    ]);
    bench.define("web", &resources);
    bench.namespace("one", "web");
    bench.settle();
    bench.redefine(
        "web",
        &json!([secret("raw", "4711"), config_map("short", "4711"), config_map("other", "47110")]),
    );
    bench.settle();
    let folder = bench.end();
    replays(folder.path());
    hides(folder.path(), value);
    let text = fs::read_to_string(folder.path().join("run.jsonl")).unwrap();
    assert!(!text.contains(r#""4711""#) && text.contains(r#""47110""#));
}

/// The content of a class returns after the recording no longer knew it, and a text appears before it becomes a secret.
#[test]
fn what_is_learned_late_changes_no_decision() {
    let first = json!([config_map("a", "in the clear"), secret("b", "sesame, open")]);
    let second = json!([config_map("a", "in the clear"), secret("b", "in the clear"), config_map("c", "x")]);
    let mut bench = Bench::new(1 << 26);
    bench.define("web", &first);
    bench.define("other", &json!([config_map("d", "in the clear")]));
    bench.namespace("one", "web");
    bench.namespace("two", "other");
    bench.settle();
    bench.redefine("web", &second);
    bench.settle();
    // The name of an object has the value of an earlier secret.
    bench.redefine("other", &json!([secret("d", "postgres"), config_map("e", "at postgres")]));
    bench.settle();
    bench.redefine("other", &json!([config_map("postgres", "x"), config_map("e", "at postgres"), { "apiVersion": "v1", "kind": "postgres", "metadata": { "name": "x" } }]));
    bench.settle();
    bench.redefine("web", &first);
    bench.settle();
    bench.cluster.advance(Duration::from_mins(11));
    let folder = bench.end();
    let (_, checkpoints) = replays(folder.path());
    assert!(checkpoints >= 2, "{checkpoints}");
}

/// A second process finds contents that only the first one knew.
#[test]
fn contents_from_before_the_recording_may_come_back() {
    let first = json!([secret("b", "sesame, open")]);
    let mut bench = Bench::new(1 << 26);
    bench.define("web", &first);
    bench.namespace("one", "web");
    bench.namespace("two", "web");
    bench.settle();
    // The process crashes in the middle of an update.
    let mut writes = 0;
    bench.cluster.interfere(move |_, action| {
        let is_apply = action.name() == "apply";
        writes += u32::from(is_apply);
        if is_apply && writes == 2 { FaultVerdict::CrashedBefore } else { FaultVerdict::Served }
    });
    bench.redefine("web", &json!([secret("b", "something else")]));
    let died = (0..10_000).any(|_| {
        let now = bench.cluster.elapsed();
        bench.cluster.step(now) && bench.cluster.carried().any(|(_, c)| c.fate == FaultVerdict::CrashedBefore)
    });
    assert!(died);
    bench.redefine("web", &first);
    bench.settle();
    let folder = bench.end();
    replays(folder.path());
    assert!(folder.path().join("run.jsonl.1").exists(), "the first process's recording is kept");
    hides(folder.path(), "sesame, open");
    hides(folder.path(), "something else");
}

#[test]
fn every_segment_replays_by_itself() {
    let mut bench = Bench::new(200_000);
    for number in 0..4 {
        bench.namespace(&format!("team-{number}"), "web");
    }
    for round in 0..40 {
        let resources =
            json!([config_map("a", &round.to_string()), secret("b", &format!("secret of {round}"))]);
        if round == 0 {
            bench.define("web", &resources);
        } else {
            bench.redefine("web", &resources);
        }
        bench.settle_and_write();
    }
    let folder = bench.end();
    let mut files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["run.jsonl", "run.jsonl.1", "run.jsonl.2", "run.jsonl.3"]);
    let mut next = None;
    for file in files.iter().rev() {
        let bytes = fs::read(file).unwrap();
        // A segment exceeds its size by the steps of one round that wait to be written when it is full.
        assert!(bytes.len() < 300_000, "{}", bytes.len());
        let (header, mut lines) = read::open(&bytes).unwrap();
        assert!(header.segment > 0 && matches!(lines.next(), Some(Ok(Line::Checkpoint(_)))));
        let (steps, _, differs) = replay(&bytes);
        assert_eq!(differs.map(|again| again.taken.number), None);
        let Some(Ok(Line::Step(first))) = lines.next() else { panic!("a step comes after the checkpoint") };
        assert_eq!(next.unwrap_or(first.number), first.number, "no step is missing between segments");
        next = Some(first.number + steps as u64);
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    for round in 0..40 {
        hides(folder.path(), &format!("secret of {round}"));
    }
}

/// Runs a cluster in which requests fail in every way, with a Secret that contains these values.
fn eventful(bench: &mut Bench, values: &[String]) {
    let data: serde_json::Map<String, Value> =
        (0..).zip(values).map(|(number, value)| (format!("v{number}"), json!(value))).collect();
    let held =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "held" }, "stringData": data });
    bench.cluster.interfere(|number, _| match usize::try_from(number).unwrap() {
        number if number < 150 && number % 3 == 1 => {
            FaultVerdict::failed(ErrorKind::ALL[number / 3 % ErrorKind::ALL.len()])
        }
        _ => FaultVerdict::Served,
    });
    bench.define("web", &json!([held, config_map("a", "1"), config_map("taken", "1"), { "apiVersion": "v1", "kind": "Node", "metadata": { "name": "x" } }]));
    bench.namespace("one", "web");
    let owner =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": true });
    bench.post(
        "/api/v1/namespaces/one/configmaps",
        &json!({ "metadata": { "name": "taken", "ownerReferences": [owner] } }),
    );
    bench.namespace("two", "web");
    bench.namespace("three", "missing");
    bench.settle();
    bench.redefine("web", &json!([held, config_map("b", "1")]));
    bench.settle();
    bench.send("DELETE", &format!("{CLASSES}/web"), "application/json", &Value::Null);
    bench.settle();
}

fn recorded_eventful(values: &[String]) -> TempDir {
    let mut bench = Bench::new(1 << 26);
    eventful(&mut bench, values);
    bench.end()
}

/// A Secret may contain a word that also occurs in a message, a name or a field. Then the word is no secret, and is not replaced.
#[test]
fn a_word_of_the_program_as_a_secret_changes_no_decision() {
    let folder = recorded_eventful(&[]);
    replays(folder.path());
    let text = fs::read_to_string(folder.path().join("run.jsonl")).unwrap();
    let (_, mut lines) = read::open(text.as_bytes()).unwrap();
    assert!(lines.all(|line| line.is_ok()));
    let words = text.split(|c: char| !c.is_alphabetic() && c != '.');
    // The random text in a name is no word: the suffix of hexadecimal digits, and the text before its first digit.
    let is_random = |word: &str| {
        ["one.", "two.", "three.", "web."].iter().any(|name| word.starts_with(name))
            || word.chars().all(|letter| letter.is_ascii_hexdigit())
    };
    let words = words.filter(|word| word.len() > 4 && !is_random(word));
    let words: BTreeSet<String> = words.map(str::to_owned).collect();
    assert!(words.contains("Ready") && words.contains("lastTransitionTime") && words.contains("Finished"));
    println!("{} words", words.len());
    replays(recorded_eventful(&words.into_iter().collect::<Vec<_>>()).path());
}

/// A machine that is written to JSON and read again before every step.
struct Reborn(Box<dyn Recordable + Send>);

impl Wrapper for Reborn {
    fn inner(&self) -> &dyn Machine {
        &*self.0
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let state = self.0.checkpoint()().unwrap().to_string();
        let state = serde_json::from_str(&state).unwrap();
        self.0 = Box::new(Operator::revive(Origin::Checkpoint(&state)).unwrap());
        self.0.step(event, now)
    }
}

#[test]
fn a_checkpoint_holds_all_that_decisions_follow_from() {
    let run = |make: fn() -> Box<dyn Machine>| {
        let mut bench = Bench::running(make, tempfile::tempdir().unwrap(), Arc::default());
        eventful(&mut bench, &["4711".to_owned()]);
        bench.cluster.advance(Duration::from_mins(11));
        bench.cluster.journal
    };
    let (journal, again) = (run(|| operator()), run(|| Box::new(Reborn(operator()))));
    assert!(journal.len() > 200, "{}", journal.len());
    assert!(journal == again);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_secret_is_written_and_the_replay_is_the_same(
        long in "[a-z0-9 /+<&\"é\\n]{10,30}",
        short in "[a-z0-9]{1,5}",
        within in "[a-z]{0,4}",
    ) {
        let long = format!("ö{long}");
        let text = format!("{within}{long}{within}");
        let other = if within.is_empty() { format!("{long}2") } else { text.clone() };
        let mut bench = Bench::new(100_000);
        let encoded = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "d" }, "data": { "x": STANDARD.encode(&long), "y": STANDARD.encode(&short) } });
        bench.define("web", &json!([config_map("a", &text), config_map("b", &short), secret("c", &short)]));
        bench.namespace("one", "web");
        bench.settle();
        bench.redefine("web", &json!([config_map("a", &text), config_map("b", &short), secret("c", &long), encoded]));
        bench.settle();
        bench.redefine("web", &json!([config_map("a", &text), config_map("b", &text), secret("c", &other), encoded]));
        bench.settle();
        bench.redefine("web", &json!([config_map("a", &STANDARD.encode(&long)), secret("c", &short), encoded]));
        bench.settle();
        let folder = bench.end();
        for entry in fs::read_dir(folder.path()).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            let (_, _, differs) = replay(&bytes);
            prop_assert_eq!(differs, None);
            // Check only the text after the secrets are known. Before that, they were public.
            let text = String::from_utf8(bytes).unwrap();
            let known = text.find("hidden-").map_or("", |at| &text[at..]);
            let known = known.find(r#"{"checkpoint""#).map_or("", |at| &known[at..]);
            for form in [json!(long).to_string().trim_matches('"'), &STANDARD.encode(&long)] {
                prop_assert!(!known.contains(form), "{}: {}", form, around(known, form));
            }
        }
    }
}
