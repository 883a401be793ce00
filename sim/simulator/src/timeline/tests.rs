//! Tests of timelines with a run that is built manually.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lockstep_engine::action::{Action, ActionId, ErrorKind, Failure, KubeRequest, Request};
use lockstep_engine::machine::{Event, Note, ReconcileResult, Step};
use lockstep_engine::object::{self, ObjectRef};
use lockstep_engine::recording::RecordedStep;
use lockstep_engine::recording::what_if::ComparedStep;
use lockstep_engine::time::{Monotonic, Now, Wall};
use serde_json::{Value, json};

use super::{Kind, Lane, Timeline};
use crate::cluster::{Author, Carried, Change, Entry, FaultVerdict, What};
use crate::coverage::Reached;
use crate::plan::{Fault, Plan, What as Strikes};
use crate::planned_faults::{Injection, Struck};
use crate::run::{Run, Violation};

fn namespaces() -> Arc<object::Kind> {
    object::Kind::known("", "v1", "Namespace", "namespaces", false)
}

fn shop() -> ObjectRef {
    ObjectRef::cluster(&namespaces(), "shop")
}

fn namespace(name: &str, version: u64, ready: &str) -> Arc<Value> {
    let conditions =
        json!([{"type": "Ready", "status": ready, "reason": "Asked", "message": "</script>\u{2028}"}]);
    let metadata = json!({"name": name, "resourceVersion": version.to_string()});
    Arc::new(json!({"metadata": metadata, "status": {"conditions": conditions}}))
}

fn at(millis: u64, what: What) -> Entry {
    Entry { at: Duration::from_millis(millis), what }
}

fn stepped(millis: u64, event: Event, step: Step) -> Entry {
    let at = Duration::from_millis(millis);
    let now =
        Now { wall: Wall::from_timestamp(Timestamp::UNIX_EPOCH), monotonic: Monotonic::from_elapsed(at) };
    Entry { at, what: What::Stepped { process: 0, now, event, step } }
}

fn observed(millis: u64, object: Arc<Value>) -> Entry {
    stepped(millis, Event::Applied { kind: namespaces(), object }, Step::default())
}

fn changed(millis: u64, by: Author, old: Option<Arc<Value>>, new: Option<Arc<Value>>) -> Entry {
    at(millis, What::Changed(Change { by, object: shop(), old, new }))
}

fn fault(what: Strikes, aim: Option<&str>) -> Fault {
    Fault {
        what,
        from_ms: 0,
        until_ms: 60_000,
        aim: aim.map(str::to_owned),
        controller: None,
        per_mille: 1000,
        times: 1,
    }
}

fn plan() -> Plan {
    let act = Strikes::Operation { name: "label a namespace".to_owned(), seed: 7 };
    let faults = vec![fault(Strikes::AnswerLost, Some("patch")), fault(act, Some("patch"))];
    Plan { controller: "greeting".to_owned(), seed: 42, stormy_ms: 60_000, standby: false, faults }
}

/// Returns a run in which a user creates a namespace. The controller labels it while the user changes it, and the answer is lost.
fn run() -> Run {
    let [new, labelled, patched] =
        [namespace("shop", 7, "False"), namespace("shop", 8, "False"), namespace("shop", 9, "True")];
    let patch = Action::Kube(KubeRequest::Patch {
        target: shop(),
        subresource: None,
        patch: Arc::new(json!({"metadata": {}})),
    });
    let asks = Step { requests: vec![Request { id: ActionId(1), action: patch.clone() }], notes: Vec::new() };
    let failed = Note::Reconciled {
        reconciler: "namespace".to_owned(),
        object: shop(),
        result: ReconcileResult::Failed {
            reason: "unknown".to_owned(),
            retry_after: Duration::from_millis(500),
            user_error: false,
        },
        waited: Duration::ZERO,
        took: Duration::from_millis(20),
    };
    let (kind, unknown) = (namespaces(), Failure::new(ErrorKind::Unknown, "the answer was lost"));
    let carried =
        Carried { process: 0, id: ActionId(1), action: patch, fate: FaultVerdict::AnswerLost, failed: None };
    let process = Author::Process(0);
    let journal = vec![
        at(0, What::Started { process: 0 }),
        stepped(0, Event::ListStarted { kind: Arc::clone(&kind) }, Step::default()),
        observed(0, namespace("default", 1, "True")),
        observed(0, namespace("kube-system", 2, "True")),
        stepped(5, Event::ListCompleted { kind: Arc::clone(&kind) }, Step::default()),
        changed(1000, Author::Client("user"), None, Some(Arc::clone(&new))),
        stepped(1010, Event::Applied { kind: Arc::clone(&kind), object: Arc::clone(&new) }, asks),
        changed(1010, Author::Client("user"), Some(new), Some(Arc::clone(&labelled))),
        changed(1020, process, Some(labelled), Some(Arc::clone(&patched))),
        at(1020, What::Carried(carried)),
        stepped(
            1030,
            Event::Finished { id: ActionId(1), outcome: Err(unknown) },
            Step { requests: Vec::new(), notes: vec![failed] },
        ),
        stepped(1040, Event::TimerFired, Step::default()),
        stepped(1050, Event::TimerFired, Step::default()),
        observed(1060, Arc::clone(&patched)),
        changed(90_000, Author::ControlPlane, Some(patched), None),
    ];
    let strike = |millis, fault, affected: &str| Injection {
        at: Duration::from_millis(millis),
        fault,
        affected: affected.to_owned(),
    };
    Run {
        violation: Some(Violation {
            invariant: "stays_there",
            sentence: "What was labelled stays there.",
            seen: "Namespace shop is gone".to_owned(),
            at: Duration::from_secs(90),
        }),
        steps: 9,
        requests: 1,
        simulated: Duration::from_secs(91),
        struck: Struck::new(),
        strikes: vec![strike(1010, 1, "while patch is under way"), strike(1020, 0, "patch Namespace shop")],
        controllers: BTreeMap::new(),
        hash: String::new(),
        journal,
        reached: Reached::new(),
    }
}

#[test]
fn a_timeline_reads_like_this() {
    insta::assert_snapshot!(Timeline::of(&plan(), &run()).with_replay("lockstep replay run.json").text());
}

#[test]
fn everybody_who_takes_part_has_a_lane() {
    let lanes = Timeline::of(&plan(), &run()).lanes;
    let actors = [Lane::Faults, Lane::Actor("user"), Lane::ControlPlane, Lane::Server, Lane::Process(0)];
    assert_eq!(lanes, actors);
}

#[test]
fn a_request_is_followed_to_the_server_and_back() {
    let timeline = Timeline::of(&plan(), &run());
    let answer = timeline.items.iter().find(|item| item.kind == Kind::Answer).expect("an answer");
    let arrived = &timeline.items[answer.cause.expect("it answers a request")];
    assert_eq!((arrived.at, timeline.lanes[arrived.lane]), (1020, Lane::Server));
    let sent = &timeline.items[arrived.cause.expect("it was sent")];
    assert_eq!((sent.at, timeline.lanes[sent.lane], sent.kind), (1010, Lane::Process(0), Kind::Request));
}

#[test]
fn what_a_request_changed_comes_after_it_and_from_it() {
    let timeline = Timeline::of(&plan(), &run());
    let place = timeline
        .items
        .iter()
        .position(|it| it.kind == Kind::Change && timeline.lanes[it.lane] == Lane::Server);
    let change = &timeline.items[place.expect("a change")];
    assert_eq!(change.cause, Some(place.unwrap_or(0) - 1));
    let [object, before] =
        [change.object, change.before].map(|place| &timeline.objects[place.expect("an object")]);
    assert_eq!(
        (&object["metadata"]["resourceVersion"], &before["metadata"]["resourceVersion"]),
        (&json!("9"), &json!("8"))
    );
}

#[test]
fn a_watch_shows_which_change_it_saw_and_what_was_known_before() {
    let timeline = Timeline::of(&plan(), &run());
    let seen = timeline.items.iter().rfind(|item| item.text == "sees Namespace shop @9").expect("an event");
    assert_eq!(timeline.items[seen.cause.expect("a change")].text, "Namespace shop changed @9");
    assert_eq!(timeline.objects[seen.before.expect("an object")]["metadata"]["resourceVersion"], "7");
}

#[test]
fn equal_objects_are_stored_once() {
    let objects = Timeline::of(&plan(), &run()).objects;
    let versions =
        |version: &str| objects.iter().filter(|it| it["metadata"]["resourceVersion"] == version).count();
    assert_eq!((versions("1"), versions("7"), versions("8"), versions("9")), (1, 1, 1, 1));
}

#[test]
fn a_condition_lasts_until_it_changes_or_its_object_goes() {
    let conditions = Timeline::of(&plan(), &run()).conditions;
    let spans: Vec<_> = conditions.iter().map(|it| (it.status.as_str(), it.from, it.to)).collect();
    assert_eq!(spans, [("False", 1000, 1020), ("True", 1020, 90_000)]);
}

#[test]
fn a_step_that_does_something_is_never_folded() {
    let mut run = run();
    let warning =
        Step { requests: Vec::new(), notes: vec![Note::Warning { message: "look here".to_owned() }] };
    run.journal = vec![
        stepped(1, Event::TimerFired, Step::default()),
        stepped(2, Event::TimerFired, Step::default()),
        stepped(3, Event::TimerFired, Step::default()),
        stepped(4, Event::TimerFired, warning),
    ];
    let text = Timeline::of(&plan(), &run).text();
    assert!(text.contains("3 × wakes up (until 0.003)"), "{text}");
    assert!(text.contains("0.004  process 0  event      wakes up\n"), "{text}");
    assert!(text.contains("warning: look here"), "{text}");
}

#[test]
fn nothing_in_the_data_ends_the_script_or_its_lines() {
    let timeline = Timeline::of(&plan(), &run());
    let page = timeline.html();
    let (_, data) = page.split_once(r#"<script type="application/json" id="data">"#).expect("the data");
    let (data, _) = data.split_once("</script>").expect("its end");
    assert!(!data.contains(['<', '>', '\u{2028}', '\u{2029}']));
    let read: Value = serde_json::from_str(data).expect("the data is JSON, whole");
    assert_eq!(read, serde_json::to_value(&timeline).expect("plain data"));
}

/// Returns two runs that differ in the second of three steps: in the counterfactual, the namespace is not seen.
fn compared() -> Vec<ComparedStep> {
    let ready = |status: &str| Note::ConditionChanged {
        object: shop(),
        condition: "Ready".to_owned(),
        status: status.to_owned(),
        reason: "Asked".to_owned(),
        message: String::new(),
        warning: false,
    };
    let taken = |number: u64, event: Event, notes: Vec<Note>| {
        let wall = Wall::from_timestamp(Timestamp::UNIX_EPOCH);
        let now = Now { wall, monotonic: Monotonic::from_elapsed(Duration::from_secs(number)) };
        RecordedStep { number, now, event, gave: Step { requests: Vec::new(), notes } }
    };
    let both = |step: RecordedStep| ComparedStep {
        recorded: step.clone(),
        is_as_recorded: true,
        what_if: vec![step],
    };
    let seen = Event::Applied { kind: namespaces(), object: namespace("shop", 7, "True") };
    let alone = taken(2, seen, vec![ready("True")]);
    vec![
        both(taken(1, Event::Started, vec![ready("False")])),
        ComparedStep { recorded: alone, is_as_recorded: true, what_if: Vec::new() },
        both(taken(3, Event::TimerFired, Vec::new())),
    ]
}

#[test]
fn a_recording_and_its_counterfactual_are_shown_side_by_side() {
    let timeline = Timeline::compared("greeting", 2, "2:drop", &compared());
    assert_eq!(timeline.lanes, ["edit", "recorded", "what if"].map(Lane::Actor));
    let items = timeline.items.iter().map(|item| (timeline.lanes[item.lane].title(), item.text.as_str()));
    let [edit, recorded, what_if] = ["edit", "recorded", "what if"].map(|lane| {
        let of_lane = items.clone().filter(|(title, _)| *title == lane);
        of_lane.map(|(_, text)| text).collect::<Vec<_>>()
    });
    assert_eq!(edit, ["≠ edit 2:drop"]);
    let notes = ["False", "True"].map(|status| format!("Namespace shop is Ready={status}, Asked: "));
    let seen = ["step 1: starts", &notes[0], "≠ step 2: sees Namespace shop @7", &format!("≠ {}", notes[1])];
    assert_eq!(recorded, [&seen[..], &["step 3: wakes up"]].concat());
    assert_eq!(what_if, ["step 1: starts", &notes[0], "step 3: wakes up"]);
    let bars: Vec<_> = timeline
        .conditions
        .iter()
        .map(|it| (it.object.as_str(), it.status.as_str(), it.from, it.to))
        .collect();
    let (first, second) = ("recorded: Namespace shop", "what if: Namespace shop");
    assert_eq!(
        bars,
        [(first, "False", 1000, 2000), (first, "True", 2000, 3000), (second, "False", 1000, 3000)]
    );
    let heading = timeline.comparison.expect("a heading");
    assert_eq!(heading.title, "greeting: what if 2:drop");
    assert!(heading.summary.starts_with("1 of 3 steps differ"), "{}", heading.summary);
}

#[test]
fn the_page_asks_for_nothing_from_outside() {
    let page = Timeline::of(&plan(), &run()).html();
    assert!(page.contains("default-src 'none'"));
    for outside in ["http://", "https://", "src=\"", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}
