//! `PodDisruptionBudget` and `HorizontalPodAutoscaler`.

use serde_json::Value;

use super::common::label_selector;
use super::workload::{not_more_than_all, positive_or_percent};
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::quantity::Quantity;
use crate::builtin::view::{given, integer, list, part, text};
use crate::cause::Cause;

const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

pub(super) fn disruption_budget(object: &Value, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    let bounds = ["minAvailable", "maxUnavailable"];
    if bounds.iter().all(|field| given(spec, field).is_some()) {
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            part(spec, "minAvailable"),
            part(spec, "selector"),
            part(spec, "maxUnavailable"),
            part(spec, "unhealthyPodEvictionPolicy"),
        );
        causes.push(path.invalid_as(&shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in bounds {
        positive_or_percent(part(spec, field), &path.child(field), causes);
        not_more_than_all(part(spec, field), &path.child(field), causes);
    }
    if let Some(selector) = given(spec, "selector") {
        label_selector(selector, &path.child("selector"), causes);
    }
    let policy = text(spec, "unhealthyPodEvictionPolicy");
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if !policy.is_empty() && !policies.contains(&policy) {
        causes.push(path.child("unhealthyPodEvictionPolicy").not_supported(policy, &policies));
    }
}

pub(super) fn autoscaler(object: &Value, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    let least = integer(spec, "minReplicas");
    let most = integer(spec, "maxReplicas").unwrap_or(0);
    if let Some(least) = least.filter(|least| *least < 1) {
        causes.push(path.child("minReplicas").invalid(least, "must be greater than or equal to 1"));
    }
    if most == 0 {
        causes.push(path.child("maxReplicas").required("must be set and greater than 0"));
    } else if most < 0 {
        causes.push(path.child("maxReplicas").invalid(most, "must be greater than or equal to 1"));
    }
    if least.is_some_and(|least| most < least) {
        causes
            .push(path.child("maxReplicas").invalid(most, "must be greater than or equal to `minReplicas`"));
    }
    target_reference(part(spec, "scaleTargetRef"), &path.child("scaleTargetRef"), causes);
    for (index, entry) in list(spec, "metrics").iter().enumerate() {
        metric(entry, &path.child("metrics").index(index), causes);
    }
    for field in ["scaleUp", "scaleDown"] {
        let policies = list(part(part(spec, "behavior"), field), "policies");
        for (index, policy) in policies.iter().enumerate() {
            let path = path.child("behavior").child(field).child("policies").index(index);
            scaling_policy(policy, &path, causes);
        }
    }
}

fn scaling_policy(policy: &Value, path: &Path, causes: &mut Vec<Cause>) {
    /// Maximum period of a policy, in seconds.
    const PERIOD_SECONDS_MAX: i64 = 1800;
    let kind = text(policy, "type");
    if !["Percent", "Pods"].contains(&kind) {
        causes.push(path.child("type").not_supported(kind, &["Percent", "Pods"]));
    }
    for field in ["value", "periodSeconds"] {
        if let Some(number) = integer(policy, field).filter(|number| *number <= 0) {
            causes.push(path.child(field).invalid(number, "must be greater than zero"));
        }
    }
    if let Some(seconds) = integer(policy, "periodSeconds").filter(|seconds| *seconds > PERIOD_SECONDS_MAX) {
        let message = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
        causes.push(path.child("periodSeconds").invalid(seconds, &message));
    }
}

fn target_reference(target: &Value, path: &Path, causes: &mut Vec<Cause>) {
    for field in ["kind", "name"] {
        let path = path.child(field);
        match text(target, field) {
            "" => causes.push(path.required("")),
            value => causes.extend(path.all_invalid(value, names::path_segment(value))),
        }
    }
    let version = text(target, "apiVersion");
    let core_kind = ["Pod", "ReplicationController"].contains(&text(target, "kind")) && version == "v1";
    if !core_kind && !version.contains('/') {
        causes.push(path.child("apiVersion").invalid(version, "apiVersion must specify API group"));
    }
}

fn metric(metric: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let kind = text(metric, "type");
    let Some((_, source)) = SOURCES.iter().find(|(name, _)| *name == kind) else {
        if kind.is_empty() {
            causes.push(path.child("type").required("must specify a metric source type"));
        }
        let refusal = path.child("type").not_supported(kind, &SOURCES.map(|(name, _)| name));
        // Both the generated and the handwritten validation of the server report it.
        causes.push(refusal.clone());
        causes.push(refusal);
        return;
    };
    let Some(given) = given(metric, source) else {
        let message = "must populate information for the given metric source";
        causes.push(path.child(source).required(message));
        return;
    };
    let path = path.child(source);
    if kind == "Resource" || kind == "ContainerResource" {
        if text(given, "name").is_empty() {
            causes.push(path.child("name").required("must specify a resource name"));
        }
        resource_target(part(given, "target"), &path.child("target"), causes);
        return;
    }
    if kind == "Object" {
        target_reference(part(given, "describedObject"), &path.child("describedObject"), causes);
    }
    let name_path = path.child("metric").child("name");
    match text(part(given, "metric"), "name") {
        "" => causes.push(name_path.required("must specify a metric name")),
        name => causes.extend(name_path.all_invalid(name, names::path_segment(name))),
    }
    let target = part(given, "target");
    let path = path.child("target");
    metric_target(target, &path, causes);
    let (has_value, has_average) =
        (self::given(target, "value").is_some(), self::given(target, "averageValue").is_some());
    let missing = match kind {
        "Pods" => "must specify a positive target averageValue",
        "Object" => "must set either a target value or averageValue",
        _ => "must set either a target value for metric or a per-pod target",
    };
    if !has_average && (kind == "Pods" || !has_value) {
        causes.push(path.child("averageValue").required(missing));
    }
    if kind == "External" && has_value && has_average {
        let message = "may not set both a target value for metric and a per-pod target";
        causes.push(path.child("value").forbidden(message));
    }
}

fn metric_target(target: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let kind = text(target, "type");
    if kind.is_empty() {
        causes.push(path.child("type").required("must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        causes.push(path.child("type").invalid(kind, "must be either Utilization, Value, or AverageValue"));
    }
    for field in ["value", "averageValue"] {
        let Some(quantity) = given(target, field) else { continue };
        if Quantity::of(quantity).is_some_and(|quantity| quantity.is_negative() || quantity.is_zero()) {
            causes.push(path.child(field).invalid(quantity.clone(), "must be positive"));
        }
    }
    if let Some(percent) = integer(target, "averageUtilization").filter(|percent| *percent < 1) {
        causes.push(path.child("averageUtilization").invalid(percent, "must be greater than 0"));
    }
}

fn resource_target(target: &Value, path: &Path, causes: &mut Vec<Cause>) {
    metric_target(target, path, causes);
    let utilization = integer(target, "averageUtilization");
    let average = given(target, "averageValue");
    match (utilization, average) {
        (None, None) => {
            let message = "must set either a target raw value or a target utilization";
            causes.push(path.child("averageUtilization").required(message));
        }
        (Some(_), Some(_)) => {
            let message = "may not set both a target raw value and a target utilization";
            causes.push(path.child("averageValue").forbidden(message));
        }
        _ => {}
    }
}
