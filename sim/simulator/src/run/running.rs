//! A run in progress: the cluster, the faults injected so far, and the faults still to come.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use lockstep_engine::action::{Action, ErrorKind};
use lockstep_engine::object::ObjectRef;
use lockstep_engine::random::Random;

use super::check::check;
use super::outcome::{LIVENESS, Run, Violation};
use super::program::Runs;
use super::simulation::Simulation;
use crate::cluster::{Author, Carried, Cluster, Entry, What};
use crate::coverage::Collector;
use crate::history::{History, Version};
use crate::plan::{Plan, What as Fault};
use crate::planned_faults::PlannedFaults;
use crate::subject::{Checker, ClusterClient, SystemUnderTest, World};
use crate::trace::Trace;

/// The interval of resyncs.
const RESYNC: Duration = Duration::from_mins(10);
/// Duration without writes that is required after convergence: two resyncs, and a little more.
const QUIET: Duration = Duration::from_mins(21);
/// The same for a new leader: it reconciles everything at once.
const TAKEN_OVER: Duration = Duration::from_mins(2);
/// How long a controller that never becomes idle must keep the desired state.
const BUSY: Duration = Duration::from_mins(2);
/// The delay of the control plane without faults.
const PACE: SignedDuration = SignedDuration::from_millis(50);
/// Maximum number of steps of one controller in one run; more mean an endless loop.
const STEPS_MAX: u64 = 300_000;

/// A follow-up that becomes due at its own time.
#[derive(Debug, Clone, Copy)]
enum Later {
    Injection(usize),
    StopLeading(usize),
    End(usize),
    /// A process becomes leader again, unless another process has taken over from this one.
    LeadAfter(usize),
    EndTravel,
    SpeedUp,
}

impl Simulation {
    /// Runs a plan. The journal is kept only if `keep` is set.
    pub fn run(&self, plan: &Plan, keep: bool) -> Run {
        Running::begin(self, plan, keep).go()
    }
}

pub(super) struct Running<'a> {
    simulation: &'a Simulation,
    plan: &'a Plan,
    pub(super) cluster: Cluster<PlannedFaults>,
    history: History,
    /// The controllers that run.
    pub(super) members: Vec<&'static dyn SystemUnderTest>,
    /// The checkers of the controllers.
    witnesses: Vec<Option<Box<dyn Checker>>>,
    trace: Trace,
    later: BTreeMap<(Duration, usize), Later>,
    laters: usize,
    /// Faults that wait for a request of their targeted action.
    aimed: Vec<usize>,
    /// The process of each controller that leads, or was the last to become leader.
    leaders: Vec<usize>,
    /// The process of each controller that waits to take over, if the plan has standbys.
    standbys: Vec<Option<usize>>,
    steps: u64,
    requests: u64,
    /// When a request was last refused for a reason that a person must remove. Some of these are repeated at the next resync only.
    refused: Option<Duration>,
    journal: Option<Vec<Entry>>,
    coverage: Option<Collector>,
}

impl<'a> Running<'a> {
    fn begin(simulation: &'a Simulation, plan: &'a Plan, keep: bool) -> Self {
        let members = simulation.members();
        let storm = PlannedFaults::new(plan.clone());
        let mut cluster = Cluster::around(simulation.server.clone(), simulation.start, storm);
        cluster.actors.garbage.delay = PACE;
        cluster.actors.namespaces.delay = PACE;
        cluster.outside = simulation.subject.outside();
        let mut running = Self {
            simulation,
            plan,
            cluster,
            history: History::default(),
            witnesses: members.iter().map(|member| member.witness()).collect(),
            leaders: vec![0; members.len()],
            standbys: vec![None; members.len()],
            members,
            trace: Trace::default(),
            later: BTreeMap::new(),
            laters: 0,
            aimed: Vec::new(),
            steps: 0,
            requests: 0,
            refused: None,
            journal: keep.then(Vec::new),
            coverage: simulation.covers.then(Collector::default),
        };
        for (index, fault) in plan.faults.iter().enumerate() {
            if fault.what.targets_requests() {
            } else if fault.aim.is_some() {
                running.aimed.push(index);
            } else {
                running.at(Duration::from_millis(fault.from_ms), Later::Injection(index));
            }
        }
        for member in 0..running.members.len() {
            running.lead(member);
        }
        for world in simulation.subject.external(plan.seed) {
            running.cluster.start_foreign(world);
        }
        running
    }

    fn go(mut self) -> Run {
        let violation = self.storm().and_then(|()| self.calm()).and_then(|()| self.quiet()).err();
        let simulated = self.cluster.elapsed();
        let storm = &mut self.cluster.weather;
        Run {
            violation,
            steps: self.steps,
            requests: self.requests,
            simulated,
            struck: std::mem::take(&mut storm.struck),
            strikes: std::mem::take(&mut storm.strikes),
            controllers: self.history.controllers().clone(),
            hash: self.trace.finish(),
            journal: self.journal.unwrap_or_default(),
            reached: self.coverage.map(Collector::finish).unwrap_or_default(),
        }
    }

    fn storm(&mut self) -> Result<(), Violation> {
        self.until(Duration::from_millis(self.plan.stormy_ms))
    }

    /// Checks that the desired state is reached in time after fault injection has ended.
    fn calm(&mut self) -> Result<(), Violation> {
        self.cluster.weather.end();
        self.aimed.clear();
        for (_, later) in std::mem::take(&mut self.later) {
            match later {
                Later::Injection(_) => {}
                later => self.come(later),
            }
        }
        for process in 0..self.cluster.processes() {
            self.cluster.resume(process);
        }
        self.cluster.set_clocks();
        let subject = self.simulation.subject;
        subject.calm(&mut ClusterClient { cluster: &mut self.cluster, actor: "user" });
        let end = self.cluster.elapsed() + subject.bound();
        while !self.cluster.is_idle() && self.cluster.step(end) {
            self.digest()?;
        }
        let is_refused = self.refused.is_some_and(|at| at + RESYNC >= self.cluster.elapsed());
        let is_idle = self.cluster.is_idle() && !self.history.is_retrying();
        let is_checked = is_idle && subject.needs_no_resync() && !is_refused && !self.is_status_edited();
        let at_rest = if is_checked { self.differs(6) } else { Ok(()) };
        self.until(end)?;
        self.differs(0)?;
        at_rest
    }

    /// Returns whether another client was the last to change a status. A controller need not notice that before the next resync that
    /// begins after it could see the change.
    fn is_status_edited(&self) -> bool {
        let status = |version: &Version| version.object.as_ref().map(|object| object["status"].clone());
        let is_edited = |object: &ObjectRef| {
            let mut pairs = self.history.versions(object).windows(2).rev();
            let last = pairs.find(|pair| status(&pair[0]) != status(&pair[1]));
            last.is_some_and(|pair| matches!(pair[1].by, Author::Client(_)))
        };
        self.simulation.subject.reports(&self.cluster.server).iter().any(is_edited)
    }

    /// Checks that nothing is written in the desired state, also by a new leader, and that each status can be rebuilt.
    fn quiet(&mut self) -> Result<(), Violation> {
        if !self.members.iter().any(|member| member.becomes_idle()) {
            self.until(self.cluster.elapsed() + BUSY)?;
            self.differs(0)?;
            self.leaders_rebuild()?;
            return self.new_leaders_rebuild();
        }
        self.still(QUIET, 1)?;
        let uncounted = self.history.uncounted(&self.cluster.server);
        if !uncounted.is_empty() {
            return Err(self.unmet(3, uncounted.join("; ")));
        }
        let logging = self.members.iter().filter(|member| member.logs_written_conditions());
        let unlogged: Vec<String> =
            logging.flat_map(|member| self.history.unlogged(&self.cluster.server, member.name())).collect();
        if !unlogged.is_empty() {
            return Err(self.unmet(5, unlogged.join("; ")));
        }
        self.leaders_rebuild()?;
        self.replace_leaders();
        self.still(TAKEN_OVER, 4)?;
        self.new_leaders_rebuild()
    }

    /// Checks that nothing is written for some time, and that the state is the desired one.
    fn still(&mut self, time: Duration, liveness: usize) -> Result<(), Violation> {
        self.without_writes(time, liveness, |_| false)?;
        self.differs(0)
    }

    /// Checks that nothing is written for some time but what is permitted.
    pub(super) fn without_writes(
        &mut self,
        time: Duration,
        liveness: usize,
        is_permitted: fn(&Action) -> bool,
    ) -> Result<(), Violation> {
        let end = self.cluster.elapsed() + time;
        while self.cluster.step(end) {
            let write = self.cluster.journal.iter().find_map(|entry| match &entry.what {
                What::Carried(carried) if self.counts(carried) && !is_permitted(&carried.action) => {
                    Some(carried.action.clone())
                }
                _ => None,
            });
            self.digest()?;
            if let Some(write) = write {
                let target = write.target().map(ToString::to_string).unwrap_or_default();
                return Err(self.unmet(liveness, format!("it asked for {} {target}", write.name())));
            }
        }
        self.cluster.advance(end.saturating_sub(self.cluster.elapsed()));
        Ok(())
    }

    pub(super) fn differs(&self, liveness: usize) -> Result<(), Violation> {
        let world = World {
            server: &self.cluster.server,
            outside: self.cluster.outside.as_deref(),
            now: self.cluster.timestamp(),
        };
        let differences = self.simulation.subject.differences(&world);
        if differences.is_empty() {
            return Ok(());
        }
        Err(self.unmet(liveness, differences.join("; ")))
    }

    pub(super) fn unmet(&self, liveness: usize, seen: String) -> Violation {
        let (invariant, sentence) = LIVENESS[liveness];
        Violation { invariant, sentence, seen, at: self.cluster.elapsed() }
    }

    /// Continues until that time, including scheduled follow-ups.
    fn until(&mut self, end: Duration) -> Result<(), Violation> {
        loop {
            let next = self.later.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= end);
            if self.cluster.step(next.unwrap_or(end)) {
                self.digest()?;
                continue;
            }
            let Some(next) = next else { break };
            self.cluster.advance(next.saturating_sub(self.cluster.elapsed()));
            if let Some((_, later)) = self.later.pop_first() {
                self.come(later);
                self.digest()?;
            }
        }
        self.cluster.advance(end.saturating_sub(self.cluster.elapsed()));
        Ok(())
    }

    fn at(&mut self, at: Duration, later: Later) {
        self.later.insert((at, self.laters), later);
        self.laters += 1;
    }

    fn after(&mut self, delay_ms: u64, later: Later) {
        self.at(self.cluster.elapsed() + Duration::from_millis(delay_ms), later);
    }

    /// Lets another process of each controller take over.
    pub(super) fn replace_leaders(&mut self) {
        self.stop_leaders();
        for member in 0..self.members.len() {
            self.lead(member);
        }
    }

    pub(super) fn stop_leaders(&mut self) {
        for leader in &self.leaders {
            self.cluster.crash(*leader, None);
        }
    }

    pub(super) fn has_standbys(&self) -> bool {
        self.plan.standby
    }

    /// Lets the standby of a controller lead, or a new process if there is none.
    fn lead(&mut self, member: usize) {
        self.leaders[member] = match self.standbys[member] {
            Some(standby) => {
                self.cluster.lead(standby, true);
                standby
            }
            None => self.start(member, true),
        };
        if self.plan.standby {
            self.standbys[member] = Some(self.start(member, false));
        }
    }

    /// Starts a process of a controller, leading or not, and returns its number.
    fn start(&mut self, member: usize, leading: bool) -> usize {
        let (plan_seed, process) = (self.plan.seed, self.cluster.processes());
        let (subject, bug) = (self.members[member], self.simulation.bug);
        self.history.assign(process, subject.name());
        self.cluster.weather.assign(process, subject.name());
        let runs = Runs { subject, bug, plan_seed, process, incarnations: Cell::new(0) };
        self.cluster.start(runs, leading)
    }

    /// Returns the controller of a process, as an index.
    fn member(&self, process: usize) -> Option<usize> {
        let controller = self.history.controller(process)?;
        self.members.iter().position(|member| member.name() == controller)
    }

    /// Returns whether a request is a write that a controller makes only as long as it is not idle.
    fn counts(&self, carried: &Carried) -> bool {
        let member = self.member(carried.process).map(|member| self.members[member]);
        carried.action.is_write() && member.is_some_and(SystemUnderTest::becomes_idle)
    }

    fn come(&mut self, later: Later) {
        match later {
            Later::Injection(fault) => self.strike(fault, None),
            Later::StopLeading(process) => self.cluster.lead(process, false),
            Later::End(process) => self.cluster.crash(process, None),
            Later::LeadAfter(process) => {
                if let Some(member) = self.leaders.iter().position(|leader| *leader == process) {
                    self.lead(member);
                }
            }
            Later::EndTravel => self.cluster.weather.travel(None),
            Later::SpeedUp => self.pace(PACE),
        }
    }

    fn pace(&mut self, delay: SignedDuration) {
        self.cluster.actors.garbage.delay = delay;
        self.cluster.actors.namespaces.delay = delay;
    }

    fn strike(&mut self, fault: usize, under_way: Option<&'static str>) {
        let it = &self.plan.faults[fault];
        let at = self.cluster.elapsed();
        self.history.disturb(at);
        let is_hit = |member: &&dyn SystemUnderTest| it.controller.as_deref() == Some(member.name());
        let member = self.members.iter().position(is_hit).unwrap_or(0);
        let leader = self.leaders[member];
        let left = it.until_ms.saturating_sub(u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
        match &it.what {
            Fault::WatchLate { .. } | Fault::WatchTwice => self.cluster.weather.begin(fault),
            Fault::WatchCut => self.cluster.cut_watches(leader, None),
            Fault::TimeTravel { changes } => {
                self.cluster.weather.travel(Some((*changes, it.controller.clone())));
                self.cluster.cut_watches(leader, None);
                self.after(2000, Later::EndTravel);
            }
            Fault::Compaction => {
                self.cluster.server.compact();
                self.cluster.cut_watches(leader, None);
            }
            Fault::Pause { by_ms } => self.cluster.pause(leader, Duration::from_millis(*by_ms)),
            Fault::ClockJump { by_ms } => self.cluster.skew(leader, *by_ms),
            Fault::TwoLeaders { for_ms } => {
                self.lead(member);
                self.after(*for_ms, Later::StopLeading(leader));
                self.after(for_ms + 1000, Later::End(leader));
            }
            Fault::Handover { gap_ms } => {
                self.cluster.crash(leader, None);
                self.after(*gap_ms, Later::LeadAfter(leader));
            }
            Fault::SlowControlPlane { by_ms } => {
                self.pace(SignedDuration::from_millis(i64::try_from(*by_ms).unwrap_or(i64::MAX)));
                self.after(left, Later::SpeedUp);
            }
            Fault::Operation { name, seed } => {
                let acts = self.simulation.subject.operations();
                if let Some(act) = acts.iter().find(|act| act.name == name) {
                    if let Some(coverage) = &mut self.coverage {
                        coverage.meet(act.name, None);
                    }
                    let mut client = ClusterClient { cluster: &mut self.cluster, actor: act.actor };
                    (act.run)(&mut client, &mut Random::from_seed(*seed));
                }
            }
            Fault::Fail { .. }
            | Fault::AnswerLost
            | Fault::SlowRequest { .. }
            | Fault::SlowAnswer { .. }
            | Fault::CrashBefore { .. }
            | Fault::CrashAfter { .. } => {}
        }
        if let Some(coverage) = &mut self.coverage
            && !matches!(it.what, Fault::Operation { .. })
        {
            coverage.meet(it.what.name(), it.controller.as_deref());
        }
        let affected = under_way.map(|action| format!("while {action} is under way")).unwrap_or_default();
        self.cluster.weather.struck(fault, at, under_way, affected);
    }

    /// Processes new journal entries: checks them, adds them to the history, and injects the faults that target them.
    fn digest(&mut self) -> Result<(), Violation> {
        while !self.cluster.journal.is_empty() {
            let entries = std::mem::take(&mut self.cluster.journal);
            let mut under_way = Vec::new();
            for entry in entries {
                self.trace.absorb(&entry);
                self.count(&entry, &mut under_way);
                let checked = check(self.simulation.subject, &self.cluster.server, &self.history, &entry)
                    .and_then(|()| self.testify(&entry));
                self.history.absorb(&entry);
                if let Some(coverage) = &mut self.coverage {
                    coverage.absorb(&entry, &self.history, &self.cluster.server);
                }
                if let Some(journal) = &mut self.journal {
                    journal.push(entry);
                }
                checked?;
            }
            for (process, action) in under_way {
                self.take_aim(process, action);
            }
        }
        if self.steps > STEPS_MAX * self.members.len() as u64 {
            return Err(self.unmet(2, format!("{} steps in {:?}", self.steps, self.cluster.elapsed())));
        }
        Ok(())
    }

    fn count(&mut self, entry: &Entry, under_way: &mut Vec<(usize, &'static str)>) {
        match &entry.what {
            What::Stepped { process, step, .. } => {
                self.steps += 1;
                under_way.extend(step.requests.iter().map(|request| (*process, request.action.name())));
            }
            What::Carried(carried) => {
                self.requests += 1;
                if let Some(ErrorKind::Forbidden | ErrorKind::Invalid) = carried.failed {
                    self.refused = Some(entry.at);
                }
            }
            What::Started { .. } | What::Died { .. } | What::Changed(_) => {}
        }
    }

    fn take_aim(&mut self, process: usize, action: &'static str) {
        let now = u64::try_from(self.cluster.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (plan, controller) = (self.plan, self.history.controller(process));
        let hits = |index: &usize| {
            let fault = &plan.faults[*index];
            let is_of_it = fault.controller.is_none() || fault.controller.as_deref() == controller;
            is_of_it
                && fault.aim.as_deref() == Some(action)
                && (fault.from_ms..=fault.until_ms).contains(&now)
        };
        let (struck, waiting) = std::mem::take(&mut self.aimed).into_iter().partition(hits);
        self.aimed = waiting;
        let struck: Vec<usize> = struck;
        for fault in struck {
            self.strike(fault, Some(action));
        }
    }

    fn testify(&mut self, entry: &Entry) -> Result<(), Violation> {
        // What no process has done concerns all of them.
        let of = match entry.process() {
            Some(process) => self.member(process).map_or(0..0, |member| member..member + 1),
            None => 0..self.witnesses.len(),
        };
        let mut seen = self.witnesses[of].iter_mut().flatten().map(|witness| witness.see(entry));
        seen.find_map(Result::err).map_or(Ok(()), |testimony| Err(Violation::of(testimony, entry.at)))
    }
}
