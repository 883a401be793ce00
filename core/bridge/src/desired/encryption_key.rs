//! The key by which the hosted cluster encrypts Secrets in etcd. It is created once, before the HostedCluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::controller_reference;
use serde_json::json;

use crate::model::encryption_key::{self, BYTES, KEY};
use crate::names;
use crate::snapshot::BridgeSnapshot;

/// Returns the request that creates the Secret. It is immutable: with another key, nothing could read what etcd contains.
pub fn create(snapshot: &BridgeSnapshot<'_>) -> Action {
    let secret = encryption_key::secret(snapshot.key);
    let owner = controller_reference(&names::bridge(), &snapshot.key.name, &snapshot.bridge.uid);
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": secret.namespace,
            "name": secret.name,
            "labels": names::labels(snapshot.key),
            "ownerReferences": [owner],
        },
        "type": "Opaque",
        "immutable": true,
    });
    Action::Kube(KubeRequest::CreateSecret {
        target: secret.object(&names::secret()),
        manifest: Arc::new(manifest),
        generate: BTreeMap::from([(KEY.to_owned(), BYTES)]),
    })
}
