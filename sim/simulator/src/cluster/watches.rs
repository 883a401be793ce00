//! The watches of the processes.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure, Scope};
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;

use super::faults::{FaultModel, Transit};
use super::state::{Arrival, Cluster};
use super::stream::{self, Stream, WatchBatch};

impl<W: FaultModel> Cluster<W> {
    pub(super) fn watch(&mut self, process: usize, kind: &Arc<Kind>, scope: Scope) {
        let (id, incarnation) = (self.sent, self.processes[process].incarnation);
        let stream = Stream::new(Arc::clone(kind), scope, id);
        let before = self.processes[process].streams.insert(Arc::clone(kind), stream);
        if let Some(mut before) = before {
            before.close(&mut self.server);
        }
        self.send(Duration::ZERO, Arrival::List { process, incarnation, kind: Arc::clone(kind), stream: id });
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
        let incarnation = it.incarnation;
        for (kind, stream) in lists {
            self.send(Duration::ZERO, Arrival::List { process, incarnation, kind, stream });
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

    pub(super) fn list(&mut self, process: usize, kind: &Arc<Kind>, id: u64) {
        let now = self.timestamp();
        let foreign = self.processes[process].is_foreign();
        let lag = if foreign { 0 } else { self.weather.list_lag(self.clock, process, kind) };
        let forbidden = (!foreign && self.unwatchable.contains(&**kind))
            .then(|| Failure::new(ErrorKind::Forbidden, format!("{kind} can't be listed")));
        let refused = if foreign { None } else { self.weather.refuses_list(self.clock, process, kind) };
        let refused = forbidden.or(refused);
        let unwatched = if foreign { None } else { self.weather.refuses_watch(self.clock, process, kind) };
        let Some(stream) = self.processes[process].streams.get_mut(kind) else { return };
        if stream.id != id {
            return;
        }
        let batch = match refused {
            Some(failure) => stream.refused(failure),
            None => stream.begin(&mut self.server, now, lag, unwatched),
        };
        self.show(process, kind, batch, stream::RETRY);
        // A list of an old state starts its watch at that state: the later changes are delivered immediately.
        self.look();
    }

    /// Schedules the delivery of new watch events.
    pub(super) fn look(&mut self) {
        let now = self.timestamp();
        for process in 0..self.processes.len() {
            let mut batches = Vec::new();
            for stream in self.processes[process].streams.values_mut() {
                let batch = stream.look(&mut self.server, now);
                if batch.over || !batch.events.is_empty() {
                    batches.push((Arc::clone(&stream.kind), batch));
                }
            }
            for (kind, batch) in batches {
                self.show(process, &kind, batch, Duration::ZERO);
            }
        }
    }

    fn show(&mut self, process: usize, kind: &Arc<Kind>, batch: WatchBatch, retry: Duration) {
        let incarnation = self.processes[process].incarnation;
        let foreign = self.processes[process].is_foreign();
        let delay = self.delay(process, Transit::Watch(kind));
        let Some(stream) = self.processes[process].streams.get_mut(kind) else { return };
        let at = stream.last_arrival.max(self.clock + delay);
        stream.last_arrival = at;
        let stream = stream.id;
        for event in batch.events {
            let is_change = matches!(event, Event::Applied { .. } | Event::Deleted { .. });
            let twice = is_change && !foreign && self.weather.repeats(self.clock, process, kind);
            self.send_at(at, Arrival::Seen { process, incarnation, stream, event: event.clone() });
            if twice {
                self.send_at(at, Arrival::Seen { process, incarnation, stream, event });
            }
        }
        if batch.over {
            let kind = Arc::clone(kind);
            self.send_at(at + retry, Arrival::List { process, incarnation, kind, stream });
        }
    }
}
