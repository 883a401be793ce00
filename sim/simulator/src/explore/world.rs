//! The state of a small world, and what each transition does to it.
//!
//! Transitions take no time. The time advances only when no message is in transit.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use lockstep_apiserver::server::{Actors, ApiServer};
use lockstep_engine::action::ActionId;
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use lockstep_engine::random::Random;
use lockstep_engine::time::{Monotonic, Now, Wall};
use serde_json::Value;

use super::act::Act;
use super::memo::Memo;
use super::print::hash;
use super::process::{Process, WatchEvent};
use super::server::Server;
use super::setup::Setup;
use super::transition::{Place, Transition};
use crate::cluster::{Entry, ExternalSystems, FaultVerdict, What};
use crate::explorable::{Explorable, plant};
use crate::history::History;
use crate::run::{Violation, check};
use crate::subject::{Checker, Client};

#[derive(Clone)]
pub(super) struct World {
    pub(super) setup: Arc<Setup>,
    /// Copies of a world share it until it changes: the delivery of a message changes only a machine.
    pub(super) server: Rc<Server>,
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
    witness: Option<Box<dyn Checker>>,
    /// The results of steps and requests; all worlds of a search share them.
    pub(super) memo: Rc<RefCell<Memo>>,
    /// The entries that are still to be checked.
    fresh: Vec<Entry>,
    /// All entries, if they are kept.
    pub(super) journal: Option<Vec<Entry>>,
}

impl World {
    /// Returns the world with one process that leads and has listed everything. The systems around it have come to rest before.
    pub(super) fn new(setup: Arc<Setup>, faults: Vec<Place>, keep: bool) -> Result<Self, Violation> {
        let mut actors = Actors::default();
        (actors.garbage.delay, actors.namespaces.delay) = (Setup::PACE, Setup::PACE);
        let mut world = Self {
            server: Rc::new(Server::new(setup.server.clone(), actors, (setup.small.outside)())),
            processes: Vec::new(),
            users: vec![0; setup.small.users.len()],
            faults,
            clock: Duration::ZERO,
            disturbed: Duration::ZERO,
            taken: 0,
            history: History::default(),
            witness: setup.subject.witness(),
            memo: Rc::default(),
            fresh: Vec::new(),
            journal: keep.then(Vec::new),
            setup,
        };
        world.settle();
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
        self.history.disturb(at);
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

    /// Returns when something happens next that counts as work in progress, if nothing is in transit.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let (own, act) = self.upcoming();
        act.map(|act| act.at).or(own)
    }

    /// Returns the next deadline of the machines and the control plane, and what a system around them does before.
    fn upcoming(&self) -> (Option<Duration>, Option<Arc<Act>>) {
        let start = self.setup.start;
        let latest = self.disturbed + self.setup.subject.bound();
        let control_plane = self.server.next_due().map(|due| due.duration_since(start));
        let control_plane = control_plane.and_then(|due: SignedDuration| Duration::try_from(due).ok());
        let own = self.processes.iter().filter_map(Process::deadline).chain(control_plane).min();
        let own = own.map(|next| next.max(self.clock)).filter(|next| *next <= latest);
        (own, self.next_act(own.unwrap_or(latest)))
    }

    /// Returns the differences between the actual and the desired state.
    pub(super) fn differences(&self) -> Vec<String> {
        let (server, outside) = (&self.server.model, self.server.outside());
        let world = crate::subject::World { server, outside, now: self.timestamp() };
        self.setup.subject.differences(&world)
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        self.time_at(self.clock)
    }

    /// Returns the time at which the clock of the world shows this duration.
    pub(super) fn time_at(&self, clock: Duration) -> Timestamp {
        self.setup.start.checked_add(clock).unwrap_or(Timestamp::MAX)
    }

    /// Returns the time for the journal. Transitions at the same time are a microsecond apart.
    pub(super) fn at(&self) -> Duration {
        self.clock + Duration::from_micros(self.taken.into())
    }

    pub(super) fn now(&self, process: usize) -> Now {
        let elapsed = self.clock.saturating_sub(self.processes[process].began);
        Now { wall: Wall::from_timestamp(self.timestamp()), monotonic: Monotonic::from_elapsed(elapsed) }
    }

    pub(super) fn note(&mut self, what: What) {
        let at = self.at();
        self.fresh.push(Entry { at, what });
    }

    fn check(&mut self) -> Result<(), Violation> {
        for entry in std::mem::take(&mut self.fresh) {
            let checked = check(self.setup.subject, &self.server.model, &self.history, &entry);
            self.history.absorb(&entry);
            let seen = self.witness.as_mut().map_or(Ok(()), |witness| witness.see(&entry));
            let checked = checked.and(seen.map_err(|testimony| Violation::of(testimony, entry.at)));
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
        let server = Rc::make_mut(&mut self.server);
        if server.print_outside() {
            server.id = hash(&(server.id, "operate", &self.users, self.clock));
        }
    }

    fn answer(&mut self, process: usize, id: ActionId) {
        if let Some((event, answer)) = self.take_answer(process, id) {
            self.deliver(process, event, answer);
        }
    }

    fn deliver_next(&mut self, process: usize, kind: &Arc<Kind>) {
        let watch = self.processes[process].watches.get_mut(kind);
        if let Some(WatchEvent { event, id, .. }) = watch.and_then(|watch| watch.events.pop_front()) {
            self.deliver(process, event, id);
        }
    }

    fn relist(&mut self, process: usize, kind: &Arc<Kind>, lag: u64) {
        for event in self.list(process, kind, lag) {
            let id = hash(&format!("{event:?}"));
            self.deliver(process, event, id);
        }
    }

    /// Lists and starts the watch of a kind. Its undelivered events are lost.
    pub(super) fn list(&mut self, process: usize, kind: &Arc<Kind>, lag: u64) -> Vec<Event> {
        let now = self.timestamp();
        let Some(watch) = self.processes[process].watches.get_mut(kind) else { return Vec::new() };
        let server = Rc::make_mut(&mut self.server);
        server.id = hash(&(server.id, "list", process, &kind.kind, &kind.group, lag, self.clock));
        let listed = watch.stream.begin(&mut server.model, now, lag, None).events;
        // A list of an old state starts its watch at that state.
        watch.events = watch.look(server, now, self.setup.small.part).into();
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
        let seed = self.processes.len() as u64;
        self.processes.push(Process::new(self.machine(seed), hash(&seed), self.clock));
        self.boot(self.processes.len() - 1);
    }

    fn restart(&mut self, process: usize) {
        let seed = process as u64 + 100;
        self.processes[process] = Process::new(self.machine(seed), hash(&seed), self.clock);
        self.boot(process);
    }

    fn boot(&mut self, process: usize) {
        self.processes[process].is_leading = true;
        self.note(What::Started { process });
        self.deliver(process, Event::Started, hash("started"));
        self.deliver(process, Event::LeadershipChanged { leading: true }, hash("leading"));
    }

    /// Stops the leadership of a process. Its requests in transit remain; what it watches has no effect any more.
    fn step_down(&mut self, process: usize) {
        self.processes[process].is_leading = false;
        self.close_watches(process);
        self.deliver(process, Event::LeadershipChanged { leading: false }, hash("not leading"));
    }

    /// Crashes a process. Its other requests never reach the server: if they did, it would be as if they had arrived earlier.
    pub(super) fn crash(&mut self, process: usize) {
        self.close_watches(process);
        let server = Rc::make_mut(&mut self.server);
        if let Some(outside) = server.outside_mut() {
            outside.died(process);
            server.print_outside();
        }
        let it = &mut self.processes[process];
        (it.is_alive, it.is_leading) = (false, false);
        it.messages.clear();
        self.note(What::Died { process });
    }

    fn close_watches(&mut self, process: usize) {
        let server = Rc::make_mut(&mut self.server);
        server.id = hash(&(server.id, "close", process));
        for watch in std::mem::take(&mut self.processes[process].watches).values_mut() {
            watch.stream.close(&mut server.model);
        }
    }

    /// Lets the systems around the controller act until they only wait for others.
    fn settle(&mut self) {
        let latest = self.setup.subject.bound();
        while let Some(act) = self.next_act(latest) {
            self.act(&act);
        }
        self.disturbed = self.clock;
    }

    /// Advances the time to the next deadline, or to what a system around the controller does before it.
    fn advance(&mut self) {
        let (own, act) = self.upcoming();
        if let Some(act) = act {
            return self.act(&act);
        }
        let Some(due) = own else { return };
        self.clock = due;
        let now = self.timestamp();
        let server = Rc::make_mut(&mut self.server);
        server.id = hash(&(server.id, "advance", due));
        let changes = server.tick(now);
        self.changed(changes);
        for process in 0..self.processes.len() {
            if self.processes[process].deadline().is_some_and(|deadline| deadline <= due) {
                self.deliver(process, Event::TimerFired, hash("timer"));
            }
        }
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
        let now = self.world.timestamp();
        Some((Rc::make_mut(&mut self.world.server).outside_mut()?, now))
    }

    fn send(&mut self, method: Method, path: &str, media_type: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media_type);
        let request = request.header("accept", "application/json").header("user-agent", self.actor);
        let Ok(request) = request.body(body) else { return (400, Value::Null) };
        let response = self.world.request(self.actor, &request);
        (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap_or_default())
    }
}
