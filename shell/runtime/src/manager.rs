//! Runs controllers together: starts them, elects a leader, supervises them and stops them together.

use std::pin::pin;

use futures::FutureExt as _;
use futures::future::{Fuse, join_all};
use kube::Client;
use lockstep_engine::lease;
use lockstep_engine::machine::{Event, Machine, Note};
use lockstep_engine::random::Random;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::observe::{ControllerNote, Observer};
use crate::run::{Driver, Handle, Options};
use crate::shutdown::{self, Shutdown};

/// Why a manager ended by itself. In both cases the process must end. A new process finds the remaining work in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Another process may lead now.
    #[error("leadership was lost")]
    LeadershipLost,
    /// A driver panicked.
    #[error("a controller panicked")]
    Panicked,
}

/// The controllers of one process, and the leader election that they follow.
pub struct Manager {
    client: Client,
    clock: Clock,
    random: Random,
    metrics: Metrics,
    sink: Option<UnboundedSender<ControllerNote>>,
    controllers: Vec<Driver>,
    election: Option<(Driver, UnboundedReceiver<ControllerNote>)>,
}

impl Manager {
    /// Creates a manager of controllers that use the client. The seed determines the delays before failed watches are retried.
    pub fn new(client: Client, clock: Clock, seed: u64, metrics: Metrics) -> Self {
        let random = Random::from_seed(seed);
        Self { client, clock, random, metrics, sink: None, controllers: Vec::new(), election: None }
    }

    /// Sends the notes of controllers that are added later to the sink.
    pub fn send_notes_to(&mut self, sink: UnboundedSender<ControllerNote>) {
        self.sink = Some(sink);
    }

    /// Adds a controller.
    pub fn add(&mut self, machine: Box<dyn Machine + Send>) {
        self.add_with(machine, Options::default());
    }

    /// Adds a controller with options of its own, except for the seed.
    pub fn add_with(&mut self, machine: Box<dyn Machine + Send>, options: Options) {
        self.metrics.declare(machine.metrics()).expect("no two machines declare the same metric");
        let observer = Observer::new(self.metrics.clone());
        let observer = match &self.sink {
            Some(sink) => observer.with_sink(sink.clone()),
            None => observer,
        };
        let driver = self.driver(machine, self.client.clone(), observer, options);
        self.controllers.push(driver);
    }

    /// Enables leader election: controllers act only while this process leads. Without an election they act at once. The
    /// election uses its own client, because other users of a shared one could leave a dead connection behind that the election
    /// would use next.
    pub fn elect(&mut self, election: Box<dyn Machine + Send>, client: Client) {
        self.metrics.declare(election.metrics()).expect("no two machines declare the same metric");
        let (sink, notes) = mpsc::unbounded_channel();
        let observer = Observer::new(self.metrics.clone()).with_sink(sink);
        let final_event = Some(Event::LeadershipChanged { leading: false });
        // Requests that the election no longer waits for must end as well. Otherwise a hanging write would keep the process
        // from ending after the lease is released.
        let options = Options { timeout: lease::PATIENCE, final_event, ..Options::default() };
        self.election = Some((self.driver(election, client, observer, options), notes));
    }

    /// Returns the health of all drivers, for the probes.
    pub fn health(&self) -> Vec<Health> {
        let election = self.election.iter().map(|(driver, _)| driver.health());
        self.controllers.iter().map(Driver::health).chain(election).collect()
    }

    /// Runs until shutdown is requested. Then it waits for the writes in flight and for Events, and releases the lease.
    pub async fn run(self, mut shutdown: Shutdown) -> Result<(), Ended> {
        let (stop_controllers, controllers_stop) = shutdown::channel();
        let (stop_election, election_stop) = shutdown::channel();
        let handles = self.controllers.iter().map(Driver::handle).collect::<Vec<_>>();
        if self.election.is_none() {
            self.metrics.set_leader(true);
            // Before they run: one that lists something first would report that it is ready, as a standby does.
            lead(&handles).await;
        }
        let mut controllers = JoinSet::new();
        for driver in self.controllers {
            controllers.spawn(driver.run(controllers_stop.clone()));
        }
        let mut elections = JoinSet::new();
        let mut notes = self.election.map(|(driver, notes)| {
            elections.spawn(driver.run(election_stop));
            notes
        });
        // A controller whose queue is full must hide neither the loss of the lease nor the end of the process.
        let mut handing_over = pin!(Fuse::terminated());
        loop {
            // A panic has priority: no later result is reliable.
            tokio::select! {
                biased;
                Some(_) = controllers.join_next() => return Err(Ended::Panicked),
                Some(_) = elections.join_next() => return Err(Ended::Panicked),
                () = shutdown.requested() => break,
                leading = leadership(&mut notes) => {
                    if !leading {
                        return Err(Ended::LeadershipLost);
                    }
                    handing_over.set(lead(&handles).fuse());
                }
                () = &mut handing_over => {}
            }
        }
        stop_controllers.pull();
        let mut has_panicked = false;
        loop {
            // They still write, which only a leader may.
            tokio::select! {
                biased;
                ended = controllers.join_next() => match ended {
                    Some(ended) => has_panicked |= ended.is_err(),
                    None => break,
                },
                leading = leadership(&mut notes) => if !leading { return Err(Ended::LeadershipLost) },
            }
        }
        stop_election.pull();
        while let Some(ended) = elections.join_next().await {
            has_panicked |= ended.is_err();
        }
        if has_panicked { Err(Ended::Panicked) } else { Ok(()) }
    }

    fn driver(
        &mut self,
        machine: Box<dyn Machine + Send>,
        client: Client,
        observer: Observer,
        options: Options,
    ) -> Driver {
        let options = Options { seed: self.random.bits(), ..options };
        Driver::new(machine, client, self.clock.clone(), observer, options)
    }
}

/// Returns the next change of leadership; never returns if there is no election.
async fn leadership(notes: &mut Option<UnboundedReceiver<ControllerNote>>) -> bool {
    if let Some(notes) = notes {
        while let Some(ControllerNote { note, .. }) = notes.recv().await {
            if let Note::LeadershipChanged { leading } = note {
                return leading;
            }
        }
    }
    std::future::pending().await
}

/// Sends all controllers that this process leads. None waits for another.
async fn lead(controllers: &[Handle]) {
    let leading = Event::LeadershipChanged { leading: true };
    join_all(controllers.iter().map(|controller| controller.send(leading.clone()))).await;
}

#[cfg(test)]
mod tests;
