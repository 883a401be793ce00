//! An Application that is deployed to a DPU cluster, with its state and changes of it.

use lockstep_external as external;
use lockstep_external::dpu_clusters::UNREACHABLE;
use serde_json::{Value, json};

use super::bench::Bench;

pub(crate) const APPLICATION: &str = "agent-dpus";
/// The release that it deploys to the cluster.
pub(crate) const RELEASE: &str = "dpus.services.agent";

pub(crate) fn bench() -> Bench {
    Bench::with_argo(&external::definitions(&external::DPUSERVICE))
}

/// Returns a DPU cluster that matches its Application.
pub(crate) fn deployed() -> Bench {
    let mut bench = bench();
    bench.deploy("dpus");
    assert_eq!(state(&mut bench), "Synced Healthy Succeeded");
    bench.transitions();
    bench
}

pub(crate) fn status(bench: &mut Bench) -> Value {
    bench.get("Application", APPLICATION)["status"].clone()
}

/// Returns the sync status, the health and the phase of the last operation.
pub(crate) fn state(bench: &mut Bench) -> String {
    let status = status(bench);
    let fields = ["/sync/status", "/health/status", "/operationState/phase"];
    fields.map(|field| status.pointer(field).and_then(Value::as_str).unwrap_or("-")).join(" ")
}

/// Returns the types and messages of all conditions.
pub(crate) fn conditions(bench: &mut Bench) -> Vec<String> {
    let status = status(bench);
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let all = status["conditions"].as_array().into_iter().flatten();
    all.map(|condition| format!("{}: {}", text(&condition["type"]), text(&condition["message"]))).collect()
}

pub(crate) fn merge(bench: &mut Bench, patch: &Value) {
    bench.merge("Application", APPLICATION, patch);
}

pub(crate) fn cut_off(bench: &mut Bench, is_cut_off: bool) {
    let value = is_cut_off.then_some("true");
    bench.merge("DPUCluster", "dpus", &json!({ "metadata": { "annotations": { UNREACHABLE: value } } }));
}

pub(crate) fn version(bench: &mut Bench, version: &str) {
    merge(bench, &json!({ "spec": { "source": { "targetRevision": version } } }));
}

pub(crate) fn retry(bench: &mut Bench, refresh: bool) {
    let backoff = json!({ "duration": "5s", "factor": 2, "maxDuration": "1m" });
    let retry = json!({ "limit": -1, "refresh": refresh, "backoff": backoff });
    merge(bench, &json!({ "spec": { "syncPolicy": { "retry": retry } } }));
}

/// Returns what runs on the cluster.
pub(crate) fn chart(bench: &mut Bench) -> Value {
    bench.get("ConfigMap", RELEASE)["data"]["version"].clone()
}
