//! Another controller that restores its own version of a HostedCluster or NodePool as soon as the Bridge has changed it, as a tool for
//! deployments would.

use std::sync::Arc;

use lockstep_bridge::names::{self, CLUSTER_TYPE};
use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{Kind, ObjectRef, annotation, label, metadata};
use lockstep_engine::random::Random;
use lockstep_external::{Controller, ReadView};
use lockstep_sim::history::reference;
use lockstep_sim::subject::{Client, Operation};
use serde_json::json;

use super::setup::{BRIDGES, NAMESPACE};

/// The annotation of the objects that it restores.
const RESTORED: &str = "rival";

/// Begins or ends that.
pub(super) const TOGGLE: Operation =
    Operation::new("keep changing a cluster, or stop that", "other controller", 2, toggle);

#[derive(Debug, Clone, Copy)]
pub(super) struct Rival;

impl Controller for Rival {
    const NAME: &'static str = "rival";

    fn kinds() -> Vec<Arc<Kind>> {
        vec![names::hosted_cluster(), names::node_pool()]
    }

    fn look(&mut self, look: &mut ReadView<'_>) {
        for kind in Self::kinds() {
            let restored = look.all(&kind).filter(|object| annotation(object, RESTORED).is_some());
            for object in restored.filter(|object| label(object, CLUSTER_TYPE) != Some("theirs")) {
                let target = reference(&kind, object);
                let uid = metadata(object, "uid");
                let patch =
                    Arc::new(json!({ "metadata": { "uid": uid, "labels": { CLUSTER_TYPE: "theirs" } } }));
                look.ask(Action::Kube(KubeRequest::Patch { target, subresource: None, patch }));
            }
        }
    }
}

fn toggle(client: &mut dyn Client, random: &mut Random) {
    let kind = if random.below(2) == 0 { names::hosted_cluster() } else { names::node_pool() };
    let target = ObjectRef::namespaced(&kind, NAMESPACE, random.pick(&BRIDGES));
    let is_restored = client.server().object(&target).is_some_and(|it| annotation(it, RESTORED).is_some());
    annotate(client, &target, (!is_restored).then_some("yes"));
}

/// Ends it for all objects.
pub(super) fn stop(client: &mut dyn Client) {
    for kind in Rival::kinds() {
        for name in BRIDGES {
            annotate(client, &ObjectRef::namespaced(&kind, NAMESPACE, name), None);
        }
    }
}

fn annotate(client: &mut dyn Client, target: &ObjectRef, restored: Option<&str>) {
    client.merge(target, &json!({ "metadata": { "annotations": { RESTORED: restored } } }));
}
