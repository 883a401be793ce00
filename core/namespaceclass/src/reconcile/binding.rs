//! The reconcile of a binding: its namespace contains the resources of its class, and no others.
//!
//! ```text
//!  begin ─┬─ class unknown ──▶ ReadingClass ──▶ the reconcile of the namespace removes the binding
//!         └─▶ Discovering ─▶ ReadingLive ─▶ RecordingIntent ─▶ Pruning ─▶ Applying ─▶ Reporting
//! ```
//!
//! A stage that has nothing to do is skipped. So a pass over a namespace in its desired state makes no requests.
//!
//! `ReadingLive` reads the metadata of objects that are not ours according to the cache. If something may be removed, it also
//! reads the metadata of the class. If the class has changed by then, the pass reads the class and starts again.
//!
//! `RecordingIntent` writes the status ahead, with the binding's resource version as a precondition. So every object is
//! listed before it is created, and nothing is removed on a stale view. Every removal carries the uid and resource version in
//! which the object was seen to be ours.
//!
//! Source: NamespaceClass operator, "`BindingReconciler`", "Update an Existing NamespaceClass", "Remove an Existing NamespaceClass",
//! "Two-Tier Reconciliation", "Server-Side Apply (SSA)".

mod survey;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::namespaceclass::{AppliedResource, NamespaceClassBindingStatus};
use lockstep_engine::action::{Action, Answer as _, KubeRequest, Outcome, Success, only};
use lockstep_engine::object::{Kind, ObjectRef, Uid, is_deleting};
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition_cause::{ConditionCause, verdict};
use crate::controller::{Controller, Key, lagging};
use crate::model::{Binding, Class};
use crate::names::{self, reason};
use crate::plan::{Apply, Work};
use crate::requests::{applies, binding_ref, removals, status_write};
use crate::rollout::needs_place;
use crate::{drift, status};

/// What the reconcile of a binding waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// This class is being read, because the cache does not have it or has an older one than the status.
    ReadingClass(String),
    /// The kinds of listed resources that no class entry names any more are being discovered.
    Discovering(Box<Work>, BTreeSet<String>),
    /// Metadata is being read: that of objects of entries, then, if there are stale resources, that of the class and theirs.
    ReadingLive(Box<Work>, Vec<(AppliedResource, Arc<Kind>)>),
    /// The status is being written ahead, with the condition that changes.
    RecordingIntent(Box<Work>, Option<Condition>),
    /// Stale resources are being removed.
    Pruning(Box<Work>),
    /// Entries are being applied.
    Applying(Box<Work>),
    /// The status is being written, with the conditions that change.
    Reporting(Verdict, Vec<Condition>),
}

/// Reads the class from the API server.
fn seek(class: String) -> Next<Stage> {
    let target = ObjectRef::cluster(&names::class(), &class);
    Next::Await(
        vec![Action::Kube(KubeRequest::Get { target, metadata_only: false })],
        Stage::ReadingClass(class),
    )
}

impl Controller {
    pub(super) fn begin_binding(&mut self, name: &str, now: Now) -> Next<Stage> {
        let done = Next::Done(Verdict::Converged);
        let key = name.to_owned();
        self.leave_rollouts(name);
        let Some(binding) = self.store.bindings.get(&key).filter(|binding| !binding.deleting).cloned() else {
            return done;
        };
        // A terminating namespace is not changed.
        if self.store.namespaces.get(&key).is_none_or(|namespace| namespace.terminating) {
            return done;
        }
        let status = &binding.status;
        self.announce_unconfirmed(&binding_ref(name), &binding.uid, &status.conditions, now);
        let known = self.store.classes.get(&binding.class).filter(|class| {
            class.uid.as_str() != status.observed_class_uid
                || class.generation >= status.observed_class_generation
        });
        let Some(class) = known.cloned() else { return seek(binding.class) };
        self.work_on(name, &binding, &class, now)
    }

    fn work_on(&mut self, name: &str, binding: &Binding, class: &Class, now: Now) -> Next<Stage> {
        let done = Next::Done(Verdict::Converged);
        // A class never reaches a namespace that it excludes (decision 97), not even until the reconcile of the namespace removes the
        // binding, and not by a binding that a user created.
        if class.excludes(name) {
            let namespace = self.store.namespaces.get(&name.to_owned());
            let is_removed = namespace.is_some_and(|namespace| binding.is_controlled_by(namespace));
            let excluded =
                status::of_excluded(binding, is_removed, now).or_else(|| self.unanswered(name, binding));
            return excluded
                .map_or(done, |excluded| self.report(name, binding, excluded, Verdict::Converged));
        }
        if class.is_paused() {
            let paused = status::of_paused(binding, class, now).or_else(|| self.unanswered(name, binding));
            return paused.map_or(done, |paused| self.report(name, binding, paused, Verdict::Converged));
        }
        // Until this generation of the class has been validated, its resources are not known. The reconcile of the class
        // enqueues this key.
        let Some(resolved) = self.store.resolved.get(&binding.class).cloned() else { return done };
        if (&resolved.uid, resolved.generation) != (&class.uid, class.generation) {
            return done;
        }
        let Some(namespace) = self.store.namespaces.get(&name.to_owned()) else { return done };
        let resolved = resolved.in_namespace(name, namespace);
        if self.store.holds_pruning(name, binding, &resolved) {
            let held = status::of_held_pruning(binding, now).or_else(|| self.unanswered(name, binding));
            return held.map_or(done, |held| self.report(name, binding, held, Verdict::Converged));
        }
        let mut settled = true;
        for entry in &resolved.content.entries {
            settled &= self.watch_resources(&entry.kind, now);
        }
        // The end of the list enqueues this key.
        if !settled {
            return done;
        }
        let in_rollout = needs_place(class, binding, &resolved);
        if in_rollout && !self.admit(name, &binding.class) {
            return done;
        }
        let mut work = Box::new(Work::plan(name, binding, &resolved, &self.store));
        work.in_rollout = in_rollout;
        self.discover(name, work, now)
    }

    /// Returns whether a pass over a namespace has to stop before its next change: since it began, the class has been paused or
    /// excludes the namespace.
    fn is_stopped(&self, name: &str) -> bool {
        let binding = self.store.bindings.get(&name.to_owned());
        let class = binding.and_then(|binding| self.store.classes.get(&binding.class));
        class.is_some_and(|class| class.is_paused() || class.excludes(name))
    }

    pub(super) fn resume_binding(
        &mut self,
        name: &str,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        // A terminating namespace is not changed, not even by a pass that began before.
        if self.store.namespaces.get(&name.to_owned()).is_none_or(|namespace| namespace.terminating) {
            // The namespace may be back soon, if a list of an old state lacked it.
            let changed = match &stage {
                Stage::RecordingIntent(_, changed) => changed.as_slice(),
                Stage::Reporting(_, changed) => changed.as_slice(),
                _ => &[],
            };
            self.store.unconfirmed.remember(binding_ref(name), changed);
            return Next::Done(Verdict::Converged);
        }
        if matches!(stage, Stage::Discovering(..) | Stage::ReadingLive(..)) && self.is_stopped(name) {
            return self.begin_binding(name, now);
        }
        match stage {
            Stage::ReadingClass(asked) => self.class_sought(name, &asked, outcomes, now),
            Stage::Discovering(work, asked) => {
                self.learn(&asked, outcomes, now);
                self.survey(name, work, now)
            }
            Stage::ReadingLive(work, left_over) => self.surveyed(name, work, left_over, outcomes, now),
            Stage::RecordingIntent(work, changed) => {
                self.fenced(name, work, changed.as_slice(), outcomes, now)
            }
            Stage::Pruning(mut work) => {
                self.forget_removed(name, &work, &outcomes);
                work.pruned(outcomes);
                if self.is_stopped(name) {
                    return self.begin_binding(name, now);
                }
                Next::Await(applies(name, &work), Stage::Applying(work))
            }
            Stage::Applying(work) => self.applied(name, work, outcomes, now),
            Stage::Reporting(verdict, changed) => self.reported(name, verdict, &changed, outcomes, now),
        }
    }

    /// Delays repairs of a resource that another writer keeps changing. Conflicting and terminating objects have been
    /// reported by then: only applies are delayed.
    fn pace_repairs(&mut self, name: &str, work: &mut Work, now: Now) {
        let Some(drift_backoff) = self.store.drift_backoff.get_mut(name) else { return };
        let content = Arc::clone(&work.resolved.content);
        if !drift_backoff.settle(now.monotonic, |entry| content.keeps(entry)) {
            self.store.drift_backoff.remove(name);
            return;
        }
        work.postpone(drift_backoff, now.monotonic);
        // A resource that can't be applied at present is reported as that alone.
        let contested = drift_backoff.contested(now.monotonic);
        for (entry, unsettled) in contested.filter(|(entry, _)| content.entries.contains(entry)) {
            work.causes.push(ConditionCause::contested(&entry.title()));
            work.recheck_within(unsettled);
        }
    }

    /// Continues after the read of the class. If the class is gone, the binding must go as well. The reconcile of the
    /// namespace decides that, because the namespace may have changed to another class since.
    fn class_sought(&mut self, name: &str, asked: &str, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let binding = self.store.bindings.get(&name.to_owned()).filter(|binding| binding.class == asked);
        // It changed while the class was read. That change has enqueued this key.
        let Some(binding) = binding.cloned() else { return Next::Done(Verdict::Converged) };
        self.announce_unconfirmed(&binding_ref(name), &binding.uid, &binding.status.conditions, now);
        match only(outcomes).found() {
            Ok(None) => {
                let namespace = self.store.namespaces.get(&name.to_owned());
                let is_ours = namespace.is_some_and(|namespace| binding.is_controlled_by(namespace));
                if is_ours {
                    self.outbox.woken.push(Key::Namespace(name.to_owned()));
                    return Next::Done(Verdict::Converged);
                }
                self.report(name, &binding, status::class_not_found(&binding, now), Verdict::Converged)
            }
            Err(failure) => Next::Done(Verdict::retry("reading the class", &failure)),
            Ok(Some(object)) => {
                let class = Class::read(&object);
                let known = self.store.classes.get(&binding.class);
                if known.is_some_and(|known| (&known.uid, known.generation) == (&class.uid, class.generation))
                {
                    // The cache is current, whatever the status says was applied before.
                    return self.work_on(name, &binding, &class, now);
                }
                if self.store.classes.absorb(binding.class.clone(), class) {
                    self.store.count_departures(&binding.class);
                    self.outbox.woken.push(Key::Class(binding.class));
                }
                Next::Done(lagging())
            }
        }
    }

    fn fenced(
        &mut self,
        name: &str,
        mut work: Box<Work>,
        changed: &[Condition],
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        match only(outcomes).object() {
            Ok(object) => {
                work.binding = self.written(name, &object, changed, now);
                if self.is_stopped(name) {
                    return self.begin_binding(name, now);
                }
                prune(name, work)
            }
            Err(failure) => {
                self.not_written(binding_ref(name), changed, &failure);
                Next::Done(Verdict::retry("writing the status ahead", &failure))
            }
        }
    }

    /// Records the removals in the cache. Otherwise a removed object would count as existing while the watch still shows it,
    /// and the class may list it again by then.
    fn forget_removed(&mut self, name: &str, work: &Work, outcomes: &[Outcome]) {
        for (removal, outcome) in work.removals.iter().zip(outcomes) {
            let is_gone = match outcome {
                Ok(Success::Done) => true,
                // For some kinds the server answers with the removed object.
                Ok(Success::Object(object)) => !is_deleting(object),
                _ => false,
            };
            if is_gone && let Some(resources) = self.store.resources.get_mut(&removal.kind) {
                let key = (name.to_owned(), removal.resource.name.clone());
                resources.cache.removed(key, removal.version);
            }
        }
    }

    fn applied(&mut self, name: &str, mut work: Box<Work>, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let (mut repaired, mut failed, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        for (apply, outcome) in std::mem::take(&mut work.applies).into_iter().zip(outcomes) {
            // An object whose adoption failed is not reported as adopted.
            let is_kept = apply.uid.is_some() && !apply.takes_over();
            let entry = apply.entry;
            self.notice_missing_kind(&entry.kind, &outcome);
            if outcome.is_ok() || is_kept {
                work.is_applied(&entry, apply.existed);
            } else {
                // It may have been created all the same, unless the server has refused it. So it is listed as pending before
                // the next retry.
                work.pending.insert(entry.applied());
            }
            match outcome.object() {
                Ok(object) => {
                    self.store.absorb_applied(&entry.kind, &object);
                    if apply.uid.is_none() && drift::has_other_writers(&object) {
                        let uid = Some(Uid::of(&object));
                        taken.push(Apply { entry, uid, version: None, repairs: false, existed: true });
                        continue;
                    }
                    repaired.extend(apply.repairs.then_some(entry));
                }
                Err(failure) => {
                    let what = format!("{}: applying it", entry.title());
                    work.causes.push(match apply.uid {
                        Some(_) => ConditionCause::change_failed(&what, &failure),
                        None => ConditionCause::failed(&what, reason::APPLY_FAILED, &failure),
                    });
                    failed.push(entry);
                }
            }
        }
        // Another client created these objects in the meantime. They belong to that client, so they are adopted as such.
        if !taken.is_empty() {
            work.applies = taken;
            let applies = applies(name, &work);
            return Next::Await(applies, Stage::Applying(work));
        }
        let is_bound =
            self.store.bindings.get(&name.to_owned()).is_some_and(|binding| binding.uid == work.binding.uid);
        if is_bound && (!repaired.is_empty() || self.store.drift_backoff.contains_key(name)) {
            let drift_backoff = self.store.drift_backoff.entry(name.to_owned()).or_default();
            drift_backoff.take_in(repaired, &failed, now.monotonic);
        }
        let verdict = verdict(&work.causes, work.recheck);
        let wanted = status::after_pass(&work, now);
        self.report(name, &work.binding, wanted, verdict)
    }

    /// Records a successful status write: reports the changed conditions, and updates the cache without waiting for the
    /// watch.
    fn written(&mut self, name: &str, object: &Value, changed: &[Condition], now: Now) -> Binding {
        let binding = Binding::read(object);
        self.store.unconfirmed.forget(&binding_ref(name));
        for condition in changed {
            self.announce(&binding_ref(name), &binding.uid, condition, now);
        }
        self.store.bindings.confirm(name.to_owned(), binding.clone());
        binding
    }

    /// Returns the stored status to be written again, if an earlier write of it got no answer.
    fn unanswered(
        &self,
        name: &str,
        binding: &Binding,
    ) -> Option<(NamespaceClassBindingStatus, Vec<Condition>)> {
        let is_doubted = self.store.bindings.is_doubted(&name.to_owned());
        is_doubted.then(|| (binding.status.clone(), Vec::new()))
    }

    /// Writes the status if it has changed, or if an earlier write of it got no answer.
    fn report(
        &self,
        name: &str,
        binding: &Binding,
        (wanted, changed): (NamespaceClassBindingStatus, Vec<Condition>),
        verdict: Verdict,
    ) -> Next<Stage> {
        if wanted == binding.status && !self.store.bindings.is_doubted(&name.to_owned()) {
            return Next::Done(verdict);
        }
        Next::Await(vec![status_write(name, binding, &wanted)], Stage::Reporting(verdict, changed))
    }

    fn reported(
        &mut self,
        name: &str,
        verdict: Verdict,
        changed: &[Condition],
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        match only(outcomes).object() {
            Ok(object) => {
                self.written(name, &object, changed, now);
                Next::Done(verdict)
            }
            Err(failure) => {
                self.not_written(binding_ref(name), changed, &failure);
                Next::Done(Verdict::retry("writing the status", &failure))
            }
        }
    }
}

/// Writes the status ahead of the first change: it lists every object before the object exists.
fn fence(name: &str, work: Box<Work>, now: Now) -> Next<Stage> {
    let (wanted, changed) = status::before_writing(&work, now);
    let write = status_write(name, &work.binding, &wanted);
    Next::Await(vec![write], Stage::RecordingIntent(work, changed))
}

fn prune(name: &str, work: Box<Work>) -> Next<Stage> {
    Next::Await(removals(name, &work), Stage::Pruning(work))
}

#[cfg(test)]
mod tests;
