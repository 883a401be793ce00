//! Checks the pace of repairs: each repair of a resource in a row waits twice as long as the one before, and the fourth is reported
//! (decision 12).
//!
//! The count of this checker is never higher than that of the operator: whatever may have ended a row, ends it here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, ActionId, KubeRequest, Outcome, Success};
use lockstep_engine::machine::{Event, Note, ReconcileResult, Step};
use lockstep_engine::object::{ObjectRef, is_deleting, metadata};
use lockstep_namespaceclass::names;
use lockstep_sim::cluster::{Author, Carried, Change, Entry, What};
use lockstep_sim::conditions;
use lockstep_sim::history::{MINUTE, reference};
use lockstep_sim::invariant::is_deletion;
use lockstep_sim::subject::{Checker, Testimony};
use serde_json::Value;

use super::classes::is_content;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// The minimum time without a repair after which the count starts again.
const QUIET_MIN: Duration = Duration::from_secs(30);
/// The number of repairs in a row that is reported.
const REPORTED: u32 = 4;
/// How long a pass may take after a change, so that the operator counts from a later time.
const SLOW_PASS: Duration = LONGEST_WAIT;

/// The repairs of a resource in a row, by one process.
#[derive(Clone)]
struct Row {
    /// The manifest that the process applies, without preconditions.
    manifest: Value,
    /// The uid of the object.
    uid: String,
    /// Whether another client has changed the object since.
    is_changed: bool,
    /// The time of a repair without an answer.
    unanswered: Option<Duration>,
    repairs: u32,
    /// The time of the last one on the server, and that of its answer.
    last: Duration,
    answered: Duration,
    /// Whether the last apply failed; the next one need not wait.
    has_failed: bool,
}

impl Row {
    fn count(&mut self, at: Duration, answered: Duration) {
        self.repairs = if at >= self.last + quiet(self.repairs) { 1 } else { self.repairs + 1 };
        (self.last, self.answered) = (at, answered);
    }
}

/// Returns the delay after so many repairs in a row.
pub(super) fn wait(repairs: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << repairs.saturating_sub(1).min(20)).min(LONGEST_WAIT)
}

/// Returns the time without a repair after which the next one is a first one again.
fn quiet(repairs: u32) -> Duration {
    (wait(repairs) * 2).max(QUIET_MIN)
}

/// How often a process has applied a resource in a row: at least as often as the operator counts repairs. An apply that is repeated
/// because its answer was lost counts too.
#[derive(Clone, Copy, Default)]
struct Most {
    applies: u32,
    last: Duration,
}

impl Most {
    fn at(self, now: Duration) -> u32 {
        let is_in_row = now < self.last + quiet(self.applies) + SLOW_PASS;
        if is_in_row { self.applies } else { 0 }
    }
}

#[derive(Clone, Default)]
pub(super) struct RepairPace {
    rows: BTreeMap<(usize, ObjectRef), Row>,
    /// The classes, namespaces and bindings, as they were last delivered. Any change of them may end a row.
    known: BTreeMap<(usize, ObjectRef), Arc<Value>>,
    /// When each apply without an answer was requested.
    open: BTreeMap<(usize, ActionId), (ObjectRef, Duration)>,
    /// The changes of resources by the request that is being executed.
    changes: Vec<Change>,
    /// When each process started or crashed last. Its last requests may arrive after that.
    started: BTreeMap<usize, Duration>,
    /// The applies of each resource by each process.
    applied: BTreeMap<(usize, ObjectRef), Most>,
    /// The bindings on the server, each with its last author.
    bindings: BTreeMap<String, (Author, Arc<Value>)>,
}

impl Checker for RepairPace {
    fn fork(&self) -> Box<dyn Checker> {
        Box::new(self.clone())
    }

    fn see(&mut self, entry: &Entry) -> Result<(), Testimony> {
        match &entry.what {
            What::Started { process } | What::Died { process } => {
                self.forget(*process);
                self.started.insert(*process, entry.at);
                Ok(())
            }
            What::Stepped { process, event, step, .. } => self.stepped(*process, event, step, entry.at),
            What::Carried(carried) => self.carried(carried, entry.at),
            What::Changed(change) => self.changed(change, entry.at),
        }
    }
}

impl RepairPace {
    fn forget(&mut self, process: usize) {
        self.end_rows(|of, _| of == process);
        self.known.retain(|(of, _), _| *of != process);
        self.open.retain(|(of, _), _| *of != process);
        self.applied.retain(|(of, _), _| *of != process);
    }

    fn end_rows(&mut self, is_ended: impl Fn(usize, &ObjectRef) -> bool) {
        self.rows.retain(|(process, object), _| !is_ended(*process, object));
    }

    fn stepped(&mut self, process: usize, event: &Event, step: &Step, at: Duration) -> Result<(), Testimony> {
        match event {
            Event::Applied { object, .. } => self.delivered(process, object),
            Event::Finished { id, outcome } => {
                if let Ok(Success::Object(object)) = outcome {
                    self.delivered(process, object);
                }
                self.answered(process, *id, outcome, at);
            }
            Event::TimerFired | Event::Started => {}
            // Lists are rare, so they end every row.
            Event::LeadershipChanged { .. }
            | Event::ListStarted { .. }
            | Event::ListCompleted { .. }
            | Event::WatchFailed { .. } => self.end_rows(|of, _| of == process),
            Event::Deleted { kind, .. } => {
                if !is_content(&kind.kind) {
                    self.end_rows(|of, _| of == process);
                }
            }
        }
        for request in &step.requests {
            if let Action::Kube(KubeRequest::Apply { target, .. }) = &request.action {
                self.open.insert((process, request.id), (target.clone(), at));
            }
        }
        self.passes_report(process, step, at)
    }

    /// Ends rows if an object is another one than when it was last delivered.
    fn delivered(&mut self, process: usize, object: &Arc<Value>) {
        let kinds = [names::class(), names::namespace(), names::binding()];
        let Some(kind) = kinds.into_iter().find(|kind| object["kind"] == *kind.kind) else { return };
        let object_ref = reference(&kind, object);
        let last = self.known.insert((process, object_ref), Arc::clone(object));
        if last.is_none_or(|last| !is_same(&last, object)) {
            let namespace = if kind == names::namespace() {
                Some(metadata(object, "name"))
            } else {
                object["metadata"]["namespace"].as_str()
            };
            self.end_rows(|of, object| {
                of == process && namespace.is_none_or(|name| object.namespace.as_deref() == Some(name))
            });
        }
    }

    fn answered(&mut self, process: usize, id: ActionId, outcome: &Outcome, at: Duration) {
        let Some((target, _)) = self.open.remove(&(process, id)) else { return };
        let Some(row) = self.rows.get_mut(&(process, target)) else { return };
        row.has_failed = outcome.is_err();
        if let Some(repaired) = row.unanswered.take().filter(|_| outcome.is_ok()) {
            row.count(repaired, at);
        }
    }

    fn changed(&mut self, change: &Change, at: Duration) -> Result<(), Testimony> {
        let Change { by, object, old, new, .. } = change;
        if is_content(&object.kind.kind) {
            for ((process, of), row) in &mut self.rows {
                row.is_changed |= of == object && *by != Author::Process(*process);
            }
            if matches!(by, Author::Process(_)) {
                self.changes.push(change.clone());
            }
        }
        if object.kind != names::binding() {
            return Ok(());
        }
        let namespace = object.namespace.as_deref().unwrap_or_default();
        if is_deletion(change) || old.is_none() || !matches!(by, Author::Process(_)) {
            self.end_rows(|_, object| object.namespace.as_deref() == Some(namespace));
        }
        match new {
            Some(new) => self.bindings.insert(namespace.to_owned(), (*by, Arc::clone(new))),
            None => self.bindings.remove(namespace),
        };
        let is_contested = |binding: &Option<Arc<Value>>| {
            binding.as_deref().is_some_and(|it| ready(it)["reason"] == "Contested")
        };
        let Author::Process(process) = by else { return Ok(()) };
        let has_just_started = self.started.get(process).is_some_and(|started| *started + MINUTE > at);
        if has_just_started || is_contested(old) || !is_contested(new) {
            return Ok(());
        }
        let repaired = self
            .applied
            .iter()
            .filter(|((of, object), _)| of == process && object.namespace.as_deref() == Some(namespace));
        let most = repaired.map(|(_, most)| most.at(at)).max().unwrap_or_default();
        if most >= REPORTED {
            return Ok(());
        }
        Err(Testimony {
            invariant: "contested_means_repaired_often",
            sentence: "A binding is reported as contested only if its process has applied one of the resources at least four times in a row.",
            seen: format!(
                "{object} is contested, and no resource was applied more than {most} times in a row"
            ),
        })
    }

    fn carried(&mut self, carried: &Carried, at: Duration) -> Result<(), Testimony> {
        let changes = std::mem::take(&mut self.changes);
        let Action::Kube(KubeRequest::Apply { target, manifest }) = &carried.action else { return Ok(()) };
        if !is_content(&target.kind.kind) {
            return Ok(());
        }
        let key = (carried.process, target.clone());
        let most = self.applied.entry(key.clone()).or_default();
        *most = Most { applies: most.at(at) + 1, last: at };
        let change = changes.iter().find(|change| change.object == *target);
        let Some((change, Some(new))) = change.map(|change| (change, change.new.as_deref())) else {
            return Ok(());
        };
        // It may have waited in the network.
        let asked = self.open.get(&(carried.process, carried.id)).map(|(_, asked)| *asked);
        let first = Row {
            manifest: without_preconditions(manifest),
            uid: metadata(new, "uid").to_owned(),
            is_changed: false,
            unanswered: None,
            repairs: 0,
            last: Duration::ZERO,
            answered: Duration::ZERO,
            has_failed: false,
        };
        let Some(row) = self.rows.get_mut(&key) else {
            self.rows.insert(key, first);
            return Ok(());
        };
        // If another client has created an object of that name, it is adopted, which is no repair.
        let is_other =
            |old: &Value| metadata(old, "uid") != row.uid || manifest["metadata"].get("uid").is_none();
        let is_repair = row.is_changed
            && row.unanswered.is_none()
            && row.manifest == first.manifest
            && !change.old.as_deref().is_some_and(is_other);
        let Some(asked) = asked.filter(|asked| is_repair && *asked >= row.answered) else {
            *row = first;
            return Ok(());
        };
        let passed = asked.saturating_sub(row.last);
        let (repairs, due) = (row.repairs, wait(row.repairs));
        let is_early = repairs > 0 && !row.has_failed && passed < due;
        (row.uid, row.is_changed, row.unanswered) = (first.uid, false, Some(at));
        if !is_early {
            return Ok(());
        }
        Err(Testimony {
            invariant: "repairs_slow_down",
            sentence: "A resource that other clients keep changing is repaired after 0.5 s at the earliest, and after twice as long each time, up to 5 minutes.",
            seen: format!(
                "{target} was repaired {passed:?} after the {repairs}. repair in a row, and not after {due:?}"
            ),
        })
    }

    /// Checks that passes which began after the fourth repair report it.
    fn passes_report(&self, process: usize, step: &Step, at: Duration) -> Result<(), Testimony> {
        for note in &step.notes {
            let Note::Reconciled { object, result, took, .. } = note else { continue };
            let is_successful =
                matches!(result, ReconcileResult::Converged | ReconcileResult::Requeued { .. });
            if !is_successful || object.kind != names::binding() {
                continue;
            }
            let namespace = object.namespace.as_deref().unwrap_or_default();
            // What another leader wrote is corrected later.
            let stored = self.bindings.get(namespace).filter(|(by, _)| *by == Author::Process(process));
            let contested = self.rows.iter().find(|((of, resource), row)| {
                *of == process
                    && resource.namespace == object.namespace
                    && row.repairs >= REPORTED
                    && row.answered + *took < at
                    && at < row.last + wait(row.repairs) * 2
            });
            if let (Some((_, binding)), Some(((_, resource), row))) = (stored, contested)
                && ready(binding)["status"] == "True"
            {
                return Err(Testimony {
                    invariant: "repeated_repairs_are_reported",
                    sentence: "A binding is not ready after the fourth repair of a resource in a row.",
                    seen: format!("{object} is ready, and {resource} was repaired {} times", row.repairs),
                });
            }
        }
        Ok(())
    }
}

fn ready(binding: &Value) -> &Value {
    conditions::find(binding, "Ready").unwrap_or(&Value::Null)
}

/// Returns whether two deliveries of an object are the same to the operator, apart from its own reports.
fn is_same(one: &Value, other: &Value) -> bool {
    let fields = ["uid", "generation", "labels", "annotations"];
    let status = ["observedClassName", "observedClassUid", "observedClassGeneration", "appliedResources"];
    is_deleting(one) == is_deleting(other)
        && fields.iter().all(|field| one["metadata"].get(field) == other["metadata"].get(field))
        && status.iter().all(|field| one["status"].get(field) == other["status"].get(field))
}

fn without_preconditions(manifest: &Value) -> Value {
    let mut manifest = manifest.clone();
    if let Some(metadata) = manifest["metadata"].as_object_mut() {
        metadata.remove("uid");
        metadata.remove("resourceVersion");
    }
    manifest
}
