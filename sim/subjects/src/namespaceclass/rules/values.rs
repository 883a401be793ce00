//! What is applied for a namespace has the values of that namespace.

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::ObjectRef;
use lockstep_namespaceclass::names;
use lockstep_sim::cluster::What;
use lockstep_sim::invariant::Moment;
use serde_json::{Value, json};

use crate::namespaceclass::classes::varied;
use crate::namespaceclass::content::{filled, is_as_wanted};

pub(super) fn values_are_of_the_namespace(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { step, .. } = &moment.entry.what else { return Ok(()) };
    for request in &step.requests {
        let Action::Kube(KubeRequest::Apply { target, manifest }) = &request.action else { continue };
        let mut varied = varied().into_iter();
        let template =
            varied.find(|it| it["kind"] == *target.kind.kind && it["metadata"]["name"] == *target.name);
        let (Some(template), Some(namespace)) = (template, target.namespace.as_deref()) else { continue };
        let namespace = ObjectRef::cluster(&names::namespace(), namespace);
        // A namespace that existed before the run was not changed until then.
        let untouched = json!({ "metadata": { "name": namespace.name } });
        let versions = moment.history.versions(&namespace).iter().filter_map(|it| it.object.as_deref());
        let current = moment.server.object(&namespace).map(|it| &**it);
        let mut states = versions.chain(current).chain([&untouched]);
        let is_of = |state: &Value| filled(&template, state).is_some_and(|it| is_as_wanted(manifest, &it));
        if !states.any(is_of) {
            return Err(format!("{target} is applied as {manifest}"));
        }
    }
    Ok(())
}
