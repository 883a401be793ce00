//! Runs controllers together: started, led, watched over and stopped as one.

use kube::Client;
use lockstep_core::engine::lease;
use lockstep_core::engine::machine::{Event, Machine, Note};
use lockstep_core::random::Random;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::observe::{Observer, Told};
use crate::run::{Driver, Handle, Options};
use crate::shutdown::{self, Shutdown};

/// Why a manager ended by itself. Either way the process is to end, and a new one finds its work in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Another process may lead now.
    #[error("leadership was lost")]
    LeadershipLost,
    /// A driver panicked.
    #[error("a controller panicked")]
    Panicked,
}

/// Controllers that run in one process, and the election that they obey.
pub struct Manager {
    client: Client,
    clock: Clock,
    random: Random,
    metrics: Metrics,
    sink: Option<UnboundedSender<Told>>,
    controllers: Vec<Driver>,
    election: Option<(Driver, UnboundedReceiver<Told>)>,
}

impl Manager {
    /// Prepares to run controllers through the client. From the seed follows when watches that failed are tried again.
    pub fn new(client: Client, clock: Clock, seed: u64, metrics: Metrics) -> Self {
        let random = Random::from_seed(seed);
        Self { client, clock, random, metrics, sink: None, controllers: Vec::new(), election: None }
    }

    /// Sends the notes of controllers that are added from here on to the sink.
    pub fn send_notes_to(&mut self, sink: UnboundedSender<Told>) {
        self.sink = Some(sink);
    }

    /// Adds a controller.
    pub fn add(&mut self, machine: Box<dyn Machine + Send>) {
        self.add_with(machine, Options::default());
    }

    /// Adds a controller that is driven by options of its own, but for their seed.
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

    /// Lets controllers act only while the election says so. Without an election they act at once. It goes through a client of
    /// its own: one whose connections nobody else leaves behind, of which a dead one might be the next to be used.
    pub fn elect(&mut self, election: Box<dyn Machine + Send>, client: Client) {
        let (sink, told) = mpsc::unbounded_channel();
        let observer = Observer::new(self.metrics.clone()).with_sink(sink);
        let farewell = Some(Event::LeadershipChanged { leading: false });
        // What the election has given up ends, too: a write that hangs would keep the process from ending once the lease is given back.
        let options = Options { timeout: lease::PATIENCE, farewell, ..Options::default() };
        self.election = Some((self.driver(election, client, observer, options), told));
    }

    /// What the probes read.
    pub fn health(&self) -> Vec<Health> {
        let election = self.election.iter().map(|(driver, _)| driver.health());
        self.controllers.iter().map(Driver::health).chain(election).collect()
    }

    /// Runs until shutdown is asked for; then the writes in flight are awaited and leadership is given back.
    pub async fn run(self, mut shutdown: Shutdown) -> Result<(), Ended> {
        let (stop_controllers, controllers_stop) = shutdown::channel();
        let (stop_election, election_stop) = shutdown::channel();
        let handles = self.controllers.iter().map(Driver::handle).collect::<Vec<_>>();
        let mut controllers = JoinSet::new();
        for driver in self.controllers {
            controllers.spawn(driver.run(controllers_stop.clone()));
        }
        let mut elections = JoinSet::new();
        let mut told = if let Some((driver, told)) = self.election {
            elections.spawn(driver.run(election_stop));
            Some(told)
        } else {
            self.metrics.set_leader(true);
            change_leadership(&handles, true).await;
            None
        };
        loop {
            // A panic goes first: nothing that comes after it can be relied on.
            tokio::select! {
                biased;
                Some(_) = controllers.join_next() => return Err(Ended::Panicked),
                Some(_) = elections.join_next() => return Err(Ended::Panicked),
                () = shutdown.requested() => break,
                leading = leadership(&mut told) => {
                    if !leading {
                        return Err(Ended::LeadershipLost);
                    }
                    change_leadership(&handles, true).await;
                }
            }
        }
        stop_controllers.pull();
        while controllers.join_next().await.is_some() {}
        stop_election.pull();
        while elections.join_next().await.is_some() {}
        Ok(())
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

/// The next change of leadership; never, if there is no election.
async fn leadership(told: &mut Option<UnboundedReceiver<Told>>) -> bool {
    if let Some(told) = told {
        while let Some(Told { note, .. }) = told.recv().await {
            if let Note::LeadershipChanged { leading } = note {
                return leading;
            }
        }
    }
    std::future::pending().await
}

async fn change_leadership(controllers: &[Handle], leading: bool) {
    for controller in controllers {
        controller.send(Event::LeadershipChanged { leading }).await;
    }
}

#[cfg(test)]
mod tests;
