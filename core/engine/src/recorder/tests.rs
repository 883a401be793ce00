use proptest::prelude::*;

use super::*;
use crate::action::Success;
use crate::time::Wall;

fn at(seconds: u64) -> Now {
    let wall = Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH + Duration::from_secs(seconds));
    Now { wall, monotonic: Monotonic::START + Duration::from_secs(seconds) }
}

fn occurrence(note: &str) -> Occurrence {
    let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
    Occurrence {
        regarding: ObjectRef::cluster(&kind, "team"),
        uid: "1".into(),
        severity: Severity::Warning,
        reason: "ClassNotFound".to_owned(),
        action: "Bind",
        note: note.to_owned(),
    }
}

/// A recorder and the server that it writes to.
struct Bench {
    recorder: Recorder,
    random: Random,
    last_id: u64,
    /// The counts of the existing Events.
    server: BTreeMap<String, u64>,
    /// Each write: its second, verb, Event and count.
    writes: Vec<(u64, &'static str, String, u64)>,
    /// The results of the next writes; after these, all succeed.
    failures: std::collections::VecDeque<(ErrorKind, bool)>,
}

impl Bench {
    fn new() -> Self {
        Self::failing([])
    }

    /// Returns a bench whose first writes fail in this way; each entry includes whether the write takes effect all the same.
    fn failing(failures: impl IntoIterator<Item = (ErrorKind, bool)>) -> Self {
        Self {
            recorder: Recorder::new("namespaceclass", "here".to_owned()),
            random: Random::from_seed(1),
            last_id: 0,
            server: BTreeMap::new(),
            writes: Vec::new(),
            failures: failures.into_iter().collect(),
        }
    }

    /// Returns the requests that are due at this second.
    fn requests(&mut self, second: u64) -> Vec<Request> {
        self.recorder.requests(at(second).monotonic, |action| {
            self.last_id += 1;
            Request { id: ActionId(self.last_id), action }
        })
    }

    /// Executes every write that is due until this second, each at its time.
    fn pass(&mut self, until: u64) {
        while let Some(due) = self.recorder.next_due().map(|due| due.elapsed().as_secs())
            && due <= until
        {
            for request in self.requests(due) {
                let outcome = self.serve(due, &request.action);
                self.recorder.finished(request.id, &outcome, at(due).monotonic);
            }
        }
    }

    fn serve(&mut self, second: u64, action: &Action) -> Outcome {
        let Action::Kube(
            KubeRequest::Create { target, manifest: body } | KubeRequest::Patch { target, patch: body, .. },
        ) = action
        else {
            panic!("{action:?}")
        };
        let (verb, name, count) =
            (action.name(), target.name.clone(), body["series"]["count"].as_u64().unwrap_or(1));
        self.writes.push((second, verb, name.clone(), count));
        let failure = self.failures.pop_front();
        if failure.is_none_or(|(_, takes_effect)| takes_effect) {
            match (verb, self.server.contains_key(&name)) {
                ("create", true) => return failed(ErrorKind::AlreadyExists),
                ("patch", false) => return failed(ErrorKind::NotFound),
                _ => drop(self.server.insert(name, count)),
            }
        }
        failure.map_or(DONE, |(class, _)| failed(class))
    }

    /// Records an occurrence and executes the writes that are due.
    fn happens(&mut self, note: &str, second: u64) {
        self.pass(second);
        self.recorder.record(occurrence(note), at(second), &mut self.random);
        self.pass(second);
    }

    fn happens_at(&mut self, seconds: impl IntoIterator<Item = u64>) {
        for second in seconds {
            self.happens("no such class", second);
        }
    }

    /// Advances the time until no write is delayed any more.
    fn rest(&mut self) {
        self.pass(100_000);
        assert_eq!(self.recorder.next_due(), None);
    }

    /// Returns each write: its second, verb and count.
    fn written(&self) -> Vec<(u64, &'static str, u64)> {
        self.writes.iter().map(|(second, verb, _, count)| (*second, *verb, *count)).collect()
    }

    fn counts(&self) -> Vec<u64> {
        self.server.values().copied().collect()
    }
}

const DONE: Outcome = Ok(Success::Done);

fn failed(class: ErrorKind) -> Outcome {
    Err(Failure::new(class, "injected"))
}

#[test]
fn the_first_two_are_written_at_once_and_further_ones_rarely() {
    let mut bench = Bench::new();
    bench.happens_at(0..65);
    bench.rest();
    let written =
        [(0, "create", 1), (1, "patch", 2), (31, "patch", 31), (61, "patch", 61), (91, "patch", 65)];
    assert_eq!(bench.written(), written);
    assert_eq!(bench.counts(), [65]);
}

#[test]
fn what_stops_happening_is_counted_when_the_pause_is_over() {
    let mut bench = Bench::new();
    bench.happens_at([0, 8, 16]);
    assert_eq!(bench.recorder.next_due(), Some(at(38).monotonic));
    bench.rest();
    assert_eq!(bench.written(), [(0, "create", 1), (8, "patch", 2), (38, "patch", 3)]);
    assert_eq!(bench.counts(), [3]);
}

#[test]
fn a_count_records_when_the_event_happened_last() {
    let mut bench = Bench::new();
    bench.happens_at([0, 1, 5]);
    let requests = bench.requests(31);
    let [Request { action: Action::Kube(KubeRequest::Patch { patch, .. }), .. }] = &requests[..] else {
        panic!("{requests:?}")
    };
    assert_eq!(patch["series"]["lastObservedTime"], micro_time(at(5)));
}

#[test]
fn after_a_long_silence_it_is_a_new_event() {
    let mut bench = Bench::new();
    bench.happens_at([0, 400]);
    bench.rest();
    assert_eq!(bench.written(), [(0, "create", 1), (400, "create", 1)]);
    assert_eq!((bench.counts(), bench.recorder.series.len()), (vec![1, 1], 1));
}

#[test]
fn what_could_not_be_written_is_written_a_little_later() {
    for class in [ErrorKind::Gone, ErrorKind::Throttled, ErrorKind::Unavailable, ErrorKind::Unknown] {
        let mut bench = Bench::failing([(class, false), (class, false)]);
        bench.happens_at([0]);
        bench.rest();
        assert_eq!(bench.written(), [(0, "create", 1), (10, "create", 1), (20, "create", 1)], "{class}");

        let mut bench = Bench::new();
        bench.happens_at([0]);
        bench.failures.push_back((class, false));
        bench.happens_at([5]);
        bench.rest();
        assert_eq!(bench.written(), [(0, "create", 1), (5, "patch", 2), (15, "patch", 2)], "{class}");
    }
}

#[test]
fn what_is_refused_waits_until_it_happens_again() {
    for class in [
        ErrorKind::Forbidden,
        ErrorKind::Invalid,
        ErrorKind::NotFound,
        ErrorKind::KindNotServed,
        // The namespace of the Event is being deleted.
        ErrorKind::Conflict,
    ] {
        let mut bench = Bench::failing([(class, false)]);
        bench.happens_at([0]);
        assert_eq!(bench.recorder.next_due(), None, "{class}");
        bench.happens_at([1]);
        bench.rest();
        assert_eq!(bench.written(), [(0, "create", 1), (10, "create", 2)], "{class}");
        assert_eq!(bench.counts(), [2], "{class}");
    }
}

#[test]
fn the_name_of_an_event_of_a_long_name_is_valid() {
    for end in ["a", "-", ".", ".-"] {
        let name = "a".repeat(236 - end.len()) + end + "a";
        let kept = cut_name(&name);
        assert!(kept.len() <= 236 && kept.ends_with('a'), "{end}: {kept}");
    }
}

#[test]
fn a_server_that_is_out_of_reach_is_given_up_until_it_happens_again() {
    let mut bench = Bench::failing([(ErrorKind::Unavailable, false); ATTEMPTS as usize]);
    bench.happens_at([0]);
    bench.rest();
    assert_eq!(bench.writes.len(), ATTEMPTS as usize);
    bench.happens_at([300]);
    assert_eq!(bench.counts(), [2]);
}

#[test]
fn a_server_that_asks_for_it_is_left_alone() {
    let mut bench = Bench::new();
    bench.recorder.record(occurrence("busy"), at(0), &mut bench.random);
    let request = bench.requests(0).pop().expect("is written");
    let retry_after = Some(Duration::from_secs(45));
    let failure = Failure { retry_after, ..Failure::new(ErrorKind::Throttled, "too many") };
    bench.recorder.finished(request.id, &Err(failure), at(2).monotonic);
    assert_eq!(bench.recorder.next_due(), Some(at(47).monotonic));
}

#[test]
fn what_an_unanswered_request_created_is_counted_on() {
    let mut bench = Bench::failing([(ErrorKind::Unknown, true)]);
    bench.happens_at([0, 2]);
    bench.rest();
    assert_eq!(bench.written(), [(0, "create", 1), (10, "create", 2), (20, "patch", 2)]);
    assert_eq!(bench.counts(), [2]);
    let mut bench = Bench::failing([(ErrorKind::Unknown, true)]);
    bench.happens_at([0]);
    bench.rest();
    assert_eq!(bench.written(), [(0, "create", 1), (10, "create", 1)], "then its count is known");
}

#[test]
fn an_event_that_the_server_has_dropped_is_created_again() {
    let mut bench = Bench::new();
    bench.happens_at([0]);
    bench.server.clear();
    bench.happens_at([60]);
    bench.rest();
    assert_eq!(bench.written(), [(0, "create", 1), (60, "patch", 2), (70, "create", 2)]);
    assert!(bench.writes.iter().all(|(_, _, name, _)| *name == bench.writes[0].2));
}

#[test]
fn what_happens_while_a_write_is_under_way_is_written_after_it() {
    let mut bench = Bench::new();
    bench.recorder.record(occurrence("slow"), at(0), &mut bench.random);
    let request = bench.requests(0).pop().expect("is written");
    bench.recorder.record(occurrence("slow"), at(1), &mut bench.random);
    assert_eq!((bench.requests(1), bench.recorder.next_due()), (Vec::new(), None));
    let outcome = bench.serve(0, &request.action);
    bench.recorder.finished(request.id, &outcome, at(5).monotonic);
    bench.rest();
    assert_eq!(bench.written(), [(0, "create", 1), (5, "patch", 2)]);
}

#[test]
fn memory_is_bounded() {
    let mut bench = Bench::new();
    for number in 0..SERIES_MAX + 10 {
        bench.happens(&number.to_string(), 0);
    }
    assert_eq!(bench.recorder.series.len(), SERIES_MAX);
    assert!(bench.recorder.in_flight.is_empty() && bench.recorder.due.is_empty());
    // No dropped series stays scheduled.
    for number in 0..SERIES_MAX + 10 {
        bench.recorder.record(occurrence(&format!("again {number}")), at(1), &mut bench.random);
    }
    assert_eq!((bench.recorder.series.len(), bench.recorder.due.len()), (SERIES_MAX, SERIES_MAX));
}

#[test]
fn a_full_memory_drops_the_oldest_series_with_a_complete_count() {
    let mut bench = Bench::new();
    // The third occurrence is not written before the pause ends.
    for _ in 0..3 {
        bench.happens("incomplete", 0);
    }
    bench.happens("the oldest complete one", 1);
    for number in 2..SERIES_MAX {
        bench.happens(&number.to_string(), 2);
    }
    bench.happens("one more", 3);
    let is_known = |note: &str| bench.recorder.series.keys().any(|(_, _, known)| known == note);
    assert!(is_known("incomplete") && is_known("one more") && !is_known("the oldest complete one"));
    bench.rest();
    assert_eq!(bench.written().last(), Some(&(SERIES_PAUSE.as_secs(), "patch", 3)));
    // A dropped series begins again, with another Event.
    bench.happens("the oldest complete one", 31);
    assert_eq!(bench.written().last(), Some(&(31, "create", 1)));
}

#[test]
fn a_full_memory_without_a_complete_count_loses_the_oldest_count() {
    let mut bench = Bench::new();
    for number in 0..SERIES_MAX {
        for _ in 0..3 {
            bench.happens(&number.to_string(), u64::from(number > 0));
        }
    }
    bench.happens("one more", 2);
    bench.rest();
    let lost = bench.counts().iter().filter(|count| **count == 2).count();
    assert_eq!((lost, bench.server.len()), (1, SERIES_MAX + 1));
}

/// How a write that may succeed later can fail, and whether it took effect.
fn passing_failure() -> impl Strategy<Value = (ErrorKind, bool)> {
    prop_oneof![
        Just((ErrorKind::Throttled, false)),
        Just((ErrorKind::Unavailable, false)),
        Just((ErrorKind::Unknown, false)),
        Just((ErrorKind::Unknown, true)),
    ]
}

proptest! {
    /// Once no writes fail any more, the server has counted every occurrence once, and the writes stay rare.
    #[test]
    fn every_occurrence_is_counted_once_and_series_are_written_rarely(
        occurrences in proptest::collection::vec((0usize..3, prop_oneof![0u64..40, 300u64..420]), 1..80),
        failures in proptest::collection::vec(passing_failure(), 0..ATTEMPTS as usize),
    ) {
        let mut bench = Bench::failing(failures.clone());
        let (mut second, mut announced) = (0, [0; 3]);
        for (note, passed) in occurrences {
            second += passed;
            announced[note] += 1;
            bench.happens(&note.to_string(), second);
        }
        bench.rest();
        prop_assert_eq!(bench.server.values().sum::<u64>(), announced.iter().sum::<u64>());
        let mut by_name: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for (second, _, name, count) in &bench.writes {
            by_name.entry(name).or_default().push((*second, *count));
        }
        for writes in by_name.values() {
            // One for each failure, one for each answer of a server that has created it before, and one at the beginning.
            let excused = 2 * failures.len() + 1;
            let close = writes.windows(2).filter(|pair| pair[1].0 - pair[0].0 < SERIES_PAUSE.as_secs());
            prop_assert!(close.count() <= excused, "{:?}", writes);
            prop_assert!(writes.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{:?}", writes);
        }
    }
}
