//! Another controller, which writes its value again whenever the operator has repaired it.

use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{Kind, annotation, is_deleting};
use lockstep_external::{Controller, ReadView};
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::classes::config_map;
use super::operations::{INSISTS, THEIRS};

/// It keeps its value in each ConfigMap that has an annotation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rival;

impl Controller for Rival {
    const NAME: &'static str = "rival";

    fn kinds() -> Vec<Arc<Kind>> {
        vec![config_map()]
    }

    fn look(&mut self, look: &mut ReadView<'_>) {
        let is_other = |map: &Value| map["data"]["value"] != THEIRS && !is_deleting(map);
        for map in look.all(&config_map()) {
            if annotation(map, INSISTS).is_none() || !is_other(map) {
                continue;
            }
            let target = reference(&config_map(), map);
            if look.after(&target, "write its value") {
                let patch = Arc::new(json!({ "data": { "value": THEIRS } }));
                look.ask(Action::Kube(KubeRequest::Patch { target, subresource: None, patch }));
            }
        }
    }
}
