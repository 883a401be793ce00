//! Another controller that restores its own version of a HostedCluster or NodePool as soon as the Bridge has changed it, as a tool for
//! deployments would.

use std::sync::Arc;

use lockstep_bridge::names::{self, CLUSTER_TYPE};
use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{Kind, annotation, label};
use lockstep_engine::random::Random;
use lockstep_external::{Controller, ReadView};
use lockstep_sim::history::reference;
use lockstep_sim::subject::{Client, Operation};
use serde_json::json;

use super::setup::BRIDGES;

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
                let labels = json!({ "metadata": { "uid": object["metadata"]["uid"], "labels": { CLUSTER_TYPE: "theirs" } } });
                let target = reference(&kind, object);
                let patch = Arc::new(labels);
                look.ask(Action::Kube(KubeRequest::Patch { target, subresource: None, patch }));
            }
        }
    }
}

fn toggle(client: &mut dyn Client, random: &mut Random) {
    let kind = if random.below(2) == 0 { names::hosted_cluster() } else { names::node_pool() };
    let name = random.pick(&BRIDGES);
    let objects = client.server().objects(&kind).into_iter();
    for object in objects.filter(|object| object["metadata"]["name"] == name) {
        let restored = annotation(&object, RESTORED).is_none().then_some("yes");
        let patch = json!({ "metadata": { "annotations": { RESTORED: restored } } });
        client.merge(&reference(&kind, &object), &patch);
    }
}

/// Ends it for all objects.
pub(super) fn stop(client: &mut dyn Client) {
    for kind in Rival::kinds() {
        for object in client.server().objects(&kind) {
            if annotation(&object, RESTORED).is_some() {
                let patch = json!({ "metadata": { "annotations": { RESTORED: null } } });
                client.merge(&reference(&kind, &object), &patch);
            }
        }
    }
}
