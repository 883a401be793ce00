//! A whole cluster in one place under virtual time: the API server model, its actors, and processes that run machines.
//!
//! Everything that is under way (requests, answers, what watches have seen) lies in one queue by the time at which it
//! arrives; the clock jumps from one arrival or deadline to the next. Everything follows from the inputs, so the same
//! calls give the same run. What goes wrong, and how long things take, is decided by a [`Weather`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use lockstep_core::engine::action::{Action, ActionId, Class, Failure, Outcome, Request, Scope, Success};
use lockstep_core::engine::machine::{Event, Note};
use lockstep_core::engine::wire;
use lockstep_core::object::Kind;
use lockstep_core::time::{Monotonic, Now, Wall};

use crate::apiserver::{Actors, ApiServer, Options, Response};

mod journal;
mod process;
mod stream;
mod weather;

pub use self::journal::{Author, Carried, Change, Entry, What};
pub use self::process::Program;
pub use self::weather::{Calm, Fate, Hop, Interference, Weather};

use self::process::Process;
use self::stream::{Sight, Stream};

/// Why a cluster did not come to rest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("after {steps} steps and {elapsed:?} the cluster still is not at rest")]
pub struct Restless {
    /// Steps taken.
    pub steps: u64,
    /// Virtual time passed.
    pub elapsed: Duration,
}

/// The cluster.
pub struct Cluster<W: Weather = Box<dyn Weather>> {
    /// The API server.
    pub server: ApiServer,
    /// The rest of the control plane.
    pub actors: Actors,
    /// What happened, in order, since it was last taken away.
    pub journal: Vec<Entry>,
    /// What goes wrong.
    pub weather: W,
    processes: Vec<Process>,
    under_way: BTreeMap<(Duration, u64), Arrival>,
    /// Numbers what is sent on its way: of two that arrive at the same time, the one that was sent first comes first.
    sent: u64,
    carried: u64,
    /// When the actors look again.
    tick_at: Option<Duration>,
    start: Timestamp,
    clock: Duration,
}

/// Something that arrives somewhere.
#[derive(Debug)]
enum Arrival {
    /// A request, at the server.
    Request { process: usize, life: u32, request: Request },
    /// An answer, at the process.
    Answer { process: usize, life: u32, id: ActionId, outcome: Outcome },
    /// What a watch has seen, at the process.
    Seen { process: usize, life: u32, stream: u64, event: Event },
    /// The time to list for a watch.
    List { process: usize, life: u32, kind: Arc<Kind>, stream: u64 },
    /// The time for a process to begin anew.
    Start { process: usize, life: u32 },
}

impl Cluster {
    /// A cluster without processes, in which nothing goes wrong.
    pub fn new(seed: u64) -> Self {
        Self::with_weather(seed, Box::new(Calm))
    }

    /// Lets things go wrong from now on.
    pub fn interfere(&mut self, fate: impl FnMut(u64, &Action) -> Fate + 'static) {
        self.weather = Box::new(Interference(fate));
        self.carried = 0;
    }
}

impl<W: Weather> Cluster<W> {
    /// A cluster without processes.
    pub fn with_weather(seed: u64, weather: W) -> Self {
        let start = Timestamp::from_second(1_700_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
        Self::around(ApiServer::new(&Options { seed, start, ..Options::default() }), start, weather)
    }

    /// A cluster without processes around a server whose time is `start`.
    pub fn around(server: ApiServer, start: Timestamp, weather: W) -> Self {
        Self {
            server,
            actors: Actors::default(),
            journal: Vec::new(),
            weather,
            processes: Vec::new(),
            under_way: BTreeMap::new(),
            sent: 0,
            carried: 0,
            tick_at: Some(Duration::ZERO),
            start,
            clock: Duration::ZERO,
        }
    }

    /// Starts a process that runs a program, leading or not, and returns its number. After a crash it starts anew.
    pub fn start(&mut self, program: impl Program + 'static, leading: bool) -> usize {
        let process = self.processes.len();
        self.processes.push(Process::new(Box::new(program), leading, self.clock));
        self.boot(process);
        process
    }

    /// Kills a process; it begins anew after the delay, or never.
    pub fn crash(&mut self, process: usize, restart_after: Option<Duration>) {
        let it = &mut self.processes[process];
        if !it.alive {
            return;
        }
        it.alive = false;
        it.life += 1;
        for stream in std::mem::take(&mut it.streams).values_mut() {
            stream.close(&mut self.server);
        }
        let life = it.life;
        let mine = |arrival: &Arrival| matches!(arrival, Arrival::Request { process: whose, .. } if *whose == process);
        let sent: Vec<_> = self.under_way.extract_if(.., |_, arrival| mine(arrival)).collect();
        for (_, arrival) in sent {
            // What has left the process reaches the server at once or never.
            if matches!(&arrival, Arrival::Request { request, .. } if self.weather.outlives(&request.action))
            {
                self.send(Duration::ZERO, arrival);
            }
        }
        self.note(What::Died { process });
        if let Some(delay) = restart_after {
            self.send(delay, Arrival::Start { process, life });
        }
    }

    /// Lets a process lead, or no longer.
    pub fn lead(&mut self, process: usize, leading: bool) {
        let changed = std::mem::replace(&mut self.processes[process].leading, leading) != leading;
        if changed && self.processes[process].alive {
            self.deliver(process, Event::LeadershipChanged { leading });
        }
    }

    /// Stops a process for a while, as an overloaded machine does: it lives, but nothing reaches it.
    pub fn pause(&mut self, process: usize, by: Duration) {
        let until = self.clock + by;
        let paused = &mut self.processes[process].paused_until;
        *paused = until.max(*paused);
    }

    /// Lets a paused process go on.
    pub fn resume(&mut self, process: usize) {
        self.processes[process].paused_until = self.clock;
    }

    /// Moves the wall clock of a process, and it alone.
    pub fn skew(&mut self, process: usize, by_ms: i64) {
        self.processes[process].skew_ms += by_ms;
    }

    /// Cuts the watches of a process, of one kind or of all: what they had under way is lost, and they list anew.
    pub fn cut_watches(&mut self, process: usize, kind: Option<&Kind>) {
        let it = &mut self.processes[process];
        let mut lists = Vec::new();
        for (watched, stream) in &mut it.streams {
            if kind.is_none_or(|kind| *kind == **watched) {
                stream.close(&mut self.server);
                stream.id = self.sent;
                self.sent += 1;
                lists.push((Arc::clone(watched), stream.id));
            }
        }
        let life = it.life;
        for (kind, stream) in lists {
            self.send(Duration::ZERO, Arrival::List { process, life, kind, stream });
        }
    }

    /// The requests in the journal, with the times at which they reached the server or would have.
    pub fn carried(&self) -> impl Iterator<Item = (Duration, &Carried)> {
        self.journal.iter().filter_map(|entry| match &entry.what {
            What::Carried(carried) => Some((entry.at, carried)),
            _ => None,
        })
    }

    /// What machines told, as far as the journal goes back.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        self.journal.iter().flat_map(|entry| match &entry.what {
            What::Stepped { step, .. } => step.notes.as_slice(),
            _ => &[],
        })
    }

    /// The number of processes, those that died included.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Whether a process lives.
    pub fn is_alive(&self, process: usize) -> bool {
        self.processes[process].alive
    }

    /// Whether a process leads, now or as soon as it lives.
    pub fn is_leading(&self, process: usize) -> bool {
        self.processes[process].leading
    }

    /// The kinds that a process watches.
    pub fn watched(&self, process: usize) -> Vec<Arc<Kind>> {
        self.processes[process].streams.keys().cloned().collect()
    }

    /// The requests that are under way to the server, in the order of their arrival.
    pub fn requests_under_way(&self) -> impl Iterator<Item = (usize, &Action)> {
        self.under_way.values().filter_map(|arrival| match arrival {
            Arrival::Request { process, request, .. } => Some((*process, &request.action)),
            _ => None,
        })
    }

    /// The time that has passed.
    pub fn elapsed(&self) -> Duration {
        self.clock
    }

    /// The API server's time.
    pub fn timestamp(&self) -> Timestamp {
        self.start.checked_add(self.clock).unwrap_or(Timestamp::MAX)
    }

    /// Sends a request as a user would. The answer to a watch is its head.
    pub fn request(&mut self, request: &http::Request<Bytes>) -> http::Response<Bytes> {
        self.request_as(Author::Client("user"), request)
    }

    /// Sends a request.
    pub fn request_as(&mut self, author: Author, request: &http::Request<Bytes>) -> http::Response<Bytes> {
        let (now, before) = (self.timestamp(), self.server.revision());
        let response = match self.server.handle(request, now) {
            Response::Complete(response) => response,
            Response::Watch(head, id) => {
                self.server.cancel_watch(id);
                head.map(|()| Bytes::new())
            }
        };
        self.changed(author, before);
        response
    }

    /// Runs until nothing is left to do, or gives up after `steps_max` steps.
    ///
    /// Resyncs don't count as something to do; [`Cluster::advance`] brings them about.
    pub fn settle(&mut self, steps_max: u64) -> Result<u64, Restless> {
        let (began, mut steps) = (self.clock, 0);
        while let Some((at, next)) = self.next(false) {
            if steps >= steps_max {
                return Err(Restless { steps, elapsed: self.clock.saturating_sub(began) });
            }
            self.take(at, next);
            steps += 1;
        }
        Ok(steps)
    }

    /// Lets time pass, resyncs included.
    pub fn advance(&mut self, by: Duration) {
        let end = self.clock + by;
        while self.step(end) {}
        self.clock = end;
    }

    /// Does the next thing that is due by then, if there is one.
    pub fn step(&mut self, until: Duration) -> bool {
        match self.next(true) {
            Some((at, next)) if at <= until => {
                self.take(at, next);
                true
            }
            _ => false,
        }
    }

    fn next(&self, resyncs: bool) -> Option<(Duration, Next)> {
        let arrival = self.under_way.first_key_value().map(|((at, _), _)| (*at, Next::Arrival));
        let wake = self
            .processes
            .iter()
            .enumerate()
            .filter_map(|(index, process)| Some((process.deadline(resyncs)?, Next::Wake(index))));
        let tick = self.tick_at.map(|at| (at, Next::Tick));
        // Of what is due at the same time, arrivals come first and the control plane comes last.
        let all = arrival.into_iter().chain(wake).chain(tick);
        all.map(|(at, next)| (at.max(self.clock), next)).min_by_key(|(at, next)| (*at, *next))
    }

    fn take(&mut self, at: Duration, next: Next) {
        self.clock = at;
        match next {
            Next::Arrival => {
                if let Some((key, arrival)) = self.under_way.pop_first() {
                    self.arrive(key.1, arrival);
                }
            }
            Next::Wake(process) => self.deliver(process, Event::Woke),
            Next::Tick => {
                let (now, before) = (self.timestamp(), self.server.revision());
                self.actors.tick(&mut self.server, now);
                let due = self.actors.next_due().map(|due| due.duration_since(self.start));
                let due = due.and_then(|due: SignedDuration| Duration::try_from(due).ok());
                self.tick_at = due;
                self.changed(Author::ControlPlane, before);
            }
        }
    }

    fn arrive(&mut self, number: u64, arrival: Arrival) {
        // What is meant for a process that does not run waits for it, in its order.
        if let Some(process) = arrival.meant_for() {
            let until = self.processes[process].paused_until;
            if until > self.clock {
                self.under_way.insert((until, number), arrival);
                return;
            }
        }
        match arrival {
            Arrival::Request { process, life, request } => self.carry_out(process, life, request),
            Arrival::Answer { process, life, id, outcome } if self.lives(process, life) => {
                self.deliver(process, Event::Finished { id, outcome });
            }
            Arrival::Seen { process, life, stream, event } if self.lives(process, life) => {
                let current = self.processes[process].streams.values().any(|open| open.id == stream);
                if current {
                    self.deliver(process, event);
                }
            }
            Arrival::List { process, life, kind, stream } if self.lives(process, life) => {
                self.list(process, &kind, stream);
            }
            Arrival::Start { process, life } if self.processes[process].life == life => {
                let it = &mut self.processes[process];
                it.machine = it.program.machine();
                self.boot(process);
            }
            Arrival::Answer { .. } | Arrival::Seen { .. } | Arrival::List { .. } | Arrival::Start { .. } => {}
        }
    }

    fn lives(&self, process: usize, life: u32) -> bool {
        let it = &self.processes[process];
        it.alive && it.life == life
    }

    fn send(&mut self, delay: Duration, arrival: Arrival) {
        self.send_at(self.clock + delay, arrival);
    }

    fn send_at(&mut self, at: Duration, arrival: Arrival) {
        self.under_way.insert((at, self.sent), arrival);
        self.sent += 1;
    }

    fn note(&mut self, what: What) {
        self.journal.push(Entry { at: self.clock, what });
    }

    fn now(&self, process: usize) -> Now {
        let process = &self.processes[process];
        let elapsed = self.clock.saturating_sub(process.began);
        let wall = self.timestamp().as_millisecond().saturating_add(process.skew_ms);
        let wall = Timestamp::from_millisecond(wall).unwrap_or(Timestamp::MAX);
        Now { wall: Wall::from_timestamp(wall), monotonic: Monotonic::from_elapsed(elapsed) }
    }

    fn boot(&mut self, process: usize) {
        let it = &mut self.processes[process];
        it.alive = true;
        it.began = self.clock;
        it.paused_until = self.clock;
        let leading = it.leading;
        self.note(What::Started { process });
        self.deliver(process, Event::Started);
        if leading {
            self.deliver(process, Event::LeadershipChanged { leading });
        }
    }

    fn deliver(&mut self, process: usize, event: Event) {
        let now = self.now(process);
        let it = &mut self.processes[process];
        let life = it.life;
        let step = it.machine.step(event.clone(), now);
        for request in step.requests.iter().cloned() {
            let delay = match &request.action {
                // These ask the process itself, which asks the server.
                Action::Watch { .. } | Action::Unwatch { .. } => Duration::ZERO,
                action => self.weather.delay(self.clock, process, Hop::Request(action)),
            };
            self.send(delay, Arrival::Request { process, life, request });
        }
        self.note(What::Stepped { process, now, event, step });
    }

    /// The server has changed: tells the journal and the watches, and wakes the actors.
    fn changed(&mut self, by: Author, before: u64) {
        if self.server.revision() == before {
            return;
        }
        for changed in self.server.changes_since(before) {
            let change = Change { by, object: changed.object, old: changed.old, new: changed.new };
            self.note(What::Changed(change));
        }
        self.tick_at = Some(self.clock);
        self.look();
    }

    /// Sends what watches have seen on its way.
    fn look(&mut self) {
        let now = self.timestamp();
        for process in 0..self.processes.len() {
            let mut sights = Vec::new();
            for stream in self.processes[process].streams.values_mut() {
                let sight = stream.look(&mut self.server, now);
                if sight.over || !sight.events.is_empty() {
                    sights.push((Arc::clone(&stream.kind), sight));
                }
            }
            for (kind, sight) in sights {
                self.show(process, &kind, sight, Duration::ZERO);
            }
        }
    }

    fn list(&mut self, process: usize, kind: &Arc<Kind>, id: u64) {
        let now = self.timestamp();
        let lag = self.weather.list_lag(self.clock, process, kind);
        let Some(stream) = self.processes[process].streams.get_mut(kind) else { return };
        if stream.id != id {
            return;
        }
        let sight = stream.list(&mut self.server, now, lag);
        self.show(process, kind, sight, stream::RETRY);
        // Who lists from the past watches from the past: what came after is told at once.
        self.look();
    }

    fn show(&mut self, process: usize, kind: &Arc<Kind>, sight: Sight, retry: Duration) {
        let life = self.processes[process].life;
        let delay = self.weather.delay(self.clock, process, Hop::Watch(kind));
        let Some(stream) = self.processes[process].streams.get_mut(kind) else { return };
        let at = stream.last_arrival.max(self.clock + delay);
        stream.last_arrival = at;
        let stream = stream.id;
        for event in sight.events {
            let is_change = matches!(event, Event::Observed { .. } | Event::Vanished { .. });
            let twice = is_change && self.weather.repeats(self.clock, process, kind);
            self.send_at(at, Arrival::Seen { process, life, stream, event: event.clone() });
            if twice {
                self.send_at(at, Arrival::Seen { process, life, stream, event });
            }
        }
        if sight.over {
            let kind = Arc::clone(kind);
            self.send_at(at + retry, Arrival::List { process, life, kind, stream });
        }
    }

    fn carry_out(&mut self, process: usize, life: u32, request: Request) {
        let Request { id, action } = request;
        let lives = self.lives(process, life);
        match action {
            Action::Watch { .. } | Action::Unwatch { .. } if !lives => {}
            Action::Watch { kind, scope } => {
                self.watch(process, &kind, scope);
                self.deliver(process, Event::Finished { id, outcome: Ok(Success::Done) });
            }
            Action::Unwatch { kind } => {
                if let Some(mut stream) = self.processes[process].streams.remove(&kind) {
                    stream.close(&mut self.server);
                }
                self.deliver(process, Event::Finished { id, outcome: Ok(Success::Done) });
            }
            action => self.serve_as_fated(process, life, id, &action),
        }
    }

    fn watch(&mut self, process: usize, kind: &Arc<Kind>, scope: Scope) {
        let (id, life) = (self.sent, self.processes[process].life);
        let stream = Stream::new(Arc::clone(kind), scope, id);
        let before = self.processes[process].streams.insert(Arc::clone(kind), stream);
        if let Some(mut before) = before {
            before.close(&mut self.server);
        }
        self.send(Duration::ZERO, Arrival::List { process, life, kind: Arc::clone(kind), stream: id });
    }

    fn serve_as_fated(&mut self, process: usize, life: u32, id: ActionId, action: &Action) {
        let lives = self.lives(process, life);
        // Nobody is left whom anything could befall.
        let fate =
            if lives { self.weather.fate(self.carried, self.clock, process, action) } else { Fate::Served };
        self.carried += 1;
        let outcome = match &fate {
            Fate::Served | Fate::AnswerLost | Fate::CrashedAfter => self.serve(process, action),
            Fate::Failed(failure) => Err(failure.clone()),
            Fate::CrashedBefore => Err(Failure::new(Class::Unknown, "no answer in time")),
        };
        let failed = outcome.as_ref().err().map(|failure| failure.class);
        let carried = Carried { process, id, action: action.clone(), fate: fate.clone(), failed };
        self.note(What::Carried(carried));
        let outcome = match fate {
            Fate::Served | Fate::Failed(_) => outcome,
            Fate::AnswerLost => Err(Failure::new(Class::Unknown, "the answer was lost")),
            Fate::CrashedBefore | Fate::CrashedAfter => {
                let delay = self.weather.delay(self.clock, process, Hop::Restart);
                self.crash(process, Some(delay));
                return;
            }
        };
        if lives {
            let delay = self.weather.delay(self.clock, process, Hop::Answer(action));
            self.send(delay, Arrival::Answer { process, life, id, outcome });
        }
    }

    fn serve(&mut self, process: usize, action: &Action) -> Outcome {
        let it = &self.processes[process];
        let manager = wire::field_manager(it.machine.name());
        let request = it.program.encode(action, &manager)?.map(Bytes::from);
        let response = self.request_as(Author::Process(process), &request);
        let retry_after = response.headers().get(http::header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        wire::decode(action, response.status(), retry_after, response.body())
    }
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Arrival,
    Wake(usize),
    Tick,
}

impl Arrival {
    /// The process that must run to take it.
    fn meant_for(&self) -> Option<usize> {
        match self {
            Self::Answer { process, .. } | Self::Seen { process, .. } | Self::List { process, .. } => {
                Some(*process)
            }
            Self::Request { .. } | Self::Start { .. } => None,
        }
    }
}
