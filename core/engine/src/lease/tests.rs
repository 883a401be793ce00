use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::action::{Failure, Success};
use crate::time::Wall;

/// One Lease on a server, two candidates, and a network that delays and drops requests and loses answers.
#[derive(Default)]
struct World {
    lease: Option<Value>,
    version: u64,
    /// In milliseconds, by a clock that never stops.
    now: u64,
    /// When the lease was last written.
    written: u64,
    /// Whether it was ever taken from a holder before it expired.
    stolen: bool,
}

impl World {
    fn new() -> Self {
        Self::default()
    }

    fn carry_out(&mut self, action: &Action) -> Outcome {
        match action {
            Action::Kube(KubeRequest::Get { .. }) => match &self.lease {
                Some(lease) => Ok(Success::Object(Arc::new(lease.clone()))),
                None => Err(Failure::new(ErrorKind::NotFound, "no lease")),
            },
            Action::Kube(KubeRequest::Create { .. }) if self.lease.is_some() => {
                Err(Failure::new(ErrorKind::AlreadyExists, "exists"))
            }
            Action::Kube(KubeRequest::Create { manifest, .. }) => Ok(self.store(manifest)),
            Action::Kube(KubeRequest::Update { manifest, .. }) => {
                let held = self.lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
                if held == Some(&manifest["metadata"]["resourceVersion"]) {
                    Ok(self.store(manifest))
                } else {
                    Err(Failure::new(ErrorKind::Conflict, "modified"))
                }
            }
            other => panic!("an election does not {}", other.name()),
        }
    }

    fn store(&mut self, manifest: &Value) -> Success {
        let before = self.lease.as_ref().map(record::holder).filter(|before| !before.is_empty());
        let is_fresh = at(self.now).monotonic.since(at(self.written).monotonic) < LEASE_DURATION;
        self.stolen |= is_fresh && before.is_some_and(|before| before != record::holder(manifest));
        self.written = self.now;
        self.version += 1;
        let mut lease = manifest.clone();
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        Success::Object(Arc::new(lease))
    }
}

fn at(millis: u64) -> Now {
    let wall = Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH);
    Now { wall, monotonic: Monotonic::START + Duration::from_millis(millis) }
}

fn drive(election: &mut Election, world: &mut World, event: Event, now: Now) -> Vec<Note> {
    let mut step = election.step(event, now);
    let mut notes = std::mem::take(&mut step.notes);
    while let Some(request) = step.requests.pop() {
        let outcome = world.carry_out(&request.action);
        step = election.step(Event::Finished { id: request.id, outcome }, now);
        notes.append(&mut step.notes);
    }
    notes
}

fn candidate(name: &str) -> Election {
    Election::new("lockstep", "lockstep", name.to_owned())
}

/// Returns the last change of leadership in these notes, if there is one.
fn leads(notes: &[Note]) -> Option<bool> {
    notes.iter().rev().find_map(|note| match note {
        Note::LeadershipChanged { leading } => Some(*leading),
        _ => None,
    })
}

/// Returns the values of the metric of the election in these notes.
fn statuses(notes: &[Note]) -> Vec<Amount> {
    let values = notes.iter().filter_map(|note| match note {
        Note::Measured(Measure { by, .. }) => Some(*by),
        _ => None,
    });
    values.collect()
}

/// Returns their warnings and log messages.
fn logged(notes: &[Note]) -> Vec<&str> {
    let texts = notes.iter().filter_map(|note| match note {
        Note::Warning { message } | Note::Log { debug: false, message, .. } => Some(message.as_str()),
        _ => None,
    });
    texts.collect()
}

fn failed(request: &Request, class: ErrorKind, message: &str) -> Event {
    Event::Finished { id: request.id, outcome: Err(Failure::new(class, message)) }
}

fn answered(request: &Request, world: &mut World) -> Event {
    Event::Finished { id: request.id, outcome: world.carry_out(&request.action) }
}

/// Returns the only request of a step.
fn only(step: Step) -> Request {
    let [request] = <[Request; 1]>::try_from(step.requests).expect("one request");
    request
}

#[test]
fn the_second_candidate_waits_until_the_lease_is_released() {
    let mut world = World::new();
    let (mut one, mut two) = (candidate("one"), candidate("two"));
    let notes = drive(&mut one, &mut world, Event::Started, at(0));
    assert_eq!((leads(&notes), statuses(&notes)), (Some(true), vec![Amount::Set(0), Amount::Set(1)]));
    let notes = drive(&mut two, &mut world, Event::Started, at(100));
    assert_eq!(logged(&notes), [r#"standing by: the Lease lockstep/lockstep is held by "one""#]);
    assert_eq!(drive(&mut two, &mut world, Event::TimerFired, at(2100)), [], "it is logged once");
    let down = drive(&mut one, &mut world, Event::LeadershipChanged { leading: false }, at(5000));
    assert_eq!((leads(&down), statuses(&down)), (Some(false), vec![Amount::Set(0)]));
    let up = drive(&mut two, &mut world, Event::TimerFired, at(5100));
    assert_eq!((leads(&up), statuses(&up)), (Some(true), vec![Amount::Set(1)]));
    let lease = world.lease.expect("held");
    assert_eq!(
        (&lease["spec"]["holderIdentity"], &lease["spec"]["leaseTransitions"]),
        (&json!("two"), &json!(1))
    );
}

#[test]
fn a_dead_leader_is_replaced_after_the_lease_duration_by_our_own_clock() {
    let mut world = World::new();
    let (mut one, mut two) = (candidate("one"), candidate("two"));
    drive(&mut one, &mut world, Event::Started, at(0));
    drive(&mut two, &mut world, Event::Started, at(1000));
    assert_eq!(drive(&mut two, &mut world, Event::TimerFired, at(15_999)), []);
    assert_eq!(leads(&drive(&mut two, &mut world, Event::TimerFired, at(18_000))), Some(true));
}

#[test]
fn a_leader_that_cannot_renew_steps_down_in_time_and_logs_why() {
    let mut world = World::new();
    let mut one = candidate("one");
    drive(&mut one, &mut world, Event::Started, at(0));
    let request = only(one.step(Event::TimerFired, at(2000)));
    let notes = one.step(failed(&request, ErrorKind::Unavailable, "no route"), at(6000)).notes;
    assert_eq!(
        logged(&notes),
        ["cannot update the Lease lockstep/lockstep: unavailable: no route; it is tried again"]
    );
    let request = only(one.step(Event::TimerFired, at(8000)));
    assert_eq!(
        one.step(failed(&request, ErrorKind::Unavailable, "no way"), at(9000)).notes,
        [],
        "it is logged once"
    );
    assert_eq!(one.deadline().map(|deadline| deadline.at), Some(at(10_000).monotonic));
    let notes = one.step(Event::TimerFired, at(10_000)).notes;
    let why = "leadership ends: the Lease lockstep/lockstep was not renewed for 10 s: unavailable: no way"
        .to_owned();
    assert_eq!(notes[..2], [Note::Warning { message: why }, Note::LeadershipChanged { leading: false }]);
    assert!(matches!(&notes[2..], [Note::Measured(Measure { by: Amount::Set(0), .. })]), "{notes:?}");
}

/// A virtual machine is paused for twenty seconds, and its monotonic clock stops too: another process has become leader
/// meanwhile.
#[test]
fn a_leader_that_finds_another_in_the_lease_ends_and_leaves_it_alone() {
    let mut world = World::new();
    let (mut one, mut two) = (candidate("one"), candidate("two"));
    drive(&mut one, &mut world, Event::Started, at(0));
    drive(&mut two, &mut world, Event::Started, at(1000));
    assert_eq!(leads(&drive(&mut two, &mut world, Event::TimerFired, at(20_000))), Some(true));
    let notes = drive(&mut one, &mut world, Event::TimerFired, at(2000));
    assert_eq!(logged(&notes), [r#"leadership ends: the Lease lockstep/lockstep is held by "two""#]);
    assert_eq!(leads(&notes), Some(false));
    drive(&mut one, &mut world, Event::TimerFired, at(4000));
    assert_eq!(world.lease.as_ref().map(record::holder), Some("two"));
}

#[test]
fn a_request_that_hangs_costs_neither_the_leadership_nor_its_takeover() {
    let mut world = World::new();
    let (mut one, mut two) = (candidate("one"), candidate("two"));
    drive(&mut one, &mut world, Event::Started, at(0));
    let hung = only(one.step(Event::TimerFired, at(2000)));
    assert_eq!(one.deadline().map(|deadline| deadline.at), Some(at(7000).monotonic));
    let step = one.step(Event::TimerFired, at(7000));
    assert_eq!(
        logged(&step.notes),
        ["cannot update the Lease lockstep/lockstep: unknown: no answer within 5 s; it is tried again"]
    );
    // It took effect late, and its answer is late as well.
    let late = answered(&hung, &mut world);
    let renewal = only(one.step(answered(&only(step), &mut world), at(7100)));
    assert_eq!(one.step(late, at(7200)), Step::default());
    assert_eq!(one.step(answered(&renewal, &mut world), at(7300)), Step::default());
    assert_eq!(one.deadline().map(|deadline| deadline.at), Some(at(9300).monotonic));

    drive(&mut two, &mut world, Event::Started, at(8000));
    let _hung = only(two.step(Event::TimerFired, at(10_000)));
    assert_eq!(two.deadline().map(|deadline| deadline.at), Some(at(15_000).monotonic));
    assert_eq!(only(two.step(Event::TimerFired, at(15_000))).action.name(), "get");
}

#[test]
fn a_request_that_the_shell_gives_up_costs_no_more_than_one_that_hangs() {
    let mut one = candidate("one");
    drive(&mut one, &mut World::new(), Event::Started, at(0));
    let hung = only(one.step(Event::TimerFired, at(2000)));
    let step = one.step(failed(&hung, ErrorKind::Unknown, "no answer within 5 s"), at(7000));
    assert_eq!(only(step).action.name(), "get");
}

#[test]
fn who_steps_down_during_a_write_gives_the_lease_back_once_it_knows_how_that_ended() {
    for (carried_out, delivered) in [(true, true), (true, false), (false, false)] {
        for leading in [true, false] {
            let mut world = World::new();
            let mut one = candidate("one");
            let mut clock = 0;
            if leading {
                drive(&mut one, &mut world, Event::Started, at(0));
                clock = 2000;
            }
            let mut write = only(one.step(Event::TimerFired, at(clock)));
            if !leading {
                write = only(one.step(answered(&write, &mut world), at(clock)));
            }
            let down = one.step(Event::LeadershipChanged { leading: false }, at(clock));
            assert_eq!(leads(&down.notes), leading.then_some(false));
            assert_eq!(down.requests, [], "it would be refused");
            assert_eq!(one.deadline(), None);
            let outcome = if carried_out { world.carry_out(&write.action) } else { lost() };
            let outcome = if delivered { outcome } else { lost() };
            drive(&mut one, &mut world, Event::Finished { id: write.id, outcome }, at(clock + 100));
            let left = world.lease.as_ref().map(record::holder).unwrap_or_default();
            assert_eq!(left, "", "carried out {carried_out}, delivered {delivered}, leading {leading}");
        }
    }
}

#[test]
fn who_steps_down_while_it_looks_again_looks_once_more() {
    let mut world = World::new();
    let mut one = candidate("one");
    drive(&mut one, &mut world, Event::Started, at(0));
    let hung = only(one.step(Event::TimerFired, at(2000)));
    let _read = only(one.step(Event::TimerFired, at(7000)));
    world.carry_out(&hung.action).expect("carried out");
    drive(&mut one, &mut world, Event::LeadershipChanged { leading: false }, at(7100));
    assert_eq!(world.lease.as_ref().map(record::holder), Some(""));
}

#[test]
fn a_deleted_lease_is_created_again_by_its_leader() {
    // A server may answer the renewal with either.
    for class in [ErrorKind::NotFound, ErrorKind::Conflict] {
        let mut world = World::new();
        let mut one = candidate("one");
        drive(&mut one, &mut world, Event::Started, at(0));
        world.lease = None;
        let renewal = only(one.step(Event::TimerFired, at(2000)));
        let mut notes = drive(&mut one, &mut world, failed(&renewal, class, "no lease"), at(2000));
        notes.extend(drive(&mut one, &mut world, Event::TimerFired, at(4000)));
        assert_eq!((leads(&notes), logged(&notes)), (None, vec![]), "{class:?}");
        assert_eq!(world.lease.as_ref().map(record::holder), Some("one"), "{class:?}");
    }
}

#[test]
fn in_a_namespace_that_is_being_deleted_nothing_spins() {
    let mut candidate = candidate("one");
    let read = only(candidate.step(Event::Started, at(0)));
    let create = only(candidate.step(failed(&read, ErrorKind::NotFound, "no lease"), at(0)));
    let refused = candidate.step(failed(&create, ErrorKind::Conflict, "it is being terminated"), at(10));
    assert_eq!(refused.requests, []);
    assert!(logged(&refused.notes).iter().any(|line| line.contains("it is being terminated")));
    only(candidate.step(Event::TimerFired, at(2100)));
}

#[test]
fn who_steps_down_leaves_the_lease_of_another_alone() {
    let mut world = World::new();
    let mut one = candidate("one");
    drive(&mut one, &mut world, Event::Started, at(0));
    let renewal = only(one.step(Event::TimerFired, at(2000)));
    let _leaving = one.step(Event::LeadershipChanged { leading: false }, at(2000));
    // Another client gave the lease to a third candidate before the renewal arrived.
    world.lease.as_mut().expect("held")["spec"]["holderIdentity"] = json!("two");
    let read = only(one.step(failed(&renewal, ErrorKind::Conflict, "modified"), at(2100)));
    assert_eq!(one.step(answered(&read, &mut world), at(2200)).requests, []);
    // Nor is a lease that can't be read read without end.
    let mut other = candidate("other");
    let read = only(other.step(Event::Started, at(0)));
    let write = only(other.step(failed(&read, ErrorKind::NotFound, "no lease"), at(0)));
    let _leaving = other.step(Event::LeadershipChanged { leading: false }, at(0));
    let read = only(other.step(Event::Finished { id: write.id, outcome: lost() }, at(100)));
    assert_eq!(other.step(failed(&read, ErrorKind::Unavailable, "away"), at(200)).requests, []);
}

#[test]
fn a_lease_failure_is_logged_once_for_each_class() {
    let mut one = candidate("one");
    let mut notes = Vec::new();
    let missing = (ErrorKind::NotFound, r#"namespaces "lockstep" not found"#);
    let mut clock = 0;
    for (class, message) in
        [missing, missing, (ErrorKind::Forbidden, "no"), (ErrorKind::Forbidden, "never"), missing]
    {
        let read = only(one.step(Event::TimerFired, at(clock)));
        let create = only(one.step(failed(&read, ErrorKind::NotFound, "no lease"), at(clock)));
        notes.extend(one.step(failed(&create, class, message), at(clock)).notes);
        clock += 2000;
    }
    let missing = "cannot create the Lease lockstep/lockstep: not_found: namespaces \"lockstep\" not found; \
                   its namespace has to exist";
    let forbidden = "cannot create the Lease lockstep/lockstep: forbidden: no; \
                     this process has to be allowed to get, create and update it";
    assert_eq!(logged(&notes), [missing, forbidden, missing]);
}

proptest! {
    /// However answers are delayed and lost, two candidates never lead at the same time.
    #[test]
    fn never_two_leaders(fates in proptest::collection::vec((0usize..2, 0u8..10, 1u64..3000), 1..300)) {
        let mut world = World::new();
        let mut candidates = [candidate("one"), candidate("two")];
        let mut leading = [false, false];
        let mut open: [Vec<Request>; 2] = [Vec::new(), Vec::new()];
        let mut clock = 0;
        for (who, fate, pause) in fates {
            clock += pause;
            // Both get their wake-ups in time, as the shell guarantees.
            for index in 0..2 {
                let step = candidates[index].step(Event::TimerFired, at(clock));
                note(&mut leading[index], &step.notes);
                open[index].extend(step.requests);
            }
            if let Some(request) = open[who].pop() {
                let reached = fate != 0;
                let real = if reached { world.carry_out(&request.action) } else { lost() };
                let outcome = if fate == 1 { lost() } else { real };
                let step = candidates[who].step(Event::Finished { id: request.id, outcome }, at(clock));
                note(&mut leading[who], &step.notes);
                open[who].extend(step.requests);
            }
            prop_assert!(!(leading[0] && leading[1]));
        }
    }

    /// However answers are delayed and lost, clocks stop, and the lease is deleted: no candidate takes it from a holder that
    /// has renewed it in time.
    #[test]
    fn no_candidate_overwrites_a_lease_that_another_holds(
        acts in proptest::collection::vec((0usize..2, 0u8..10, 1u64..3000), 1..300)
    ) {
        let mut world = World::new();
        let mut candidates = [candidate("one"), candidate("two")];
        let mut open: [Vec<Request>; 2] = [Vec::new(), Vec::new()];
        // For how long the clock of each has stopped.
        let mut stood = [0, 0];
        for (who, act, pause) in acts {
            match act {
                8 => world.lease = None,
                9 => for _ in 0..pause / 125 {
                    world.now += 1000;
                    stood[who] += 1000;
                    let now = at(world.now - stood[1 - who]);
                    drive(&mut candidates[1 - who], &mut world, Event::TimerFired, now);
                },
                _ => {}
            }
            world.now += pause;
            for index in 0..2 {
                let step = candidates[index].step(Event::TimerFired, at(world.now - stood[index]));
                open[index].extend(step.requests);
            }
            if let Some(request) = open[who].pop() {
                let real = if act == 0 { lost() } else { world.carry_out(&request.action) };
                let outcome = if act == 1 { lost() } else { real };
                let finished = Event::Finished { id: request.id, outcome };
                let step = candidates[who].step(finished, at(world.now - stood[who]));
                open[who].extend(step.requests);
            }
            prop_assert!(!world.stolen);
        }
    }
}

fn lost() -> Outcome {
    Err(Failure::new(ErrorKind::Unknown, "lost"))
}

fn note(leading: &mut bool, notes: &[Note]) {
    for note in notes {
        if let Note::LeadershipChanged { leading: now } = note {
            *leading = *now;
        }
    }
}
