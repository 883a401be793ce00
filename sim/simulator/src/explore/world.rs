//! The state of a small world, and what each transition does to it.
//!
//! Transitions take no time. The time advances only when no message is in transit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use lockstep_apiserver::server::{Actors, ApiServer};
use lockstep_engine::action::{Action, ActionId, Class, Failure, Outcome, Success, WatchCommand};
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use lockstep_engine::random::Random;
use lockstep_engine::time::{Monotonic, Now, Wall};
use lockstep_engine::wire;
use serde_json::Value;

use super::print::Print;
use super::process::{Message, Process, Watch};
use super::server::Server;
use super::setup::Setup;
use super::transition::{Place, Transition};
use crate::cluster::{Author, Carried, Change, Entry, ExternalSystems, FaultVerdict, Stream, What};
use crate::explorable::{Explorable, plant};
use crate::history::History;
use crate::run::{Violation, check};
use crate::subject::Client;

#[derive(Clone)]
pub(super) struct World {
    pub(super) setup: Arc<Setup>,
    pub(super) server: Server,
    pub(super) processes: Vec<Process>,
    /// How many operations each user has executed.
    pub(super) users: Vec<usize>,
    /// The faults that are still permitted.
    pub(super) faults: Vec<Place>,
    pub(super) clock: Duration,
    /// When a user last acted or a fault was last injected.
    pub(super) disturbed: Duration,
    /// The number of transitions so far. It orders what happens at the same time.
    taken: u32,
    history: History,
    /// The entries that are still to be checked.
    fresh: Vec<Entry>,
    /// All entries, if they are kept.
    pub(super) journal: Option<Vec<Entry>>,
}

impl World {
    /// Returns the world with one process that leads and has listed everything.
    pub(super) fn new(setup: Arc<Setup>, faults: Vec<Place>, keep: bool) -> Result<Self, Violation> {
        let mut actors = Actors::default();
        (actors.garbage.delay, actors.namespaces.delay) = (Setup::PACE, Setup::PACE);
        let mut world = Self {
            server: Server::new(setup.server.clone(), actors),
            processes: Vec::new(),
            users: vec![0; setup.small.users.len()],
            faults,
            clock: Duration::ZERO,
            disturbed: Duration::ZERO,
            taken: 0,
            history: History::default(),
            fresh: Vec::new(),
            journal: keep.then(Vec::new),
            setup,
        };
        world.lead();
        world.check()?;
        Ok(world)
    }

    /// Executes a transition and checks the invariants.
    pub(super) fn take(&mut self, transition: &Transition) -> Result<(), Violation> {
        self.taken += 1;
        match transition {
            Transition::Operate { user } => self.operate(*user),
            Transition::Execute { process, id, verdict } => self.execute(*process, *id, verdict),
            Transition::Answer { process, id } => self.answer(*process, *id),
            Transition::Deliver { process, kind } => self.deliver_next(*process, kind),
            Transition::Relist { process, kind, lag } => self.relist(*process, kind, *lag),
            Transition::Restart { process } => self.restart(*process),
            Transition::Lead { previous_notices } => {
                if *previous_notices {
                    self.step_down(self.processes.len() - 1);
                }
                self.lead();
            }
            Transition::StepDown { process } => self.step_down(*process),
            Transition::Advance => self.advance(),
        }
        match transition {
            Transition::Operate { .. } => self.disturb(),
            Transition::Execute { process, id, verdict } if *verdict != FaultVerdict::Served => {
                let crashed = matches!(verdict, FaultVerdict::CrashedBefore | FaultVerdict::CrashedAfter);
                let part = self.processes[*process].messages.get(id).and_then(|message| message.part);
                self.spend(part.filter(|_| !crashed));
            }
            Transition::Relist { .. } | Transition::Lead { .. } | Transition::StepDown { .. } => {
                self.spend(None);
            }
            Transition::Execute { .. }
            | Transition::Answer { .. }
            | Transition::Deliver { .. }
            | Transition::Restart { .. }
            | Transition::Advance => {}
        }
        self.check()
    }

    fn disturb(&mut self) {
        self.disturbed = self.clock;
        let at = self.at();
        self.history.stir(at);
    }

    fn spend(&mut self, part: Option<&'static str>) {
        if let Some(index) = self.faults.iter().position(|place| place.permits(part)) {
            self.faults.remove(index);
        }
        self.disturb();
    }

    /// Returns whether another fault of this part is permitted.
    pub(super) fn affords(&self, part: Option<&'static str>) -> bool {
        self.faults.iter().any(|place| place.permits(part))
    }

    /// Returns the next deadline that counts as work in progress.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let start = self.setup.start;
        let control_plane = self.server.next_due().map(|due| due.duration_since(start));
        let control_plane = control_plane.and_then(|due: SignedDuration| Duration::try_from(due).ok());
        let next = self.processes.iter().filter_map(Process::deadline).chain(control_plane).min()?;
        Some(next.max(self.clock)).filter(|next| *next <= self.disturbed + self.setup.subject.bound())
    }

    /// Returns the differences between the actual and the desired state.
    pub(super) fn differences(&self) -> Vec<String> {
        let world =
            crate::subject::World { server: &self.server.model, outside: None, now: self.timestamp() };
        self.setup.subject.differences(&world)
    }

    fn timestamp(&self) -> Timestamp {
        self.setup.start.checked_add(self.clock).unwrap_or(Timestamp::MAX)
    }

    /// Returns the time for the journal. Transitions at the same time are a microsecond apart.
    pub(super) fn at(&self) -> Duration {
        self.clock + Duration::from_micros(self.taken.into())
    }

    fn now(&self, process: usize) -> Now {
        let elapsed = self.clock.saturating_sub(self.processes[process].began);
        Now { wall: Wall::from_timestamp(self.timestamp()), monotonic: Monotonic::from_elapsed(elapsed) }
    }

    fn note(&mut self, what: What) {
        let at = self.at();
        self.fresh.push(Entry { at, what });
    }

    fn check(&mut self) -> Result<(), Violation> {
        for entry in std::mem::take(&mut self.fresh) {
            let checked = check(self.setup.subject, &self.server.model, &self.history, &entry);
            self.history.absorb(&entry);
            if let Some(journal) = &mut self.journal {
                journal.push(entry);
            }
            checked?;
        }
        Ok(())
    }

    fn operate(&mut self, user: usize) {
        let operation = &self.setup.small.users[user].operations[self.users[user]];
        self.users[user] += 1;
        (operation.run)(&mut UserClient { world: self, actor: operation.actor }, &mut Random::from_seed(0));
    }

    fn execute(&mut self, process: usize, id: ActionId, verdict: &FaultVerdict) {
        let Some(action) = self.processes[process].messages.get(&id).map(|it| Arc::clone(&it.action)) else {
            return;
        };
        let outcome = match verdict {
            FaultVerdict::Served | FaultVerdict::AnswerLost | FaultVerdict::CrashedAfter => {
                self.serve(process, &action)
            }
            FaultVerdict::Failed(failure) => Err(failure.clone()),
            FaultVerdict::CrashedBefore => Err(Failure::new(Class::Unknown, "no answer in time")),
        };
        let failed = outcome.as_ref().err().map(|failure| failure.class);
        let carried = Carried { process, id, action: Action::clone(&action), fate: verdict.clone(), failed };
        self.note(What::Carried(carried));
        let outcome = match verdict {
            FaultVerdict::Served | FaultVerdict::Failed(_) => outcome,
            FaultVerdict::AnswerLost => Err(Failure::new(Class::Unknown, "the answer was lost")),
            FaultVerdict::CrashedBefore | FaultVerdict::CrashedAfter => return self.crash(process),
        };
        let answer = self.server.print(&format!("{outcome:?}"), &BTreeMap::new());
        if let Some(message) = self.processes[process].messages.get_mut(&id) {
            (message.outcome, message.answer) = (Some(outcome), answer);
        }
    }

    fn serve(&mut self, process: usize, action: &Action) -> Outcome {
        let manager = wire::field_manager(self.processes[process].machine.name());
        let Action::Kube(request) = action else {
            return Err(Failure::new(Class::Invalid, format!("nothing here executes {}", action.name())));
        };
        let encoded = wire::encode(request, &manager)?;
        let encoded = match self.setup.bug.and_then(|bug| bug.garble) {
            Some(garble) => garble(request, encoded),
            None => encoded,
        };
        let response = self.request(Author::Process(process), &encoded.map(Bytes::from));
        wire::decode(request, response.status(), None, response.body())
    }

    fn request(&mut self, author: Author, request: &http::Request<Bytes>) -> http::Response<Bytes> {
        let now = self.timestamp();
        let (response, changes) = self.server.handle(author, request, now);
        self.changed(changes);
        response
    }

    /// Adds changes to the journal and to the watches.
    fn changed(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        for change in changes {
            self.note(What::Changed(change));
        }
        let now = self.timestamp();
        for process in &mut self.processes {
            for watch in process.watches.values_mut() {
                watch.look(&mut self.server, now, self.setup.small.part);
            }
        }
    }

    fn answer(&mut self, process: usize, id: ActionId) {
        if let Some(Message { outcome: Some(outcome), .. }) = self.processes[process].messages.remove(&id) {
            self.deliver(process, Event::Finished { id, outcome });
        }
    }

    fn deliver_next(&mut self, process: usize, kind: &Arc<Kind>) {
        let watch = self.processes[process].watches.get_mut(kind);
        if let Some((event, ..)) = watch.and_then(|watch| watch.events.pop_front()) {
            self.deliver(process, event);
        }
    }

    fn relist(&mut self, process: usize, kind: &Arc<Kind>, lag: u64) {
        for event in self.list(process, kind, lag) {
            self.deliver(process, event);
        }
    }

    /// Lists and starts the watch of a kind. Its undelivered events are lost.
    fn list(&mut self, process: usize, kind: &Arc<Kind>, lag: u64) -> Vec<Event> {
        let now = self.timestamp();
        let Some(watch) = self.processes[process].watches.get_mut(kind) else { return Vec::new() };
        let listed = watch.stream.begin(&mut self.server.model, now, lag, None).events;
        watch.events.clear();
        // A list of an old state starts its watch at that state.
        watch.look(&mut self.server, now, self.setup.small.part);
        listed
    }

    fn machine(&self, seed: u64) -> Box<dyn Explorable> {
        let machine = (self.setup.small.machine)(seed);
        match self.setup.bug {
            Some(bug) => plant(&*machine, bug),
            None => machine,
        }
    }

    fn lead(&mut self) {
        let machine = self.machine(self.processes.len() as u64);
        self.processes.push(Process::new(machine, self.clock));
        self.boot(self.processes.len() - 1);
    }

    fn restart(&mut self, process: usize) {
        let machine = self.machine(process as u64 + 100);
        self.processes[process] = Process::new(machine, self.clock);
        self.boot(process);
    }

    fn boot(&mut self, process: usize) {
        self.processes[process].is_leading = true;
        self.note(What::Started { process });
        self.deliver(process, Event::Started);
        self.deliver(process, Event::LeadershipChanged { leading: true });
    }

    /// Stops the leadership of a process. Its requests in transit remain; what it watches has no effect any more.
    fn step_down(&mut self, process: usize) {
        self.processes[process].is_leading = false;
        self.close_watches(process);
        self.deliver(process, Event::LeadershipChanged { leading: false });
    }

    /// Crashes a process. Its other requests never reach the server: if they did, it would be as if they had arrived earlier.
    fn crash(&mut self, process: usize) {
        self.close_watches(process);
        let it = &mut self.processes[process];
        (it.is_alive, it.is_leading) = (false, false);
        it.messages.clear();
        self.note(What::Died { process });
    }

    fn close_watches(&mut self, process: usize) {
        for watch in std::mem::take(&mut self.processes[process].watches).values_mut() {
            watch.stream.close(&mut self.server.model);
        }
    }

    fn advance(&mut self) {
        let Some(due) = self.next_due() else { return };
        self.clock = due;
        let now = self.timestamp();
        let changes = self.server.tick(now);
        self.changed(changes);
        for process in 0..self.processes.len() {
            if self.processes[process].deadline().is_some_and(|deadline| deadline <= due) {
                self.deliver(process, Event::TimerFired);
            }
        }
    }

    /// Delivers an event. The process itself executes requests about watches, at once; a new watch lists at once.
    fn deliver(&mut self, process: usize, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = self.now(process);
            let step = self.processes[process].machine.step(event.clone(), now);
            for request in &step.requests {
                match &request.action {
                    Action::Watch(WatchCommand::Start { kind, scope }) => {
                        let stream = Stream::new(Arc::clone(kind), scope.clone(), 0);
                        let watch = Watch { stream, events: VecDeque::new() };
                        if let Some(mut old) = self.processes[process].watches.insert(Arc::clone(kind), watch)
                        {
                            old.stream.close(&mut self.server.model);
                        }
                        events.push_back(Event::Finished { id: request.id, outcome: Ok(Success::Done) });
                        let listed = self.list(process, kind, 0);
                        events.extend(listed);
                    }
                    Action::Watch(WatchCommand::Stop { kind }) => {
                        if let Some(mut old) = self.processes[process].watches.remove(kind) {
                            old.stream.close(&mut self.server.model);
                        }
                        events.push_back(Event::Finished { id: request.id, outcome: Ok(Success::Done) });
                    }
                    action => self.send(process, request.id, action),
                }
            }
            self.note(What::Stepped { process, now, event, step });
        }
        let mut text = String::new();
        self.processes[process].machine.describe(&mut text);
        let names = self.processes[process].action_names();
        self.processes[process].state = self.server.print(&text, &names);
    }

    fn send(&mut self, process: usize, id: ActionId, action: &Action) {
        let request = self.server.print(&format!("{action:?}"), &BTreeMap::new());
        let part = action.target().and_then(self.setup.small.part);
        let (action, answer) = (Arc::new(action.clone()), Print::default());
        let message = Message { action, outcome: None, part, request, answer };
        self.processes[process].messages.insert(id, message);
    }
}

/// The client of a user.
struct UserClient<'a> {
    world: &'a mut World,
    actor: &'static str,
}

impl Client for UserClient<'_> {
    fn server(&self) -> &ApiServer {
        &self.world.server.model
    }

    fn outside(&mut self) -> Option<(&mut dyn ExternalSystems, Timestamp)> {
        None
    }

    fn send(&mut self, method: Method, path: &str, media_type: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media_type);
        let request = request.header("accept", "application/json").header("user-agent", self.actor);
        let Ok(request) = request.body(body) else { return (400, Value::Null) };
        let response = self.world.request(Author::Client(self.actor), &request);
        (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap_or_default())
    }
}
