//! Passes the steps of a machine to an observer in the same process, beside the run.
//!
//! The machine never waits for the observer. If too many steps wait, the observation ends with one warning and the run
//! continues: an observer that missed a step would show objects that no longer exist.

use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};

use lockstep_engine::machine::{Event, Machine, Step, Workload, Wrapper};
use lockstep_engine::recording::RecordedStep;
use lockstep_engine::time::Now;
use tracing::warn;

/// The maximum number of updates that wait for the observer.
const QUEUE: usize = 16_384;

/// What the observer gets, in the order of the run. It contains secrets.
#[derive(Debug)]
pub enum Update {
    /// A step.
    Step(Box<RecordedStep>),
    /// The work queues, each time they are measured for metrics.
    Workload(Workload),
}

/// A machine with an observer.
pub struct Followed {
    machine: Box<dyn Machine + Send>,
    updates: Option<SyncSender<Update>>,
    taken: u64,
}

/// Returns the machine, which has taken no step yet, and the updates for its observer. They end with the machine, or when too
/// many wait.
pub fn follow(machine: Box<dyn Machine + Send>) -> (Followed, Receiver<Update>) {
    let (sender, updates) = mpsc::sync_channel(QUEUE);
    (Followed { machine, updates: Some(sender), taken: 0 }, updates)
}

impl Wrapper for Followed {
    fn inner(&self) -> &dyn Machine {
        &*self.machine
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let Some(updates) = &self.updates else { return self.machine.step(event, now) };
        let gave = self.machine.step(event.clone(), now);
        self.taken += 1;
        let step = RecordedStep { number: self.taken, now, event, gave: gave.clone() };
        match updates.try_send(Update::Step(Box::new(step))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                let controller = self.machine.name();
                warn!(
                    controller,
                    "the live page stopped: {QUEUE} steps are waiting for it; the controller continues, and the page works \
                     again after a restart"
                );
                self.updates = None;
            }
            Err(TrySendError::Disconnected(_)) => self.updates = None,
        }
        gave
    }

    fn workload(&self) -> Workload {
        let workload = self.machine.workload();
        if let Some(updates) = &self.updates {
            // A lost measurement is replaced by the next one.
            let _ = updates.try_send(Update::Workload(workload.clone()));
        }
        workload
    }
}

#[cfg(test)]
mod tests {
    use lockstep_engine::action::{Action, ActionId, KubeRequest, Request};
    use lockstep_engine::machine::Deadline;
    use lockstep_engine::time::{Monotonic, Wall};

    use super::*;

    /// A machine that discovers an API version in each step.
    struct Discovering;

    impl Machine for Discovering {
        fn name(&self) -> &'static str {
            "discovering"
        }

        fn step(&mut self, _event: Event, _now: Now) -> Step {
            let action = Action::Kube(KubeRequest::Discover { api_version: "v1".to_owned() });
            Step { requests: vec![Request { id: ActionId(1), action }], notes: Vec::new() }
        }

        fn deadline(&self) -> Option<Deadline> {
            None
        }

        fn workload(&self) -> Workload {
            Workload { queues: Vec::new(), concurrency: Some(7) }
        }

        fn is_synced(&self) -> bool {
            true
        }
    }

    fn now() -> Now {
        Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic: Monotonic::START }
    }

    #[test]
    fn the_observer_gets_steps_and_measured_queues_in_their_order() {
        let (mut followed, updates) = follow(Box::new(Discovering));
        let gave = Machine::step(&mut followed, Event::Started, now());
        let measured = Machine::workload(&followed);
        drop(followed);
        let Update::Step(step) = updates.recv().unwrap() else { panic!("the step is first") };
        assert_eq!((step.number, step.event, step.gave), (1, Event::Started, gave));
        let Update::Workload(workload) = updates.recv().unwrap() else { panic!("the queues follow") };
        assert_eq!((workload.concurrency, &workload), (Some(7), &measured));
        assert!(updates.recv().is_err(), "the updates end with the machine");
    }

    #[test]
    fn the_machine_goes_on_when_nothing_takes_the_updates() {
        let (mut followed, updates) = follow(Box::new(Discovering));
        for _ in 0..QUEUE + 2 {
            assert_eq!(Machine::step(&mut followed, Event::TimerFired, now()).requests.len(), 1);
        }
        assert_eq!(updates.iter().count(), QUEUE, "the updates end, although the machine continues");
    }
}
