//! The objects of a HostedCluster that is not being deleted: a namespace, a Service and a Secret.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::finalizer;
use lockstep_engine::object::{ObjectRef, annotation, is_deleting, metadata};
use serde_json::{Value, json};

use super::endpoint::{Endpoint, endpoint, port, strategy};
use super::judge::judge;
use super::model::{FINALIZER, KEY, api_server_service, hosted_cluster_kind, key_source, kubeconfig};
use super::status;
use crate::dpu_clusters::Access;
use crate::kinds::{namespace_kind, secret_kind};
use crate::read_view::ReadView;
use crate::status::is_true;

/// A placeholder for a client key. It contains the word by which simulations search for leaked secrets.
const CLIENT_KEY: &str = "tops3cretAAA";

/// Prefix of the annotation on a Secret to which a HostedCluster refers, before the name of the HostedCluster.
const REFERENCED: &str = "referenced-resource.hypershift.openshift.io/";

pub(super) fn reconcile(look: &mut ReadView<'_>, target: &ObjectRef, cluster: &Value, routes: bool) {
    if let Some(enter) = finalizer::add(target, cluster, FINALIZER) {
        if look.after(target, "finalizer") {
            look.ask(enter);
        }
        return;
    }
    let judged = judge(look, cluster, routes);
    if judged.is_ok() {
        identify(look, target, cluster);
        mark_references(look, cluster);
        build(look, cluster);
        copy_key(look, cluster);
    }
    let status = status::of(look, target, cluster, &judged);
    look.keep_status(target, cluster, &status);
}

/// Sets the cluster's missing ids.
fn identify(look: &mut ReadView<'_>, target: &ObjectRef, cluster: &Value) {
    let uid = metadata(cluster, "uid");
    let mut ids = json!({});
    if cluster["spec"]["infraID"].is_null() {
        ids["infraID"] = format!("{}-{}", target.name.replace('.', "-"), uid.get(..5).unwrap_or(uid)).into();
    }
    if cluster["spec"]["clusterID"].is_null() {
        // Any UUID is suitable.
        ids["clusterID"] = uid.into();
    }
    if ids != json!({}) {
        let patch = Arc::new(json!({ "metadata": { "uid": uid }, "spec": ids }));
        look.ask(Action::Kube(KubeRequest::Patch { target: target.clone(), subresource: None, patch }));
    }
}

/// Marks the Secrets to which the cluster refers.
fn mark_references(look: &mut ReadView<'_>, cluster: &Value) {
    let mark = format!("{REFERENCED}{}", metadata(cluster, "name"));
    let named = ["pullSecret", "sshKey"].map(|field| {
        let name = cluster["spec"][field]["name"].as_str().unwrap_or_default();
        ObjectRef::namespaced(&secret_kind(), metadata(cluster, "namespace"), name)
    });
    for target in named.into_iter().chain(key_source(cluster)) {
        let Some(secret) = look.get(&target).filter(|secret| annotation(secret, &mark).is_none()) else {
            continue;
        };
        if look.after(&target, "mark") {
            let metadata = json!({ "uid": metadata(secret, "uid"), "annotations": { &mark: "managed" } });
            let patch = Arc::new(json!({ "metadata": metadata }));
            look.ask(Action::Kube(KubeRequest::Patch { target, subresource: None, patch }));
        }
    }
}

/// Keeps a copy of the key for etcd in the namespace of the control plane. Its API server uses the copy. A changed key is copied
/// too.
fn copy_key(look: &mut ReadView<'_>, cluster: &Value) {
    let Some(source) = key_source(cluster) else { return };
    let place = api_server_service(cluster).namespace.unwrap_or_default();
    let namespace = look.get(&ObjectRef::cluster(&namespace_kind(), &place));
    let is_there = namespace.is_some_and(|namespace| !is_deleting(namespace));
    let (Some(secret), true) = (look.get(&source), is_there) else { return };
    let target = ObjectRef::namespaced(&secret_kind(), &place, &source.name);
    let data = json!({ KEY: secret["data"][KEY] });
    match look.get(&target) {
        Some(copy) if copy["data"] == data => {}
        Some(copy) => {
            let patch = Arc::new(json!({ "metadata": { "uid": metadata(copy, "uid") }, "data": data }));
            look.ask(Action::Kube(KubeRequest::Patch { target, subresource: None, patch }));
        }
        None => {
            let metadata = json!({ "name": target.name, "namespace": place });
            create(look, target, json!({ "metadata": metadata, "type": "Opaque", "data": data }));
        }
    }
}

fn build(look: &mut ReadView<'_>, cluster: &Value) {
    let service = api_server_service(cluster);
    let namespace = ObjectRef::cluster(&namespace_kind(), service.namespace.as_deref().unwrap_or_default());
    let found = (look.get(&namespace), look.get(&service));
    match found {
        (None, _) => {
            if look.after(&namespace, "namespace") {
                let labels = json!({ "hypershift.openshift.io/hosted-control-plane": "true" });
                let manifest = json!({ "metadata": { "name": namespace.name, "labels": labels } });
                create(look, namespace, manifest);
            }
        }
        (Some(namespace), None) => {
            if !is_deleting(namespace) && look.after(&service, "service") {
                let manifest = service_manifest(cluster, &service);
                create(look, service, manifest);
            }
        }
        (Some(_), Some(_)) => {
            // Nothing else is created before the infrastructure is ready.
            let endpoint = endpoint(look, cluster).filter(|_| is_true(cluster, "InfrastructureReady"));
            if let Some(endpoint) = endpoint {
                keep_kubeconfig(look, cluster, &endpoint);
            }
        }
    }
}

fn create(look: &mut ReadView<'_>, target: ObjectRef, mut manifest: Value) {
    manifest["apiVersion"] = target.kind.api_version().into();
    manifest["kind"] = target.kind.kind.clone().into();
    look.ask(Action::Kube(KubeRequest::Create { target, manifest: Arc::new(manifest) }));
}

fn service_manifest(cluster: &Value, service: &ObjectRef) -> Value {
    let strategy = strategy(cluster, "APIServer");
    let kind = strategy["type"].as_str().filter(|kind| matches!(*kind, "LoadBalancer" | "NodePort"));
    let mut listener = json!({ "port": port(cluster), "targetPort": "client", "protocol": "TCP" });
    if let Some(given) = strategy["nodePort"]["port"].as_i64().filter(|port| *port != 0) {
        listener["nodePort"] = given.into();
    }
    let labels = json!({ "app": "kube-apiserver", "hypershift.openshift.io/control-plane-component": "kube-apiserver" });
    json!({
        "metadata": { "name": service.name, "namespace": service.namespace, "labels": labels },
        "spec": {
            "type": kind.unwrap_or("ClusterIP"),
            "selector": labels,
            "ports": [listener],
            "ipFamilyPolicy": "PreferDualStack",
        },
    })
}

/// Writes the kubeconfig Secret and overwrites changes of other clients: data, labels, owners. The labels are those of the
/// HostedCluster.
fn keep_kubeconfig(look: &mut ReadView<'_>, cluster: &Value, endpoint: &Endpoint) {
    let target = kubeconfig(cluster);
    let kind = hosted_cluster_kind();
    let owner = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": metadata(cluster, "name"),
        "uid": metadata(cluster, "uid"),
    });
    let data = json!({ "kubeconfig": STANDARD.encode(Access::by_certificate(&endpoint.url(), CLIENT_KEY).kubeconfig()) });
    let labels = &cluster["metadata"]["labels"];
    let Some(found) = look.get(&target) else {
        if look.after(&target, "kubeconfig") {
            let metadata = json!({
                "name": target.name,
                "namespace": target.namespace,
                "labels": labels,
                "ownerReferences": [owner],
            });
            create(look, target, json!({ "metadata": metadata, "type": "Opaque", "data": data }));
        }
        return;
    };
    let owners = json!([owner]);
    let is_right = found["data"] == data
        && found["metadata"]["ownerReferences"] == owners
        && found["metadata"]["labels"] == *labels;
    if !is_right && look.after(&target, "kubeconfig") {
        let mut manifest = found.clone();
        manifest["data"] = data;
        manifest["metadata"]["ownerReferences"] = owners;
        manifest["metadata"]["labels"] = labels.clone();
        look.ask(Action::Kube(KubeRequest::Update { target, manifest: Arc::new(manifest) }));
    }
}
