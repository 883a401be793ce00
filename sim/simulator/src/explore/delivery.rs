//! The delivery of events to the machines of a small world.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use lockstep_engine::action::{Action, ActionId, Success, WatchCommand};
use lockstep_engine::machine::Event;

use super::memo::Stepped;
use super::print::{Print, hash};
use super::process::{Answer, Message, Watch};
use super::world::World;
use crate::cluster::{FaultVerdict, Stream, What};

impl World {
    /// Delivers an event, of which the hash is given. The process itself executes requests about watches, at once; a new watch
    /// lists at once. Writes of Events are executed and answered at once.
    pub(super) fn deliver(&mut self, process: usize, event: Event, id: u64) {
        let mut events = VecDeque::from([(event, id)]);
        while let Some((event, id)) = events.pop_front() {
            let now = self.now(process);
            let Stepped { machine, step, messages } = self.step(process, &event, id);
            let it = &mut self.processes[process];
            it.machine = machine;
            it.messages.extend(messages);
            for request in &step.requests {
                let Action::Watch(command) = &request.action else { continue };
                let done = Event::Finished { id: request.id, outcome: Ok(Success::Done) };
                events.push_back(identified(done));
                let listed = self.command(process, command);
                events.extend(listed.into_iter().map(identified));
            }
            let writes = step.requests.iter().filter(|request| is_event_write(&request.action));
            let writes: Vec<ActionId> = writes.map(|request| request.id).collect();
            self.note(What::Stepped { process, now, event, step });
            for id in writes {
                self.execute(process, id, &FaultVerdict::Served);
                events.extend(self.take_answer(process, id));
            }
        }
        self.processes[process].state = self.state(process);
    }

    /// Returns the answer to a request, which is no longer in transit, as an event with its hash.
    pub(super) fn take_answer(&mut self, process: usize, id: ActionId) -> Option<(Event, u64)> {
        let Answer { outcome, id: answer, .. } = self.processes[process].messages.remove(&id)?.answer?;
        Some((Event::Finished { id, outcome }, hash(&(id.0, answer))))
    }

    /// Starts or stops a watch, and returns the list of a new one.
    fn command(&mut self, process: usize, command: &WatchCommand) -> Vec<Event> {
        let watches = &mut self.processes[process].watches;
        let (started, old) = match command {
            WatchCommand::Start { kind, scope } => {
                let stream = Stream::new(Arc::clone(kind), scope.clone(), 0);
                let watch = Watch { stream, events: VecDeque::new() };
                (Some(kind), watches.insert(Arc::clone(kind), watch))
            }
            WatchCommand::Stop { kind } => (None, watches.remove(kind)),
        };
        if let Some(mut old) = old {
            let server = Rc::make_mut(&mut self.server);
            server.id = hash(&(server.id, "close"));
            old.stream.close(&mut server.model);
        }
        started.map(|kind| self.list(process, kind, 0)).unwrap_or_default()
    }

    /// Returns the result of a step of a machine, which is computed once.
    fn step(&mut self, process: usize, event: &Event, id: u64) -> Stepped {
        let now = self.now(process);
        let it = &mut self.processes[process];
        let input = hash(&(it.machine.id, id, self.clock, it.began, self.server.uids_id));
        let known = self.memo.borrow_mut().steps.get(input);
        if let Some(known) = known {
            return known;
        }
        let step = it.machine.get_mut().step(event.clone(), now);
        // A bug has state that the description leaves out.
        it.machine.id = if self.setup.bug.is_some() {
            input
        } else {
            let mut text = String::new();
            it.machine.get().describe(&mut text);
            hash(&text)
        };
        let machine = it.machine.clone();
        let requests = step.requests.iter().filter(|it| !matches!(it.action, Action::Watch(_)));
        let messages = requests.map(|request| (request.id, self.message(&request.action))).collect();
        let stepped = Stepped { machine, step, messages };
        self.memo.borrow_mut().steps.insert(input, stepped.clone());
        stepped
    }

    fn message(&self, action: &Action) -> Message {
        let text = format!("{action:?}");
        Message {
            action: Arc::new(action.clone()),
            answer: None,
            part: action.target().and_then(self.setup.small.part),
            request: self.server.print(&text, &BTreeMap::new()),
            request_id: hash(&text),
        }
    }

    /// Returns the state of a machine, with the names that its requests in transit and the server give.
    fn state(&self, process: usize) -> Print {
        let it = &self.processes[process];
        let names = it.action_names();
        let input = hash(&(it.machine.id, &names, self.server.uids_id));
        let known = self.memo.borrow_mut().states.get(input);
        known.unwrap_or_else(|| {
            let mut text = String::new();
            it.machine.get().describe(&mut text);
            let print = self.server.print(&text, &names);
            self.memo.borrow_mut().states.insert(input, print.clone());
            print
        })
    }
}

/// Returns whether a request writes an Event. No decision depends on its answer, so its place in the order is not explored.
fn is_event_write(action: &Action) -> bool {
    action.is_write() && action.target().is_some_and(|target| target.kind.kind == "Event")
}

fn identified(event: Event) -> (Event, u64) {
    let id = hash(&format!("{event:?}"));
    (event, id)
}
