//! The keys with which hosted clusters encrypt etcd.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_bridge::model::encryption_key;
use lockstep_bridge::names;
use lockstep_engine::object::{
    Name, ObjectRef, Uid, annotation, controller_reference, is_deleting, metadata,
};
use lockstep_engine::random::Random;
use lockstep_sim::subject::Client;
use serde_json::{Value, json};

use super::bridges::target;
use super::hosted_clusters::hosted_cluster;
use crate::bridge::setup::{BRIDGES, NAMESPACE, content};

/// Returns the Secret with the key for etcd of a bridge.
pub(super) fn key_of(bridge: &str) -> ObjectRef {
    encryption_key::secret(&Name::new(NAMESPACE, bridge)).object(&names::secret())
}

/// Gives a bridge without a cluster a key that is too short. HyperShift would copy such a key of a cluster, which could not read
/// its etcd any more.
pub(super) fn damage(client: &mut dyn Client, random: &mut Random) {
    let name = random.pick(&BRIDGES);
    let bridge = client.server().object(&target(name)).cloned();
    if let Some(bridge) = bridge.filter(|_| client.server().object(&hosted_cluster(name)).is_none()) {
        let key = key_of(name);
        client.delete(&key);
        write(client, &key, &bridge, &json!("c2hvcnQ="));
    }
}

fn write(client: &mut dyn Client, key: &ObjectRef, bridge: &Value, value: &Value) {
    let name = metadata(bridge, "name");
    let metadata = json!({
        "namespace": NAMESPACE,
        "name": key.name,
        "labels": names::labels(&Name::new(NAMESPACE, name)),
        "ownerReferences": [controller_reference(&names::bridge(), name, &Uid::of(bridge))],
    });
    client.create(&names::secret(), &json!({ "metadata": metadata, "data": { encryption_key::KEY: value } }));
}

fn is_damaged(secret: &Value) -> bool {
    let bytes = content(secret, encryption_key::KEY).and_then(|key| STANDARD.decode(key).ok());
    bytes.is_none_or(|bytes| bytes.len() != encryption_key::BYTES)
}

/// Restores the lost and damaged keys of hosted clusters, for example from HyperShift's copies. If HyperShift has not copied a key
/// yet, nothing is encrypted, and any key serves. Damaged keys that no cluster uses are deleted.
pub(super) fn restore_keys(client: &mut dyn Client) {
    for name in BRIDGES {
        let (key, owner) = (key_of(name), Name::new(NAMESPACE, name));
        let found = client.server().object(&key).cloned();
        let is_of_others = |found: &Value| annotation(found, "squatter").is_some();
        if found.as_ref().is_some_and(|it| !is_damaged(it) || is_deleting(it) || is_of_others(it)) {
            continue;
        }
        let (cluster, bridge) =
            (client.server().object(&hosted_cluster(name)), client.server().object(&target(name)));
        let Some(bridge) = bridge.filter(|_| cluster.is_some_and(|it| encryption_key::is_used(it, &owner)))
        else {
            client.delete(&key);
            continue;
        };
        let copy =
            ObjectRef::namespaced(&names::secret(), &names::control_plane_namespace(&owner), &key.name);
        let copy = client.server().object(&copy).filter(|copy| !is_damaged(copy));
        let value = copy.map(|copy| copy["data"][encryption_key::KEY].clone());
        let value = value.unwrap_or_else(|| STANDARD.encode([b'k'; encryption_key::BYTES]).into());
        let bridge = Arc::clone(bridge);
        client.delete(&key);
        write(client, &key, &bridge, &value);
    }
}
