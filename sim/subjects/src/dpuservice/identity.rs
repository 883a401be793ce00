//! The identity of an object: the service or cluster for which it was created.

use lockstep_dpuservice::names::{
    CLUSTER, CLUSTER_NAME, CLUSTER_NAMESPACE, SERVICE, SERVICE_NAME, SERVICE_NAMESPACE,
};
use lockstep_engine::object::{Name, annotation, label, metadata};
use serde_json::Value;

/// Returns the service and the cluster of an Application; none without an identity.
pub(super) fn of_application(object: &Value) -> Option<(Name, Name)> {
    Some((read(object, SERVICE, SERVICE_NAMESPACE, SERVICE_NAME)?, of_secret(object)?))
}

/// Returns the cluster of a Secret.
pub(super) fn of_secret(object: &Value) -> Option<Name> {
    read(object, CLUSTER, CLUSTER_NAMESPACE, CLUSTER_NAME)
}

fn read(object: &Value, whole: &str, namespace: &str, name: &str) -> Option<Name> {
    let labels = || Some(Name::new(label(object, namespace)?, label(object, name)?));
    let whole = annotation(object, whole).and_then(|whole| whole.split_once('/'));
    whole.map(|(namespace, name)| Name::new(namespace, name)).or_else(labels)
}

/// Returns what a status calls a cluster: its name, with its namespace if several clusters have that name.
pub(super) fn title<'a>(cluster: &Name, clusters: impl Iterator<Item = &'a Value>) -> String {
    let named = clusters.filter(|it| metadata(it, "name") == cluster.name).count();
    if named > 1 { cluster.to_string() } else { cluster.name.clone() }
}
