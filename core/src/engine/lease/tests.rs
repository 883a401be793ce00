use proptest::prelude::*;

use super::*;
use crate::engine::action::Failure;
use crate::time::Wall;

/// One Lease on a server, two candidates, and a network that delays, drops and loses answers.
struct World {
    lease: Option<Value>,
    version: u64,
}

impl World {
    fn new() -> Self {
        Self { lease: None, version: 0 }
    }

    fn carry_out(&mut self, action: &Action) -> Outcome {
        match action {
            Action::Get { .. } => match &self.lease {
                Some(lease) => Ok(Success::Object(Arc::new(lease.clone()))),
                None => Err(Failure::new(Class::NotFound, "no lease")),
            },
            Action::Create { .. } if self.lease.is_some() => {
                Err(Failure::new(Class::AlreadyExists, "exists"))
            }
            Action::Create { manifest, .. } => Ok(self.store(manifest)),
            Action::Update { manifest, .. } => {
                let held = self.lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
                if held == Some(&manifest["metadata"]["resourceVersion"]) {
                    Ok(self.store(manifest))
                } else {
                    Err(Failure::new(Class::Conflict, "modified"))
                }
            }
            other => panic!("an election does not {}", other.name()),
        }
    }

    fn store(&mut self, manifest: &Value) -> Success {
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

#[test]
fn the_first_leads_and_the_second_stands_by_until_the_lease_is_given_back() {
    let mut world = World::new();
    let (mut one, mut two) = (candidate("one"), candidate("two"));
    assert_eq!(
        drive(&mut one, &mut world, Event::Started, at(0)),
        [Note::LeadershipChanged { leading: true }]
    );
    assert_eq!(drive(&mut two, &mut world, Event::Started, at(100)), []);
    let down = drive(&mut one, &mut world, Event::LeadershipChanged { leading: false }, at(5000));
    assert_eq!(down, [Note::LeadershipChanged { leading: false }]);
    let up = drive(&mut two, &mut world, Event::Woke, at(5100));
    assert_eq!(up, [Note::LeadershipChanged { leading: true }]);
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
    assert_eq!(drive(&mut two, &mut world, Event::Woke, at(15_999)), []);
    assert_eq!(
        drive(&mut two, &mut world, Event::Woke, at(18_000)),
        [Note::LeadershipChanged { leading: true }]
    );
}

#[test]
fn a_leader_that_cannot_renew_steps_down_in_time() {
    let mut world = World::new();
    let mut one = candidate("one");
    drive(&mut one, &mut world, Event::Started, at(0));
    let request = one.step(Event::Woke, at(2000)).requests.remove(0);
    let lost = Event::Finished { id: request.id, outcome: Err(Failure::new(Class::Unknown, "timed out")) };
    assert_eq!(one.step(lost, at(9000)).notes, []);
    assert_eq!(one.deadline().map(|deadline| deadline.at), Some(at(10_000).monotonic));
    assert_eq!(one.step(Event::Woke, at(10_000)).notes, [Note::LeadershipChanged { leading: false }]);
}

proptest! {
    /// However answers are delayed and lost, two never lead at the same time.
    #[test]
    fn never_two_leaders(fates in proptest::collection::vec((0usize..2, 0u8..10, 1u64..3000), 1..300)) {
        let mut world = World::new();
        let mut candidates = [candidate("one"), candidate("two")];
        let mut leading = [false, false];
        let mut open: [Vec<Request>; 2] = [Vec::new(), Vec::new()];
        let mut clock = 0;
        for (who, fate, pause) in fates {
            clock += pause;
            // Both get their wake-ups in time; that is what the shell promises.
            for index in 0..2 {
                let step = candidates[index].step(Event::Woke, at(clock));
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
}

fn lost() -> Outcome {
    Err(Failure::new(Class::Unknown, "lost"))
}

fn note(leading: &mut bool, notes: &[Note]) {
    for note in notes {
        if let Note::LeadershipChanged { leading: now } = note {
            *leading = *now;
        }
    }
}
