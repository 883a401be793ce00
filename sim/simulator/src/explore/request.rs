//! The execution of requests in a small world.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use lockstep_engine::action::{Action, ActionId, ErrorKind, Failure, Outcome};
use lockstep_engine::object::Kind;
use lockstep_engine::wire;

use super::memo::Answered;
use super::print::hash;
use super::process::{Answer, Message, WatchEvent};
use super::world::World;
use crate::cluster::{Author, Carried, Change, FaultVerdict, What};
use crate::secret;

impl World {
    /// Executes a request of a process, or the fault that prevents it.
    pub(super) fn execute(&mut self, process: usize, id: ActionId, verdict: &FaultVerdict) {
        let Some(message) = self.processes[process].messages.get(&id).cloned() else { return };
        let answer = match verdict {
            FaultVerdict::Served | FaultVerdict::AnswerLost | FaultVerdict::CrashedAfter => {
                self.serve(process, &message)
            }
            FaultVerdict::Failed(failure) => self.read(Err(failure.clone())),
            FaultVerdict::CrashedBefore => {
                self.read(Err(Failure::new(ErrorKind::Unknown, "no answer in time")))
            }
        };
        let failed = answer.outcome.as_ref().err().map(|failure| failure.class);
        let action = Action::clone(&message.action);
        self.note(What::Carried(Carried { process, id, action, fate: verdict.clone(), failed }));
        let answer = match verdict {
            FaultVerdict::Served | FaultVerdict::Failed(_) => answer,
            FaultVerdict::AnswerLost => {
                self.read(Err(Failure::new(ErrorKind::Unknown, "the answer was lost")))
            }
            FaultVerdict::CrashedBefore | FaultVerdict::CrashedAfter => return self.crash(process),
        };
        if let Some(message) = self.processes[process].messages.get_mut(&id) {
            message.answer = Some(answer);
        }
    }

    fn read(&self, outcome: Outcome) -> Answer {
        let text = format!("{outcome:?}");
        Answer { outcome, print: self.server.print(&text, &BTreeMap::new()), id: hash(&text) }
    }

    /// Returns the answer of the server. It is computed once for each state of the server.
    fn serve(&mut self, process: usize, message: &Message) -> Answer {
        let input = hash(&(self.server.id, process, message.request_id, self.clock));
        let known = self.memo.borrow_mut().answers.get(input);
        let answered = known.unwrap_or_else(|| {
            let answered = self.compute(process, &message.action, input);
            self.memo.borrow_mut().answers.insert(input, answered.clone());
            answered
        });
        let Answered { server, answer, changes, events } = answered;
        self.server = server;
        for change in changes {
            self.note(What::Changed(change));
        }
        self.enqueue(events);
        answer
    }

    fn compute(&mut self, process: usize, action: &Action, input: u64) -> Answered {
        let before = Rc::clone(&self.server);
        let mut changes = Vec::new();
        let outcome = self.carry_out(process, action, &mut changes);
        let events = self.look(&changes, input);
        let answer = self.read(outcome);
        let has_changed = !changes.is_empty() || self.changed_outside(action, input);
        let after = std::mem::replace(&mut self.server, Rc::clone(&before));
        // A request without changes leaves the server as it was.
        let server = if has_changed { after } else { before };
        Answered { server, answer, changes, events }
    }

    fn carry_out(&mut self, process: usize, action: &Action, changes: &mut Vec<Change>) -> Outcome {
        let manager = wire::field_manager(self.processes[process].machine.get().name());
        let Action::Kube(request) = action else {
            let now = self.timestamp();
            let outside = Rc::make_mut(&mut self.server).outside_mut();
            let nothing =
                || Failure::new(ErrorKind::Invalid, format!("nothing here executes {}", action.name()));
            return outside.ok_or_else(nothing)?.carry_out(process, action, now);
        };
        let request = &*secret::generated(request, self.server.model.revision())?;
        let encoded = wire::encode(request, &manager)?;
        let encoded = match self.setup.bug.and_then(|bug| bug.garble) {
            Some(garble) => garble(request, encoded),
            None => encoded,
        };
        let (encoded, now) = (encoded.map(Bytes::from), self.timestamp());
        let server = Rc::make_mut(&mut self.server);
        let (response, made) = server.handle(Author::Process(process), &encoded, now);
        *changes = made;
        wire::decode(request, response.status(), None, response.body())
    }

    /// Returns whether an action has changed the state outside Kubernetes. The cause identifies the new state.
    fn changed_outside(&mut self, action: &Action, cause: u64) -> bool {
        if matches!(action, Action::Kube(_)) {
            return false;
        }
        let server = Rc::make_mut(&mut self.server);
        server.id = hash(&(cause, "outside"));
        server.print_outside()
    }

    /// Executes a request of a client that is not under test.
    pub(super) fn request(
        &mut self,
        actor: &'static str,
        request: &http::Request<Bytes>,
    ) -> http::Response<Bytes> {
        let now = self.timestamp();
        let (response, changes) = Rc::make_mut(&mut self.server).handle(Author::Client(actor), request, now);
        let cause = hash(&(self.server.id, &self.users, self.clock));
        self.changed_by(changes, cause);
        response
    }

    /// Adds changes of the control plane to the journal and to the watches.
    pub(super) fn changed(&mut self, changes: Vec<Change>) {
        let cause = self.server.id;
        self.changed_by(changes, cause);
    }

    fn changed_by(&mut self, changes: Vec<Change>, cause: u64) {
        let events = self.look(&changes, cause);
        for change in changes {
            self.note(What::Changed(change));
        }
        self.enqueue(events);
    }

    /// Returns the events that the watches have for changes. The cause identifies the new state of the server.
    fn look(&mut self, changes: &[Change], cause: u64) -> Vec<(usize, Arc<Kind>, WatchEvent)> {
        let mut events = Vec::new();
        if changes.is_empty() {
            return events;
        }
        let now = self.timestamp();
        let server = Rc::make_mut(&mut self.server);
        server.id = hash(&(cause, server.model.revision()));
        for (process, it) in self.processes.iter_mut().enumerate() {
            for (kind, watch) in &mut it.watches {
                let seen = watch.look(server, now, self.setup.small.part).into_iter();
                events.extend(seen.map(|event| (process, Arc::clone(kind), event)));
            }
        }
        events
    }

    fn enqueue(&mut self, events: Vec<(usize, Arc<Kind>, WatchEvent)>) {
        for (process, kind, event) in events {
            if let Some(watch) = self.processes[process].watches.get_mut(&kind) {
                watch.events.push_back(event);
            }
        }
    }
}
