//! Messages must not advise what would harm another bridge.

use lockstep_bridge::names;
use lockstep_engine::object::{ObjectRef, is_deleting};
use lockstep_sim::cluster::Change;
use lockstep_sim::conditions;
use lockstep_sim::history::reference;
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use super::injected::has_given;
use super::judged::STALE;

/// Returns whether a message of a bridge advises to disconnect its DPUCluster.
fn advises_to_disconnect(bridge: &Value) -> bool {
    let mut messages = conditions::all(bridge).filter_map(|condition| condition["message"].as_str());
    messages.any(|message| message.contains("remove spec.kubeconfig"))
}

pub(super) fn no_advice_disconnects_another_bridge(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, Change { object, new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    if object.kind != names::bridge() || !advises_to_disconnect(new) {
        return Ok(());
    }
    let Some(state) = moment.history.process(process) else { return Ok(()) };
    let field = |field: &str| new["spec"]["dpuClusterRef"][field].as_str().unwrap_or_default();
    let target = ObjectRef::namespaced(&names::dpu_cluster(), field("namespace"), field("name"));
    // The message may be older than the present state.
    let since = moment.entry.at.saturating_sub(STALE);
    let used = |bridge: &ObjectRef| {
        let clusters = moment.history.versions_since(&target, since);
        let bridges = moment.history.versions_since(bridge, since);
        let gives = |bridge: &Value| {
            clusters.iter().all(|version| {
                let kubeconfig = version.object.as_deref().map(|it| &it["spec"]["kubeconfig"]);
                kubeconfig
                    .and_then(Value::as_str)
                    .is_some_and(|kubeconfig| has_given(bridge, &target, kubeconfig))
            })
        };
        let first = [clusters, bridges].map(|versions| versions.first().map(|version| version.at));
        let is_old = first.iter().all(|first| first.is_some_and(|first| first <= since));
        let stays = |bridge: &Value| !is_deleting(bridge) && gives(bridge);
        is_old && bridges.iter().all(|version| version.object.as_deref().is_some_and(stays))
    };
    let bridges = moment.server.objects(&names::bridge());
    let others = bridges.iter().map(|bridge| reference(&names::bridge(), bridge)).filter(|it| it != object);
    // A bridge may have been created while bridges could not be watched.
    let knows = |bridge: &ObjectRef| state.generations.get(bridge).is_some_and(|(_, seen)| *seen <= since);
    let mut others = others.filter(|bridge| knows(bridge) && used(bridge));
    match others.next() {
        Some(other) => Err(format!("{object} advises to disconnect {target}, which {other} uses")),
        None => Ok(()),
    }
}
