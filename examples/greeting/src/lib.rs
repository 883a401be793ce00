//! The greeter: writes the text of every Greeting to a ConfigMap in the namespace `lobby`.
//!
//! ```text
//!  Greeting team-a/hello ──▶ reconcile ──▶ ConfigMap lobby/team-a.hello, labelled example.com/made-by=greeter
//! ```
//!
//! An owner reference can't point to another namespace, so a finalizer ensures that the ConfigMap is deleted. A request may still
//! take effect late: ConfigMaps with the label and without a Greeting are deleted as well.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, Answer as _, Failure, KubeRequest, Outcome, Scope, Subresource};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::conditions::{self, Finding};
use lockstep_engine::informer::Informer;
use lockstep_engine::object::{Kind, Name, ObjectRef, is_deleting, label, metadata, precondition};
use lockstep_engine::operator::{self, Control, Outbox};
use lockstep_engine::scheduler::{Next, Reconcile, Verdict};
use lockstep_engine::time::Now;
use lockstep_engine::{finalizer, write};
use serde_json::{Value, json};

pub const LOBBY: &str = "lobby";
pub const FINALIZER: &str = "example.com/greeter";
/// The label of the greeter's ConfigMaps. A user who removes it takes the ConfigMap over.
pub const LABEL: &str = "example.com/made-by";

/// The machine that the runtime runs and the simulator tests.
pub type Operator = operator::Operator<Greeter>;

pub fn greeting() -> Arc<Kind> {
    Kind::known("example.com", "v1", "Greeting", "greetings", true)
}

pub fn config_map() -> Arc<Kind> {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

/// Returns the ConfigMap of a Greeting. The name of a namespace contains no dot, so each ConfigMap has one Greeting.
pub fn child(greeting: &Name) -> ObjectRef {
    ObjectRef::namespaced(&config_map(), LOBBY, &format!("{}.{}", greeting.namespace, greeting.name))
}

/// Returns whether the greeter has created a ConfigMap.
pub fn is_ours(child: &Value) -> bool {
    label(child, LABEL) == Some(Greeter::NAME)
}

/// The decisions of the greeter.
#[derive(Debug, Clone)]
pub struct Greeter {
    greetings: Informer<Name>,
    /// The metadata of the ConfigMaps with our label.
    children: Informer<Name>,
    outbox: Outbox<Name>,
}

/// What a reconcile waits for, with the Greeting as it was when the reconcile began, or `None` if it does not exist.
#[derive(Debug, Clone)]
pub enum Stage {
    AddingFinalizer,
    ConfirmingDeletion,
    ReadingChild(Option<Arc<Value>>),
    WritingChild(Arc<Value>),
    DeletingChild(Option<Arc<Value>>),
    RemovingFinalizer,
    WritingStatus(Verdict),
}

impl Control for Greeter {
    const NAME: &'static str = "greeter";
    const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };
    const RECONCILERS: &'static [&'static str] = &["greeting"];

    fn new(outbox: Outbox<Name>) -> Self {
        let selector = format!("{LABEL}={}", Self::NAME);
        let labelled = Scope { selector, metadata_only: true, ..Scope::default() };
        let greetings = Informer::new(greeting(), Scope::default(), |greeting| Some(Name::of(greeting)));
        let children = Informer::new(config_map(), labelled, |child| {
            let (namespace, name) = metadata(child, "name").split_once('.')?;
            (metadata(child, "namespace") == LOBBY).then(|| Name::new(namespace, name))
        });
        Self { greetings, children, outbox }
    }

    fn outbox(&mut self) -> &mut Outbox<Name> {
        &mut self.outbox
    }

    fn informers(&self) -> Vec<&Informer<Name>> {
        vec![&self.greetings, &self.children]
    }

    fn informers_mut(&mut self) -> Vec<&mut Informer<Name>> {
        vec![&mut self.greetings, &mut self.children]
    }
}

impl Reconcile for Greeter {
    type Key = Name;
    type Stage = Stage;

    fn reconciler(_: &Name) -> &'static str {
        "greeting"
    }

    fn object(key: &Name) -> ObjectRef {
        key.object(&greeting())
    }

    fn begin(&mut self, key: &Name, _: Now) -> Next<Stage> {
        let target = Self::object(key);
        let Some(greeting) = self.greetings.get(key) else {
            // The watch may be behind, and a deletion can't be undone: only a read proves that the Greeting is gone.
            let read = Action::Kube(KubeRequest::Get { target, metadata_only: true });
            return Next::Await(vec![read], Stage::ConfirmingDeletion);
        };
        match finalizer::add(&target, greeting, FINALIZER) {
            Some(write) => Next::Await(vec![write], Stage::AddingFinalizer),
            None => read_child(key, Some(Arc::clone(greeting))),
        }
    }

    fn resume(&mut self, key: &Name, stage: Stage, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let [outcome]: [Outcome; 1] = outcomes.try_into().expect("each stage waits for one action");
        let proceed = || {
            Ok(match stage {
                Stage::AddingFinalizer => {
                    let greeting = outcome.object()?;
                    self.greetings.absorb(&greeting);
                    read_child(key, Some(greeting))
                }
                Stage::ConfirmingDeletion => match outcome.found()? {
                    Some(_) => Next::Done(Verdict::because("the watch is behind")),
                    None => read_child(key, None),
                },
                Stage::ReadingChild(greeting) => decide(key, greeting, outcome.found()?.as_deref(), now),
                Stage::WritingChild(greeting) => match outcome {
                    Ok(_) => report(key, &greeting, written(), Verdict::Converged, now),
                    Err(failure) => {
                        let finding = Finding::broken("Ready", "WriteFailed", failure.to_string());
                        report(key, &greeting, finding, failure.into(), now)
                    }
                },
                Stage::DeletingChild(greeting) => outcome.map(|_| read_child(key, greeting))?,
                Stage::RemovingFinalizer => match outcome.found()? {
                    Some(_) => Next::Done(Verdict::Converged),
                    // It may be gone already: the next reconcile reads it.
                    None => Next::Done(Verdict::Requeue(Self::BACKOFF.initial)),
                },
                Stage::WritingStatus(verdict) => {
                    self.greetings.absorb(&outcome.object()?);
                    Next::Done(verdict)
                }
            })
        };
        proceed().unwrap_or_else(|failure: Failure| Next::Done(failure.into()))
    }
}

fn read_child(key: &Name, greeting: Option<Arc<Value>>) -> Next<Stage> {
    let read = Action::Kube(KubeRequest::Get { target: child(key), metadata_only: false });
    Next::Await(vec![read], Stage::ReadingChild(greeting))
}

/// Decides what a Greeting and its ConfigMap need, both as they are in the cluster.
fn decide(key: &Name, greeting: Option<Arc<Value>>, found: Option<&Value>, now: Now) -> Next<Stage> {
    let greeting = match greeting {
        Some(greeting) if !is_deleting(&greeting) => greeting,
        deleted => return clean_up(key, deleted, found),
    };
    let data = json!({ "text": greeting["spec"]["text"] });
    let target = child(key);
    let write = match found {
        None => {
            let labels = json!({ LABEL: Greeter::NAME });
            let metadata = json!({ "namespace": LOBBY, "name": target.name, "labels": labels });
            let new = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
            Action::Kube(KubeRequest::Create { target, manifest: Arc::new(new) })
        }
        Some(found) if !is_ours(found) => {
            let message = format!("{target} has another owner; delete it, or rename the Greeting");
            let finding = Finding::broken("Ready", "NameTaken", message);
            // Without the label, no watch reports when the name is free.
            return report(key, &greeting, finding, Verdict::Requeue(Duration::from_mins(1)), now);
        }
        Some(found) if found["data"] != data => {
            let patch = json!({ "metadata": precondition(found), "data": data });
            Action::Kube(KubeRequest::Patch { target, subresource: None, patch: Arc::new(patch) })
        }
        Some(_) => return report(key, &greeting, written(), Verdict::Converged, now),
    };
    Next::Await(vec![write], Stage::WritingChild(greeting))
}

/// Deletes the ConfigMap, and removes the finalizer once a read has proven that the ConfigMap is gone.
fn clean_up(key: &Name, greeting: Option<Arc<Value>>, found: Option<&Value>) -> Next<Stage> {
    match found.filter(|found| is_ours(found)) {
        // A finalizer of another client holds it. The watch reports when it is gone.
        Some(found) if is_deleting(found) => Next::Done(Verdict::Converged),
        Some(found) => Next::Await(vec![write::delete(child(key), found)], Stage::DeletingChild(greeting)),
        None => match greeting.and_then(|it| finalizer::remove(&Greeter::object(key), &it, FINALIZER)) {
            Some(write) => Next::Await(vec![write], Stage::RemovingFinalizer),
            None => Next::Done(Verdict::Converged),
        },
    }
}

fn written() -> Finding {
    Finding::valid("Ready", "Written", "the ConfigMap contains the text")
}

/// Writes the condition `Ready` if it changes, and ends with the verdict.
fn report(key: &Name, greeting: &Value, finding: Finding, verdict: Verdict, now: Now) -> Next<Stage> {
    let Some(patch) = conditions::patch(greeting, finding, now) else { return Next::Done(verdict) };
    let (target, patch) = (Greeter::object(key), Arc::new(patch));
    let write = Action::Kube(KubeRequest::Patch { target, subresource: Some(Subresource::Status), patch });
    Next::Await(vec![write], Stage::WritingStatus(verdict))
}
