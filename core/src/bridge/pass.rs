//! One pass over a bridge: look, hand Secrets on, act, report.
//!
//! ```text
//!  begin ─┬─ being deleted ──▶ deletion
//!         ├─ no finalizer ──▶ Entering ─┐
//!         └─▶ Looking ◀────────────────┘
//!               └─▶ Copying ─▶ Acting ─▶ Acting … ─▶ Reporting ─▶ Reporting …
//! ```
//!
//! *Looking* reads what no watch shows: the content of Secrets that have changed, and objects before they are created. Each
//! *Acting* is one write that is missing, decided anew from all that is known by then. A stage without anything to ask for
//! is skipped, so that a pass over a bridge that is as it should be asks for nothing.
//!
//! Source: "Reconciliation Flow", "Requeue Strategy".

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::bridge::DPFHCPBridgeStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::deletion;
use super::dpucluster::{self, Lookup};
use super::image::Checked;
use super::names::{self, FINALIZER, condition};
use super::prerequisites::{self, Remedy};
use super::secrets::{self, Examined, Role, Standing, Verified};
use super::source::Source;
use super::view::{Own, View};
use super::world::{Bridge, Memory, Name, bridge_ref};
use super::{Controller, exposure, hosted_cluster, kubeconfig, metrics, readiness, status, vip};
use crate::engine::action::{Action, Class, Failure, Outcome, Subresource, Success};
use crate::engine::backoff::Backoff;
use crate::engine::driver::{Next, Verdict};
use crate::engine::finalizer;
use crate::engine::image::ImageReference;
use crate::time::{Monotonic, Now};

/// How status writes are tried again ("Requeue Strategy").
pub const STATUS_BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };
/// How often the status is written in one pass at most: a phase has two edges to go, and a HostedCluster that was deleted is
/// told before it is made anew.
const REPORTS_MAX: u32 = 5;

/// What a pass waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The finalizer is being entered.
    Entering,
    /// What no watch shows is being read.
    Looking(Pass, Vec<Read>),
    /// Secrets are being handed on, and the registry is asked.
    Copying(Pass, Vec<Handed>),
    /// One write is under way.
    Acting(Pass, Part),
    /// The status is being written.
    Reporting(Pass, News),
    /// The bridge is being deleted.
    Removing(deletion::Stage),
}

/// What a pass has found out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Pass {
    began: Monotonic,
    /// The DPUCluster, where it had to be read.
    dpu_cluster: Option<Lookup<Value>>,
    failures: Vec<(Part, Failure)>,
    written: BTreeSet<Part>,
    /// How long it took to look.
    looked: Duration,
    measured: bool,
    reports: u32,
}

/// A status with the conditions that it changes, whether it is another, the result of the validation, and the verdict.
type Judged = (DPFHCPBridgeStatus, Vec<Condition>, bool, &'static str, Verdict);

/// What a status tells that the one before did not.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct News {
    /// The conditions whose status or reason is another.
    pub conditions: Vec<Condition>,
    /// Whether the phase is another.
    pub phase: bool,
    /// Whether the spec was not looked at before.
    pub spec: bool,
}

/// Something that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// A Secret's copy.
    Secret(Role),
    /// The HostedCluster.
    HostedCluster,
    /// The NodePool.
    NodePool,
    /// The annotation of the API server's Service.
    Service,
    /// The DPUCluster's reference to its kubeconfig.
    DpuCluster,
}

/// Something that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Read {
    /// The DPUCluster.
    DpuCluster,
    /// The HostedCluster or NodePool.
    Own(Source),
    /// A Secret.
    Secret(Role),
    /// Its copy.
    Copy(Role),
}

/// What is handed on, with the version of what it comes from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Handed {
    /// A Secret.
    Secret(Role, Arc<Value>),
    /// The question whether there is such an image.
    Image(String, String),
}

impl Part {
    const fn title(self) -> &'static str {
        match self {
            Self::Secret(Role::Pull) => "the pull secret",
            Self::Secret(Role::Ssh) => "the SSH keys",
            Self::Secret(Role::Kubeconfig) => "the kubeconfig",
            Self::HostedCluster => "the HostedCluster",
            Self::NodePool => "the NodePool",
            Self::Service => "the API server's Service",
            Self::DpuCluster => "the DPUCluster",
        }
    }
}

impl Pass {
    /// What a part has met in this pass.
    pub fn failure(&self, part: Part) -> Option<&Failure> {
        self.failures.iter().find(|(failed, _)| *failed == part).map(|(_, failure)| failure)
    }
}

fn wait(actions: Vec<Action>, stage: Stage) -> Next<Stage> {
    Next::Await(actions, stage)
}

impl Controller {
    pub(super) fn begin_pass(&mut self, key: &Name, now: Now) -> Next<Stage> {
        let Some(bridge) = self.world.bridges.get(key) else {
            self.world.memories.remove(key);
            return Next::Done(Verdict::Converged);
        };
        if bridge.deleting {
            return self.begin_removal(key, now);
        }
        match finalizer::add(&bridge_ref(key), &bridge.metadata, FINALIZER) {
            Some(enter) => wait(vec![enter], Stage::Entering),
            None => self.look(key, now),
        }
    }

    pub(super) fn resume_pass(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        // What a pass did not wait for may have come in between.
        let is_deleting = self.world.bridges.get(key).is_none_or(|bridge| bridge.deleting);
        match stage {
            Stage::Removing(stage) => self.resume_removal(key, stage, outcomes, now),
            _ if is_deleting => Next::Done(Verdict::Requeue(Duration::ZERO)),
            Stage::Entering => self.entered(key, outcomes, now),
            Stage::Looking(pass, reads) => self.looked(key, pass, reads, outcomes, now),
            Stage::Copying(pass, handed) => self.copied(key, pass, handed, outcomes, now),
            Stage::Acting(pass, part) => self.acted(key, pass, part, outcomes, now),
            Stage::Reporting(pass, news) => self.reported(key, pass, &news, outcomes, now),
        }
    }

    fn entered(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                self.world.bridges.absorb(key.clone(), Bridge::read(&object));
                self.look(key, now)
            }
            Some(Err(failure)) => Next::Done(Verdict::retry("entering the finalizer", &failure)),
            _ => Next::Done(super::lagging()),
        }
    }

    fn look(&mut self, key: &Name, now: Now) -> Next<Stage> {
        let pass = Pass { began: now.monotonic, ..Pass::default() };
        let reads = self.with_view(key, &pass, now, |view| {
            let mut reads = BTreeSet::new();
            let refusal = view.world.refusal(Source::DpuClusters).map(|failure| failure.class);
            if view.bridge.dpu_cluster.is_some() && refusal.is_some_and(|class| class != Class::NotFound) {
                reads.insert(Read::DpuCluster);
            }
            for source in [Source::HostedClusters, Source::NodePools] {
                if let Ok(None) = view.world.find(source, view.key) {
                    reads.insert(Read::Own(source));
                }
            }
            for role in Role::ALL {
                let is_wanted = role != Role::Kubeconfig
                    || (kubeconfig::is_made(view) && kubeconfig::of_others(view).is_none());
                let copy = role.copy(view.key, view.bridge.dpu_cluster.as_ref());
                if is_wanted && copy.is_some() && view.secret(role) == Standing::Unread {
                    reads.extend([Read::Secret(role), Read::Copy(role)]);
                }
            }
            if is_image_due(view) {
                reads.insert(Read::Secret(Role::Pull));
            }
            reads.into_iter().collect::<Vec<Read>>()
        });
        let Some(reads) = reads else { return self.report(key, pass, now) };
        let targets = self.with_view(key, &pass, now, |view| {
            reads.iter().filter_map(|read| Some((*read, target(view, *read)?))).collect::<Vec<_>>()
        });
        let (reads, targets): (Vec<Read>, Vec<_>) = targets.unwrap_or_default().into_iter().unzip();
        let gets = targets.into_iter().map(|target| Action::Get { target, metadata_only: false });
        wait(gets.collect(), Stage::Looking(pass, reads))
    }

    fn looked(
        &mut self,
        key: &Name,
        mut pass: Pass,
        reads: Vec<Read>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        pass.looked = now.monotonic.since(pass.began);
        let mut secrets: Vec<(Role, Arc<Value>)> = Vec::new();
        let mut copies: Vec<(Role, Lookup<Arc<Value>>)> = Vec::new();
        for (read, outcome) in reads.into_iter().zip(outcomes) {
            let found = lookup(outcome);
            match read {
                Read::DpuCluster => {
                    let trimmed = |object: Arc<Value>| Source::DpuClusters.trim(&object).unwrap_or_default();
                    pass.dpu_cluster = Some(found.map(|object| object.map(trimmed)));
                }
                Read::Own(source) => match found {
                    Ok(Some(object)) => self.absorb(key, source, &object),
                    Ok(None) => {}
                    Err(failure) => pass.failures.push((part_of(source), failure)),
                },
                Read::Secret(role) => match found {
                    Ok(Some(object)) => {
                        self.absorb(key, Source::Secrets, &object);
                        secrets.push((role, object));
                    }
                    Ok(None) => {}
                    Err(failure) => pass.failures.push((Part::Secret(role), failure)),
                },
                Read::Copy(role) => copies.push((role, found)),
            }
        }
        let has_dpu_cluster =
            self.with_view(key, &pass, now, |view| view.dpu_cluster().is_some()).unwrap_or_default();
        let mut actions = Vec::new();
        let mut handed = Vec::new();
        for (role, secret) in secrets {
            let copy = copies.iter().find(|(of, _)| *of == role).map(|(_, copy)| copy);
            // A Secret may be read for its credentials only.
            if let Some(copy) = copy {
                match copy {
                    Err(failure) => pass.failures.push((Part::Secret(role), failure.clone())),
                    Ok(copy) => {
                        if let Some(write) =
                            self.compare(key, role, &secret, copy.as_deref(), has_dpu_cluster)
                        {
                            actions.push(write);
                            handed.push(Handed::Secret(role, marked(&secret)));
                        }
                    }
                }
            }
            if role == Role::Pull
                && let Some((ask, image)) = self.ask_registry(key, &pass, &secret, now)
            {
                actions.push(ask);
                handed.push(Handed::Image(image, secrets::marker(&secret)));
            }
        }
        wait(actions, Stage::Copying(pass, handed))
    }

    /// Compares a Secret with its copy, and remembers what came of it. Returns the write that is needed.
    fn compare(
        &mut self,
        key: &Name,
        role: Role,
        secret: &Value,
        copy: Option<&Value>,
        may_copy: bool,
    ) -> Option<Action> {
        let bridge = self.world.bridges.get(key)?;
        let complaint = match secrets::examine(role, key, bridge, secret, copy)? {
            Examined::Differs(write) => return may_copy.then_some(write),
            Examined::Bad(complaint) => Some(complaint),
            Examined::Same => None,
        };
        if let Some(copy) = copy {
            self.absorb(key, Source::Secrets, copy);
        }
        let verified = Verified::new(secret, copy, complaint);
        self.world.memories.entry(key.clone()).or_default().secrets.insert(role, verified);
        None
    }

    fn ask_registry(
        &mut self,
        key: &Name,
        pass: &Pass,
        secret: &Value,
        now: Now,
    ) -> Option<(Action, String)> {
        let config = secrets::docker_config(secret)?;
        self.with_view(key, pass, now, |view| {
            let image = view.spec.ocp_release_image.clone();
            is_image_due(view).then(|| {
                let reference = ImageReference::parse(&image).ok();
                let credentials = reference.and_then(|reference| config.credentials_for(&reference));
                (Action::FindImage { image: image.clone(), credentials }, image)
            })
        })?
    }

    fn copied(
        &mut self,
        key: &Name,
        mut pass: Pass,
        handed: Vec<Handed>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        for (handed, outcome) in handed.into_iter().zip(outcomes) {
            let memory = self.world.memories.entry(key.clone()).or_default();
            match (handed, outcome) {
                (Handed::Secret(role, source), Ok(Success::Object(copy))) => {
                    memory.secrets.insert(role, Verified::new(&source, Some(&copy), None));
                    self.absorb(key, Source::Secrets, &copy);
                }
                (Handed::Secret(role, _), Err(failure)) => pass.failures.push((Part::Secret(role), failure)),
                (Handed::Secret(..), Ok(_)) => {}
                (Handed::Image(image, secret), outcome) => {
                    let answer = match outcome {
                        Ok(Success::Image(found)) => Ok(found),
                        Ok(_) => Err(Failure::new(Class::Unknown, "the answer is about no image")),
                        Err(failure) => Err(failure),
                    };
                    let before = memory.image.take();
                    memory.image = Some(Checked::take(before, &image, secret, answer, now.monotonic));
                }
            }
        }
        self.act(key, pass, now)
    }

    /// The next write that is missing.
    fn act(&mut self, key: &Name, pass: Pass, now: Now) -> Next<Stage> {
        let next = self.with_view(key, &pass, now, |view| next_write(view, &pass)).flatten();
        match next {
            Some((part, action)) => wait(vec![action], Stage::Acting(pass, part)),
            None => self.report(key, pass, now),
        }
    }

    fn acted(
        &mut self,
        key: &Name,
        mut pass: Pass,
        part: Part,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        pass.written.insert(part);
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                if let (Part::DpuCluster, Some(_)) = (part, &pass.dpu_cluster) {
                    pass.dpu_cluster = Some(Ok(Source::DpuClusters.trim(&object)));
                }
                self.absorb(key, source_of(part), &object);
            }
            Some(Err(failure)) => pass.failures.push((part, failure)),
            _ => {}
        }
        self.act(key, pass, now)
    }

    fn report(&mut self, key: &Name, mut pass: Pass, now: Now) -> Next<Stage> {
        let judged = self.with_view(key, &pass, now, |view| {
            let (wanted, changed) = status::wanted(view, &pass);
            let differs = wanted != view.bridge.status;
            let result = dpucluster::result(view.bridge, view.dpu_cluster);
            (wanted, changed, differs, result, verdict(view, &pass))
        });
        let Some((wanted, changed, differs, result, verdict)) =
            judged.or_else(|| self.judge_unreadable(key, now))
        else {
            return Next::Done(Verdict::Converged);
        };
        if !std::mem::replace(&mut pass.measured, true) {
            self.notes.extend(metrics::validated(result, pass.looked));
        }
        if !differs {
            return Next::Done(verdict);
        }
        let Some(bridge) = self.world.bridges.get(key) else { return Next::Done(Verdict::Converged) };
        let news = News {
            conditions: changed,
            phase: wanted.phase != bridge.status.phase,
            spec: wanted.observed_generation != bridge.status.observed_generation,
        };
        wait(vec![write_status(key, bridge, &wanted)], Stage::Reporting(pass, news))
    }

    /// What follows for a bridge whose spec can't be read: to be told, and nothing else.
    fn judge_unreadable(&self, key: &Name, now: Now) -> Option<Judged> {
        let bridge = self.world.bridges.get(key)?;
        let problem = bridge.spec.as_ref().err()?;
        let lookup: Lookup<&Value> = match &bridge.dpu_cluster {
            Some(name) => self.world.find(Source::DpuClusters, name).map_err(Clone::clone),
            None => Ok(None),
        };
        let (wanted, changed) = status::unreadable(bridge, &lookup, problem, now);
        let differs = wanted != bridge.status;
        Some((wanted, changed, differs, dpucluster::result(bridge, &lookup), Verdict::Converged))
    }

    fn reported(
        &mut self,
        key: &Name,
        mut pass: Pass,
        news: &News,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                self.world.bridges.absorb(key.clone(), Bridge::read(&object));
                self.announce(key, news, now);
                // What was told may let something be done; the phase may have a further edge to go.
                pass.reports += 1;
                if pass.reports > REPORTS_MAX {
                    return Next::Done(Verdict::because(
                        "the server does not keep the status that is written",
                    ));
                }
                self.act(key, pass, now)
            }
            Some(Err(failure)) => Next::Done(Verdict::Retry {
                reason: format!("writing the status: {failure}"),
                backoff: Some(STATUS_BACKOFF),
            }),
            _ => Next::Done(super::lagging()),
        }
    }

    /// Lets somebody look at a bridge in its world; none if the bridge is gone or can't be read.
    pub(super) fn with_view<T>(
        &self,
        key: &Name,
        pass: &Pass,
        now: Now,
        look: impl FnOnce(&View<'_>) -> T,
    ) -> Option<T> {
        let bridge = self.world.bridges.get(key)?;
        let spec = bridge.spec.as_ref().ok()?;
        let nothing = Memory::default();
        let memory = self.world.memories.get(key).unwrap_or(&nothing);
        let dpu_cluster: Lookup<Value> = match (&pass.dpu_cluster, &bridge.dpu_cluster) {
            (Some(read), _) => read.clone(),
            (None, None) => Ok(None),
            (None, Some(name)) => {
                self.world.find(Source::DpuClusters, name).map(Option::<&Value>::cloned).map_err(Clone::clone)
            }
        };
        Some(look(&View { key, bridge, spec, world: &self.world, memory, dpu_cluster: &dpu_cluster, now }))
    }
}

/// The next write that brings the cluster nearer to what the spec says. Nothing is made, or changed, for a bridge whose
/// DPUCluster is not valid.
fn next_write(view: &View<'_>, pass: &Pass) -> Option<(Part, Action)> {
    view.dpu_cluster()?;
    let unmet = status::unmet(view, pass);
    let is_free = |part: Part| !pass.written.contains(&part) && pass.failure(part).is_none();
    let write =
        |part: Part, write: Option<Action>| write.filter(|_| is_free(part)).map(|write| (part, write));
    let before = view.bridge.condition(condition::HOSTED_CLUSTER_CREATED);
    let may_change = match view.hosted_cluster() {
        // That it was deleted is told before it is made anew.
        Own::Absent => unmet.is_empty() && before.is_none_or(|before| before.status != "True"),
        Own::Ours(_) => unmet.iter().all(|unmet| unmet.remedy == Remedy::Wait),
        Own::Unknown(_) | Own::Foreign | Own::Going => return None,
    };
    if may_change && let Some(write) = write(Part::HostedCluster, hosted_cluster::write(view)) {
        return Some(write);
    }
    view.hosted_cluster().ours()?;
    let has_room = matches!(view.node_pool(), Own::Absent | Own::Ours(_));
    if may_change
        && has_room
        && let Some(write) = write(Part::NodePool, hosted_cluster::write_node_pool(view))
    {
        return Some(write);
    }
    // To ask for an address that can't be given would take away the one that it has.
    if vip::check(view).is_none()
        && let Some(write) = write(Part::Service, exposure::write(view))
    {
        return Some(write);
    }
    write(Part::DpuCluster, kubeconfig::write(view))
}

/// When the bridge has to be looked at again though nothing happens ("Requeue Strategy").
fn verdict(view: &View<'_>, pass: &Pass) -> Verdict {
    if let Some((part, failure)) = pass.failures.first() {
        let backoff = Some(dpucluster::backoff(failure.class));
        return Verdict::Retry { reason: format!("{}: {failure}", part.title()), backoff };
    }
    if let Err(failure) = view.dpu_cluster {
        let backoff = Some(dpucluster::backoff(failure.class));
        return Verdict::Retry { reason: format!("reading the DPUCluster: {failure}"), backoff };
    }
    // The watch, which would tell when it comes, is refused.
    if let (Ok(None), Some(failure)) = (view.dpu_cluster, view.world.refusal(Source::DpuClusters)) {
        let backoff = Some(dpucluster::backoff(failure.class));
        return Verdict::Retry { reason: format!("watching DPUClusters: {failure}"), backoff };
    }
    let is_created = view.hosted_cluster().ours();
    let is = |name: &str, holds: fn(&Condition) -> bool| view.bridge.condition(name).is_some_and(holds);
    let is_waiting = !is(condition::PROVISIONED, |provisioned| provisioned.status == "True")
        && is(condition::READY, |ready| readiness::is_waiting(&ready.reason));
    let mut delays: Vec<Duration> = Vec::new();
    if prerequisites::image_matters(view) {
        delays.extend(view.memory.image.as_ref().and_then(|checked| checked.pause(view.now.monotonic)));
    }
    if let (Some(cluster), true) = (is_created, is_waiting) {
        delays.push(readiness::remaining(cluster, view.now));
    }
    let next = delays.into_iter().filter(|delay| !delay.is_zero()).min();
    next.map_or(Verdict::Converged, Verdict::Requeue)
}

/// Whether the registry has to be asked.
fn is_image_due(view: &View<'_>) -> bool {
    if !prerequisites::image_matters(view) {
        return false;
    }
    let source = Role::Pull.source(view.key, view.spec);
    let Ok(Some(secret)) = view.world.find(Source::Secrets, &source) else { return false };
    let image = &view.spec.ocp_release_image;
    let due = view.memory.image.as_ref().map(|checked| checked.due(image, &secrets::marker(secret)));
    due.is_none_or(|due| due <= view.now.monotonic)
}

/// What a read asks for.
fn target(view: &View<'_>, read: Read) -> Option<crate::object::ObjectRef> {
    let secret = names::secret();
    Some(match read {
        Read::DpuCluster => view.bridge.dpu_cluster.as_ref()?.object(&names::dpu_cluster()),
        Read::Own(source) => view.key.object(&source.kind()),
        Read::Secret(role) => role.source(view.key, view.spec).object(&secret),
        Read::Copy(role) => role.copy(view.key, view.bridge.dpu_cluster.as_ref())?.object(&secret),
    })
}

/// What a read has found.
pub fn lookup(outcome: Outcome) -> Lookup<Arc<Value>> {
    match outcome {
        Ok(Success::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(Failure::new(Class::Unknown, "the server's answer is no object")),
        Err(failure) if failure.class == Class::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A Secret's metadata, as much as tells its version.
fn marked(secret: &Value) -> Arc<Value> {
    let metadata = &secret["metadata"];
    Arc::new(
        json!({ "metadata": { "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"] } }),
    )
}

fn part_of(source: Source) -> Part {
    if source == Source::NodePools { Part::NodePool } else { Part::HostedCluster }
}

fn source_of(part: Part) -> Source {
    match part {
        Part::Secret(_) => Source::Secrets,
        Part::HostedCluster => Source::HostedClusters,
        Part::NodePool => Source::NodePools,
        Part::Service => Source::Services,
        Part::DpuCluster => Source::DpuClusters,
    }
}

/// A status, over the one that it was compared with.
pub fn write_status(key: &Name, bridge: &Bridge, status: &impl Serialize) -> Action {
    let version = &bridge.metadata["metadata"]["resourceVersion"];
    let metadata = json!({ "uid": bridge.uid, "resourceVersion": version });
    let mut status = json!(status);
    // A merge patch takes nothing away that it does not name.
    for (field, _) in json!(bridge.status).as_object().into_iter().flatten() {
        if status.get(field).is_none() {
            status[field] = Value::Null;
        }
    }
    let patch = Arc::new(json!({ "metadata": metadata, "status": status }));
    Action::Patch { target: bridge_ref(key), subresource: Some(Subresource::Status), patch }
}
