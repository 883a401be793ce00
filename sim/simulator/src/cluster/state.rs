//! The state of a cluster: its clock, its processes, its journal and the messages in transit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lockstep_apiserver::server::{Actors, ApiServer, Options};
use lockstep_engine::action::{Action, ActionId, Outcome, Request};
use lockstep_engine::machine::{Event, Note};
use lockstep_engine::object::Kind;
use lockstep_engine::time::{Monotonic, Now, Wall};

use super::external_systems::ExternalSystems;
use super::faults::{FaultModel, FaultVerdict, Interference, NoFaults, Transit};
use super::journal::{Carried, Entry, What};
use super::process::Process;

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
    pub(super) unwatchable: BTreeSet<Kind>,
    pub(super) processes: Vec<Process>,
    pub(super) under_way: BTreeMap<(Duration, u64), Arrival>,
    /// Counts messages in transit: of two with the same time of arrival, the one sent first arrives first.
    pub(super) sent: u64,
    pub(super) carried: u64,
    /// Time of the next tick of the actors.
    pub(super) tick_at: Option<Duration>,
    pub(super) start: Timestamp,
    pub(super) clock: Duration,
}

/// A message that arrives at the server or at a process.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A request arrives at the server.
    Request { process: usize, incarnation: u32, request: Request },
    /// An answer arrives at the process.
    Answer { process: usize, incarnation: u32, id: ActionId, outcome: Outcome },
    /// A watch event arrives at the process.
    Seen { process: usize, incarnation: u32, stream: u64, event: Event },
    /// It is time to list for a watch.
    List { process: usize, incarnation: u32, kind: Arc<Kind>, stream: u64 },
    /// It is time for a process to restart.
    Start { process: usize, incarnation: u32 },
}

impl Arrival {
    /// Returns the process that must run to receive it.
    pub(super) fn meant_for(&self) -> Option<usize> {
        match self {
            Self::Answer { process, .. } | Self::Seen { process, .. } | Self::List { process, .. } => {
                Some(*process)
            }
            Self::Request { .. } | Self::Start { .. } => None,
        }
    }
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

    /// Pauses a process, as on an overloaded machine: it is alive, but receives nothing.
    pub fn pause(&mut self, process: usize, by: Duration) {
        let until = self.clock + by;
        let paused = &mut self.processes[process].paused_until;
        *paused = until.max(*paused);
    }

    /// Resumes a paused process. It receives what has waited, in order, before anything that comes later.
    pub fn resume(&mut self, process: usize) {
        let it = &mut self.processes[process];
        it.paused_until = self.clock;
        let deferred = std::mem::take(&mut it.deferred);
        let waits = self.under_way.extract_if(.., |(_, number), _| deferred.contains(number));
        let waits: Vec<_> = waits.map(|((_, number), arrival)| ((self.clock, number), arrival)).collect();
        self.under_way.extend(waits);
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

    /// Returns the clocks of a process.
    pub(super) fn now(&self, process: usize) -> Now {
        let process = &self.processes[process];
        let elapsed = self.clock.saturating_sub(process.began);
        let wall = self.timestamp().as_millisecond().saturating_add(process.skew_ms);
        let wall = Timestamp::from_millisecond(wall).unwrap_or(Timestamp::MAX);
        Now { wall: Wall::from_timestamp(wall), monotonic: Monotonic::from_elapsed(elapsed) }
    }

    /// Returns whether a process is running its incarnation with this number.
    pub(super) fn is_running(&self, process: usize, incarnation: u32) -> bool {
        let it = &self.processes[process];
        it.alive && it.incarnation == incarnation
    }

    /// Returns how long a message of a process is in transit.
    pub(super) fn delay(&mut self, process: usize, hop: Transit<'_>) -> Duration {
        if self.processes[process].is_foreign() {
            return Duration::ZERO;
        }
        self.weather.delay(self.clock, process, hop)
    }

    /// Sends a message that arrives after the delay.
    pub(super) fn send(&mut self, delay: Duration, arrival: Arrival) {
        self.send_at(self.clock + delay, arrival);
    }

    /// Sends a message that arrives at that time.
    pub(super) fn send_at(&mut self, at: Duration, arrival: Arrival) {
        self.under_way.insert((at, self.sent), arrival);
        self.sent += 1;
    }

    /// Adds an entry to the journal.
    pub(super) fn note(&mut self, what: What) {
        self.journal.push(Entry { at: self.clock, what });
    }
}
