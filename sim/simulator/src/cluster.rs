//! Simulates a whole cluster in virtual time: the API server model, its actors, and processes that run machines.
//!
//! One queue holds everything in transit (requests, answers and watch events), ordered by time of arrival. The clock jumps from
//! one arrival or deadline to the next. The inputs determine everything, so the same calls give the same run. A [`FaultModel`]
//! decides which faults are injected and how long each step takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use lockstep_apiserver::server::{Actors, ApiServer, Options, Response};
use lockstep_engine::action::Action;
use lockstep_engine::machine::{Event, Machine, Note};
use lockstep_engine::object::Kind;

mod engine;
mod external_systems;
mod faults;
mod journal;
mod process;
mod stream;

pub use self::external_systems::ExternalSystems;
pub use self::faults::{FaultModel, FaultVerdict, Interference, NoFaults, Transit};
pub use self::journal::{Author, Carried, Change, Entry, What};
pub use self::process::Program;

use self::engine::Arrival;
use self::process::Process;

/// Describes why a cluster did not become idle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("after {steps} steps and {elapsed:?} the cluster still is not at rest")]
pub struct Restless {
    /// Steps taken.
    pub steps: u64,
    /// Virtual time that has passed.
    pub elapsed: Duration,
}

/// A simulated cluster.
pub struct Cluster<W: FaultModel = Box<dyn FaultModel>> {
    /// The API server.
    pub server: ApiServer,
    /// The rest of the control plane.
    pub actors: Actors,
    /// The events so far, in order, since the journal was last taken.
    pub journal: Vec<Entry>,
    /// The fault model.
    pub weather: W,
    /// The systems outside Kubernetes, if the controller uses any.
    pub outside: Option<Box<dyn ExternalSystems>>,
    /// Kinds that the processes of the controller may not list and watch.
    unwatchable: BTreeSet<Kind>,
    processes: Vec<Process>,
    under_way: BTreeMap<(Duration, u64), Arrival>,
    /// Counts messages in transit: of two with the same time of arrival, the one sent first arrives first.
    sent: u64,
    carried: u64,
    /// Time of the next tick of the actors.
    tick_at: Option<Duration>,
    start: Timestamp,
    clock: Duration,
}

impl Cluster {
    /// Returns a cluster without processes and without faults.
    pub fn new(seed: u64) -> Self {
        Self::with_weather(seed, Box::new(NoFaults))
    }

    /// Injects faults from now on, as `fate` decides.
    pub fn interfere(&mut self, fate: impl FnMut(u64, &Action) -> FaultVerdict + 'static) {
        self.weather = Box::new(Interference(fate));
        self.carried = 0;
    }
}

impl<W: FaultModel> Cluster<W> {
    /// Returns a cluster without processes.
    pub fn with_weather(seed: u64, weather: W) -> Self {
        let start = Timestamp::from_second(1_700_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
        Self::around(ApiServer::new(&Options { seed, start, ..Options::default() }), start, weather)
    }

    /// Returns a cluster without processes around an existing server; its time is `start`.
    pub fn around(server: ApiServer, start: Timestamp, weather: W) -> Self {
        Self {
            server,
            actors: Actors::default(),
            journal: Vec::new(),
            weather,
            outside: None,
            unwatchable: BTreeSet::new(),
            processes: Vec::new(),
            under_way: BTreeMap::new(),
            sent: 0,
            carried: 0,
            tick_at: Some(Duration::ZERO),
            start,
            clock: Duration::ZERO,
        }
    }

    /// Starts a process that runs a program, leading or not, and returns its number. The process restarts after a crash.
    pub fn start(&mut self, program: impl Program + 'static, leading: bool) -> usize {
        let process = self.processes.len();
        let machine = program.machine();
        self.processes.push(Process::new(machine, Some(Box::new(program)), leading, self.clock));
        self.boot(process);
        process
    }

    /// Starts a controller that is not under test and returns the number of its process. Its requests have no faults and take no
    /// time. The journal has only the changes that it makes, with its name as the client.
    pub fn start_foreign(&mut self, machine: Box<dyn Machine>) -> usize {
        let process = self.processes.len();
        self.processes.push(Process::new(machine, None, true, self.clock));
        self.boot(process);
        process
    }

    /// Crashes a process. It restarts after the delay, or never.
    pub fn crash(&mut self, process: usize, restart_after: Option<Duration>) {
        let it = &mut self.processes[process];
        if !it.alive || it.is_foreign() {
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
            // A request that has left the process reaches the server immediately or never.
            if matches!(&arrival, Arrival::Request { request, .. } if self.weather.outlives(&request.action))
            {
                self.send(Duration::ZERO, arrival);
            }
        }
        if let Some(outside) = &mut self.outside {
            outside.died(process);
        }
        self.note(What::Died { process });
        if let Some(delay) = restart_after {
            self.send(delay, Arrival::Start { process, life });
        }
    }

    /// Gives leadership to a process, or takes it away.
    pub fn lead(&mut self, process: usize, leading: bool) {
        let changed = std::mem::replace(&mut self.processes[process].leading, leading) != leading;
        if changed && self.processes[process].alive {
            self.deliver(process, Event::LeadershipChanged { leading });
        }
    }

    /// Pauses a process, as on an overloaded machine: it is alive, but receives nothing.
    pub fn pause(&mut self, process: usize, by: Duration) {
        let until = self.clock + by;
        let paused = &mut self.processes[process].paused_until;
        *paused = until.max(*paused);
    }

    /// Resumes a paused process.
    pub fn resume(&mut self, process: usize) {
        self.processes[process].paused_until = self.clock;
    }

    /// Corrects the wall clocks of all processes.
    pub fn set_clocks(&mut self) {
        for process in &mut self.processes {
            process.skew_ms = 0;
        }
    }

    /// Shifts the wall clock of one process.
    pub fn skew(&mut self, process: usize, by_ms: i64) {
        self.processes[process].skew_ms += by_ms;
    }

    /// Cuts the watches of a process, of one kind or of all kinds. Their events in transit are lost, and the watches list again.
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

    /// Revokes or restores the permission to list and watch a kind, for all processes of the controller. Open watches break off,
    /// and refused ones are retried.
    pub fn permit_watches(&mut self, kind: &Kind, permitted: bool) {
        if permitted {
            self.unwatchable.remove(kind);
            return;
        }
        self.unwatchable.insert(kind.clone());
        for process in 0..self.processes.len() {
            if !self.processes[process].is_foreign() {
                self.cut_watches(process, Some(kind));
            }
        }
    }

    /// Returns the requests in the journal, each with the time at which it reached the server or would have reached it.
    pub fn carried(&self) -> impl Iterator<Item = (Duration, &Carried)> {
        self.journal.iter().filter_map(|entry| match &entry.what {
            What::Carried(carried) => Some((entry.at, carried)),
            _ => None,
        })
    }

    /// Returns the notes of machines, as far as the journal goes back.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        self.journal.iter().flat_map(|entry| match &entry.what {
            What::Stepped { step, .. } => step.notes.as_slice(),
            _ => &[],
        })
    }

    /// Returns the number of processes, including crashed and foreign ones.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Returns the virtual time that has passed.
    pub fn elapsed(&self) -> Duration {
        self.clock
    }

    /// Returns the API server's time.
    pub fn timestamp(&self) -> Timestamp {
        self.start.checked_add(self.clock).unwrap_or(Timestamp::MAX)
    }

    /// Sends a request as a user would. The answer to a watch is its response head.
    pub fn request(&mut self, request: &http::Request<Bytes>) -> http::Response<Bytes> {
        self.request_as(Author::Client("user"), request)
    }

    /// Sends a request in the name of `author`.
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

    /// Runs until the cluster is idle, or gives up after `steps_max` steps.
    ///
    /// Resyncs do not count as work; [`Cluster::advance`] runs them.
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

    /// Advances the time, including resyncs.
    pub fn advance(&mut self, by: Duration) {
        let end = self.clock + by;
        while self.step(end) {}
        self.clock = end;
    }

    /// Processes the next due item up to that time, if there is one.
    pub fn step(&mut self, until: Duration) -> bool {
        match self.next(true) {
            Some((at, next)) if at <= until => {
                self.take(at, next);
                true
            }
            _ => false,
        }
    }
}
