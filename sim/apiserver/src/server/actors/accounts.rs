//! The default objects of every namespace: the `default` service account and the cluster's root certificates.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cursor::{Cursor, TableUpdate, after};
use crate::server::meta;
use crate::server::state::ApiServer;
use crate::server::write;

const CERTIFICATES: &str = "kube-root-ca.crt";
const RESOURCES: [&str; 3] = ["namespaces", "serviceaccounts", "configmaps"];

/// Creates `serviceaccount/default` and `configmap/kube-root-ca.crt`, as kube-controller-manager does.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    /// Delay after the creation of the namespace.
    pub delay: SignedDuration,
    cursor: Cursor,
    /// The namespaces that exist or existed.
    known: BTreeSet<String>,
    due: BTreeMap<String, Timestamp>,
}

impl Accounts {
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.values().min().copied()
    }

    /// Runs the due work.
    pub fn tick(&mut self, server: &mut ApiServer, now: Timestamp) {
        let updates = self.cursor.poll(server, |resource| {
            resource.group.is_empty() && RESOURCES.contains(&resource.plural.as_str())
        });
        let mut touched = BTreeSet::new();
        for (resource, update) in updates {
            // A list does not show what was deleted since the last one.
            if matches!(update, TableUpdate::Relist(_)) {
                touched.extend(self.known.iter().cloned());
            }
            let (TableUpdate::Changes(changes) | TableUpdate::Relist(changes)) = update;
            for change in changes {
                if resource.plural == "namespaces" {
                    let name = meta::name(&change.object).to_owned();
                    if change.deleted {
                        self.known.remove(&name);
                    } else {
                        self.known.insert(name.clone());
                    }
                    touched.insert(name);
                } else if change.deleted && ["default", CERTIFICATES].contains(&meta::name(&change.object)) {
                    touched.insert(meta::namespace(&change.object).to_owned());
                }
            }
        }
        for namespace in touched {
            self.due.entry(namespace).or_insert_with(|| after(now, self.delay));
        }
        let due: Vec<String> =
            self.due.iter().filter(|(_, due)| **due <= now).map(|(namespace, _)| namespace.clone()).collect();
        for namespace in due {
            self.due.remove(&namespace);
            complete(server, &namespace, now);
        }
    }
}

fn complete(server: &mut ApiServer, namespace: &str, now: Timestamp) {
    let active = server.find("", "namespaces", namespace).is_some_and(|object| !meta::is_deleting(object));
    if !active {
        return;
    }
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace},
    });
    let certificates = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": CERTIFICATES, "namespace": namespace,
            "annotations": {"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."},
        },
        "data": {"ca.crt": ""},
    });
    ensure(server, "serviceaccounts", account, now);
    ensure(server, "configmaps", certificates, now);
}

fn ensure(server: &mut ApiServer, plural: &str, object: Value, now: Timestamp) {
    let key = format!("{}/{}", meta::namespace(&object), meta::name(&object));
    if server.find("", plural, &key).is_none() {
        // A namespace that was deleted in the meantime needs no objects.
        let _refused = write::install(server, "", plural, object, now);
    }
}
