//! Storage protection: a claim that is being deleted remains while a pod uses it, and a volume while a claim uses it.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::cursor::{Cursor, TableUpdate};
use crate::server::meta;
use crate::server::registry::Resource;
use crate::server::request::ResourcePath;
use crate::server::scope::{Scope, WriteOptions};
use crate::server::state::ApiServer;
use crate::server::store::Prefix;
use crate::server::write::{self, Tracking};

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";

/// Removes the protection finalizer of claims and volumes that are no longer in use.
#[derive(Debug, Clone, Default)]
pub struct StorageProtection {
    cursor: Cursor,
    /// Keys of claims and volumes that are being deleted.
    waiting: BTreeSet<(&'static str, String)>,
}

impl StorageProtection {
    /// Runs the due work.
    pub fn tick(&mut self, server: &mut ApiServer, now: Timestamp) {
        let wanted = |resource: &Resource| {
            resource.group.is_empty() && matches!(resource.plural.as_str(), "pods" | CLAIMS | VOLUMES)
        };
        let updates = self.cursor.poll(server, wanted);
        if updates.is_empty() {
            return;
        }
        for (resource, update) in updates {
            let plural = match resource.plural.as_str() {
                CLAIMS => CLAIMS,
                VOLUMES => VOLUMES,
                _ => continue,
            };
            let (TableUpdate::Changes(changes) | TableUpdate::Relist(changes)) = update;
            for change in changes {
                let key = (plural, change.key.to_string());
                if meta::is_deleting(&change.object) && !change.deleted {
                    self.waiting.insert(key);
                } else {
                    self.waiting.remove(&key);
                }
            }
        }
        for (plural, key) in self.waiting.clone() {
            release(server, plural, &key, now);
        }
    }
}

/// Removes the finalizer of one object if it is not in use.
fn release(server: &mut ApiServer, plural: &'static str, key: &str, now: Timestamp) {
    let Some(resource) = server.registry.get("", plural).cloned() else { return };
    let Some(live) = server.store.get(resource.table, key).cloned() else { return };
    let (finalizer, used) = if plural == CLAIMS {
        ("kubernetes.io/pvc-protection", is_mounted(server, &live))
    } else {
        ("kubernetes.io/pv-protection", live.pointer("/status/phase") == Some(&Value::from("Bound")))
    };
    let finalizers = meta::finalizers(&live);
    if used || !finalizers.contains(&finalizer) {
        return;
    }
    let kept: Vec<String> =
        finalizers.into_iter().filter(|name| *name != finalizer).map(str::to_owned).collect();
    let mut object = (*live).clone();
    meta::set_finalizers(&mut object, &kept);
    let path = ResourcePath {
        namespace: meta::namespace(&live).to_owned(),
        name: meta::name(&live).to_owned(),
        ..ResourcePath::default()
    };
    let mut options = WriteOptions::internal("kube-controller-manager", now);
    // A refused write is retried after the next change.
    let _refused = write::update_object(
        server,
        &Scope::new(resource, 0, path),
        &live,
        object,
        &mut options,
        Tracking::Update,
    );
}

/// Returns whether a pod of the namespace uses a claim.
fn is_mounted(server: &ApiServer, claim: &Value) -> bool {
    let Some(pods) = server.registry.get("", "pods") else { return false };
    let prefix = Prefix::namespace(meta::namespace(claim));
    let uses = |pod: &Arc<Value>| {
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
        volumes
            .filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName"))
            .any(|name| name == meta::name(claim))
    };
    server.store.list(pods.table, &prefix, None).any(|(_, pod)| uses(pod))
}
