//! The systems around the controller of a small world.
//!
//! They act only when no message is in transit, each time from the beginning: they list everything, and their first writes are
//! executed at once. So they have no state besides their objects, and their order among the messages is not explored. In an
//! unchanged state they act in the same way, so this is computed once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use lockstep_apiserver::server::ApiServer;
use lockstep_engine::action::{Action, Success, WatchCommand};
use lockstep_engine::machine::{DeadlineReason, Event, Machine};
use lockstep_engine::time::{Monotonic, Now, Wall};
use lockstep_engine::wire;

use super::act::Act;
use super::print::hash;
use super::world::World;
use crate::cluster::Stream;

impl World {
    /// Returns what one of the systems does next, unless it is later than a given time. Of two at the same time, it is the first
    /// of their list.
    pub(super) fn next_act(&self, latest: Duration) -> Option<Arc<Act>> {
        let input = hash(&(self.server.id, self.clock, latest));
        let known = self.memo.borrow_mut().acts.get(input);
        known.unwrap_or_else(|| {
            let machines = (self.setup.small.external)().into_iter();
            let acts = machines.filter_map(|mut machine| self.first_act(&mut *machine, latest));
            let act = acts.min_by_key(|act| act.at).map(Arc::new);
            self.memo.borrow_mut().acts.insert(input, act.clone());
            act
        })
    }

    /// Runs a system from the beginning to its first writes.
    fn first_act(&self, machine: &mut dyn Machine, latest: Duration) -> Option<Act> {
        let mut model = self.server.model.clone();
        let mut events = VecDeque::from([Event::Started, Event::LeadershipChanged { leading: true }]);
        let mut at = self.clock;
        loop {
            let wall = self.time_at(at);
            let now = Now { wall: Wall::from_timestamp(wall), monotonic: Monotonic::from_elapsed(at) };
            let mut writes = Vec::new();
            while let Some(event) = events.pop_front() {
                for request in machine.step(event, now).requests {
                    match request.action {
                        Action::Watch(command) => {
                            events.push_back(Event::Finished { id: request.id, outcome: Ok(Success::Done) });
                            events.extend(list(command, &mut model, wall));
                        }
                        write => writes.push(write),
                    }
                }
            }
            if !writes.is_empty() {
                return Some(Act { at, system: machine.name(), writes });
            }
            let due = machine.deadline().filter(|deadline| deadline.reason != DeadlineReason::Resync)?;
            at = due.at.elapsed().max(at);
            if at > latest {
                return None;
            }
            events.push_back(Event::TimerFired);
        }
    }

    /// Advances the time to the writes, and executes them.
    pub(super) fn act(&mut self, act: &Act) {
        self.clock = act.at;
        let manager = wire::field_manager(act.system);
        for write in &act.writes {
            let Action::Kube(request) = write else { continue };
            if let Ok(request) = wire::encode(request, &manager) {
                self.request(act.system, &request.map(Bytes::from));
            }
        }
    }
}

fn list(command: WatchCommand, model: &mut ApiServer, now: Timestamp) -> Vec<Event> {
    match command {
        WatchCommand::Start { kind, scope } => Stream::new(kind, scope, 0).begin(model, now, 0, None).events,
        WatchCommand::Stop { .. } => Vec::new(),
    }
}
