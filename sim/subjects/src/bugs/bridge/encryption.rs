//! Mistakes with the keys for etcd.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_bridge::model::encryption_key::{self, BYTES, KEY};
use lockstep_bridge::names::{self, BRIDGE_NAME};
use lockstep_engine::action::{Action, KubeRequest, Outcome, Request, Success};
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::object::{Name, label, metadata};
use lockstep_engine::wire;
use lockstep_sim::bugs::Flaw;
use serde_json::{Value, json};

use super::super::common::{Extra, Known};

#[derive(Default)]
pub(super) struct GeneratesAgain {
    known: Known,
    lost: Vec<Arc<Value>>,
    extra: Extra,
}

impl Flaw for GeneratesAgain {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.known.absorb(&event, "HostedCluster");
        if let Event::Deleted { kind, object } = &event
            && kind.kind == "Secret"
        {
            let secret = Name::of(object);
            let uses = |cluster: &Arc<Value>| {
                let name = Name::of(cluster);
                encryption_key::is_used(cluster, &name) && encryption_key::secret(&name) == secret
            };
            if self.known.objects.values().any(uses) {
                self.lost.push(Arc::clone(object));
            }
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        for lost in std::mem::take(&mut self.lost) {
            let mut metadata = json!({});
            for field in ["namespace", "name", "labels", "ownerReferences"] {
                metadata[field] = lost["metadata"][field].clone();
            }
            let manifest = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata });
            let (target, manifest) = (Name::of(&lost).object(&names::secret()), Arc::new(manifest));
            let generate = BTreeMap::from([(KEY.to_owned(), BYTES)]);
            self.extra.ask(step, Action::Kube(KubeRequest::CreateSecret { target, manifest, generate }));
        }
    }
}

/// It does not look at Secrets of other owners: an apply would take them over.
#[derive(Default)]
pub(super) struct Applies {
    applied: u8,
}

fn is_key(object: &Value) -> bool {
    metadata(object, "name").ends_with("-etcd-encryption-key")
}

impl Flaw for Applies {
    fn event(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Applied { kind, object }
                if kind.kind == "Secret" && is_key(&object) && label(&object, BRIDGE_NAME).is_none() =>
            {
                None
            }
            Event::Finished { id, outcome: Ok(Success::Object(object)) } if is_key(&object) => {
                Some(Event::Finished { id, outcome: Ok(Success::Object(Arc::new(wire::lengths(&object)))) })
            }
            other => Some(other),
        }
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Kube(KubeRequest::CreateSecret { target, manifest, .. }) = &request.action {
            self.applied = self.applied.wrapping_add(1);
            let mut manifest = Value::clone(manifest);
            manifest["data"] = json!({ KEY: STANDARD.encode([self.applied; BYTES]) });
            manifest["immutable"] = json!(false);
            let (target, manifest) = (target.clone(), Arc::new(manifest));
            request.action = Action::Kube(KubeRequest::Apply { target, manifest });
        }
        None
    }
}

#[derive(Default)]
pub(super) struct ForgetsKey;

impl Flaw for ForgetsKey {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let Action::Kube(KubeRequest::CreateSecret { manifest, .. }) = &request.action else { return None };
        let mut secret = Value::clone(manifest);
        secret["metadata"]["uid"] = json!("not-there");
        // Newer than everything that was listed.
        secret["metadata"]["resourceVersion"] = json!("1000000000");
        secret["data"] = json!({ KEY: STANDARD.encode([0; BYTES]) });
        Some(Ok(Success::Object(Arc::new(wire::lengths(&secret)))))
    }
}
