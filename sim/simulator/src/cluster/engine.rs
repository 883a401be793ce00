//! The event loop of a cluster: it takes the next due item and schedules what follows from it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use lockstep_engine::action::{Action, ActionId, Class, Failure, Outcome, Request, Scope, Success};
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use lockstep_engine::time::{Monotonic, Now, Wall};
use lockstep_engine::wire;

use super::Cluster;
use super::external_systems::is_outside;
use super::faults::{FaultModel, FaultVerdict, Transit};
use super::journal::{Author, Carried, Change, Entry, What};
use super::stream::{self, Stream, WatchBatch};

/// A message that arrives at the server or at a process.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A request arrives at the server.
    Request { process: usize, life: u32, request: Request },
    /// An answer arrives at the process.
    Answer { process: usize, life: u32, id: ActionId, outcome: Outcome },
    /// A watch event arrives at the process.
    Seen { process: usize, life: u32, stream: u64, event: Event },
    /// It is time to list for a watch.
    List { process: usize, life: u32, kind: Arc<Kind>, stream: u64 },
    /// It is time for a process to restart.
    Start { process: usize, life: u32 },
}

/// The next item to process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Next {
    Arrival,
    Wake(usize),
    Tick,
}

impl Arrival {
    /// Returns the process that must run to receive it.
    fn meant_for(&self) -> Option<usize> {
        match self {
            Self::Answer { process, .. } | Self::Seen { process, .. } | Self::List { process, .. } => {
                Some(*process)
            }
            Self::Request { .. } | Self::Start { .. } => None,
        }
    }
}

impl<W: FaultModel> Cluster<W> {
    pub(super) fn next(&self, resyncs: bool) -> Option<(Duration, Next)> {
        let arrival = self.under_way.first_key_value().map(|((at, _), _)| (*at, Next::Arrival));
        let wake = self
            .processes
            .iter()
            .enumerate()
            .filter_map(|(index, process)| Some((process.deadline(resyncs)?, Next::Wake(index))));
        let tick = self.tick_at.map(|at| (at, Next::Tick));
        // Among items that are due at the same time, arrivals are first and the control plane is last.
        let all = arrival.into_iter().chain(wake).chain(tick);
        all.map(|(at, next)| (at.max(self.clock), next)).min_by_key(|(at, next)| (*at, *next))
    }

    pub(super) fn take(&mut self, at: Duration, next: Next) {
        self.clock = at;
        match next {
            Next::Arrival => {
                if let Some((key, arrival)) = self.under_way.pop_first() {
                    self.arrive(key.1, arrival);
                }
            }
            Next::Wake(process) => self.deliver(process, Event::TimerFired),
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

    pub(super) fn arrive(&mut self, number: u64, arrival: Arrival) {
        // A message for a process that does not run waits for it, in order.
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
                if let Some(program) = &it.program {
                    it.machine = program.machine();
                    self.boot(process);
                }
            }
            Arrival::Answer { .. } | Arrival::Seen { .. } | Arrival::List { .. } | Arrival::Start { .. } => {}
        }
    }

    pub(super) fn lives(&self, process: usize, life: u32) -> bool {
        let it = &self.processes[process];
        it.alive && it.life == life
    }

    pub(super) fn send(&mut self, delay: Duration, arrival: Arrival) {
        self.send_at(self.clock + delay, arrival);
    }

    pub(super) fn send_at(&mut self, at: Duration, arrival: Arrival) {
        self.under_way.insert((at, self.sent), arrival);
        self.sent += 1;
    }

    pub(super) fn note(&mut self, what: What) {
        self.journal.push(Entry { at: self.clock, what });
    }

    pub(super) fn now(&self, process: usize) -> Now {
        let process = &self.processes[process];
        let elapsed = self.clock.saturating_sub(process.began);
        let wall = self.timestamp().as_millisecond().saturating_add(process.skew_ms);
        let wall = Timestamp::from_millisecond(wall).unwrap_or(Timestamp::MAX);
        Now { wall: Wall::from_timestamp(wall), monotonic: Monotonic::from_elapsed(elapsed) }
    }

    pub(super) fn boot(&mut self, process: usize) {
        let it = &mut self.processes[process];
        it.alive = true;
        it.began = self.clock;
        it.paused_until = self.clock;
        let leading = it.leading;
        if !it.is_foreign() {
            self.note(What::Started { process });
        }
        self.deliver(process, Event::Started);
        if leading {
            self.deliver(process, Event::LeadershipChanged { leading });
        }
    }

    pub(super) fn deliver(&mut self, process: usize, event: Event) {
        let now = self.now(process);
        let it = &mut self.processes[process];
        let life = it.life;
        let step = it.machine.step(event.clone(), now);
        for request in step.requests.iter().cloned() {
            let delay = match &request.action {
                // The process itself handles these and sends the requests to the server.
                Action::Watch { .. } | Action::Unwatch { .. } => Duration::ZERO,
                action => self.delay(process, Transit::Request(action)),
            };
            self.send(delay, Arrival::Request { process, life, request });
        }
        if !self.processes[process].is_foreign() {
            self.note(What::Stepped { process, now, event, step });
        }
    }

    /// Returns how long a message of a process is in transit.
    fn delay(&mut self, process: usize, hop: Transit<'_>) -> Duration {
        if self.processes[process].is_foreign() {
            return Duration::ZERO;
        }
        self.weather.delay(self.clock, process, hop)
    }

    /// Records a change of the server in the journal, notifies the watches and wakes the actors.
    pub(super) fn changed(&mut self, by: Author, before: u64) {
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

    /// Schedules the delivery of new watch events.
    pub(super) fn look(&mut self) {
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

    pub(super) fn list(&mut self, process: usize, kind: &Arc<Kind>, id: u64) {
        let now = self.timestamp();
        let foreign = self.processes[process].is_foreign();
        let lag = if foreign { 0 } else { self.weather.list_lag(self.clock, process, kind) };
        let forbidden = (!foreign && self.unwatchable.contains(&**kind))
            .then(|| Failure::new(Class::Forbidden, format!("{kind} can't be listed")));
        let refused = if foreign { None } else { self.weather.refuses_list(self.clock, process, kind) };
        let refused = forbidden.or(refused);
        let unwatched = if foreign { None } else { self.weather.refuses_watch(self.clock, process, kind) };
        let Some(stream) = self.processes[process].streams.get_mut(kind) else { return };
        if stream.id != id {
            return;
        }
        let sight = match refused {
            Some(failure) => stream.refused(failure),
            None => stream.begin(&mut self.server, now, lag, unwatched),
        };
        self.show(process, kind, sight, stream::RETRY);
        // A list of an old state starts its watch at that state: the later changes are delivered immediately.
        self.look();
    }

    pub(super) fn show(&mut self, process: usize, kind: &Arc<Kind>, sight: WatchBatch, retry: Duration) {
        let life = self.processes[process].life;
        let foreign = self.processes[process].is_foreign();
        let delay = self.delay(process, Transit::Watch(kind));
        let Some(stream) = self.processes[process].streams.get_mut(kind) else { return };
        let at = stream.last_arrival.max(self.clock + delay);
        stream.last_arrival = at;
        let stream = stream.id;
        for event in sight.events {
            let is_change = matches!(event, Event::Applied { .. } | Event::Deleted { .. });
            let twice = is_change && !foreign && self.weather.repeats(self.clock, process, kind);
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

    pub(super) fn carry_out(&mut self, process: usize, life: u32, request: Request) {
        let Request { id, action } = request;
        let lives = self.lives(process, life);
        match action {
            // No fault applies to these: the process itself answers them at once and changes nothing. [`Cluster::list`] injects
            // the faults of watches. A crash between two requests is covered by the crash faults of the requests around it.
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
            action if self.processes[process].is_foreign() => {
                let outcome = self.serve(process, &action);
                self.send(Duration::ZERO, Arrival::Answer { process, life, id, outcome });
            }
            action => self.serve_as_fated(process, life, id, &action),
        }
    }

    pub(super) fn watch(&mut self, process: usize, kind: &Arc<Kind>, scope: Scope) {
        let (id, life) = (self.sent, self.processes[process].life);
        let stream = Stream::new(Arc::clone(kind), scope, id);
        let before = self.processes[process].streams.insert(Arc::clone(kind), stream);
        if let Some(mut before) = before {
            before.close(&mut self.server);
        }
        self.send(Duration::ZERO, Arrival::List { process, life, kind: Arc::clone(kind), stream: id });
    }

    pub(super) fn serve_as_fated(&mut self, process: usize, life: u32, id: ActionId, action: &Action) {
        let lives = self.lives(process, life);
        // No process is left to which a fault could apply.
        let fate = if lives {
            self.weather.fate(self.carried, self.clock, process, action)
        } else {
            FaultVerdict::Served
        };
        self.carried += 1;
        let outcome = match &fate {
            FaultVerdict::Served | FaultVerdict::AnswerLost | FaultVerdict::CrashedAfter => {
                self.serve(process, action)
            }
            FaultVerdict::Failed(failure) => Err(failure.clone()),
            FaultVerdict::CrashedBefore => Err(Failure::new(Class::Unknown, "no answer in time")),
        };
        let failed = outcome.as_ref().err().map(|failure| failure.class);
        let carried = Carried { process, id, action: action.clone(), fate: fate.clone(), failed };
        self.note(What::Carried(carried));
        let outcome = match fate {
            FaultVerdict::Served | FaultVerdict::Failed(_) => outcome,
            FaultVerdict::AnswerLost => Err(Failure::new(Class::Unknown, "the answer was lost")),
            FaultVerdict::CrashedBefore | FaultVerdict::CrashedAfter => {
                let delay = self.delay(process, Transit::Restart);
                self.crash(process, Some(delay));
                return;
            }
        };
        if lives {
            let delay = self.delay(process, Transit::Answer(action));
            self.send(delay, Arrival::Answer { process, life, id, outcome });
        }
    }

    pub(super) fn serve(&mut self, process: usize, action: &Action) -> Outcome {
        let now = self.timestamp();
        if let Some(outside) = self.outside.as_mut().filter(|_| is_outside(action)) {
            return outside.carry_out(process, action, now);
        }
        let it = &self.processes[process];
        let manager = wire::field_manager(it.machine.name());
        let (author, request) = match &it.program {
            Some(program) => (Author::Process(process), program.encode(action, &manager)?),
            None => (Author::Client(it.machine.name()), wire::encode(action, &manager)?),
        };
        let response = self.request_as(author, &request.map(Bytes::from));
        let retry_after = response.headers().get(http::header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        wire::decode(action, response.status(), retry_after, response.body())
    }
}
