//! The decisions: what a pass over one greeting asks for, and how it ends.
//!
//! ```text
//!  Entering ─▶ Looking ─▶ Writing ─▶ Reporting          the greeting stays
//!  ConfirmingDeletion ─▶ Looking ─▶ Removing ─▶ Looking ─▶ RemovingFinalizer    it goes, or is gone
//! ```
//!
//! A stage that has nothing to do is skipped. No stage believes the cache where it would destroy something: that a greeting
//! is gone is asked for, and so is its `ConfigMap`, in every pass.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::action::{Action, Class, Outcome, Subresource, Success};
use lockstep_engine::conditions::{self, Finding, Status};
use lockstep_engine::driver::{Next, Reconcile, Verdict};
use lockstep_engine::finalizer;
use lockstep_engine::object::{ObjectRef, is_deleting, metadata};
use lockstep_engine::time::Now;
use serde_json::{Value, json};

use super::controller::{FINALIZER, Key, LABEL, LOBBY, NAME, Seen, World, child, greeting_kind, is_ours};

/// How often it is asked whether a name that somebody else took is free again: no watch shows what lacks the label.
const RECHECK: Duration = Duration::from_mins(1);

/// What a pass waits for. Each stage that is about a greeting carries it along as it was when the pass began; none if it
/// is proven gone.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The finalizer is being entered.
    Entering,
    /// The watch does not show the greeting: is it gone?
    ConfirmingDeletion,
    /// Its `ConfigMap` is being read.
    Looking(Option<Arc<Value>>),
    /// Its `ConfigMap` is being deleted.
    Removing(Option<Arc<Value>>),
    /// The finalizer is being taken out.
    RemovingFinalizer,
    /// Its `ConfigMap` is being written.
    Writing(Arc<Value>),
    /// Its status is being written.
    Reporting(Verdict),
}

impl Reconcile for World {
    type Key = Key;
    type Stage = Stage;

    fn reconciler(_: &Key) -> &'static str {
        "greeting"
    }

    fn object((namespace, name): &Key) -> ObjectRef {
        ObjectRef::namespaced(&greeting_kind(), namespace, name)
    }

    fn begin(&mut self, key: &Key, _: Now) -> Next<Stage> {
        let target = Self::object(key);
        let Some(Seen(greeting)) = self.greetings.get(key) else {
            // The watch may lag, and what follows can't be taken back: ask for proof.
            return Next::Await(vec![Action::Get { target, metadata_only: true }], Stage::ConfirmingDeletion);
        };
        match finalizer::add(&target, greeting, FINALIZER) {
            Some(enter) => Next::Await(vec![enter], Stage::Entering),
            None => look(key, Some(Arc::clone(greeting))),
        }
    }

    fn resume(&mut self, key: &Key, stage: Stage, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let Some(outcome) = outcomes.into_iter().next() else { return Next::Done(Verdict::Converged) };
        match (stage, outcome) {
            (Stage::Entering, Ok(Success::Object(greeting))) => {
                self.greetings.absorb(key.clone(), Seen(Arc::clone(&greeting)));
                look(key, Some(greeting))
            }
            (Stage::ConfirmingDeletion, Err(failure)) if failure.class == Class::NotFound => look(key, None),
            (Stage::ConfirmingDeletion, Ok(_)) => {
                Next::Done(Verdict::because("the watch of greetings lags behind the cluster"))
            }
            (Stage::Looking(greeting), Ok(Success::Object(child))) => {
                decide(key, greeting, Some(&child), now)
            }
            (Stage::Looking(greeting), Err(failure)) if failure.class == Class::NotFound => {
                decide(key, greeting, None, now)
            }
            (Stage::Removing(greeting), Ok(_)) => look(key, greeting),
            (Stage::Writing(greeting), Ok(_)) => report(key, &greeting, hangs(), Verdict::Converged, now),
            (Stage::Writing(greeting), Err(failure)) => {
                let message = format!("the ConfigMap could not be written ({})", failure.class);
                let verdict = Verdict::retry("writing the ConfigMap", &failure);
                report(key, &greeting, not_ready("WriteFailed", message), verdict, now)
            }
            (Stage::Reporting(verdict), Ok(Success::Object(greeting))) => {
                self.greetings.absorb(key.clone(), Seen(greeting));
                Next::Done(verdict)
            }
            (stage, Err(failure)) => Next::Done(Verdict::retry(stage.doing(), &failure)),
            (_, Ok(_)) => Next::Done(Verdict::Converged),
        }
    }
}

impl Stage {
    fn doing(&self) -> &'static str {
        match self {
            Self::Entering => "entering the finalizer",
            Self::ConfirmingDeletion => "asking for the greeting",
            Self::Looking(_) => "reading the ConfigMap",
            Self::Removing(_) => "deleting the ConfigMap",
            Self::RemovingFinalizer => "taking the finalizer out",
            Self::Writing(_) => "writing the ConfigMap",
            Self::Reporting(_) => "writing the status",
        }
    }
}

fn look((namespace, name): &Key, greeting: Option<Arc<Value>>) -> Next<Stage> {
    let read = Action::Get { target: child(namespace, name), metadata_only: false };
    Next::Await(vec![read], Stage::Looking(greeting))
}

/// What follows from a greeting and its `ConfigMap`, both as they are.
fn decide(key: &Key, greeting: Option<Arc<Value>>, found: Option<&Value>, now: Now) -> Next<Stage> {
    let greeting = match greeting {
        Some(greeting) if !is_deleting(&greeting) => greeting,
        going => return clean_up(key, going, found),
    };
    let text = &greeting["spec"]["text"];
    let target = child(&key.0, &key.1);
    let write = match found {
        None => {
            let metadata = json!({ "namespace": LOBBY, "name": target.name, "labels": { LABEL: NAME } });
            let manifest = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "text": text },
            });
            Action::Create { target, manifest: Arc::new(manifest) }
        }
        Some(found) if !is_ours(found) => {
            let message =
                format!("{target} was made by somebody else; remove it, or give the greeting another name");
            return report(key, &greeting, not_ready("NameTaken", message), Verdict::Requeue(RECHECK), now);
        }
        Some(found) if found["data"]["text"] != *text => {
            let patch = json!({ "metadata": unchanged(found), "data": { "text": text } });
            Action::Patch { target, subresource: None, patch: Arc::new(patch) }
        }
        Some(_) => return report(key, &greeting, hangs(), Verdict::Converged, now),
    };
    Next::Await(vec![write], Stage::Writing(greeting))
}

/// The greeting goes, or is gone: first the `ConfigMap`, and once that was seen gone, the finalizer.
fn clean_up(key: &Key, greeting: Option<Arc<Value>>, found: Option<&Value>) -> Next<Stage> {
    match found.filter(|found| is_ours(found)) {
        // Somebody holds it back. The watch tells when it is gone.
        Some(found) if is_deleting(found) => Next::Done(Verdict::Converged),
        Some(found) => {
            let delete = Action::Delete {
                target: child(&key.0, &key.1),
                uid: metadata(found, "uid").to_owned(),
                resource_version: Some(metadata(found, "resourceVersion").to_owned()),
            };
            Next::Await(vec![delete], Stage::Removing(greeting))
        }
        None => {
            let target = World::object(key);
            match greeting.and_then(|greeting| finalizer::remove(&target, &greeting, FINALIZER)) {
                Some(let_go) => Next::Await(vec![let_go], Stage::RemovingFinalizer),
                None => Next::Done(Verdict::Converged),
            }
        }
    }
}

/// The precondition that an object still is what was read.
fn unchanged(object: &Value) -> Value {
    json!({ "uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"] })
}

fn hangs() -> Finding {
    let message = "the text hangs in the lobby".to_owned();
    Finding { condition: "Ready", status: Status::True, reason: "Hanging", message }
}

fn not_ready(reason: &'static str, message: String) -> Finding {
    Finding { condition: "Ready", status: Status::False, reason, message }
}

/// Writes the condition `Ready`, if that says anything new, and ends with the verdict.
fn report(key: &Key, greeting: &Value, finding: Finding, verdict: Verdict, now: Now) -> Next<Stage> {
    let told = greeting["status"]["conditions"].clone();
    let told: Vec<Condition> = serde_json::from_value(told).unwrap_or_default();
    let mut conditions = told.clone();
    let generation = greeting["metadata"]["generation"].as_i64().unwrap_or(0);
    conditions::set(&mut conditions, finding, generation, now);
    if conditions == told {
        return Next::Done(verdict);
    }
    let patch = json!({ "metadata": unchanged(greeting), "status": { "conditions": conditions } });
    let target = World::object(key);
    let write = Action::Patch { target, subresource: Some(Subresource::Status), patch: Arc::new(patch) };
    Next::Await(vec![write], Stage::Reporting(verdict))
}
