//! Mistakes in requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::action::{Action, ActionId, KubeRequest, Outcome, Request, Subresource, Success};
use lockstep_engine::machine::{Event, Note, ReconcileResult, Step};
use lockstep_engine::object::{ObjectRef, annotation};
use lockstep_namespaceclass::names;
use lockstep_sim::bugs::{Bug, Flaw, plant};
use serde_json::{Value, json};

use super::common::{HOST, as_if_done, change, is, sound};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "deletes_without_preconditions",
        sentence: "A delete has no precondition, neither the uid nor the resource version.",
        controller: HOST,
        plant: sound,
        garble: Some(without_delete_options),
    },
    Bug {
        name: "a_stale_version_for_ever",
        sentence: "Every status is written with the first resource version that was received.",
        controller: HOST,
        plant: plant::<FirstVersion>,
        garble: None,
    },
    Bug {
        name: "transition_times_always_move",
        sentence: "lastTransitionTime is set at every write.",
        controller: HOST,
        plant: plant::<TimesMove>,
        garble: None,
    },
    Bug {
        name: "claims_the_next_generation",
        sentence: "observedGeneration is one too high.",
        controller: HOST,
        plant: plant::<NextGeneration>,
        garble: None,
    },
    Bug {
        name: "no_status_ahead",
        sentence: "Resources are created before the status lists them, so that a crash leaves orphans.",
        controller: HOST,
        plant: plant::<NoFence>,
        garble: None,
    },
    Bug {
        name: "lists_what_is_pending",
        sentence: "Resources that could not be created are listed as applied.",
        controller: HOST,
        plant: plant::<ListsPending>,
        garble: None,
    },
    Bug {
        name: "never_prunes",
        sentence: "Resources that no class lists any more are removed from the status, but not deleted.",
        controller: HOST,
        plant: plant::<NeverPrunes>,
        garble: None,
    },
    Bug {
        name: "status_at_every_pass",
        sentence: "The status is written at the end of every pass, even if it has not changed.",
        controller: HOST,
        plant: plant::<StatusAlways>,
        garble: None,
    },
    Bug {
        name: "no_owner_reference",
        sentence: "Resources are applied without the owner reference.",
        controller: HOST,
        plant: plant::<NoOwner>,
        garble: None,
    },
    Bug {
        name: "adopts_for_good",
        sentence: "An adopted object gets an owner reference to the binding and is deleted with it.",
        controller: HOST,
        plant: plant::<AdoptsForGood>,
        garble: None,
    },
    Bug {
        name: "keeps_what_is_to_be_deleted",
        sentence: "An adopted object gets no owner, although its class says that it is deleted with the binding.",
        controller: HOST,
        plant: plant::<KeepsAdopted>,
        garble: None,
    },
    Bug {
        name: "no_label",
        sentence: "Resources are applied without the label that the watches select.",
        controller: HOST,
        plant: plant::<NoLabel>,
        garble: None,
    },
    Bug {
        name: "wrong_namespace",
        sentence: "Resources are applied to the namespace \"default\".",
        controller: HOST,
        plant: plant::<WrongNamespace>,
        garble: None,
    },
    Bug {
        name: "secrets_are_logged",
        sentence: "The last applied object is written to events.",
        controller: HOST,
        plant: plant::<SecretsInEvents>,
        garble: None,
    },
    Bug {
        name: "event_counts_are_not_written",
        sentence: "A repeated event is counted in memory, but not on the API server.",
        controller: HOST,
        plant: plant::<NoEventCounts>,
        garble: None,
    },
    Bug {
        name: "secrets_as_text",
        sentence: "A Secret is applied with stringData, so the managed fields do not show its data.",
        controller: HOST,
        plant: plant::<SecretsAsText>,
        garble: None,
    },
    Bug {
        name: "ready_whatever_happened",
        sentence: "The status is Ready even if an apply has failed.",
        controller: HOST,
        plant: plant::<AlwaysReady>,
        garble: None,
    },
];

fn without_delete_options(
    request: &KubeRequest,
    mut encoded: http::Request<Vec<u8>>,
) -> http::Request<Vec<u8>> {
    if matches!(request, KubeRequest::Delete { .. }) {
        encoded.body_mut().clear();
    }
    encoded
}

/// Returns a status patch and its object.
pub(super) fn status_patch(action: &mut Action) -> Option<(&ObjectRef, &mut Arc<Value>)> {
    match action {
        Action::Kube(KubeRequest::Patch { target, subresource: Some(Subresource::Status), patch }) => {
            Some((target, patch))
        }
        _ => None,
    }
}

/// Returns the conditions that a request writes.
pub(super) fn written_conditions(request: &mut Request) -> Option<&mut Vec<Value>> {
    let (_, patch) = status_patch(&mut request.action)?;
    Arc::make_mut(patch).pointer_mut("/status/conditions")?.as_array_mut()
}

#[derive(Default)]
struct FirstVersion {
    first: BTreeMap<ObjectRef, Value>,
}

impl Flaw for FirstVersion {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (target, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        let version = changed["metadata"]["resourceVersion"].clone();
        changed["metadata"]["resourceVersion"] = self.first.entry(target.clone()).or_insert(version).clone();
        *patch = Arc::new(changed);
        None
    }
}

/// Increases the time at every write, like a clock that is read at every write.
#[derive(Default)]
pub(super) struct TimesMove {
    second: u32,
}

impl Flaw for TimesMove {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        self.second = (self.second + 1) % 60;
        for condition in
            changed.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
        {
            condition["lastTransitionTime"] = json!(format!("2023-11-15T00:00:{:02}Z", self.second));
        }
        *patch = Arc::new(changed);
        None
    }
}

#[derive(Default)]
struct NextGeneration;

impl Flaw for NextGeneration {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        let generation = changed["status"]["observedGeneration"].as_i64()?;
        changed["status"]["observedGeneration"] = json!(generation + 1);
        *patch = Arc::new(changed);
        None
    }
}

/// Answers the write of the intent as a success without sending it.
#[derive(Default)]
struct NoFence {
    bindings: BTreeMap<ObjectRef, Arc<Value>>,
}

impl Flaw for NoFence {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Event::Applied { kind, object } = &event
            && kind.kind == "NamespaceClassBinding"
        {
            let name = lockstep_sim::history::reference(kind, object);
            self.bindings.insert(name, Arc::clone(object));
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (target, patch) = status_patch(&mut request.action)?;
        if patch["status"]["conditions"][0]["reason"] != "Applying" {
            return None;
        }
        let mut object = Value::clone(self.bindings.get(target)?);
        object["status"] = patch["status"].clone();
        Some(Ok(Success::Object(Arc::new(object))))
    }
}

#[derive(Default)]
struct ListsPending;

impl Flaw for ListsPending {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        let pending = changed["status"]["pendingResources"].as_array_mut().map(std::mem::take)?;
        // The write before the creation of objects must not be changed.
        if changed["status"]["conditions"][0]["reason"] == "Applying" {
            return None;
        }
        changed["status"]["appliedResources"].as_array_mut()?.extend(pending);
        *patch = Arc::new(changed);
        None
    }
}

fn is_resource(target: &ObjectRef) -> bool {
    matches!(&*target.kind.kind, "ConfigMap" | "Secret" | "ServiceAccount")
}

#[derive(Default)]
struct NeverPrunes;

impl Flaw for NeverPrunes {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        match &request.action {
            Action::Kube(KubeRequest::Delete { target, .. }) if is_resource(target) => {
                Some(Ok(Success::Done))
            }
            _ => None,
        }
    }
}

/// Repeats the last status of each object.
#[derive(Default)]
pub(super) struct StatusAlways {
    last: BTreeMap<ObjectRef, Action>,
    next: u64,
}

impl Flaw for StatusAlways {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (target, patch) = status_patch(&mut request.action)?;
        let mut bare = Value::clone(patch);
        bare["metadata"] = json!({});
        let again = Action::Kube(KubeRequest::Patch {
            target: target.clone(),
            subresource: Some(Subresource::Status),
            patch: Arc::new(bare),
        });
        self.last.insert(target.clone(), again);
        None
    }

    fn step(&mut self, step: &mut Step) {
        for note in &step.notes {
            if let Note::Reconciled { object, result: ReconcileResult::Converged, .. } = note
                && let Some(action) = self.last.get(object)
            {
                self.next += 1;
                let id = ActionId(1_000_000_000 + self.next);
                step.requests.push(Request { id, action: action.clone() });
            }
        }
    }
}

/// Changes the manifests of resources.
fn change_manifest(request: &mut Request, change: impl FnOnce(&mut Value)) {
    if let Action::Kube(KubeRequest::Apply { target, manifest }) = &mut request.action
        && is_resource(target)
    {
        let mut changed = Value::clone(manifest);
        change(&mut changed);
        *manifest = Arc::new(changed);
    }
}

#[derive(Default)]
struct NoOwner;

impl Flaw for NoOwner {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change_manifest(request, |manifest| manifest["metadata"]["ownerReferences"] = json!([]));
        None
    }
}

#[derive(Default)]
struct AdoptsForGood;

impl Flaw for AdoptsForGood {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change_manifest(request, |manifest| {
            let uid = manifest["metadata"]["annotations"][names::ADOPTED_ANNOTATION].clone();
            if uid.is_string() {
                let kind = names::binding();
                manifest["metadata"]["ownerReferences"] = json!([{
                    "apiVersion": kind.api_version(),
                    "kind": kind.kind,
                    "name": manifest["metadata"]["namespace"],
                    "uid": uid,
                    "controller": true,
                }]);
            }
        });
        None
    }
}

#[derive(Default)]
struct KeepsAdopted;

impl Flaw for KeepsAdopted {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change_manifest(request, |manifest| {
            if annotation(manifest, names::ADOPTED_ANNOTATION).is_some() {
                manifest["metadata"].as_object_mut().map(|metadata| metadata.remove("ownerReferences"));
            }
        });
        None
    }
}

#[derive(Default)]
struct NoLabel;

impl Flaw for NoLabel {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change_manifest(request, |manifest| manifest["metadata"]["labels"] = json!({}));
        None
    }
}

#[derive(Default)]
struct SecretsAsText;

impl Flaw for SecretsAsText {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change(request, "Secret", |secret| {
            let data = secret.as_object_mut().and_then(|secret| secret.remove("data")).unwrap_or_default();
            let text = |value: &Value| String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok();
            let texts = data.as_object().into_iter().flatten();
            let texts = texts.filter_map(|(key, value)| Some((key.clone(), Value::from(text(value)?))));
            secret["stringData"] = Value::Object(texts.collect());
        });
        None
    }
}

#[derive(Default)]
struct WrongNamespace;

impl Flaw for WrongNamespace {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change_manifest(request, |manifest| manifest["metadata"]["namespace"] = json!("default"));
        if let Action::Kube(KubeRequest::Apply { target, .. }) = &mut request.action
            && is_resource(target)
        {
            target.namespace = Some("default".to_owned());
        }
        None
    }
}

#[derive(Default)]
struct SecretsInEvents {
    last: String,
}

impl Flaw for SecretsInEvents {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        match &mut request.action {
            Action::Kube(KubeRequest::Apply { manifest, .. }) => self.last = manifest.to_string(),
            Action::Kube(KubeRequest::Create { target, manifest }) if target.kind.kind == "Event" => {
                let mut event = Value::clone(manifest);
                event["note"] = json!(self.last);
                *manifest = Arc::new(event);
            }
            _ => {}
        }
        None
    }
}

#[derive(Default)]
struct NoEventCounts;

impl Flaw for NoEventCounts {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        is(&request.action, "patch", "Event").then(|| Ok(as_if_done(&request.action)))
    }
}

#[derive(Default)]
struct AlwaysReady;

impl Flaw for AlwaysReady {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        let mut changed = Value::clone(patch);
        for condition in
            changed.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if condition["type"] == "Ready" && condition["reason"] != "Applying" {
                condition["status"] = json!("True");
            }
        }
        *patch = Arc::new(changed);
        None
    }
}
