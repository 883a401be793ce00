//! The reconcile of a class: it validates the resources, sets the condition `Valid`, and enqueues the bindings of the class.
//!
//! Source: NamespaceClass operator, "Define a NamespaceClass", "Update an Existing NamespaceClass". The specification stores classes
//! without validating them. A class with a mistake would then fail in every namespace, and the class itself, where its author
//! looks, would report nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::action::{Action, Answer, ErrorKind, KubeRequest, Outcome, Subresource, only};
use lockstep_engine::object::ObjectRef;
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

use crate::controller::{Controller, Key};
use crate::model::{Class, Resolved};
use crate::requests::discoveries;
use crate::resolved_class::{self, Content};
use crate::{names, status};

/// The interval at which a kind that the cluster does not serve is discovered again.
pub const REDISCOVERY: Duration = Duration::from_secs(10);

/// Discovery of a class's kinds must fail for this long before that is reported, in every namespace of the class.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for a server that is busy, which will answer eventually.
const BUSY: Duration = Duration::from_mins(1);

/// What the reconcile of a class waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The kinds of these API versions are being discovered.
    Discovering(BTreeSet<String>),
    /// The status is being written.
    Reporting {
        /// Whether a missing kind may appear without a change of the class.
        may_pass: bool,
        /// The conditions that change with this write.
        changed: Vec<Condition>,
    },
}

impl Controller {
    pub(super) fn begin_class(&mut self, name: &str) -> Next<Stage> {
        let Some(class) = self.store.classes.get(&name.to_owned()).cloned() else {
            self.forget_class(name);
            return Next::Done(Verdict::Converged);
        };
        discover(self.undiscovered(name, &class))
    }

    /// Returns the API versions that must be discovered before a class can be validated. Only a watch notices that a kind is gone. So
    /// for a generation that is new, also a known kind is discovered again, if it is not watched.
    fn undiscovered(&self, name: &str, class: &Class) -> BTreeSet<String> {
        let is_validated = match self.store.resolved.get(name) {
            Some(resolved) => (&resolved.uid, resolved.generation) == (&class.uid, class.generation),
            // A new leader validates what the one before has validated.
            None => class.status.observed_generation == class.generation,
        };
        resolved_class::undiscovered(class.resources(), &self.store.kinds, |kind| {
            is_validated || self.store.resources.contains_key(kind)
        })
    }

    pub(super) fn resume_class(
        &mut self,
        name: &str,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        match stage {
            Stage::Discovering(asked) => {
                let retry_after = asks_to_be_left_alone(&outcomes);
                self.learn(&asked, outcomes, now);
                let kinds = &self.store.kinds;
                let class = self.store.classes.get(&name.to_owned());
                let unknown = class.map(|class| self.undiscovered(name, class)).unwrap_or_default();
                // The class was edited in the meantime, or a kind of an API version that was known is gone.
                let is_outdated = !unknown.is_subset(&asked);
                if let Some(failure) = asked.iter().find_map(|api_version| kinds.failure(api_version)) {
                    let since =
                        *self.store.discovery_failing_since.entry(name.to_owned()).or_insert(now.monotonic);
                    let patience = if failure.class == ErrorKind::Throttled { BUSY } else { PATIENCE };
                    // Until then the last validation applies, unless discovery is unavailable for longer.
                    // A failed discovery is not repeated at once: an outdated one is repeated with backoff.
                    if is_outdated || now.monotonic.since(since).max(retry_after) < patience {
                        return Next::Done(Verdict::retry("finding the kinds of the class", failure));
                    }
                } else {
                    self.store.discovery_failing_since.remove(name);
                    // This asks for everything that is unknown now. So it ends, unless there is another such change.
                    if is_outdated {
                        return discover(unknown);
                    }
                }
                self.judge_class(name, now)
            }
            Stage::Reporting { may_pass, changed } => {
                match only(outcomes).object() {
                    Ok(object) => {
                        let class = Class::read(&object);
                        self.store.unconfirmed.forget(&class_ref(name));
                        for condition in &changed {
                            self.announce(&class_ref(name), &class.uid, condition, now);
                        }
                        // A namespace may have ended its change while this was written.
                        if !self.store.reports_rollout(name, &class) {
                            self.outbox.woken.push(Key::Class(name.to_owned()));
                        }
                        let held = self.store.classes.get(&name.to_owned());
                        let is_same = held.is_some_and(|held| held.is_same(&class));
                        if self.store.classes.confirm(name.to_owned(), class) && !is_same {
                            self.store.count_departures(name);
                        }
                    }
                    Err(failure) => {
                        self.not_written(class_ref(name), &changed, &failure);
                        return Next::Done(Verdict::retry("writing the status of the class", &failure));
                    }
                }
                Next::Done(verdict(may_pass))
            }
        }
    }

    fn forget_class(&mut self, name: &str) {
        self.store.resolved.remove(name);
        self.store.discovery_failing_since.remove(name);
        self.store.waiting.remove(name);
        self.wake_bindings_of(name);
        self.wake_namespaces_of(name);
    }

    fn wake_namespaces_of(&mut self, class: &str) {
        let class = class.to_owned();
        let namespaces = self.store.namespaces.keys_by(&class);
        self.outbox.woken.extend(namespaces.map(|namespace| Key::Namespace(namespace.clone())));
    }

    fn judge_class(&mut self, name: &str, now: Now) -> Next<Stage> {
        let Some(class) = self.store.classes.get(&name.to_owned()).cloned() else {
            self.forget_class(name);
            return Next::Done(Verdict::Converged);
        };
        self.announce_unconfirmed(&class_ref(name), &class.uid, &class.status.conditions, now);
        let content = resolved_class::resolve(name, class.resources(), class.variables(), &self.store.kinds);
        let may_pass = content.problems.iter().any(|problem| problem.may_pass);
        let content = self.enter(name, &class, content);

        let rollout = self.store.rollout(name, &class);
        let (wanted, changed) =
            status::of_class(&class, &content, status::unwatchable(&self.store), rollout, now);
        if wanted == class.status && !self.store.classes.is_doubted(&name.to_owned()) {
            return Next::Done(verdict(may_pass));
        }
        let target = class_ref(name);
        let patch = status::patch(&class.uid, class.version(), &wanted);
        let write =
            Action::Kube(KubeRequest::Patch { target, subresource: Some(Subresource::Status), patch });
        Next::Await(vec![write], Stage::Reporting { may_pass, changed })
    }

    /// Stores the resolved resources of the class. If they have changed, enqueues the bindings and namespaces that depend on
    /// them.
    fn enter(&mut self, name: &str, class: &Class, content: Content) -> Arc<Content> {
        let before = self.store.resolved.get(name);
        if let Some(before) = before
            && (&before.uid, before.generation) == (&class.uid, class.generation)
            && *before.content == content
        {
            return Arc::clone(&before.content);
        }
        // Another generation may exclude other namespaces.
        let is_new =
            before.is_none_or(|before| (&before.uid, before.generation) != (&class.uid, class.generation));
        let content = Arc::new(content);
        let resolved =
            Resolved { uid: class.uid.clone(), generation: class.generation, content: Arc::clone(&content) };
        self.store.resolved.insert(name.to_owned(), resolved);
        self.wake_bindings_of(name);
        if is_new {
            self.wake_namespaces_of(name);
        }
        content
    }
}

fn discover(api_versions: BTreeSet<String>) -> Next<Stage> {
    Next::Await(discoveries(&api_versions), Stage::Discovering(api_versions))
}

fn class_ref(name: &str) -> ObjectRef {
    ObjectRef::cluster(&names::class(), name)
}

/// Returns the longest `Retry-After` of the failed discoveries, except those of a busy server.
fn asks_to_be_left_alone(outcomes: &[Outcome]) -> Duration {
    let failures = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    let away = failures.filter(|failure| failure.class != ErrorKind::Throttled);
    away.filter_map(|failure| failure.retry_after).max().unwrap_or_default()
}

fn verdict(may_pass: bool) -> Verdict {
    if may_pass { Verdict::Requeue(REDISCOVERY) } else { Verdict::Converged }
}

#[cfg(test)]
mod tests;
