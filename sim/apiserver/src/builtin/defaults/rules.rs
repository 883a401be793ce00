//! Defaults that depend on other fields of the object.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::fields::{Fields, is_unset, nested, set, text};
use crate::builtin::quantity::Quantity;

/// Applies the rules of one type to one occurrence of it.
pub(super) fn apply(name: &str, object: &mut Fields) {
    match name.strip_prefix("io.k8s.api.").unwrap_or(name) {
        "core.v1.Pod" => pod(object),
        "core.v1.PodSpec" => service_account(object),
        "core.v1.Volume" => volume(object),
        "core.v1.ImageVolumeSource" => pull_policy(object, "reference", "pullPolicy"),
        "core.v1.Container" | "core.v1.EphemeralContainer" => pull_policy(object, "image", "imagePullPolicy"),
        "core.v1.ServiceSpec" => service_spec(object),
        "core.v1.Service" => service_status(object),
        "core.v1.ServicePort" => target_port(object),
        "core.v1.LimitRangeItem" => limit_range_item(object),
        "core.v1.Namespace" => namespace(object),
        "core.v1.NodeStatus" => allocatable(object),
        "core.v1.ReplicationController" => replication_controller(object),
        "apps.v1.DeploymentStrategy" | "apps.v1.DaemonSetUpdateStrategy" => {
            set(object, "type", "RollingUpdate".into());
            if text(object, "type") == "RollingUpdate" {
                nested(object, "rollingUpdate");
            }
        }
        "core.v1.Secret" => string_data(object),
        "apps.v1.StatefulSetSpec" => claim_templates(object),
        "apps.v1.StatefulSetUpdateStrategy" => stateful_set_strategy(object),
        "batch.v1.Job" => job(object),
        "networking.v1.NetworkPolicySpec" => policy_types(object),
        "rbac.v1.Subject" => subject(object),
        "autoscaling.v1.HorizontalPodAutoscaler" => autoscaler_v1(object),
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => autoscaler(object),
        "storage.v1.CSIDriverSpec" => set(object, "volumeLifecycleModes", json!(["Persistent"])),
        _ => {}
    }
}

/// Rounds resource quantities to thousandths.
pub(super) fn round_resource_list(list: &mut Value) {
    for value in list.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(quantity) = Quantity::of(value) {
            *value = quantity.rounded_to_milli().to_string().into();
        }
    }
}

fn pod(object: &mut Fields) {
    let spec = nested(object, "spec");
    set(spec, "enableServiceLinks", true.into());
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in structs(spec, list) {
            requests_from_limits(container);
            if host_network {
                for port in structs(container, "ports") {
                    let number = port.get("containerPort").cloned().unwrap_or_default();
                    set(port, "hostPort", number);
                }
            }
        }
    }
}

fn structs<'a>(object: &'a mut Fields, list: &str) -> impl Iterator<Item = &'a mut Fields> {
    object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn requests_from_limits(container: &mut Fields) {
    let resources = nested(container, "resources");
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = nested(resources, "requests");
    for (resource, limit) in limits {
        set(requests, &resource, limit);
    }
}

/// Sets the old name of the field to the value of the new one.
fn service_account(spec: &mut Fields) {
    let names = ["serviceAccountName", "serviceAccount"].map(|field| text(spec, field).to_owned());
    if let Some(name) = names.into_iter().find(|name| !name.is_empty()) {
        spec.insert("serviceAccountName".to_owned(), name.clone().into());
        spec.insert("serviceAccount".to_owned(), name.into());
    }
}

fn volume(object: &mut Fields) {
    if object.keys().all(|key| key == "name") {
        nested(object, "emptyDir");
    }
}

/// A reference of an image, with a domain, a path, a tag and a digest.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let (label, name) = ("[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?", "[a-z0-9]+(?:(?:[.]|__?|-+)[a-z0-9]+)*");
    let domain = format!("{label}(?:[.]{label})*(?::[0-9]+)?");
    let tag = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    let expression = format!("^(?:{domain}/)?{name}(?:/{name})*(?::{tag})?(?:@{digest})?$");
    Regex::new(&expression).expect("a constant expression")
});

/// Returns whether the server can parse the reference of an image. The id of an image is not a reference.
fn is_reference(image: &str) -> bool {
    let is_id = image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'a'..=b'f' | b'0'..=b'9'));
    !is_id && REFERENCE.is_match(image)
}

/// Images with neither tag nor digest, or with the tag `latest`, are always pulled.
fn pull_policy(object: &mut Fields, image: &str, policy: &str) {
    let reference = text(object, image);
    let (name, digest) =
        reference.split_once('@').map_or((reference, None), |(name, digest)| (name, Some(digest)));
    let tag = name.rsplit('/').next().unwrap_or_default().split_once(':').map(|(_, tag)| tag);
    let always = is_reference(reference) && matches!((tag, digest), (None, None) | (Some("latest"), _));
    set(object, policy, if always { "Always" } else { "IfNotPresent" }.into());
}

fn service_spec(spec: &mut Fields) {
    match text(spec, "sessionAffinity") {
        "" | "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = nested(spec, "sessionAffinityConfig");
            set(nested(config, "clientIP"), "timeoutSeconds", 10800.into());
        }
        _ => {}
    }
    set(spec, "type", "ClusterIP".into());
    let kind = text(spec, "type").to_owned();
    let external = matches!(&*kind, "NodePort" | "LoadBalancer")
        || kind == "ClusterIP" && spec.get("externalIPs").is_some_and(|ips| !ips.is_null());
    if external {
        set(spec, "externalTrafficPolicy", "Cluster".into());
    }
    if matches!(&*kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        set(spec, "internalTrafficPolicy", "Cluster".into());
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true.into());
    }
}

fn service_status(service: &mut Fields) {
    let balanced = service.get("spec").is_some_and(|spec| spec["type"] == "LoadBalancer");
    let ingress = service.get_mut("status").and_then(|status| status.pointer_mut("/loadBalancer/ingress"));
    for point in ingress.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
    {
        if balanced && !text(point, "ip").is_empty() {
            set(point, "ipMode", "VIP".into());
        }
    }
}

fn target_port(port: &mut Fields) {
    let target = port.get("targetPort").cloned().unwrap_or_default();
    if target.is_null() || target == 0 || target == "" {
        let number = port.get("port").cloned().unwrap_or_else(|| 0.into());
        port.insert("targetPort".to_owned(), number);
    }
}

/// Sets the defaults of a limit range. Default limits are the maximum. Default requests are the default limits, and otherwise the
/// minimum.
fn limit_range_item(item: &mut Fields) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let values = item.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
        for (resource, value) in values {
            set(nested(item, to), &resource, value);
        }
    }
}

fn namespace(object: &mut Fields) {
    let metadata = nested(object, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        nested(metadata, "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

/// Sets the allocatable resources of a node: by default, its whole capacity.
fn allocatable(status: &mut Fields) {
    if let Some(capacity) = status.get("capacity").filter(|capacity| !capacity.is_null()).cloned() {
        set(status, "allocatable", capacity);
    }
}

fn replication_controller(object: &mut Fields) {
    let labels = template_labels(object);
    if let Some(labels) = labels {
        set(nested(object, "spec"), "selector", labels.clone());
        set(nested(object, "metadata"), "labels", labels);
    }
}

fn template_labels(object: &Fields) -> Option<Value> {
    object.get("spec")?.pointer("/template/metadata/labels").cloned()
}

fn stateful_set_strategy(strategy: &mut Fields) {
    if is_unset(strategy, "type") {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        nested(strategy, "rollingUpdate");
    }
    if text(strategy, "type") == "RollingUpdate" && !is_unset(strategy, "rollingUpdate") {
        let rolling = nested(strategy, "rollingUpdate");
        set(rolling, "partition", 0.into());
    }
}

/// Sets the defaults of a Job, which the template of a Job does not get.
fn job(job: &mut Fields) {
    if let Some(labels) = template_labels(job) {
        set(nested(job, "metadata"), "labels", labels);
    }
    let spec = nested(job, "spec");
    if is_unset(spec, "completions") && is_unset(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    let per_index = !is_unset(spec, "backoffLimitPerIndex");
    set(spec, "backoffLimit", if per_index { i32::MAX } else { 6 }.into());
    let failure_policy = !is_unset(spec, "podFailurePolicy");
    set(spec, "parallelism", 1.into());
    set(spec, "completionMode", "NonIndexed".into());
    set(spec, "suspend", false.into());
    set(spec, "manualSelector", false.into());
    set(spec, "podReplacementPolicy", if failure_policy { "Failed" } else { "TerminatingOrFailed" }.into());
}

fn policy_types(spec: &mut Fields) {
    let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    set(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
}

fn subject(subject: &mut Fields) {
    if matches!(text(subject, "kind"), "User" | "Group") {
        set(subject, "apiGroup", "rbac.authorization.k8s.io".into());
    }
}

/// Sets the defaults of the old version, which keeps metrics other than CPU in an annotation.
fn autoscaler_v1(autoscaler: &mut Fields) {
    let annotations = autoscaler.get("metadata").and_then(|metadata| metadata.get("annotations"));
    if annotations
        .is_none_or(|annotations| annotations.get("autoscaling.alpha.kubernetes.io/metrics").is_none())
    {
        set(nested(autoscaler, "spec"), "targetCPUUtilizationPercentage", 80.into());
    }
}

fn autoscaler(spec: &mut Fields) {
    set(
        spec,
        "metrics",
        json!([{
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        }]),
    );
    if is_unset(spec, "behavior") {
        return;
    }
    let behavior = nested(spec, "behavior");
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = nested(behavior, "scaleUp");
    set(up, "stabilizationWindowSeconds", 0.into());
    set(up, "selectPolicy", "Max".into());
    set(up, "policies", json!([pods, percent]));
    let down = nested(behavior, "scaleDown");
    set(down, "selectPolicy", "Max".into());
    set(down, "policies", json!([percent]));
}

/// Converts the text data of a Secret, which is only an input format, to its data.
fn string_data(secret: &mut Fields) {
    if let Some(Value::Object(texts)) = secret.remove("stringData") {
        let data = nested(secret, "data");
        for (key, value) in texts {
            data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
        }
    }
}

/// Sets the kind of claim templates.
fn claim_templates(spec: &mut Fields) {
    for claim in structs(spec, "volumeClaimTemplates") {
        claim.insert("apiVersion".to_owned(), "v1".into());
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    }
}
