//! The requests of one machine: a bounded number in flight, the others in a queue.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use lockstep_engine::action::{ActionId, ErrorKind, Failure, Request};
use lockstep_engine::machine::Event;
use lockstep_engine::recorder;
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::execute::Executor;
use crate::observe::Observer;
use crate::run::inbox::{Inbox, Incoming};

/// Executes requests as tasks.
pub(super) struct Requests {
    executor: Arc<Executor>,
    observer: Observer,
    controller: &'static str,
    max_in_flight: usize,
    sender: Sender<Incoming>,
    waiting: VecDeque<Request>,
    in_flight: BTreeMap<ActionId, InFlight>,
}

struct InFlight {
    is_write: bool,
    task: AbortHandle,
}

impl Requests {
    pub(super) fn new(
        executor: Arc<Executor>,
        observer: Observer,
        controller: &'static str,
        max_in_flight: usize,
        inbox: &Inbox,
    ) -> Self {
        Self {
            executor,
            observer,
            controller,
            max_in_flight: max_in_flight.max(1),
            sender: inbox.sender(),
            waiting: VecDeque::new(),
            in_flight: BTreeMap::new(),
        }
    }

    /// Starts a request, or queues it.
    pub(super) fn push(&mut self, request: Request) {
        self.waiting.push_back(request);
        self.begin();
    }

    /// Records that the answer to a request was delivered, and starts the next one.
    pub(super) fn ended(&mut self, id: ActionId) {
        self.in_flight.remove(&id);
        self.begin();
    }

    /// Drops the queued requests except for writes of Events, and aborts the reads.
    pub(super) fn wind_down(&mut self) {
        self.waiting.retain(|request| recorder::is_record(&request.action));
        self.in_flight.retain(|_, request| {
            if !request.is_write {
                request.task.abort();
            }
            request.is_write
        });
        self.begin();
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.in_flight.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn begin(&mut self) {
        while self.in_flight.len() < self.max_in_flight
            && let Some(Request { id, action }) = self.waiting.pop_front()
        {
            let is_write = action.is_write();
            let executor = Arc::clone(&self.executor);
            let observer = self.observer.clone();
            let controller = self.controller;
            let sender = self.sender.clone();
            let task = tokio::spawn(async move {
                let start = Instant::now();
                let outcome = AssertUnwindSafe(executor.execute(&action)).catch_unwind().await;
                let outcome = outcome.unwrap_or_else(|_| {
                    Err(Failure::new(ErrorKind::Unknown, "the request panicked; this is a bug in Lockstep"))
                });
                observer.action(controller, &action, &outcome, start.elapsed());
                // An error means that the driver has ended, so the answer is not needed.
                let _ = sender.send(Incoming::direct(Event::Finished { id, outcome })).await;
            });
            self.in_flight.insert(id, InFlight { is_write, task: task.abort_handle() });
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        for request in self.in_flight.values() {
            request.task.abort();
        }
    }
}
