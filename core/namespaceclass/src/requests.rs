//! The requests that the reconcile of a binding makes for its plan, and the discovery of kinds.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockstep_crds::namespaceclass::NamespaceClassBindingStatus;
use lockstep_engine::action::{Action, KubeRequest, Subresource};
use lockstep_engine::object::{ObjectRef, ResourceVersion, Uid};
use serde_json::{Value, json};

use super::model::Binding;
use super::plan::Work;
use super::{names, status};

/// Returns the requests that discover the kinds of these API versions.
pub(super) fn discoveries(api_versions: &BTreeSet<String>) -> Vec<Action> {
    let discover =
        |api_version: &String| Action::Kube(KubeRequest::Discover { api_version: api_version.clone() });
    api_versions.iter().map(discover).collect()
}

/// Returns the binding of a namespace, which is named like it.
pub(super) fn binding_ref(namespace: &str) -> ObjectRef {
    ObjectRef::namespaced(&names::binding(), namespace, namespace)
}

/// Returns the write of a binding's status.
pub(super) fn status_write(name: &str, binding: &Binding, wanted: &NamespaceClassBindingStatus) -> Action {
    let patch = status::patch(&binding.uid, binding.version, wanted);
    Action::Kube(KubeRequest::Patch {
        target: binding_ref(name),
        subresource: Some(Subresource::Status),
        patch,
    })
}

/// Returns the removals of the plan.
pub(super) fn removals(name: &str, work: &Work) -> Vec<Action> {
    let removals = work.removals.iter().map(|removal| {
        let target = ObjectRef::namespaced(&removal.kind, name, &removal.resource.name);
        let (uid, resource_version) = (removal.uid.clone(), removal.version);
        if removal.keeps {
            return Action::Kube(KubeRequest::Patch {
                target,
                subresource: None,
                patch: Arc::new(release(&uid, resource_version)),
            });
        }
        Action::Kube(KubeRequest::Delete { target, uid, resource_version: Some(resource_version) })
    });
    removals.collect()
}

/// Returns the patch that removes our labels and annotations from an object that existed before. The content of the object
/// stays.
fn release(uid: &Uid, version: ResourceVersion) -> Value {
    let marks = [
        names::CONTENT_ANNOTATION,
        names::VALUES_ANNOTATION,
        names::ADOPTED_ANNOTATION,
        names::ADOPTION_POLICY_ANNOTATION,
    ];
    let annotations: serde_json::Map<String, Value> =
        marks.into_iter().map(|mark| (mark.to_owned(), Value::Null)).collect();
    let labels = json!({ names::CLASS_LABEL: null });
    let mut metadata = json!({ "uid": uid, "labels": labels, "annotations": annotations });
    if !version.is_none() {
        metadata["resourceVersion"] = json!(version);
    }
    json!({ "metadata": metadata })
}

/// Returns the applies of the plan.
pub(super) fn applies(name: &str, work: &Work) -> Vec<Action> {
    let applies = work.applies.iter().map(|apply| {
        let mut manifest = apply.entry.manifest(name, &work.binding.uid, apply.existed);
        if let Some(uid) = &apply.uid {
            manifest["metadata"]["uid"] = json!(uid);
        }
        if let Some(version) = apply.version.filter(|version| !version.is_none()) {
            manifest["metadata"]["resourceVersion"] = json!(version);
        }
        let target = ObjectRef::namespaced(&apply.entry.kind, name, &apply.entry.name);
        Action::Kube(KubeRequest::Apply { target, manifest: Arc::new(manifest) })
    });
    applies.collect()
}
