//! The operations on Argo CD and its objects: Applications, Secrets of clusters and the AppProject.

use lockstep_dpuservice::names::{
    self, ARGO_NAMESPACE, CLUSTER, CLUSTER_NAME, MANAGED_BY, SECRET_TYPE, SERVICE, SERVICE_NAME,
};
use lockstep_engine::object::{ObjectRef, metadata};
use lockstep_engine::random::Random;
use lockstep_external::argocd::{SKIP_RECONCILE, repo_server_outage};
use lockstep_sim::subject::Client;
use serde_json::{Value, json};

use crate::dpuservice::identity;
use crate::dpuservice::setup::{SQUATTER, project_ref, some};

fn some_application(client: &dyn Client, random: &mut Random) -> Option<ObjectRef> {
    some(client, &names::application(), random, |object| identity::of_application(object).is_some())
}

fn some_secret(client: &dyn Client, random: &mut Random) -> Option<ObjectRef> {
    some(client, &names::secret(), random, is_argos)
}

/// Returns whether a Secret defines a cluster for Argo CD.
pub(super) fn is_argos(secret: &Value) -> bool {
    metadata(secret, "namespace") == ARGO_NAMESPACE && identity::of_secret(secret).is_some()
}

/// Stops the repo-server: then Argo CD compares nothing, and reports every Application as Healthy with an unknown sync status. Or starts
/// it again.
pub(super) fn stop_repo_server(client: &mut dyn Client, _: &mut Random) {
    let outage = repo_server_outage();
    if client.server().object(&outage).is_some() {
        client.delete(&outage);
    } else {
        let metadata = json!({ "namespace": outage.namespace, "name": outage.name });
        client.create(&outage.kind, &json!({ "metadata": metadata }));
    }
}

pub(super) fn delete_application(client: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_application(client, random) {
        client.delete(&target);
    }
}

pub(super) fn edit_application(client: &mut dyn Client, random: &mut Random) {
    let Some(target) = some_application(client, random) else { return };
    let patch = match random.below(5) {
        0 => json!({ "spec": { "source": { "targetRevision": "9.9.9" } } }),
        1 => json!({ "spec": { "syncPolicy": { "automated": null } } }),
        2 => json!({ "spec": { "destination": { "server": "https://elsewhere.example.com" } } }),
        3 => json!({ "metadata": { "labels": { "team": "x" }, "annotations": { "note": "y" } } }),
        _ => json!({ "metadata": { "finalizers": null } }),
    };
    client.merge(&target, &patch);
}

/// Restores an Application under another name, as from a backup. It has no values: those that other clients have set stay, even if
/// the service does not have them.
pub(super) fn copy_application(client: &mut dyn Client, random: &mut Random) {
    let Some(target) = some_application(client, random) else { return };
    let Some(original) = client.server().object(&target).cloned() else { return };
    let metadata = json!({
        "namespace": ARGO_NAMESPACE,
        "name": format!("{}-{}", random.pick(&["a", "z"]), target.name),
        "labels": original["metadata"]["labels"],
        "annotations": original["metadata"]["annotations"],
        "finalizers": original["metadata"]["finalizers"],
    });
    let mut spec = original["spec"].clone();
    spec["source"]["helm"]["valuesObject"] = Value::Null;
    client.create(&names::application(), &json!({ "metadata": metadata, "spec": spec }));
}

/// Removes some or all of an Application's identity. An Application without any identity belongs to another client.
pub(super) fn remove_labels(client: &mut dyn Client, random: &mut Random) {
    let Some(target) = some_application(client, random) else { return };
    let mut patch = json!({ "metadata": { "labels": { SERVICE_NAME: null } } });
    if random.below(2) == 0 {
        patch = without_identity();
    }
    client.merge(&target, &patch);
}

/// Returns the patch that makes an Application another client's.
pub(super) fn without_identity() -> Value {
    json!({ "metadata": {
        "labels": { SERVICE_NAME: null, CLUSTER_NAME: null },
        "annotations": { SERVICE: null, CLUSTER: null, SQUATTER: "yes" },
    } })
}

pub(super) fn pause(client: &mut dyn Client, random: &mut Random) {
    let found =
        if random.below(2) == 0 { some_application(client, random) } else { some_secret(client, random) };
    if let Some(target) = found {
        client.merge(&target, &json!({ "metadata": { "annotations": { SKIP_RECONCILE: "true" } } }));
    }
}

pub(super) fn delete_secret(client: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_secret(client, random) {
        client.delete(&target);
    }
}

pub(super) fn change_secret(client: &mut dyn Client, random: &mut Random) {
    let Some(target) = some_secret(client, random) else { return };
    let patch = match random.below(3) {
        0 => json!({ "data": { "config": "e30=" } }),
        1 => json!({ "data": { "server": null } }),
        _ => json!({ "metadata": { "labels": { SECRET_TYPE: null } } }),
    };
    client.merge(&target, &patch);
}

/// Restores a Secret under another name, as from a backup.
pub(super) fn copy_secret(client: &mut dyn Client, random: &mut Random) {
    let Some(target) = some_secret(client, random) else { return };
    copy(client, &target, random.pick(&["a", "z"]));
}

pub(super) fn copy(client: &mut dyn Client, secret: &ObjectRef, prefix: &str) {
    let Some(original) = client.server().object(secret).cloned() else { return };
    let metadata = json!({
        "namespace": ARGO_NAMESPACE,
        "name": format!("{prefix}-{}", secret.name),
        "labels": original["metadata"]["labels"],
        "annotations": original["metadata"]["annotations"],
    });
    let copy =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": original["data"] });
    client.create(&names::secret(), &copy);
}

pub(super) fn strip_secret(client: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_secret(client, random) {
        let annotations = json!({ CLUSTER: null, SQUATTER: "yes" });
        let patch = json!({ "metadata": { "labels": { CLUSTER_NAME: null }, "annotations": annotations } });
        client.merge(&target, &patch);
    }
}

pub(super) fn delete_project(client: &mut dyn Client, _: &mut Random) {
    client.delete(&project_ref());
}

pub(super) fn edit_project(client: &mut dyn Client, random: &mut Random) {
    let patch = match random.below(3) {
        0 => json!({ "spec": { "destinations": [] } }),
        1 => json!({ "spec": { "sourceRepos": ["https://other.example.com"] } }),
        _ => json!({ "metadata": { "finalizers": null } }),
    };
    client.merge(&project_ref(), &patch);
}

pub(super) fn strip_project(client: &mut dyn Client, _: &mut Random) {
    client.merge(&project_ref(), &json!({ "metadata": { "labels": { MANAGED_BY: null } } }));
}
