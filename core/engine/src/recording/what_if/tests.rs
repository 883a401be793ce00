use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::action::{ErrorKind, Failure, KubeRequest, Scope, Success};
use crate::machine::{Machine, Note};
use crate::object::ObjectRef;
use crate::recording::edit::Edit;
use crate::recording::{Checkpoint, FORMAT, Traits};
use crate::time::{Monotonic, Wall};

/// Reads the objects that an event or an answer names in `reads`, and reads `failed` after a failure.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Reader {
    last_id: u64,
    /// A text that a checkpoint can replace.
    text: String,
}

impl Reader {
    fn request(&mut self, action: Action) -> Request {
        self.last_id += 1;
        Request { id: ActionId(self.last_id), action }
    }

    fn read(&mut self, object: &Value) -> Vec<Request> {
        let names = object["reads"].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(|name| self.request(get(name))).collect()
    }
}

impl Machine for Reader {
    fn name(&self) -> &'static str {
        "reader"
    }

    fn step(&mut self, event: Event, _: Now) -> Step {
        let requests = match &event {
            Event::Started => {
                let watch = WatchCommand::Start { kind: namespaces(), scope: Scope::default() };
                vec![self.request(Action::Watch(watch))]
            }
            Event::Applied { object, .. } | Event::Finished { outcome: Ok(Success::Object(object)), .. } => {
                self.read(object)
            }
            Event::Finished { outcome: Err(_), .. } => vec![self.request(get("failed"))],
            _ => Vec::new(),
        };
        Step { requests, notes: vec![Note::info(self.text.clone())] }
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }

    fn is_synced(&self) -> bool {
        true
    }
}

impl Recordable for Reader {
    fn checkpoint(&self) -> Checkpoint {
        let state = self.clone();
        Box::new(move || serde_json::to_value(state))
    }

    fn traits(&self) -> Traits {
        Traits::NONE
    }
}

fn namespaces() -> Arc<Kind> {
    Kind::known("", "v1", "Namespace", "namespaces", false)
}

fn get(name: &str) -> Action {
    Action::Kube(KubeRequest::Get { target: ObjectRef::cluster(&namespaces(), name), metadata_only: false })
}

fn now(number: u64) -> Now {
    let wall = Wall::from_timestamp(Timestamp::UNIX_EPOCH);
    Now { wall, monotonic: Monotonic::from_elapsed(Duration::from_secs(number)) }
}

fn applied(reads: &[&str]) -> Event {
    Event::Applied { kind: namespaces(), object: Arc::new(json!({ "reads": reads })) }
}

fn found(id: u64, reads: &[&str]) -> Event {
    Event::Finished { id: ActionId(id), outcome: Ok(Success::Object(Arc::new(json!({ "reads": reads })))) }
}

fn failed(id: u64) -> Event {
    Event::Finished { id: ActionId(id), outcome: Err(Failure::new(ErrorKind::NotFound, "no")) }
}

fn recorded(events: impl IntoIterator<Item = Event>) -> Vec<Line> {
    let mut machine = Reader::default();
    let steps = (1..).zip(events).map(|(number, event)| {
        let gave = machine.step(event.clone(), now(number));
        Line::Step(RecordedStep { number, now: now(number), event, gave })
    });
    steps.collect()
}

/// Returns the event of a step.
fn event(lines: &[Line], step: u64) -> &Event {
    let event = lines.iter().find_map(|line| match line {
        Line::Step(taken) if taken.number == step => Some(&taken.event),
        _ => None,
    });
    event.expect("the step exists")
}

/// Runs a recording with an edit.
fn run(lines: &[Line], step: u64, edit: &Edit) -> (Vec<ComparedStep>, Remainder) {
    let edited = edit.apply(event(lines, step)).expect("the edit fits");
    let config = json!(Reader::default());
    let (program, machine) = (String::new(), "reader".to_owned());
    let header = Header { format: FORMAT, program, machine, config, segment: 0 };
    let make = |origin: Origin<'_>| -> Result<Box<dyn Recordable>, Infallible> {
        let (Origin::Config(state) | Origin::Checkpoint(state)) = origin;
        Ok(Box::new(serde_json::from_value::<Reader>(state.clone()).expect("a state")))
    };
    let Ok(mut runs) = WhatIf::new(&header, step, edited, make);
    let steps = lines.iter().filter_map(|line| {
        let Ok(step) = runs.take(line.clone());
        step
    });
    (steps.collect(), runs.finish())
}

fn actions<'a>(steps: impl IntoIterator<Item = &'a RecordedStep>) -> Vec<Action> {
    let requests = steps.into_iter().flat_map(|step| &step.gave.requests);
    requests.map(|request| request.action.clone()).collect()
}

fn what_if(steps: &[ComparedStep]) -> Vec<RecordedStep> {
    steps.iter().flat_map(|step| step.what_if.clone()).collect()
}

fn of(requested: &[Requested]) -> Vec<Action> {
    requested.iter().map(|it| it.request.action.clone()).collect()
}

#[test]
fn a_dropped_event_has_no_consequences() {
    let lines = recorded([applied(&["a"]), applied(&["b"]), found(1, &["c"]), found(2, &[])]);
    let (steps, rest) = run(&lines, 1, &Edit::Drop);
    assert_eq!(actions(&what_if(&steps)), [get("b")]);
    assert_eq!(of(&rest.only_recorded), [get("a"), get("c")]);
    assert_eq!((rest.only_what_if, rest.dropped), (Vec::new(), None));
    assert!(!steps[0].is_same() && steps[1].is_same());
    // The answer carries the id of the counterfactual's request.
    assert_eq!(steps[3].what_if[0].event, found(1, &[]));
}

#[test]
fn a_request_without_a_recorded_answer_waits() {
    let lines = recorded([applied(&["a"]), failed(1), found(2, &["b"])]);
    let patch = json!({ "Err": null, "Ok": { "Object": { "reads": ["x"] } } });
    let patch = Edit::Patch(patch.as_object().cloned().expect("an object"));
    let (steps, rest) = run(&lines, 2, &patch);
    assert_eq!(actions(&what_if(&steps)), [get("a"), get("x")]);
    assert_eq!(of(&rest.only_what_if), [get("x")]);
    assert_eq!(rest.only_what_if[0].number, 2);
    assert_eq!(of(&rest.only_recorded), [get("failed"), get("b")]);
}

#[test]
fn an_answer_that_is_dropped_is_missed() {
    let lines = recorded([applied(&["a", "b"]), found(1, &["c"]), found(2, &[])]);
    let (steps, rest) = run(&lines, 2, &Edit::Drop);
    assert_eq!(rest.dropped.map(|it| it.request.action), Some(get("a")));
    assert_eq!(actions(&what_if(&steps)), [get("a"), get("b")]);
}

#[test]
fn an_answer_that_was_recorded_before_its_request_follows_it_at_once() {
    let lines = recorded([applied(&["a"]), found(1, &["b"]), applied(&["a"]), found(3, &["c"])]);
    let (steps, rest) = run(&lines, 1, &Edit::Drop);
    let events: Vec<Event> = steps[2].what_if.iter().map(|step| step.event.clone()).collect();
    assert_eq!(events, [applied(&["a"]), found(1, &["b"])]);
    assert_eq!(actions(&steps[2].what_if), [get("a"), get("b")]);
    // The second answer belongs to the second request, which the counterfactual does not make.
    assert_eq!(steps[3].what_if, []);
    assert_eq!(of(&rest.only_recorded), [get("a"), get("c")]);
    assert_eq!(of(&rest.only_what_if), []);
}

#[test]
fn watches_that_were_not_requested_have_no_events() {
    let (steps, rest) = run(&recorded([Event::Started, applied(&["a"])]), 1, &Edit::Drop);
    assert_eq!((what_if(&steps), rest.left_out), (Vec::new(), 1));
    // The watch of a later file of a recording began before it.
    let (steps, rest) = run(&recorded([Event::TimerFired, applied(&["a"])]), 1, &Edit::Drop);
    assert_eq!((what_if(&steps).len(), rest.left_out), (1, 0));
}

#[test]
fn a_checkpoint_replaces_the_counterfactual_only_while_it_is_the_same() {
    let mut lines = recorded([applied(&["a"]), applied(&["b"]), applied(&["c"])]);
    let checkpoint = |last_id| Line::Checkpoint(json!(Reader { last_id, text: "later".to_owned() }));
    lines.insert(1, checkpoint(1));
    let texts = |steps: &[ComparedStep]| {
        let notes = steps.iter().flat_map(|step| &step.what_if).flat_map(|step| step.gave.notes.clone());
        notes.map(|note| note == Note::info("later".to_owned())).collect::<Vec<_>>()
    };
    let (steps, rest) = run(&lines, 3, &Edit::Drop);
    assert_eq!((texts(&steps), rest.unrestored), (vec![false, true], Vec::new()));
    let (steps, rest) = run(&lines, 1, &Edit::Drop);
    assert_eq!((texts(&steps), rest.unrestored), (vec![false, false], vec![1]));
}

/// What happens next in a recording.
#[derive(Debug, Clone)]
enum Next {
    Object(Vec<&'static str>),
    /// One of the open requests is answered.
    Answer(prop::sample::Index, Option<Vec<&'static str>>),
}

fn names() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(prop::sample::select(vec!["a", "b", "c", "failed"]), 0..3)
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        names().prop_map(Next::Object),
        (any::<prop::sample::Index>(), proptest::option::weighted(0.8, names()))
            .prop_map(|(index, reads)| Next::Answer(index, reads)),
    ]
}

/// Returns a recording in which every answer is different.
fn some_recording(next: Vec<Next>) -> Vec<Line> {
    let (mut machine, mut open, mut lines) = (Reader::default(), Vec::new(), Vec::new());
    for (number, next) in (1..).zip(next) {
        let event = match next {
            Next::Object(reads) => applied(&reads),
            Next::Answer(..) if open.is_empty() => Event::TimerFired,
            Next::Answer(index, reads) => {
                let id: ActionId = open.remove(index.index(open.len()));
                let outcome = match reads {
                    Some(reads) => Ok(Success::Object(Arc::new(json!({ "reads": reads, "serial": number })))),
                    None => Err(Failure::new(ErrorKind::Unavailable, number.to_string())),
                };
                Event::Finished { id, outcome }
            }
        };
        let gave = machine.step(event.clone(), now(number));
        open.extend(gave.requests.iter().map(|request| request.id));
        lines.push(Line::Step(RecordedStep { number, now: now(number), event, gave }));
    }
    lines
}

fn edit() -> impl Strategy<Value = Edit> {
    let patch =
        |reads: Vec<&'static str>| Edit::Patch([("reads".to_owned(), json!(reads))].into_iter().collect());
    prop_oneof![Just(Edit::Drop), Just(Edit::Fail(ErrorKind::Forbidden)), names().prop_map(patch)]
}

/// Returns the answered requests, each with its answer.
fn answers<'a>(steps: impl IntoIterator<Item = &'a RecordedStep>) -> Vec<(u64, Action, Outcome)> {
    let (mut asked, mut answers) = (BTreeMap::new(), Vec::new());
    for step in steps {
        if let Event::Finished { id, outcome } = &step.event {
            let action = asked.remove(id).expect("it was requested and is answered once");
            answers.push((step.number, action, outcome.clone()));
        }
        asked.extend(step.gave.requests.iter().map(|request| (request.id, request.action.clone())));
    }
    answers
}

proptest! {
    /// Each answer of the counterfactual is the recorded answer of an equal request, and is given once. A request without a
    /// counterpart in the recording is never answered.
    #[test]
    fn no_answer_is_invented(
        next in proptest::collection::vec(next(), 1..40),
        step in any::<prop::sample::Index>(),
        edit in edit(),
    ) {
        let lines = some_recording(next);
        let step = step.index(lines.len()) as u64 + 1;
        prop_assume!(edit.apply(event(&lines, step)).is_ok());
        let (steps, rest) = run(&lines, step, &edit);
        let mut recorded = answers(steps.iter().map(|step| &step.recorded));
        let steps = what_if(&steps);
        for (number, action, outcome) in answers(&steps) {
            if number == step && matches!(event(&lines, step), Event::Finished { .. }) {
                continue;
            }
            let source = recorded.iter().position(|(_, asked, given)| *asked == action && *given == outcome);
            let Some(source) = source else { panic!("{action:?} was not answered with {outcome:?}") };
            prop_assert!(recorded.remove(source).0 <= number, "answers do not come early");
        }
        let answered: BTreeSet<ActionId> = steps.iter().filter_map(|step| match &step.event {
            Event::Finished { id, .. } => Some(*id),
            _ => None,
        }).collect();
        for waiting in rest.only_what_if.iter().chain(&rest.dropped) {
            prop_assert!(!answered.contains(&waiting.request.id));
        }
    }

    /// An edit that changes nothing makes no difference.
    #[test]
    fn the_empty_patch_makes_no_difference(
        next in proptest::collection::vec(next(), 1..40),
        step in any::<prop::sample::Index>(),
    ) {
        let lines = some_recording(next);
        let step = step.index(lines.len()) as u64 + 1;
        let edit = Edit::Patch(serde_json::Map::new());
        prop_assume!(edit.apply(event(&lines, step)).is_ok());
        let (steps, rest) = run(&lines, step, &edit);
        for step in steps {
            prop_assert!(step.is_as_recorded && step.is_same());
            prop_assert_eq!(step.what_if, [step.recorded]);
        }
        prop_assert_eq!((rest.only_recorded, rest.only_what_if), (Vec::new(), Vec::new()));
    }
}
