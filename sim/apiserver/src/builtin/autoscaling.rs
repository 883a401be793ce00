//! The two versions of a `HorizontalPodAutoscaler`: the older one supports only CPU utilization.
//!
//! Fields that it does not have are dropped when an object is converted to it, although a real server keeps them in annotations.

use serde_json::{Value, json};

/// Converts `autoscaling/v2` to `autoscaling/v1`.
pub(crate) fn to_v1(autoscaler: &mut Value) {
    let target = processor(&autoscaler["spec"]["metrics"], "/resource/target/averageUtilization");
    let current = processor(&autoscaler["status"]["currentMetrics"], "/resource/current/averageUtilization");
    if let Some(spec) = autoscaler["spec"].as_object_mut() {
        spec.remove("metrics");
        spec.remove("behavior");
        spec.extend(target.map(|target| ("targetCPUUtilizationPercentage".to_owned(), target)));
    }
    if let Some(status) = autoscaler["status"].as_object_mut() {
        status.remove("currentMetrics");
        status.remove("conditions");
        // Unlike the newer version, this one never omits the count.
        status.entry("currentReplicas").or_insert_with(|| 0.into());
        status.extend(current.map(|current| ("currentCPUUtilizationPercentage".to_owned(), current)));
    }
}

/// Converts `autoscaling/v1` to `autoscaling/v2`; fields that the older version does not have are kept from `old`.
pub(crate) fn to_v2(autoscaler: &mut Value, old: Option<&Value>) {
    if let Some(spec) = autoscaler["spec"].as_object_mut() {
        let target = spec.remove("targetCPUUtilizationPercentage").map(|percent| {
            let target = json!({"type": "Utilization", "averageUtilization": percent});
            json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
        });
        let others = old.map(|old| others(&old["spec"]["metrics"], "/resource/target/averageUtilization"));
        spec.insert("metrics".to_owned(), others.unwrap_or_default().into_iter().chain(target).collect());
        if let Some(behavior) = old.and_then(|old| old["spec"].get("behavior")) {
            spec.insert("behavior".to_owned(), behavior.clone());
        }
    }
    if let Some(status) = autoscaler["status"].as_object_mut() {
        if status.get("currentReplicas").is_some_and(|count| *count == 0) {
            status.remove("currentReplicas");
        }
        let current = status.remove("currentCPUUtilizationPercentage").map(|percent| {
            let current = json!({"averageUtilization": percent});
            json!({"type": "Resource", "resource": {"name": "cpu", "current": current}})
        });
        let others =
            old.map(|old| others(&old["status"]["currentMetrics"], "/resource/current/averageUtilization"));
        let metrics: Vec<Value> = others.unwrap_or_default().into_iter().chain(current).collect();
        status.insert(
            "currentMetrics".to_owned(),
            if metrics.is_empty() { Value::Null } else { metrics.into() },
        );
        if let Some(conditions) = old.and_then(|old| old["status"].get("conditions")) {
            status.insert("conditions".to_owned(), conditions.clone());
        }
    }
}

/// Returns the metric of CPU utilization, if it is a percentage.
fn processor(metrics: &Value, percentage: &str) -> Option<Value> {
    metrics.as_array()?.iter().find(|metric| is_processor(metric, percentage))?.pointer(percentage).cloned()
}

fn others(metrics: &Value, percentage: &str) -> Vec<Value> {
    let metrics = metrics.as_array().into_iter().flatten();
    metrics.filter(|metric| !is_processor(metric, percentage)).cloned().collect()
}

fn is_processor(metric: &Value, percentage: &str) -> bool {
    metric.pointer("/resource/name").is_some_and(|name| name == "cpu") && metric.pointer(percentage).is_some()
}
