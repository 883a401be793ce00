//! A whole cluster in one place under virtual time: the API server model, its actors, and processes that run machines.
//!
//! Nothing waits: when nothing is left to do now, the clock jumps to the next thing that is due. Everything follows from
//! the inputs, so the same calls give the same run. What may go wrong is decided by an [`Interference`].

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use lockstep_core::engine::action::{Action, Class, Failure, Outcome, Request, Success};
use lockstep_core::engine::machine::{Event, Machine, Note, Step};
use lockstep_core::engine::wire;
use lockstep_core::time::{Monotonic, Now, Wall};

use crate::apiserver::{Actors, ApiServer, Options, Response};

mod process;

use process::Process;

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out and answered.
    Served,
    /// It is not carried out; the answer is this failure.
    Failed(Class),
    /// It is carried out; the answer is lost ([`Class::Unknown`]).
    AnswerLost,
    /// The process dies before it is carried out.
    CrashedBefore,
    /// The process dies after it was carried out, before the answer.
    CrashedAfter,
}

/// Decides the fate of each request; the number counts the requests of the cluster from zero.
pub type Interference = Box<dyn FnMut(u64, &Action) -> Fate>;

/// One request that was carried out, or would have been.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// When, since the beginning.
    pub at: Duration,
    /// What.
    pub action: Action,
    /// What became of it.
    pub fate: Fate,
    /// The class of the failure that was answered, if one was.
    pub failed: Option<Class>,
}

/// Everything that went into a machine and came out of it, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// The inputs with what each gave out.
    pub steps: Vec<(Now, Event, Step)>,
}

impl Recording {
    /// Feeds the inputs to a new machine and returns the number of the first step that gives out anything else.
    pub fn replay(&self, machine: &mut dyn Machine) -> Result<(), usize> {
        for (number, (now, event, step)) in self.steps.iter().enumerate() {
            if machine.step(event.clone(), *now) != *step {
                return Err(number);
            }
        }
        Ok(())
    }
}

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
pub struct Cluster {
    /// The API server.
    pub server: ApiServer,
    /// What its processes asked for, in order.
    pub carried: Vec<Carried>,
    /// What the machines told, in order.
    pub notes: Vec<Note>,
    actors: Actors,
    processes: Vec<Process>,
    start: Timestamp,
    clock: Duration,
    /// How far the wall clock is off, in milliseconds.
    skew_ms: i64,
    interference: Interference,
}

/// How long nothing may happen before the cluster counts as at rest; longer than any actor's delay.
const REST: Duration = Duration::from_secs(30);
/// How far the clock jumps when nothing is due.
const PAUSE: Duration = Duration::from_millis(500);

impl Cluster {
    /// A cluster without processes, in which nothing goes wrong.
    pub fn new(seed: u64) -> Self {
        let start = Timestamp::from_second(1_700_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
        Self {
            server: ApiServer::new(&Options { seed, start, ..Options::default() }),
            carried: Vec::new(),
            notes: Vec::new(),
            actors: Actors::default(),
            processes: Vec::new(),
            start,
            clock: Duration::ZERO,
            skew_ms: 0,
            interference: Box::new(|_, _| Fate::Served),
        }
    }

    /// Starts a process that leads at once and runs the machine that `make` makes; after a crash it starts anew.
    pub fn start(&mut self, make: impl Fn() -> Box<dyn Machine> + 'static) {
        let process = Process::new(Box::new(make), self.clock);
        self.processes.push(process);
        self.boot(self.processes.len() - 1);
    }

    /// Lets things go wrong from now on.
    pub fn interfere(&mut self, interference: Interference) {
        self.interference = interference;
    }

    /// Moves the wall clock, and it alone.
    pub fn skew(&mut self, by_ms: i64) {
        self.skew_ms += by_ms;
    }

    /// The time that has passed.
    pub fn elapsed(&self) -> Duration {
        self.clock
    }

    /// The API server's time.
    pub fn timestamp(&self) -> Timestamp {
        self.start.checked_add(self.clock).unwrap_or(Timestamp::MAX)
    }

    /// What went into the first process's machine since it last started, and what came out.
    pub fn recording(&self) -> Recording {
        self.processes.first().map(|process| process.recording.clone()).unwrap_or_default()
    }

    /// Sends a request as a user would. A body that is no object is an empty body.
    pub fn request(&mut self, request: &http::Request<Bytes>) -> http::Response<Bytes> {
        let now = self.timestamp();
        match self.server.handle(request, now) {
            Response::Complete(response) => response,
            Response::Watch(head, id) => {
                self.server.cancel_watch(id);
                head.map(|()| Bytes::new())
            }
        }
    }

    /// Runs until nothing happens any more, or gives up after `steps_max` steps.
    ///
    /// Resyncs don't count as something that happens; [`Cluster::advance`] brings them about.
    pub fn settle(&mut self, steps_max: u64) -> Result<u64, Restless> {
        let (began, mut steps, mut idle_since) = (self.clock, 0, self.clock);
        loop {
            if self.step() {
                steps += 1;
                idle_since = self.clock;
                if steps >= steps_max {
                    return Err(Restless { steps, elapsed: self.clock.saturating_sub(began) });
                }
                continue;
            }
            match self.next_deadline() {
                Some(at) if at <= self.clock => self.wake(),
                due => {
                    let rested = self.clock.saturating_sub(idle_since) >= REST;
                    match due {
                        None if rested => return Ok(steps),
                        None => self.clock += PAUSE,
                        Some(at) => {
                            self.clock = at.min(self.clock + PAUSE);
                            // Something is planned: the cluster is not at rest before it has been done.
                            idle_since = idle_since.max(self.clock.saturating_sub(REST / 2));
                        }
                    }
                }
            }
        }
    }

    /// Lets time pass, resyncs included.
    pub fn advance(&mut self, by: Duration) {
        let end = self.clock + by;
        while self.clock < end {
            while self.step() {}
            self.clock = (self.clock + PAUSE).min(end);
            self.wake();
        }
        while self.step() {}
    }

    /// Does the next thing that can be done now: deliver what watches have seen, carry out a request, let the actors act.
    /// Returns false if there is nothing.
    pub fn step(&mut self) -> bool {
        for index in 0..self.processes.len() {
            let now = self.now(index);
            let timestamp = self.timestamp();
            if let Some(event) = self.processes[index].next_event(&mut self.server, timestamp, self.clock) {
                self.deliver(index, event, now);
                return true;
            }
        }
        for index in 0..self.processes.len() {
            if let Some(request) = self.processes[index].open.pop_front() {
                self.carry_out(index, &request);
                return true;
            }
        }
        let timestamp = self.timestamp();
        self.actors.tick(&mut self.server, timestamp)
    }

    fn now(&self, index: usize) -> Now {
        let elapsed = self.clock.saturating_sub(self.processes[index].began);
        let wall = self.timestamp().as_millisecond().saturating_add(self.skew_ms);
        let wall = Timestamp::from_millisecond(wall).unwrap_or(Timestamp::MAX);
        Now { wall: Wall::from_timestamp(wall), monotonic: Monotonic::from_elapsed(elapsed) }
    }

    fn boot(&mut self, index: usize) {
        let now = self.now(index);
        self.deliver(index, Event::Started, now);
        self.deliver(index, Event::LeadershipChanged { leading: true }, now);
    }

    fn deliver(&mut self, index: usize, event: Event, now: Now) {
        let process = &mut self.processes[index];
        let step = process.machine.step(event.clone(), now);
        process.recording.steps.push((now, event, step.clone()));
        process.open.extend(step.requests);
        self.notes.extend(step.notes);
    }

    fn wake(&mut self) {
        for index in 0..self.processes.len() {
            let now = self.now(index);
            let due = self.processes[index].machine.deadline();
            if due.is_some_and(|deadline| deadline.at <= now.monotonic) {
                self.deliver(index, Event::Woke, now);
            }
        }
    }

    fn next_deadline(&self) -> Option<Duration> {
        let deadlines = self.processes.iter().filter_map(|process| {
            let deadline = process.machine.deadline().filter(|deadline| deadline.reason != "resync")?;
            Some(process.began + deadline.at.elapsed())
        });
        deadlines.min()
    }

    fn carry_out(&mut self, index: usize, request: &Request) {
        let now = self.now(index);
        match &request.action {
            Action::Watch { kind, scope } => {
                self.processes[index].watch(kind, scope.clone());
                self.answer(index, request, Ok(Success::Done), now);
            }
            Action::Unwatch { kind } => {
                self.processes[index].unwatch(kind, &mut self.server);
                self.answer(index, request, Ok(Success::Done), now);
            }
            action => {
                let number = self.carried.len() as u64;
                let fate = (self.interference)(number, action);
                let outcome = match fate {
                    Fate::Served | Fate::AnswerLost | Fate::CrashedAfter => self.serve(index, action),
                    Fate::Failed(class) => Err(Failure::new(class, "injected")),
                    Fate::CrashedBefore => Err(Failure::new(Class::Unknown, "the process died")),
                };
                let failed = outcome.as_ref().err().map(|failure| failure.class);
                self.carried.push(Carried { at: self.clock, action: action.clone(), fate, failed });
                match fate {
                    Fate::Served | Fate::Failed(_) => self.answer(index, request, outcome, now),
                    Fate::AnswerLost => {
                        let lost = Failure::new(Class::Unknown, "the answer was lost");
                        self.answer(index, request, Err(lost), now);
                    }
                    Fate::CrashedBefore | Fate::CrashedAfter => self.crash(index),
                }
            }
        }
    }

    fn serve(&mut self, index: usize, action: &Action) -> Outcome {
        let manager = wire::field_manager(self.processes[index].machine.name());
        let request = wire::encode(action, &manager)?.map(Bytes::from);
        let response = self.request(&request);
        let retry_after = response.headers().get(http::header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        wire::decode(action, response.status(), retry_after, response.body())
    }

    fn answer(&mut self, index: usize, request: &Request, outcome: Outcome, now: Now) {
        self.deliver(index, Event::Finished { id: request.id, outcome }, now);
    }

    fn crash(&mut self, index: usize) {
        self.processes[index].restart(&mut self.server, self.clock);
        self.boot(index);
    }
}
