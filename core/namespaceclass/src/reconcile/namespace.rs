//! The reconcile of a namespace: it creates, updates or removes the binding that the label requests.
//!
//! Source: NamespaceClass operator, "Apply NamespaceClass to a Namespace", "Remove NamespaceClass Label from Namespace", "Switch
//! Namespace to Different NamespaceClass", "`NamespaceReconciler`". Beyond the specification: nothing is removed because of the
//! cache alone; a terminating namespace is not changed; a label that names a class which does not exist gets an event and an
//! annotation, and no binding.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, Answer, ErrorKind, KubeRequest, Outcome, only};
use lockstep_engine::machine::Note;
use lockstep_engine::object::{ObjectRef, ResourceVersion, Uid, controller_reference};
use lockstep_engine::recorder::{Occurrence, Severity};
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::controller::{Controller, Key, lagging};
use crate::model::{Binding, Class, Namespace};
use crate::names::{self, reason};
use crate::removal_guard::Held;

/// What the reconcile of a namespace waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The binding is being written.
    Binding,
    /// The class that the label names is being read, because the cache does not have it. If there is none, the pass ends
    /// with this verdict.
    ReadingClass {
        /// The class.
        class: String,
        /// The verdict.
        verdict: Verdict,
    },
    /// The namespace, and the class that its label names, are read again before the binding is removed.
    ConfirmingDeletion {
        /// The uid of the binding that seems unwanted.
        uid: Uid,
        /// Its resource version. A client that has changed the binding since may need it.
        version: ResourceVersion,
        /// The class that the label named and that does not exist.
        label: Option<String>,
    },
    /// The binding is being removed.
    Unbinding {
        /// The resource version that the removal has as a precondition.
        version: ResourceVersion,
    },
    /// The annotation of the namespace is being written; then the pass ends with this verdict.
    Annotating(Verdict),
}

impl Controller {
    pub(super) fn begin_namespace(&mut self, name: &str, now: Now) -> Next<Stage> {
        let Some(namespace) = self.store.namespaces.get(&name.to_owned()).cloned() else {
            return Next::Done(Verdict::Converged);
        };
        let class = namespace.class.as_ref().filter(|_| !namespace.terminating);
        let is_unresolved = class.is_some_and(|class| self.store.classes.get(class).is_none());
        self.set_unresolved(name, is_unresolved);
        if namespace.terminating {
            return Next::Done(Verdict::Converged);
        }
        let binding = self.store.bindings.get(&name.to_owned());
        // It is being deleted already. Its deletion enqueues the namespace.
        if binding.is_some_and(|binding| binding.deleting) {
            return Next::Done(Verdict::Converged);
        }
        match &namespace.class {
            Some(class) if self.store.classes.get(class).is_some_and(|class| !class.excludes(name)) => {
                if binding.is_some_and(|binding| is_bound(binding, &namespace, class)) {
                    self.store.reported_events.remove(name);
                    self.store.leaving.remove(name);
                    return self.annotate(name, Verdict::Converged);
                }
                let manifest = Arc::new(manifest(name, &namespace, class));
                let target = ObjectRef::namespaced(&names::binding(), name, name);
                Next::Await(vec![Action::Kube(KubeRequest::Apply { target, manifest })], Stage::Binding)
            }
            label => {
                let owned = binding.filter(|binding| binding.is_controlled_by(&namespace)).cloned();
                let held = owned.as_ref().and_then(|binding| self.hold_removal(name, &binding.class, now));
                if let Some(Held { verdict, note: Some(note) }) = held {
                    self.complain(name, reason::REMOVAL_HELD, note, now);
                    return self.annotate(name, verdict);
                }
                match (held, owned) {
                    (Some(held), _) => self.report_unbound(name, &namespace, held.verdict, now),
                    (None, Some(binding)) => doubt(name, &binding, label.as_deref()),
                    (None, None) => self.report_unbound(name, &namespace, Verdict::Converged, now),
                }
            }
        }
    }

    /// Reports why a namespace has no binding for its label. Then the pass ends.
    fn report_unbound(
        &mut self,
        name: &str,
        namespace: &Namespace,
        verdict: Verdict,
        now: Now,
    ) -> Next<Stage> {
        match &namespace.class {
            None => drop(self.store.reported_events.remove(name)),
            Some(class) if self.store.classes.get(class).is_some() => self.report_excluded(name, class, now),
            Some(class) if self.is_reported(name, namespace, &class_not_found(class)) => {
                self.complain(name, reason::CLASS_NOT_FOUND, class_not_found(class), now);
            }
            // The watch of classes may be behind that of namespaces: often, both were created together.
            Some(class) => {
                let target = ObjectRef::cluster(&names::class(), class);
                let read = Action::Kube(KubeRequest::Get { target, metadata_only: true });
                return Next::Await(vec![read], Stage::ReadingClass { class: class.clone(), verdict });
            }
        }
        self.annotate(name, verdict)
    }

    fn labelled_class_read(
        &mut self,
        name: &str,
        asked: &str,
        verdict: Verdict,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        match only(outcomes).found() {
            Ok(None) => {
                // The class may have been created since.
                let is_missing = self.store.classes.get(&asked.to_owned()).is_none();
                let namespace = self.store.namespaces.get(&name.to_owned()).filter(|it| !it.terminating);
                if is_missing && namespace.is_some_and(|it| it.class.as_deref() == Some(asked)) {
                    self.complain(name, reason::CLASS_NOT_FOUND, class_not_found(asked), now);
                }
                self.annotate(name, verdict)
            }
            Ok(Some(_)) => Next::Done(lagging()),
            Err(failure) => Next::Done(Verdict::retry("reading the class", &failure)),
        }
    }

    pub(super) fn resume_namespace(
        &mut self,
        name: &str,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        match stage {
            Stage::Binding => self.bound(name, outcomes, now),
            Stage::ReadingClass { class, verdict } => {
                self.labelled_class_read(name, &class, verdict, outcomes, now)
            }
            Stage::ConfirmingDeletion { uid, version, label } => {
                self.doubted(name, uid, version, label.as_deref(), outcomes, now)
            }
            Stage::Unbinding { version } => self.unbound(name, version, outcomes),
            Stage::Annotating(verdict) => self.annotated(name, verdict, outcomes),
        }
    }

    fn bound(&mut self, name: &str, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        match only(outcomes).object() {
            Ok(object) => {
                self.store.reported_events.remove(name);
                self.store.leaving.remove(name);
                self.absorb_binding(name, &object);
                self.outbox.woken.push(Key::Binding(name.to_owned()));
                self.annotate(name, Verdict::Converged)
            }
            Err(failure) => {
                if matches!(failure.class, ErrorKind::Invalid | ErrorKind::Forbidden) {
                    let note = format!(
                        "the NamespaceClassBinding {name} can't be written ({failure}); delete the binding \
                         if another client created it, or grant the permission"
                    );
                    self.complain(name, reason::BINDING_REFUSED, note, now);
                } else {
                    // The class exists now, whatever was reported before.
                    self.store.reported_events.remove(name);
                }
                self.annotate(name, Verdict::retry_for_user("writing the binding", &failure))
            }
        }
    }

    /// Removes the binding only if the namespace still is its owner and its label still names no class that exists and that does
    /// not exclude the namespace.
    fn doubted(
        &mut self,
        name: &str,
        uid: Uid,
        version: ResourceVersion,
        label: Option<&str>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        let mut outcomes = outcomes.into_iter();
        let namespace = match outcomes.next().map(Answer::found) {
            Some(Ok(Some(object))) => Namespace::read(&object),
            Some(Err(failure)) => return Next::Done(Verdict::retry("reading the namespace", &failure)),
            Some(Ok(None)) | None => return Next::Done(Verdict::Converged),
        };
        let class = match outcomes.next().map(Answer::found) {
            Some(Ok(class)) => class.map(|object| Class::read(&object)),
            Some(Err(failure)) => return Next::Done(Verdict::retry("reading the class", &failure)),
            None => None,
        };
        let is_wanted = class.as_ref().is_some_and(|class| !class.excludes(name));
        let known = self.store.namespaces.get(&name.to_owned());
        // The label must still be the one that was read at the start of the pass, even if the watch has shown a change since.
        let known = known.filter(|known| !known.terminating);
        let same =
            known.is_some_and(|known| known.uid == namespace.uid) && namespace.class.as_deref() == label;
        if !same || is_wanted || namespace.terminating {
            // The cache is behind; the watch will enqueue this key.
            self.absorb_namespace(name, namespace);
            return Next::Done(lagging());
        }
        // More namespaces may have lost the class by now.
        let bound = self.store.class_of(name);
        if bound.is_some_and(|class| self.hold_removal(name, &class, now).is_some()) {
            return Next::Done(Verdict::Requeue(Duration::ZERO));
        }
        match label {
            Some(label) if class.is_some() => self.report_excluded(name, label, now),
            Some(label) => self.complain(name, reason::CLASS_NOT_FOUND, class_not_found(label), now),
            None => drop(self.store.reported_events.remove(name)),
        }
        let target = ObjectRef::namespaced(&names::binding(), name, name);
        let delete = Action::Kube(KubeRequest::Delete { target, uid, resource_version: Some(version) });
        Next::Await(vec![delete], Stage::Unbinding { version })
    }

    /// Records a successful removal of the binding, without waiting for the watch. The watch may be behind, and the label may
    /// request a class again by then.
    fn unbound(&mut self, name: &str, version: ResourceVersion, outcomes: Vec<Outcome>) -> Next<Stage> {
        match only(outcomes).remaining() {
            Ok(None) => {
                let left = self.store.class_of(name);
                self.store.bindings.removed(name.to_owned(), version);
                // When the watch shows the deletion, the cache no longer has the binding. So the watch does not do this.
                self.forget_binding(name);
                self.continue_rollouts(name, left);
                self.annotate(name, Verdict::Converged)
            }
            // Another client's finalizer delays the deletion. The end of the deletion enqueues the namespace.
            Ok(Some(object)) => {
                self.absorb_binding(name, &object);
                Next::Done(Verdict::Converged)
            }
            Err(failure) if failure.is_absence() => Next::Done(lagging()),
            Err(failure) => Next::Done(Verdict::retry("removing the binding", &failure)),
        }
    }

    /// Forgets what depends on the binding of a namespace, after its deletion.
    pub(crate) fn forget_binding(&mut self, namespace: &str) {
        self.store.drift_backoff.remove(namespace);
        self.store.leaving.remove(namespace);
        self.leave_rollouts(namespace);
    }

    /// Stores a binding that was written. It may have left another class.
    fn absorb_binding(&mut self, name: &str, object: &Value) {
        let left = self.store.class_of(name);
        self.store.bindings.absorb(name.to_owned(), Binding::read(object));
        self.continue_rollouts(name, left);
    }

    /// Writes the reason why the class is not applied into an annotation of the namespace, where it stays until it is
    /// resolved. Then the pass ends.
    fn annotate(&mut self, name: &str, verdict: Verdict) -> Next<Stage> {
        let namespace =
            self.store.namespaces.get(&name.to_owned()).filter(|namespace| !namespace.terminating);
        let Some(namespace) = namespace else { return Next::Done(verdict) };
        let reported = self.store.reported_events.get(name).filter(|(uid, _)| *uid == namespace.uid);
        let problem = reported.map(|(_, note)| note);
        if namespace.problem.as_ref() == problem {
            return Next::Done(verdict);
        }
        let annotations = json!({ names::PROBLEM_ANNOTATION: problem });
        let patch = Arc::new(json!({ "metadata": { "uid": namespace.uid, "annotations": annotations } }));
        let target = ObjectRef::cluster(&names::namespace(), name);
        let write = Action::Kube(KubeRequest::Patch { target, subresource: None, patch });
        Next::Await(vec![write], Stage::Annotating(verdict))
    }

    fn annotated(&mut self, name: &str, verdict: Verdict, outcomes: Vec<Outcome>) -> Next<Stage> {
        match only(outcomes).object() {
            Ok(object) => {
                let namespace = Namespace::read(&object);
                let known = self.store.namespaces.get(&name.to_owned());
                let is_same = known.is_some_and(|known| known.is_same(&namespace));
                // The cache has this answer now, so the watch event will not enqueue anything. So another label must enqueue
                // the key here.
                if self.absorb_namespace(name, namespace) && !is_same {
                    self.outbox.woken.push(Key::Namespace(name.to_owned()));
                }
                self.store.is_annotating_refused = false;
                Next::Done(verdict)
            }
            // The Event, the log and the metric report the same.
            Err(failure) if matches!(failure.class, ErrorKind::Forbidden | ErrorKind::Invalid) => {
                if !self.store.is_annotating_refused {
                    self.store.is_annotating_refused = true;
                    let advice = match failure.class {
                        ErrorKind::Forbidden => "grant the verb patch on namespaces",
                        _ => "correct the namespace, or what refuses its changes",
                    };
                    let message = format!(
                        "Namespace {name} can't be annotated ({failure}); {advice} to have there what keeps a namespace from \
                         its class"
                    );
                    self.outbox.notes.push(Note::Warning { message });
                }
                Next::Done(verdict)
            }
            Err(failure) if failure.is_absence() => Next::Done(lagging()),
            Err(failure) => Next::Done(Verdict::retry("annotating the namespace", &failure)),
        }
    }

    fn report_excluded(&mut self, name: &str, class: &str, now: Now) {
        let label = names::CLASS_LABEL;
        let note = format!(
            "label {label}: NamespaceClass {class} excludes this namespace; remove the label, or correct \
             spec.excludedNamespaces of the class"
        );
        self.complain(name, reason::NAMESPACE_EXCLUDED, note, now);
    }

    /// Returns whether this process, or according to the annotation an earlier leader, has reported this.
    fn is_reported(&self, name: &str, namespace: &Namespace, note: &str) -> bool {
        let reported = self.store.reported_events.get(name).filter(|(uid, _)| *uid == namespace.uid);
        reported.is_some_and(|(_, known)| known == note) || namespace.problem.as_deref() == Some(note)
    }

    /// Reports once, in the log and as an Event, why the class of a namespace is not applied: nothing is written if nothing
    /// has changed. The Event is in the namespace itself, where its users may read it and look for it, rather than in
    /// `default`. If the annotation says the same already, an earlier leader has created the Event.
    fn complain(&mut self, name: &str, reason: &'static str, note: String, now: Now) {
        let Some(namespace) = self.store.namespaces.get(&name.to_owned()) else { return };
        let is_annotated = namespace.problem.as_ref() == Some(&note);
        let reported = (namespace.uid.clone(), note);
        if self.store.reported_events.get(name) == Some(&reported) {
            return;
        }
        self.store.reported_events.insert(name.to_owned(), reported.clone());
        let (uid, note) = reported;
        self.outbox.notes.push(Note::Warning { message: format!("Namespace {name}: {note}") });
        if is_annotated {
            return;
        }
        let occurrence = Occurrence {
            regarding: ObjectRef::namespaced(&names::namespace(), name, name),
            uid,
            severity: Severity::Warning,
            reason: reason.to_owned(),
            action: "Bind",
            note,
        };
        self.outbox.record(occurrence, now);
    }
}

fn class_not_found(class: &str) -> String {
    let label = names::CLASS_LABEL;
    format!("label {label}: there is no NamespaceClass {class}; create it, or correct the label")
}

fn is_bound(binding: &Binding, namespace: &Namespace, class: &str) -> bool {
    binding.class == class && binding.is_controlled_by(namespace)
}

fn doubt(name: &str, binding: &Binding, label: Option<&str>) -> Next<Stage> {
    let namespace = ObjectRef::cluster(&names::namespace(), name);
    let class = label.map(|class| ObjectRef::cluster(&names::class(), class));
    // The spec of the class says whether it excludes the namespace.
    let class = class.map(|target| Action::Kube(KubeRequest::Get { target, metadata_only: false }));
    let reads = [Some(Action::Kube(KubeRequest::Get { target: namespace, metadata_only: true })), class];
    let reads = reads.into_iter().flatten().collect();
    let (uid, version) = (binding.uid.clone(), binding.version);
    let label = label.map(str::to_owned);
    Next::Await(reads, Stage::ConfirmingDeletion { uid, version, label })
}

fn manifest(name: &str, namespace: &Namespace, class: &str) -> Value {
    let kind = names::binding();
    let owner = controller_reference(&names::namespace(), name, &namespace.uid);
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "namespace": name,
            "name": name,
            "ownerReferences": [owner],
        },
        "spec": { "className": class },
    })
}

#[cfg(test)]
mod tests;
