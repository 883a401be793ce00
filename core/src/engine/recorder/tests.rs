use proptest::prelude::*;

use super::*;
use crate::engine::action::{Failure, Success};
use crate::time::Wall;

fn at(seconds: u64) -> Now {
    let wall = Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH);
    Now { wall, monotonic: Monotonic::START + Duration::from_secs(seconds) }
}

fn occurrence(note: &str) -> Occurrence {
    let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
    Occurrence {
        regarding: ObjectRef::cluster(&kind, "team"),
        uid: "1".to_owned(),
        severity: Severity::Warning,
        reason: "ClassNotFound".to_owned(),
        action: "Bind",
        note: note.to_owned(),
    }
}

/// A recorder whose writes are numbered and answered.
struct Bench {
    recorder: Recorder,
    random: Random,
    last_id: u64,
}

impl Bench {
    fn new() -> Self {
        let recorder = Recorder::new("namespaceclass", "here".to_owned());
        Self { recorder, random: Random::from_seed(1), last_id: 0 }
    }

    /// Records an occurrence and returns what is to be written.
    fn record(&mut self, note: &str, second: u64) -> Option<Request> {
        self.recorder.record(occurrence(note), at(second), &mut self.random);
        let mut requests = self.recorder.requests(|action| {
            self.last_id += 1;
            Request { id: ActionId(self.last_id), action }
        });
        assert!(requests.len() <= 1);
        requests.pop()
    }

    /// Records an occurrence, answers what is to be written, and returns its verb, name and count.
    fn write(&mut self, second: u64, outcome: &Outcome) -> Option<(&'static str, String, u64)> {
        self.write_of("no such class", second, outcome)
    }

    fn write_of(
        &mut self,
        note: &str,
        second: u64,
        outcome: &Outcome,
    ) -> Option<(&'static str, String, u64)> {
        let request = self.record(note, second)?;
        self.recorder.finished(request.id, outcome);
        let (Action::Create { target, manifest: body } | Action::Patch { target, patch: body, .. }) =
            &request.action
        else {
            panic!("{request:?}")
        };
        Some((request.action.name(), target.name.clone(), body["series"]["count"].as_u64().unwrap_or(1)))
    }
}

const DONE: Outcome = Ok(Success::Done);

fn failed(class: Class) -> Outcome {
    Err(Failure::new(class, "injected"))
}

fn told(written: Option<&(&'static str, String, u64)>) -> Option<(&'static str, u64)> {
    written.map(|(verb, _, count)| (*verb, *count))
}

#[test]
fn what_repeats_is_counted_and_rarely_written() {
    let mut bench = Bench::new();
    let written: Vec<_> = (0..65).filter_map(|second| bench.write(second, &DONE)).collect();
    let told: Vec<_> = written.iter().map(|written| told(Some(written)).expect("is written")).collect();
    assert_eq!(told, [("create", 1), ("patch", 31), ("patch", 61)]);
    assert!(written.iter().all(|(_, name, _)| *name == written[0].1));
}

#[test]
fn after_a_long_silence_it_is_a_new_event() {
    let mut bench = Bench::new();
    let first = bench.write(0, &DONE).expect("is written");
    let again = bench.write(400, &DONE).expect("is written");
    assert_eq!(told(Some(&again)), Some(("create", 1)));
    assert_ne!(again.1, first.1);
    assert_eq!(bench.recorder.series.len(), 1);
}

#[test]
fn what_could_not_be_created_is_created_when_it_happens_again() {
    for class in Class::ALL.into_iter().filter(|class| *class != Class::AlreadyExists) {
        let mut bench = Bench::new();
        let first = bench.write(0, &failed(class)).expect("is written");
        let again = bench.write(1, &DONE).expect("is tried again");
        assert_eq!(again, ("create", first.1, 2), "{class}");
        assert_eq!(bench.write(2, &DONE), None, "{class}: is written now");
        assert_eq!(told(bench.write(31, &DONE).as_ref()), Some(("patch", 4)), "{class}");
    }
}

#[test]
fn what_an_unanswered_request_created_is_counted_on() {
    let mut bench = Bench::new();
    bench.write(0, &failed(Class::Unknown));
    assert_eq!(told(bench.write(1, &failed(Class::AlreadyExists)).as_ref()), Some(("create", 2)));
    assert_eq!(told(bench.write(2, &DONE).as_ref()), Some(("patch", 3)));
    assert_eq!(bench.write(3, &DONE), None);
}

#[test]
fn a_count_that_could_not_be_written_is_written_when_it_happens_again() {
    let mut bench = Bench::new();
    bench.write(0, &DONE);
    assert_eq!(told(bench.write(30, &failed(Class::Throttled)).as_ref()), Some(("patch", 2)));
    assert_eq!(told(bench.write(31, &DONE).as_ref()), Some(("patch", 3)));
}

#[test]
fn an_event_that_the_server_has_dropped_is_created_again() {
    let mut bench = Bench::new();
    let first = bench.write(0, &DONE).expect("is written");
    assert_eq!(told(bench.write(60, &failed(Class::NotFound)).as_ref()), Some(("patch", 2)));
    assert_eq!(bench.write(61, &DONE), Some(("create", first.1, 3)));
}

#[test]
fn memory_is_bounded() {
    let mut bench = Bench::new();
    for number in 0..SERIES_MAX + 10 {
        let request = bench.record(&number.to_string(), 0).expect("is written");
        bench.recorder.finished(request.id, &DONE);
    }
    assert_eq!(bench.recorder.series.len(), SERIES_MAX);
    assert!(bench.recorder.in_flight.is_empty());
}

/// What a series should have come to.
struct Expected {
    name: String,
    count: u64,
    last: u64,
    written: Option<u64>,
}

proptest! {
    /// No occurrence is lost or counted twice, and what has been written rests for as long as it is documented.
    #[test]
    fn every_occurrence_is_counted_once_and_series_are_written_rarely(
        occurrences in proptest::collection::vec((0usize..3, prop_oneof![0u64..40, 300u64..420], 0usize..18), 1..80)
    ) {
        let (window, pause) = (SERIES_WINDOW.as_secs(), SERIES_PAUSE.as_secs());
        let mut bench = Bench::new();
        let mut series: BTreeMap<usize, Expected> = BTreeMap::new();
        let mut second = 0;
        for (note, passed, outcome) in occurrences {
            second += passed;
            // Every other write fails, in any way.
            let outcome = Class::ALL.get(outcome).map_or(DONE, |class| failed(*class));
            let written = bench.write_of(&note.to_string(), second, &outcome);
            let known = series.remove(&note).filter(|known| second - known.last < window);
            let due = known.as_ref().and_then(|known| known.written).is_none_or(|at| second - at >= pause);
            prop_assert_eq!(written.is_some(), due);
            let known_name = known.as_ref().map(|known| known.name.clone());
            let count = known.as_ref().map_or(0, |known| known.count) + 1;
            let name = match &written {
                Some((_, name, told)) => {
                    prop_assert_eq!(*told, count);
                    prop_assert!(known_name.is_none_or(|known| known == *name), "one series has one name");
                    prop_assert!(series.values().all(|other| other.name != *name));
                    name.clone()
                }
                None => known_name.expect("what is new is written"),
            };
            let at = if due { outcome.is_ok().then_some(second) } else { known.and_then(|known| known.written) };
            series.insert(note, Expected { name, count, last: second, written: at });
        }
    }
}
