//! The network level of the simulator: the real shell and the real kube client on hosts of a simulated network.
//!
//! ```text
//!   users ──────────┐                    the model of the API server, its garbage collector and
//!   operator-1 ─────┼── simulated TCP ── namespace controller, behind the HTTP host that
//!   operator-2 ─────┤                    `lockstep dev` uses
//!   around ─────────┘
//! ```
//!
//! Each controller has a [`scene`]: its users, the systems around it, and the desired state. A seed determines the rest: the
//! operations of users, the latency of messages, and the faults with their times ([`plan`]). Fault injection ends after two
//! minutes. Then the cluster must reach the desired state within a time that follows from the plan ([`Plan::settled_by`]) and
//! the scene. It must stay there without a single write over a further resync. [`rules`] has the invariants that are checked at
//! every moment. Time is virtual, one thread runs everything, and the same seed gives the same trace, byte for byte
//! ([`trace`]).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::random::Random;
use turmoil::{Builder, Sim};

pub mod beyond;
pub mod client;
pub mod faulty;
pub mod operator;
pub mod plan;
pub mod rules;
pub mod scene;
pub mod server;
pub mod stage;
pub mod timing;
pub mod trace;
pub mod users;
pub mod world;

use beyond::Beyond;
use faulty::Bug;
use operator::Host;
use plan::{Fault, LURKS, Plan};
use scene::Scene;
use timing::{RESYNC, TROUBLE};
use trace::Trace;

/// The step of the simulated network. A message between hosts arrives in the next step at the earliest.
pub const TICK: Duration = Duration::from_millis(50);

/// How long the operators must have been able to write, and have written nothing, before the cluster counts as settled. The
/// lease of another process expires in 15 s.
const REST: Duration = Duration::from_secs(20);

/// The interval between checks of whether the cluster is settled.
const LOOK: Duration = Duration::from_secs(5);

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// The hash of the trace.
    pub hash: String,
    /// The violated invariant, if there is one.
    pub violated: Option<String>,
    /// The faults of the run.
    pub faults: Vec<(Duration, Fault)>,
    /// The time from when all watches could receive events again until the cluster was settled and no operator wrote.
    pub settled_after: Duration,
    /// The virtual time that passed.
    pub elapsed: Duration,
    /// The number of writes of former leaders that arrived while another process led.
    pub late_writes: usize,
    /// The number of writes by operators, by method and kind.
    pub writes: BTreeMap<String, usize>,
    /// The timeline for people; empty unless requested.
    pub timeline: String,
}

/// Runs a seed, with a bug in the shell if one is given.
pub fn run(scene: Scene, seed: u64, bug: Option<Bug>, timeline: bool) -> Report {
    let mut random = Random::from_seed(seed);
    let plan = Plan::draw(&mut random);
    run_plan(scene, plan, random, bug, timeline)
}

/// Runs a plan. Everything that the plan does not determine follows from the random bits.
pub fn run_plan(scene: Scene, plan: Plan, mut random: Random, bug: Option<Bug>, timeline: bool) -> Report {
    let trace = Trace::new(timeline);
    let mut run = Run::new(scene, plan.clone(), bug, &mut random, &trace);
    let (settled_after, violated) = match run.play() {
        Ok(settled_after) => (settled_after, None),
        Err(violated) => (Duration::ZERO, Some(violated)),
    };
    let rules = trace.facts(|facts| rules::one_leader(facts).and_then(|()| rules::leased(facts)));
    let violated = rules.err().or(violated);
    Report {
        hash: trace.hash(),
        violated,
        faults: plan.faults,
        settled_after,
        elapsed: run.sim.elapsed(),
        late_writes: trace.facts(rules::late_writes),
        writes: trace.facts(rules::writes),
        timeline: trace.timeline(),
    }
}

struct Run {
    sim: Sim<'static>,
    scene: Scene,
    beyond: Beyond,
    plan: Plan,
    hosts: [Host; 2],
    state: lockstep_apiserver::host::State,
    trace: Trace,
    /// The end times of active faults, each with its fault.
    ends: Vec<(Duration, Fault)>,
}

impl Run {
    fn new(scene: Scene, plan: Plan, bug: Option<Bug>, random: &mut Random, trace: &Trace) -> Self {
        let mut sim = Builder::new()
            .rng_seed(random.bits())
            .epoch(UNIX_EPOCH)
            .tick_duration(TICK)
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(plan.latency)
            .tcp_capacity(4096)
            .simulation_duration(Duration::from_hours(24))
            .build();
        let beyond = scene.beyond();
        let state = server::state(scene.prepared(&beyond), trace);
        let served = state.clone();
        sim.host(server::HOST, move || server::run(served.clone()));
        let hosts = [1, 2].map(|number| Host::new(number, random.bits(), bug, (scene, &beyond), trace));
        for host in &hosts {
            let program = host.clone();
            sim.host(host.name(), move || program.clone().run());
        }
        scene.populate(&mut sim, &state, &beyond, random.bits(), trace);
        Self { sim, scene, beyond, plan, hosts, state, trace: trace.clone(), ends: Vec::new() }
    }

    /// Executes the plan. Returns how long the cluster took to settle.
    fn play(&mut self) -> Result<Duration, String> {
        let mut planned = self.plan.faults.clone();
        while self.sim.elapsed() < TROUBLE {
            let now = self.sim.elapsed();
            let writing = self.trace.facts(|facts| rules::writing(facts, now.saturating_sub(TICK)));
            let due = |(at, fault): &mut (Duration, Fault)| {
                *at <= now && (!fault.lurks() || writing || *at + LURKS <= now)
            };
            for (_, fault) in planned.extract_if(.., due).collect::<Vec<_>>() {
                self.begin(fault);
            }
            self.end_those_due(now);
            self.step()?;
        }
        self.end_those_due(Duration::MAX);
        self.trace.record("faults", "none from here on", &[]);
        self.scene.calm(&self.state, &self.beyond, &self.trace);
        let settled = self.settle()?;
        // The resync interval of a leader may have begun at any time until now.
        let quiet_until = self.sim.elapsed() + RESYNC + LOOK;
        while self.sim.elapsed() < quiet_until {
            self.step()?;
        }
        self.trace.facts(|facts| rules::quiet(facts, settled))?;
        match self.undesired() {
            None => Ok(settled.saturating_sub(self.plan.heard_by())),
            Some(wrong) => Err(format!("the world did not stay as it was: {wrong}")),
        }
    }

    fn undesired(&self) -> Option<String> {
        self.scene.undesired(&self.state, &self.beyond, &self.trace)
    }

    fn settle(&mut self) -> Result<Duration, String> {
        let settled_by = self.plan.settled_by() + self.scene.bound();
        loop {
            let look = self.sim.elapsed() + LOOK;
            while self.sim.elapsed() < look {
                self.step()?;
            }
            let now = self.sim.elapsed();
            let busy = self.trace.facts(rules::last_write).max(self.plan.heard_by());
            let (rested, overdue) = (now.saturating_sub(busy) >= REST, now >= settled_by);
            if !rested && !overdue {
                continue;
            }
            match (self.trace.facts(rules::leader), self.undesired()) {
                (Some(_), None) if rested => return Ok(now),
                _ if !overdue => {}
                (None, _) => return Err(format!("no process leads at {now:?}")),
                (_, Some(wrong)) => return Err(format!("not as desired at {now:?}: {wrong}")),
                (_, None) => return Err(format!("still writing at {now:?}")),
            }
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.trace.step(self.sim.elapsed());
        self.sim.step().map(drop).map_err(|error| format!("a host failed: {error}"))
    }

    fn begin(&mut self, fault: Fault) {
        self.trace.record("faults", &format!("{fault} begins"), &[]);
        let until = self.sim.elapsed() + fault.lasts();
        match &fault {
            Fault::Partition(n, _) => self.sim.partition(name(*n), server::HOST),
            Fault::Mute(n, _) => self.sim.partition_oneway(name(*n), server::HOST),
            Fault::Deafen(n, _) => self.sim.partition_oneway(server::HOST, name(*n)),
            Fault::Hold(n, _) => self.sim.hold(name(*n), server::HOST),
            Fault::Loss(n, percent, _) => {
                let rate = f64::from(u32::try_from(*percent).unwrap_or_default()) / 100.0;
                self.sim.set_link_fail_rate(name(*n), server::HOST, rate);
            }
            Fault::Crash(n, _) => self.sim.crash(name(*n)),
            Fault::Terminate(n) => return self.hosts[n - 1].terminate.notify_waiters(),
            Fault::Restart(_, forget) => {
                self.sim.crash(server::HOST);
                if *forget {
                    self.state.with_server(ApiServer::compact);
                }
            }
            Fault::Compact => return self.state.with_server(ApiServer::compact),
            Fault::Skew(n, by) => {
                self.hosts[n - 1].skew_ms.fetch_add(*by, Ordering::SeqCst);
                return;
            }
        }
        self.ends.push((until, fault));
    }

    fn end_those_due(&mut self, now: Duration) {
        let due: Vec<_> = self.ends.extract_if(.., |(until, _)| *until <= now).collect();
        for (_, fault) in due {
            self.trace.record("faults", &format!("{fault} ends"), &[]);
            match &fault {
                Fault::Partition(n, _) => self.sim.repair(name(*n), server::HOST),
                Fault::Mute(n, _) => self.sim.repair_oneway(name(*n), server::HOST),
                Fault::Deafen(n, _) => self.sim.repair_oneway(server::HOST, name(*n)),
                Fault::Hold(n, _) => self.sim.release(name(*n), server::HOST),
                Fault::Loss(n, ..) => {
                    self.sim.set_link_fail_rate(name(*n), server::HOST, 0.0);
                    self.sim.repair(name(*n), server::HOST);
                }
                Fault::Crash(n, _) => self.sim.bounce(name(*n)),
                Fault::Restart(..) => self.sim.bounce(server::HOST),
                Fault::Terminate(_) | Fault::Compact | Fault::Skew(..) => {}
            }
        }
    }
}

fn name(operator: usize) -> String {
    format!("operator-{operator}")
}
