//! The event loop of a cluster: it takes the next due item and schedules what follows from it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::SignedDuration;
use lockstep_apiserver::server::{Shared, TakesShared};
use lockstep_engine::action::{
    Action, ActionId, ErrorKind, Failure, KubeRequest, Outcome, Request, Success, WatchCommand,
};
use lockstep_engine::machine::{Event, Machine};
use lockstep_engine::wire;

use super::faults::{FaultModel, FaultVerdict, Transit};
use super::journal::{Author, Carried, What};
use super::process::{Process, Program};
use super::state::{Arrival, Cluster};
use crate::secret;

/// Describes why a cluster did not become idle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("after {steps} steps and {elapsed:?} the cluster still is not at rest")]
pub struct Restless {
    /// Steps taken.
    pub steps: u64,
    /// Virtual time that has passed.
    pub elapsed: Duration,
}

/// The next item to process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Arrival,
    Wake(usize),
    Tick,
}

impl<W: FaultModel> Cluster<W> {
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

    /// Crashes a process. It restarts after the delay, or never, even if an earlier crash has already scheduled a restart.
    pub fn crash(&mut self, process: usize, restart_after: Option<Duration>) {
        let it = &mut self.processes[process];
        if it.is_foreign() {
            return;
        }
        if !it.alive {
            // Only the restart of the latest incarnation takes place.
            it.incarnation += u32::from(restart_after.is_none());
            return;
        }
        it.alive = false;
        it.incarnation += 1;
        for stream in std::mem::take(&mut it.streams).values_mut() {
            stream.close(&mut self.server);
        }
        let incarnation = it.incarnation;
        let mine = |arrival: &Arrival| matches!(arrival, Arrival::Request { process: sender, .. } if *sender == process);
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
            self.send(delay, Arrival::Start { process, incarnation });
        }
    }

    /// Gives leadership to a process, or takes it away.
    pub fn lead(&mut self, process: usize, leading: bool) {
        let changed = std::mem::replace(&mut self.processes[process].leading, leading) != leading;
        if changed && self.processes[process].alive {
            self.deliver(process, Event::LeadershipChanged { leading });
        }
    }

    /// Returns whether nothing is left to do until the next resync.
    pub fn is_idle(&self) -> bool {
        self.next(false).is_none()
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

    fn next(&self, resyncs: bool) -> Option<(Duration, Next)> {
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

    fn take(&mut self, at: Duration, next: Next) {
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

    fn arrive(&mut self, number: u64, arrival: Arrival) {
        // A message for a process that does not run waits for it, in order.
        if let Some(process) = arrival.meant_for() {
            let until = self.processes[process].paused_until;
            if until > self.clock {
                self.processes[process].deferred.insert(number);
                self.under_way.insert((until, number), arrival);
                return;
            }
        }
        match arrival {
            Arrival::Request { process, incarnation, request } => {
                self.carry_out(process, incarnation, request);
            }
            Arrival::Answer { process, incarnation, id, outcome }
                if self.is_running(process, incarnation) =>
            {
                self.deliver(process, Event::Finished { id, outcome });
            }
            Arrival::Seen { process, incarnation, stream, event }
                if self.is_running(process, incarnation) =>
            {
                let current = self.processes[process].streams.values().any(|open| open.id == stream);
                if current {
                    self.deliver(process, event);
                }
            }
            Arrival::List { process, incarnation, kind, stream } if self.is_running(process, incarnation) => {
                self.list(process, &kind, stream);
            }
            Arrival::Start { process, incarnation } if self.processes[process].incarnation == incarnation => {
                let it = &mut self.processes[process];
                if let Some(program) = &it.program {
                    it.machine = program.machine();
                    self.boot(process);
                }
            }
            Arrival::Answer { .. } | Arrival::Seen { .. } | Arrival::List { .. } | Arrival::Start { .. } => {}
        }
    }

    fn boot(&mut self, process: usize) {
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

    fn deliver(&mut self, process: usize, event: Event) {
        let now = self.now(process);
        let it = &mut self.processes[process];
        let incarnation = it.incarnation;
        let step = it.machine.step(event.clone(), now);
        for request in step.requests.iter().cloned() {
            let delay = match &request.action {
                // The process itself handles these and sends the requests to the server.
                Action::Watch(_) => Duration::ZERO,
                action => self.delay(process, Transit::Request(action)),
            };
            self.send(delay, Arrival::Request { process, incarnation, request });
        }
        if !self.processes[process].is_foreign() {
            self.note(What::Stepped { process, now, event, step });
        }
    }

    fn carry_out(&mut self, process: usize, incarnation: u32, request: Request) {
        let Request { id, action } = request;
        match action {
            // No fault applies to these: the process itself answers them at once and changes nothing. [`Cluster::list`] injects
            // the faults of watches. A crash between two requests is covered by the crash faults of the requests around it.
            Action::Watch(_) if !self.is_running(process, incarnation) => {}
            Action::Watch(command) => {
                match command {
                    WatchCommand::Start { kind, scope } => self.watch(process, &kind, scope),
                    WatchCommand::Stop { kind } => {
                        if let Some(mut stream) = self.processes[process].streams.remove(&kind) {
                            stream.close(&mut self.server);
                        }
                    }
                }
                self.deliver(process, Event::Finished { id, outcome: Ok(Success::Done) });
            }
            action if self.processes[process].is_foreign() => {
                let outcome = self.serve(process, &action);
                self.send(Duration::ZERO, Arrival::Answer { process, incarnation, id, outcome });
            }
            action => self.serve_as_fated(process, incarnation, id, &action),
        }
    }

    fn serve_as_fated(&mut self, process: usize, incarnation: u32, id: ActionId, action: &Action) {
        let is_running = self.is_running(process, incarnation);
        // No process is left to which a fault could apply.
        let fate = if is_running {
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
            FaultVerdict::CrashedBefore => Err(Failure::new(ErrorKind::Unknown, "no answer in time")),
        };
        let failed = outcome.as_ref().err().map(|failure| failure.class);
        let carried = Carried { process, id, action: action.clone(), fate: fate.clone(), failed };
        self.note(What::Carried(carried));
        let outcome = match fate {
            FaultVerdict::Served | FaultVerdict::Failed(_) => outcome,
            FaultVerdict::AnswerLost => Err(Failure::new(ErrorKind::Unknown, "the answer was lost")),
            FaultVerdict::CrashedBefore | FaultVerdict::CrashedAfter => {
                let delay = self.delay(process, Transit::Restart);
                self.crash(process, Some(delay));
                return;
            }
        };
        if is_running {
            let delay = self.delay(process, Transit::Answer(action));
            self.send(delay, Arrival::Answer { process, incarnation, id, outcome });
        }
    }

    fn serve(&mut self, process: usize, action: &Action) -> Outcome {
        let now = self.timestamp();
        let request = match (action, &mut self.outside) {
            (Action::Kube(request), _) => request,
            (Action::Http(_) | Action::Registry(_) | Action::Broker(_), Some(outside)) => {
                return outside.carry_out(process, action, now);
            }
            _ => {
                return Err(Failure::new(
                    ErrorKind::Invalid,
                    format!("nothing here executes {}", action.name()),
                ));
            }
        };
        let request = &*secret::generated(request, self.server.revision())?;
        let it = &self.processes[process];
        let manager = wire::field_manager(it.machine.name());
        let (author, encoded) = match &it.program {
            Some(program) => (Author::Process(process), program.encode(request, &manager)?),
            None => (Author::Client(it.machine.name()), wire::encode(request, &manager)?),
        };
        let mut encoded = encoded.map(Bytes::from);
        if takes_object(request) {
            encoded.extensions_mut().insert(TakesShared);
        }
        let response = self.request_as(author, &encoded);
        if let Some(Shared(object)) = response.extensions().get() {
            return Ok(Success::Object(Arc::clone(object)));
        }
        let retry_after = response.headers().get(http::header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        wire::decode(request, response.status(), retry_after, response.body())
    }
}

/// Returns whether the outcome of a request is the object in its answer, as it is.
fn takes_object(request: &KubeRequest) -> bool {
    match request {
        KubeRequest::Get { metadata_only, .. } => !metadata_only,
        KubeRequest::Apply { .. }
        | KubeRequest::Create { .. }
        | KubeRequest::Update { .. }
        | KubeRequest::Patch { .. } => true,
        KubeRequest::Discover { .. }
        | KubeRequest::GetLengths { .. }
        | KubeRequest::CreateSecret { .. }
        | KubeRequest::List { .. }
        | KubeRequest::Delete { .. } => false,
    }
}
