//! The Secret that gives Argo CD access to a cluster.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::digest::{digest, shortened};
use lockstep_engine::object::Name;
use lockstep_engine::write::covers;
use serde_json::{Value, json};

use crate::model::cluster::ClusterIndex;
use crate::model::kubeconfig::Connection;
use crate::model::owner::label_value;
use crate::names::{
    ARGO_NAMESPACE, CLUSTER, CLUSTER_NAME, CLUSTER_NAMESPACE, SECRET_TYPE, SECRET_TYPE_CLUSTER, SERVER,
};
use crate::store::Store;

const NAME_MAX_BYTES: usize = 253;

/// Returns a name for the Secret of a cluster that has none.
///
/// It is the cluster's name, unless an older cluster has the same name or another owner has the Secret. Otherwise a unique
/// digest is added.
pub fn secret_name(store: &Store, cluster: &Name) -> Name {
    let plain =
        Name::new(ARGO_NAMESPACE, &format!("{}-argocd", shortened(&cluster.name, NAME_MAX_BYTES - 7)));
    let mut named = store.clusters.keys_by(&ClusterIndex::Named(cluster.name.clone()));
    let is_contested = named.any(|other| other != cluster && store.is_older(other, cluster));
    if !is_contested && store.secrets.get(&plain).is_none() {
        return plain;
    }
    let digest = &digest(&json!([cluster]))[..8];
    let name = format!("{}-{digest}-argocd", shortened(&cluster.name, NAME_MAX_BYTES - 16));
    Name::new(ARGO_NAMESPACE, &name)
}

/// Returns the desired Secret of a cluster.
pub fn manifest(cluster: &Name, name: &Name, connection: &Connection) -> Value {
    // The name under which Argo CD shows it. Only the cluster whose Secret has the plain name is shown under that name.
    let is_plain = name.name == format!("{}-argocd", cluster.name);
    let title = if is_plain { cluster.name.clone() } else { cluster.to_string() };
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": name.namespace,
            "name": name.name,
            "labels": {
                SECRET_TYPE: SECRET_TYPE_CLUSTER,
                CLUSTER_NAME: label_value(&cluster.name),
                CLUSTER_NAMESPACE: label_value(&cluster.namespace),
            },
            "annotations": { CLUSTER: cluster.to_string(), SERVER: connection.server },
        },
        "type": "Opaque",
        "data": {
            "name": encoded(&title),
            "server": encoded(&connection.server),
            "config": encoded(&connection.config.to_string()),
        },
    })
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// Returns whether a Secret has everything of its manifest.
pub fn is_applied(existing: &Value, manifest: &Value) -> bool {
    covers(&existing["data"], &manifest["data"])
        && ["labels", "annotations"]
            .iter()
            .all(|field| covers(&existing["metadata"][*field], &manifest["metadata"][*field]))
}

#[cfg(test)]
mod tests;
