//! The hosts of the operator: the real shell, restarted whenever it ends, as a kubelet does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use lockstep_cli::controllers;
use lockstep_engine::action::{Request, Success};
use lockstep_engine::lease::Election;
use lockstep_engine::machine::{Event, Machine, Note, Step, Wrapper};
use lockstep_engine::operator::Config;
use lockstep_engine::time::Now;
use lockstep_runtime::clock::Clock;
use lockstep_runtime::execute::Executor;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::run::Options;
use lockstep_runtime::shutdown;
use prometheus::Registry;
use tokio::sync::Notify;

use super::beyond::{Answered, Beyond};
use super::client::{OneTask, client_in};
use super::faulty::{Bug, Faulty};
use super::scene::Scene;
use super::server;
use super::timing::RESYNC;
use super::trace::{Fact, Process, Trace};

/// The delay before a process that ended is restarted.
const RESTART: Duration = Duration::from_secs(1);

/// The state of one host, independent of its processes.
#[derive(Clone)]
pub struct Host {
    /// 1 or 2.
    pub number: usize,
    /// The seed of the jitter of its processes.
    pub seed: u64,
    /// The offset of its wall clock, in milliseconds.
    pub skew_ms: Arc<AtomicI64>,
    /// Requests a graceful shutdown of the process, as SIGTERM does.
    pub terminate: Arc<Notify>,
    /// The bug in its shell, if any.
    pub bug: Option<Bug>,
    scene: Scene,
    beyond: Beyond,
    starts: Arc<AtomicU32>,
    trace: Trace,
}

impl Host {
    /// Creates a host on which nothing has run yet.
    pub fn new(
        number: usize,
        seed: u64,
        bug: Option<Bug>,
        (scene, beyond): (Scene, &Beyond),
        trace: &Trace,
    ) -> Self {
        Self {
            number,
            seed,
            skew_ms: Arc::default(),
            terminate: Arc::default(),
            bug,
            scene,
            beyond: beyond.clone(),
            starts: Arc::default(),
            trace: trace.clone(),
        }
    }

    /// Returns its name in the network.
    pub fn name(&self) -> String {
        format!("operator-{}", self.number)
    }

    /// Runs the program, and restarts it whenever it ends.
    pub async fn run(self) -> turmoil::Result {
        loop {
            let start = self.starts.fetch_add(1, Ordering::SeqCst) + 1;
            let process = Process { host: self.number, start };
            self.trace.record(&process.to_string(), "starts", &[]);
            let ended = self.process(process).await;
            let why = ended.err().map_or_else(|| "ended".to_owned(), |error| format!("{error:#}"));
            self.trace.record(&process.to_string(), &why, &[]);
            tokio::time::sleep(RESTART).await;
        }
    }

    /// Does what `lockstep run --leader-elect` does.
    async fn process(&self, process: Process) -> anyhow::Result<()> {
        let _ended = Ended { process, trace: self.trace.clone() };
        let instance = process.to_string();
        let task = OneTask::begin();
        let (client, for_election) = (client_in(&task, &instance)?, client_in(&task, &instance)?);
        let sets = controllers::select_running(&[self.scene.controller().to_owned()])?;
        let executor = Executor::new(client.clone(), "run");
        let missing = controllers::missing(&executor, &controllers::kinds(&sets)).await;
        if !missing.map_err(|failure| anyhow::anyhow!("cannot reach the server: {failure}"))?.is_empty() {
            bail!("the definitions are not installed");
        }
        let (trace, skew_ms) = (self.trace.clone(), Arc::clone(&self.skew_ms));
        let clock = Clock::start(move || {
            let skew = jiff::SignedDuration::from_millis(skew_ms.load(Ordering::SeqCst));
            server::time(&trace).saturating_add(skew).expect("milliseconds are no calendar unit")
        });
        let seed = self.seed.wrapping_add(process.start.into());
        let settings = Config { concurrency: 4, resync: RESYNC, instance: instance.clone(), seed };
        let mut manager = Manager::new(client, clock, seed, Metrics::new(Registry::new())?);
        for set in &sets {
            let machine = controllers::machine(set.controller, &settings).context("a controller")?;
            let machine = self.watched(process, machine);
            let machine = Box::new(Answered::new(machine, self.beyond.clone(), self.number));
            // The values of Secrets are the same in every run of a seed.
            let random = |value: &mut [u8]| {
                value.fill(b'k');
                Ok(())
            };
            manager.add_with(machine, Options { random, ..Options::default() });
        }
        if self.bug != Some(Bug::NoElection) {
            let election = Election::new("default", "lockstep", instance);
            manager.elect(self.watched(process, Box::new(election)), for_election);
        }
        let (stop, stopping) = shutdown::channel();
        let running = manager.run(stopping);
        tokio::pin!(running);
        tokio::select! {
            biased;
            ended = &mut running => return Ok(ended?),
            () = self.terminate.notified() => {}
        }
        stop.pull();
        Ok(running.await?)
    }

    fn watched(&self, process: Process, machine: Box<dyn Machine + Send>) -> Box<dyn Machine + Send> {
        let machine = match self.bug {
            Some(bug) => Box::new(Faulty::new(bug, machine)),
            None => machine,
        };
        Box::new(Watched { machine, process, trace: self.trace.clone(), claims: Vec::new() })
    }
}

/// Records in the trace that a process has ended, for any reason.
struct Ended {
    process: Process,
    trace: Trace,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.trace.fact(Fact::Ended(self.process));
    }
}

/// Records every step of a machine in the trace.
struct Watched {
    machine: Box<dyn Machine + Send>,
    process: Process,
    trace: Trace,
    /// Unanswered writes of the lease, with the times of their requests.
    claims: Vec<(Request, Duration)>,
}

impl Watched {
    fn heard(&mut self, event: &Event) {
        match event {
            Event::LeadershipChanged { leading: true } => self.trace.fact(Fact::Leads(self.process)),
            Event::Finished { id, outcome } => {
                let Some(index) = self.claims.iter().position(|(claim, _)| claim.id == *id) else { return };
                let (_, sent) = self.claims.remove(index);
                if let Ok(Success::Object(_)) = outcome {
                    self.trace.fact(Fact::Granted(self.process, sent));
                }
            }
            _ => {}
        }
    }

    fn asked(&mut self, step: &Step) {
        for request in step.requests.iter().filter(|request| request.action.is_write()) {
            let target = request.action.target();
            if self.machine.name() == "election" {
                self.claims.push((request.clone(), self.trace.now()));
            } else {
                let what = target.map_or_else(String::new, ToString::to_string);
                self.trace.fact(Fact::Writes(self.process, format!("{} {what}", request.action.name())));
            }
        }
    }
}

impl Wrapper for Watched {
    fn inner(&self) -> &dyn Machine {
        &*self.machine
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        self.heard(&event);
        let bytes = serde_json::to_vec(&(now, &event)).expect("events are JSON");
        let step = self.machine.step(event, now);
        let given = serde_json::to_vec(&step).expect("steps are JSON");
        self.asked(&step);
        let lane = self.process.to_string();
        let names = step.requests.iter().map(|request| request.action.name()).collect::<Vec<_>>();
        let what = format!("{} decides {}", self.machine.name(), names.join(", "));
        self.trace.record(&lane, what.trim_end(), &[&bytes, &given]);
        for note in &step.notes {
            if let Note::ConditionChanged { object, condition, status, reason, .. } = note {
                self.trace.record(&lane, &format!("{object}: {condition}={status} {reason}"), &[]);
            }
        }
        step
    }
}
