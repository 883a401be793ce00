use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use lockstep_engine::machine::{Event, Machine};
use lockstep_engine::operator::Config;
use lockstep_engine::recording::learn::SecretTracker;
use lockstep_engine::recording::read::{self, Unreadable};
use lockstep_engine::recording::redact::Redactor;
use lockstep_engine::recording::*;
use lockstep_engine::time::{Monotonic, Now, Wall};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Operator, names};

fn operator() -> Operator {
    let (concurrency, resync) = (2, Duration::from_mins(10));
    Operator::new(Config { concurrency, resync, instance: "test".to_owned(), seed: 1 })
}

fn now(millis: u64) -> Now {
    let wall = Wall::from_timestamp(Timestamp::UNIX_EPOCH);
    Now { wall, monotonic: Monotonic::from_elapsed(Duration::from_millis(millis)) }
}

/// Returns a redactor that hides the secrets of an object.
fn knows(object: &Value) -> Arc<Redactor> {
    let mut learner = SecretTracker::new([7; 32], operator().traits());
    learner.learn(&Event::Applied { kind: names::class(), object: Arc::new(object.clone()) });
    Arc::clone(learner.redactor())
}

fn hidden(object: &Value) -> Value {
    let mut hidden = object.clone();
    knows(object).redact(&mut hidden);
    hidden
}

fn secret(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" }, "data": data })
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

fn decoded(value: &Value) -> String {
    String::from_utf8(STANDARD.decode(value.as_str().expect("a text")).expect("base64")).expect("text")
}

#[test]
fn a_secret_has_one_stand_in_raw_and_in_base64() {
    let mut object = secret(&json!({ "a": encoded("hunter2") }));
    object["stringData"] = json!({ "a": "hunter2" });
    let hidden = hidden(&object);
    assert_eq!(json!(decoded(&hidden["data"]["a"])), hidden["stringData"]["a"]);
    assert!(hidden["stringData"]["a"].as_str().is_some_and(|text| text.starts_with("hidden-")));
    let other_key = SecretTracker::new([8; 32], operator().traits());
    let mut other = object.clone();
    other_key.redactor().redact(&mut other);
    assert_ne!(other, hidden, "the stand-in depends on the key");
}

#[test]
fn secrets_are_known_wherever_they_stand() {
    let plain = secret(&json!({ "pin": encoded("4711") }));
    let misspelt = json!({ "kind": "secret", "metadata": {}, "dta": { "pin": 4711, "on": true } });
    let no_kind = json!({ "stringData": { "pin": "4711" } });
    let list = json!({ "kind": "SecretList", "items": [{ "data": { "pin": encoded("4711") } }] });
    let text = json!({ "note": plain.to_string() });
    for object in
        [&plain, &misspelt, &no_kind, &list, &text, &json!({ "spec": { "resources": [plain.clone()] } })]
    {
        let hidden = hidden(object).to_string();
        assert!(!hidden.contains("4711") && !hidden.contains(&encoded("4711")), "{hidden}");
    }
    assert_eq!(hidden(&misspelt)["dta"]["on"], true);
    assert!(hidden(&misspelt)["dta"]["pin"].is_u64());
    // These refer to a Secret, but contain none.
    for reference in [
        json!({ "apiVersion": "v1", "kind": "Secret", "name": "pin" }),
        json!({ "kind": { "group": "", "version": "v1", "kind": "Secret", "plural": "secrets", "namespaced": true } }),
    ] {
        assert_eq!(hidden(&reference), reference);
    }
}

#[test]
fn an_action_on_a_secret_and_an_event_about_one_need_not_say_so_twice() {
    let kind =
        json!({ "group": "", "version": "v1", "kind": "Secret", "plural": "secrets", "namespaced": true });
    for line in [
        json!({ "Applied": { "kind": kind, "object": { "data": { "a": "cGFzcw==" } } } }),
        json!({ "Patch": { "target": { "kind": kind, "name": "a" }, "patch": { "data": { "a": "cGFzcw==" } } } }),
    ] {
        assert!(!hidden(&line).to_string().contains("cGFzcw"), "{line}");
    }
}

#[test]
fn known_secrets_are_hidden_elsewhere_long_ones_within_texts_short_ones_as_a_whole() {
    let object = json!({ "kind": "List", "items": [
        secret(&json!({ "long": encoded("s3cr&t pass"), "short": encoded("4711"), "name": encoded("postgres") })),
        { "kind": "ConfigMap", "metadata": { "name": "my-postgres", "annotations": { "a": "4711" } }, "data": {
            "long": "url: s3cr&t pass@db", "base64": encoded("s3cr&t pass"), "go": r"s3cr\u0026t pass",
            "short": "4711", "not": "47110", "name": "postgres", "names": "my-postgres",
        } },
        { "kind": "Widget", "message": "refused: s3cr&t pa…; s3cr&t pass", "4711": "4711", "fieldsV1": { "k:{\"a\":\"s3cr&t pass\"}": 1 } },
    ] });
    let hidden = hidden(&object);
    let (held, map, custom) = (&hidden["items"][0]["data"], &hidden["items"][1], &hidden["items"][2]);
    let (long, short) = (decoded(&held["long"]), decoded(&held["short"]));
    assert_eq!(map["data"]["long"], format!("url: {long}@db"));
    assert_eq!((&map["data"]["base64"], &map["data"]["go"]), (&held["long"], &json!(long)));
    assert_eq!((&map["data"]["short"], &map["data"]["not"]), (&json!(short), &json!("47110")));
    assert_eq!(map["metadata"]["annotations"]["a"], short);
    // A name is no secret, but the whole value of a Secret is.
    assert_eq!(
        (&map["metadata"]["name"], &map["data"]["names"]),
        (&json!("my-postgres"), &json!("my-postgres"))
    );
    assert_eq!(map["data"]["name"], decoded(&held["name"]));
    assert_eq!(custom["message"], format!("refused: …; {long}"));
    assert_eq!(custom["4711"], "4711", "a short text that is not marked as a secret");
    assert_eq!(custom["fieldsV1"][format!("k:{{\"a\":\"{long}\"}}")], 1);
}

/// The words are those of all modules of the operator and of the engine.
#[test]
fn a_secret_that_the_program_can_write_itself_stays_readable_in_texts() {
    let written = ["leaseDurationSeconds", "renewTime", "confirm-removal", "managedFields"];
    let commented = ["explains why the class", "Gauge: the namespaces", "hunter2 or another"];
    let data = |texts: &[&str]| {
        let values = texts.iter().enumerate();
        json!(
            values
                .map(|(key, text)| (key.to_string(), json!(encoded(text))))
                .collect::<serde_json::Map<_, _>>()
        )
    };
    let all = [written.as_slice(), commented.as_slice()].concat();
    let note = format!("it says {}", all.join(", "));
    let hidden = hidden(&json!({ "items": [secret(&data(&all)), { "note": note }] }));
    let note = hidden["items"][1]["note"].as_str().expect("a text");
    for text in written {
        assert!(note.contains(text), "{text}: {note}");
    }
    for text in commented {
        assert!(!note.contains(text), "{text}: {note}");
    }
}

#[test]
fn a_secret_that_was_given_raw_is_known_in_base64_too() {
    let given = json!({ "kind": "Secret", "metadata": {}, "stringData": { "a": "s3cr&t pass!" } });
    let texts =
        json!({ "padded": encoded("s3cr&t pass!"), "within": format!("x {}", encoded("s3cr&t pass!")) });
    let hidden = hidden(&json!({ "items": [given, texts] }));
    let stand_in = encoded(hidden["items"][0]["stringData"]["a"].as_str().expect("a text"));
    assert_eq!(hidden["items"][1]["padded"], stand_in);
    assert_eq!(hidden["items"][1]["within"], format!("x {stand_in}"));
}

#[test]
fn times_stay_times() {
    let object = json!({ "items": [secret(&json!({ "a": encoded("2024-01-01") })), { "at": "2024-01-01T00:00:00Z", "on": "2024-01-01" }] });
    let hidden = hidden(&object);
    assert_eq!(hidden["items"][1]["at"], "2024-01-01T00:00:00Z");
    assert_eq!(hidden["items"][1]["on"], decoded(&hidden["items"][0]["data"]["a"]));
}

#[test]
fn a_mark_follows_from_what_is_written() {
    let class = |value: &str| {
        let resource = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": { "a": value } });
        let class = json!({ "kind": "NamespaceClass", "metadata": { "name": "web" }, "spec": { "resources": [resource] } });
        Event::Applied { kind: names::class(), object: Arc::new(class) }
    };
    let marks = |event: &Event| match event {
        Event::Applied { object, .. } => (operator().traits().mark.expect("it has one").of)(object),
        _ => Vec::new(),
    };
    let written = |learner: &SecretTracker, mark: &str| {
        let object = json!({ "annotations": { names::CONTENT_ANNOTATION: mark } });
        let hidden = learner.redactor().redacted(&object).expect("JSON");
        hidden["annotations"][names::CONTENT_ANNOTATION].as_str().expect("a mark").to_owned()
    };
    let mut learner = SecretTracker::new([7; 32], operator().traits());
    let mark = marks(&class("sesame, open")).remove(0);
    let carrier = json!({ "metadata": { "name": "s", "annotations": { names::CONTENT_ANNOTATION: mark } } });
    learner.learn(&Event::Applied { kind: names::namespace(), object: Arc::new(carrier) });
    let unknown = written(&learner, &mark);
    assert_ne!(unknown, mark, "the secret could be guessed from the mark of its content");
    let update = learner.learn(&class("sesame, open")).expect("a secret");
    assert!(update.rewrites, "the mark was written in another way before");
    let Event::Applied { object, .. } = class("sesame, open") else { unreachable!() };
    let as_written = update.redactor.redacted(&object).expect("JSON");
    assert_eq!(written(&learner, &mark), (operator().traits().mark.expect("one").of)(&as_written)[0]);
    assert!(learner.learn(&class("sesame, open")).is_none());
}

/// Returns the lines of a short run.
fn recorded() -> Vec<u8> {
    let mut machine = operator();
    let config =
        json!({ "concurrency": 2, "resync": Duration::from_mins(10), "instance": "test", "seed": 1 });
    let header = Header {
        format: FORMAT,
        program: "0".to_owned(),
        machine: "namespaceclass".to_owned(),
        config,
        segment: 0,
    };
    let mut bytes = header.to_json().expect("JSON");
    let class = json!({ "kind": "NamespaceClass", "metadata": { "name": "web", "uid": "1", "resourceVersion": "1" }, "spec": { "resources": [{ "apiVersion": "v1" }] } });
    let mut events = vec![Event::Started, Event::LeadershipChanged { leading: true }];
    for kind in [names::namespace(), names::class(), names::binding()] {
        events.push(Event::ListStarted { kind: Arc::clone(&kind) });
        if kind == names::class() {
            events.push(Event::Applied { kind: Arc::clone(&kind), object: Arc::new(class.clone()) });
        }
        events.push(Event::ListCompleted { kind });
    }
    for (number, event) in (1..).zip(events) {
        let state = machine.checkpoint()().expect("JSON");
        bytes.extend(Line::Checkpoint(state).to_json().expect("JSON"));
        let gave = machine.step(event.clone(), now(number));
        bytes.extend(
            Line::Step(RecordedStep { number, now: now(number), event, gave }).to_json().expect("JSON"),
        );
    }
    bytes
}

fn replay(bytes: &[u8]) -> Result<Option<ReplayedStep>, String> {
    let (header, lines) = read::open(bytes).map_err(|error| error.to_string())?;
    let lines = lines.collect::<Result<Vec<_>, Unreadable>>().map_err(|error| error.to_string())?;
    let make =
        |origin: Origin<'_>| Operator::revive(origin).map(|operator| Box::new(operator) as Box<dyn Machine>);
    let mut replay = Replay::new(&header, make).map_err(|error| error.to_string())?;
    replay.run(lines).map_err(|error| error.to_string())
}

#[test]
fn the_first_different_step_is_reported_with_both_sides() {
    let bytes = recorded();
    assert_eq!(replay(&bytes), Ok(None));
    let text = String::from_utf8(bytes).expect("text").replace("\"leading\":true", "\"leading\":false");
    let again = replay(text.as_bytes()).expect("readable").expect("differs");
    // After the last list the leader begins its work.
    assert_eq!(again.taken.number, 9);
    assert!(again.taken.gave.requests.len() > again.differs.expect("given").requests.len());
}

fn leaf() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{1,3}", "[a-z]{5,7}", "[ -~]{1,20}", "\\PC{1,10}"]
}

proptest! {
    /// Two values have the same placeholder exactly if they are equal. Types and base64 encoding are preserved.
    #[test]
    fn stand_ins_keep_the_structure(texts in proptest::collection::vec(leaf(), 1..6), numbers in proptest::collection::vec(0u64..5, 0..4)) {
        let data: serde_json::Map<_, _> = (0..).zip(&texts).map(|(place, text)| (format!("k{place}"), json!(encoded(text)))).collect();
        let strings: serde_json::Map<_, _> = (0..).zip(&texts).map(|(place, text)| (format!("k{place}"), json!(text))).collect();
        let mut object = secret(&json!(data));
        object["stringData"] = json!(strings);
        object["numbers"] = json!(numbers);
        let hidden = hidden(&object);
        for (place, text) in texts.iter().enumerate() {
            let key = format!("k{place}");
            let stand_in = decoded(&hidden["data"][&key]);
            prop_assert_eq!(&hidden["stringData"][&key], &json!(stand_in));
            prop_assert!(stand_in != *text);
            for (other, second) in texts.iter().enumerate() {
                prop_assert_eq!(stand_in == decoded(&hidden["data"][format!("k{other}")]), text == second);
            }
        }
        for (place, number) in numbers.iter().enumerate() {
            prop_assert!(hidden["numbers"][place].is_u64());
            for (other, second) in numbers.iter().enumerate() {
                prop_assert_eq!(hidden["numbers"][place] == hidden["numbers"][other], number == second);
            }
        }
    }

    /// Whatever a text is, once it is a secret, it is not shown in any of its forms.
    #[test]
    fn no_secret_is_shown(secret_text in "[ -~éß€]{6,24}", around in "[ -~]{0,8}") {
        // It is neither a name nor a word, nor digits alone.
        let text = format!("\u{b6}{secret_text}");
        let within = format!("{around}{text}{around}");
        let manifest = secret(&json!({ "a": encoded(&text) }));
        let annotations = json!({ "last-applied": manifest.to_string(), "b": encoded(&text) });
        let object = json!({ "kind": "List", "items": [manifest, {
            "kind": "ConfigMap", "metadata": { "name": "c", "annotations": annotations }, "status": within,
            "data": { "a": within, "json": json!([{ "x": within }]).to_string() }, "binaryData": { within.clone(): [text] },
        }] });
        let shown = hidden(&object).to_string();
        let twice = json!(json!(text).to_string()).to_string();
        let json = json!(text).to_string();
        for form in [encoded(&text).as_str(), json.trim_matches('"'), twice.trim_matches(['"', '\\'])] {
            prop_assert!(!shown.contains(form), "{} in {}", form, shown);
        }
    }

    #[test]
    fn no_bytes_are_too_strange_to_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _result = replay(&bytes);
    }

    /// A damaged recording leads to an error or replays; it never panics.
    #[test]
    fn no_damage_panics(place in 0usize..20_000, with in "[0-9a-z{}\\[\\]\",:]{0,3}", taken in 0usize..4) {
        let mut bytes = recorded();
        let place = place % bytes.len();
        let end = (place + taken).min(bytes.len());
        bytes.splice(place..end, with.bytes());
        let _result = replay(&bytes);
    }
}

/// Recordings are compared byte by byte, so that a dependency that turns on `preserve_order` of `serde_json` would break replays.
#[test]
fn objects_are_written_in_the_order_of_their_keys() {
    assert_eq!(json!({ "b": 1, "a": 2 }).to_string(), r#"{"a":2,"b":1}"#);
}
