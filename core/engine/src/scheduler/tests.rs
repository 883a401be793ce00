use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::action::{ErrorKind, KubeRequest, Success};
use crate::object::Kind;
use crate::time::Wall;

/// Counts the passes over an object: two stages of two reads each, then a verdict that depends on the answers.
#[derive(Debug, Default)]
struct Counter {
    finished: BTreeMap<u8, u32>,
}

impl Reconcile for Counter {
    type Key = u8;
    type Stage = u8;

    fn reconciler(_: &u8) -> &'static str {
        "counter"
    }

    fn object(key: &u8) -> ObjectRef {
        ObjectRef::cluster(&Kind::known("", "v1", "Namespace", "namespaces", false), &key.to_string())
    }

    fn begin(&mut self, key: &u8, _: Now) -> Next<u8> {
        Next::Await(vec![read(*key), read(*key)], 1)
    }

    fn resume(&mut self, key: &u8, stage: u8, outcomes: Vec<Outcome>, _: Now) -> Next<u8> {
        if let Some(Err(failure)) = outcomes.iter().find(|outcome| outcome.is_err()) {
            return Next::Done(Verdict::retry("reading", failure));
        }
        match stage {
            1 => Next::Await(vec![read(*key), read(*key)], 2),
            2 => Next::Await(Vec::new(), 3),
            _ => {
                *self.finished.entry(*key).or_default() += 1;
                Next::Done(Verdict::Converged)
            }
        }
    }
}

/// Never requests anything, and never ends.
struct Endless;

impl Reconcile for Endless {
    type Key = u8;
    type Stage = u8;

    fn reconciler(_: &u8) -> &'static str {
        "endless"
    }

    fn object(key: &u8) -> ObjectRef {
        Counter::object(key)
    }

    fn begin(&mut self, _: &u8, _: Now) -> Next<u8> {
        Next::Await(Vec::new(), 1)
    }

    fn resume(&mut self, _: &u8, stage: u8, _: Vec<Outcome>, _: Now) -> Next<u8> {
        Next::Await(Vec::new(), stage)
    }
}

#[test]
fn a_pass_without_actions_and_without_end_fails() {
    let (mut scheduler, mut step) = (scheduler(1), Step::default());
    scheduler.enqueue(7, at(0));
    scheduler.run(&mut Endless, at(0), &mut step);
    let [Note::Reconciled { result: ReconcileResult::Failed { reason, .. }, .. }] = &step.notes[..] else {
        panic!("{:?}", step.notes);
    };
    assert_eq!(reason, "the pass continues without an action and without end");
    assert_eq!(scheduler.deadline().map(|deadline| deadline.reason), Some(DeadlineReason::Requeue));
}

fn read(key: u8) -> Action {
    Action::Kube(KubeRequest::Get { target: Counter::object(&key), metadata_only: true })
}

fn at(millis: u64) -> Now {
    let monotonic = Monotonic::START + Duration::from_millis(millis);
    Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic }
}

fn scheduler(concurrency: usize) -> PassScheduler<u8, u8> {
    let backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(5) };
    let mut scheduler =
        PassScheduler::new(Settings { concurrency, resync: Duration::from_mins(10), backoff, seed: 1 });
    scheduler.set_leading(true);
    scheduler
}

#[test]
fn a_stage_goes_on_when_all_its_actions_are_answered() {
    let (mut scheduler, mut counter) = (scheduler(5), Counter::default());
    let mut step = Step::default();
    scheduler.enqueue(7, at(0));
    scheduler.run(&mut counter, at(0), &mut step);
    let first: Vec<ActionId> = step.requests.iter().map(|request| request.id).collect();
    assert_eq!(first.len(), 2);
    let mut step = Step::default();
    scheduler.finish(&mut counter, first[1], Ok(Success::Done), at(1), &mut step);
    assert!(step.requests.is_empty());
    scheduler.finish(&mut counter, first[1], Ok(Success::Done), at(1), &mut step);
    assert!(step.requests.is_empty(), "an answer that comes twice counts once");
    scheduler.finish(&mut counter, first[0], Ok(Success::Done), at(2), &mut step);
    assert_eq!(step.requests.len(), 2);
}

#[test]
fn a_failure_backs_off_and_the_server_may_ask_for_longer() {
    let (mut scheduler, mut counter) = (scheduler(5), Counter::default());
    scheduler.enqueue(7, at(0));
    let mut step = Step::default();
    scheduler.run(&mut counter, at(0), &mut step);
    for request in std::mem::take(&mut step.requests) {
        scheduler.finish(&mut counter, request.id, Err(throttled(30)), at(0), &mut step);
    }
    assert_eq!(scheduler.queue.next_due(), Some(at(30_000).monotonic));
    assert!(matches!(&step.notes[..], [Note::Reconciled { result: ReconcileResult::Failed { .. }, .. }]));
}

fn throttled(seconds: u64) -> Failure {
    let retry_after = Some(Duration::from_secs(seconds));
    Failure { retry_after, ..Failure::new(ErrorKind::Throttled, "too many") }
}

/// Makes the pass over the key 7 fail: one answer in each of its seconds.
fn failed(
    scheduler: &mut PassScheduler<u8, u8>,
    counter: &mut Counter,
    failures: [Failure; 2],
) -> ReconcileResult {
    scheduler.enqueue(7, at(0));
    let mut step = Step::default();
    scheduler.run(counter, at(0), &mut step);
    for (request, (failure, second)) in
        std::mem::take(&mut step.requests).into_iter().zip(failures.into_iter().zip(1..))
    {
        scheduler.finish(counter, request.id, Err(failure), at(second * 1000), &mut step);
    }
    match step.notes.pop() {
        Some(Note::Reconciled { result, .. }) => result,
        note => panic!("{note:?}"),
    }
}

fn begins(scheduler: &mut PassScheduler<u8, u8>, counter: &mut Counter, now: Now) -> bool {
    let mut step = Step::default();
    scheduler.run(counter, now, &mut step);
    !step.requests.is_empty()
}

#[test]
fn an_event_wakes_a_failing_key() {
    let (mut scheduler, mut counter) = (scheduler(5), Counter::default());
    let cut = || Failure::new(ErrorKind::Unavailable, "cut");
    failed(&mut scheduler, &mut counter, [cut(), cut()]);
    assert!(!begins(&mut scheduler, &mut counter, at(2000)));
    scheduler.enqueue(7, at(0));
    assert!(begins(&mut scheduler, &mut counter, at(2000)));
}

#[test]
fn an_event_wakes_no_key_before_the_time_that_a_server_asked_for() {
    let (mut scheduler, mut counter) = (scheduler(5), Counter::default());
    // `Retry-After` is counted from the arrival of the answer, and another failure of the same pass does not shorten it.
    let cut = Failure::new(ErrorKind::Unavailable, "cut");
    let result = failed(&mut scheduler, &mut counter, [throttled(30), cut]);
    let ReconcileResult::Failed { retry_after, .. } = result else { panic!("{result:?}") };
    assert_eq!(retry_after, Duration::from_secs(29));
    scheduler.enqueue(7, at(0));
    assert!(!begins(&mut scheduler, &mut counter, at(30_999)));
    assert_eq!(scheduler.deadline().map(|deadline| deadline.at), Some(at(31_000).monotonic));
    assert!(begins(&mut scheduler, &mut counter, at(31_000)));
}

#[test]
fn retry_after_is_honoured_for_five_minutes_at_most() {
    let (mut scheduler, mut counter) = (scheduler(5), Counter::default());
    let result = failed(&mut scheduler, &mut counter, [throttled(3600), throttled(7200)]);
    assert!(
        matches!(result, ReconcileResult::Failed { retry_after, .. } if retry_after == RETRY_AFTER_MAX),
        "{result:?}"
    );
    scheduler.enqueue(7, at(0));
    // The second answer arrived in the second second.
    assert!(!begins(&mut scheduler, &mut counter, at(301_999)));
    assert!(begins(&mut scheduler, &mut counter, at(302_000)));
}

#[test]
fn an_event_during_the_pass_does_not_bypass_retry_after() {
    let (mut scheduler, mut counter) = (scheduler(5), Counter::default());
    scheduler.enqueue(7, at(0));
    let mut step = Step::default();
    scheduler.run(&mut counter, at(0), &mut step);
    scheduler.enqueue(7, at(0));
    for request in std::mem::take(&mut step.requests) {
        scheduler.finish(&mut counter, request.id, Err(throttled(30)), at(0), &mut step);
    }
    assert!(!begins(&mut scheduler, &mut counter, at(29_999)));
    assert!(begins(&mut scheduler, &mut counter, at(30_000)));
}

#[test]
fn a_driver_at_full_concurrency_requests_no_useless_wake_up() {
    let (mut scheduler, mut counter) = (scheduler(1), Counter::default());
    scheduler.enqueue(1, at(0));
    scheduler.queue.add_at(2, at(1000).monotonic);
    let mut step = Step::default();
    scheduler.run(&mut counter, at(0), &mut step);
    assert_eq!(scheduler.deadline(), None);
    for request in std::mem::take(&mut step.requests) {
        scheduler.finish(
            &mut counter,
            request.id,
            Err(Failure::new(ErrorKind::Unknown, "cut")),
            at(0),
            &mut step,
        );
    }
    assert_eq!(scheduler.deadline().map(|deadline| deadline.reason), Some(DeadlineReason::Requeue));
}

#[test]
fn who_no_longer_leads_asks_for_nothing() {
    let (mut scheduler, mut counter) = (scheduler(5), Counter::default());
    scheduler.enqueue(7, at(0));
    let mut step = Step::default();
    scheduler.run(&mut counter, at(0), &mut step);
    scheduler.set_leading(false);
    let requests = std::mem::take(&mut step.requests);
    for request in requests {
        scheduler.finish(&mut counter, request.id, Ok(Success::Done), at(0), &mut step);
    }
    assert!(step.requests.is_empty());
    let abandoned = ReconcileResult::Abandoned;
    assert!(
        matches!(&step.notes[..], [Note::Reconciled { result, .. }] if *result == abandoned),
        "it has not converged: {:?}",
        step.notes
    );
}

proptest! {
    #[test]
    fn every_key_finishes_however_answers_fail_and_interleave(
        enqueued in proptest::collection::vec(0u8..8, 1..40),
        choices in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..4), 1..200),
    ) {
        let (mut scheduler, mut counter) = (scheduler(3), Counter::default());
        let mut open: Vec<Request> = Vec::new();
        let mut clock = 0;
        let wanted: BTreeSet<u8> = enqueued.iter().copied().collect();
        for key in enqueued {
            scheduler.enqueue(key, at(0));
        }
        let mut choices = choices.into_iter();
        for _ in 0..10_000 {
            let mut step = Step::default();
            scheduler.run(&mut counter, at(clock), &mut step);
            open.append(&mut step.requests);
            let in_flight: BTreeSet<_> = open.iter().filter_map(|request| request.action.target()).collect();
            prop_assert!(in_flight.len() <= 3);
            if open.is_empty() {
                let Some(deadline) = scheduler.queue.next_due() else { break };
                clock = u64::try_from(deadline.elapsed().as_millis()).expect("in range");
                continue;
            }
            let (index, fate) = choices.next().map_or((0, 1), |(index, fate)| (index.index(open.len()), fate));
            let request = open.swap_remove(index);
            let outcome = if fate == 0 { Err(Failure::new(ErrorKind::Unknown, "cut")) } else { Ok(Success::Done) };
            scheduler.finish(&mut counter, request.id, outcome, at(clock), &mut step);
            open.append(&mut step.requests);
        }
        prop_assert_eq!(counter.finished.keys().copied().collect::<BTreeSet<_>>(), wanted);
        prop_assert!(scheduler.ledger.is_empty() && scheduler.flights.is_empty());
    }
}
