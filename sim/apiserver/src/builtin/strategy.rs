//! The registry's preparation of objects before validation and storage: status and spec can be changed only through their own
//! endpoints, and some kinds are completed.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::resource::Resource;
use super::view::{list, part, text};
use super::{codec, defaults, services};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Returns whether the server counts generations for the kind.
pub(super) fn tracks_generation(resource: &Resource) -> bool {
    match resource.group {
        "" => matches!(resource.kind, "Pod" | "PodTemplate" | "ReplicationController"),
        "apps" => resource.kind != "ControllerRevision",
        "batch" | "policy" | "apiextensions.k8s.io" | "admissionregistration.k8s.io" | "discovery.k8s.io" => {
            true
        }
        "networking.k8s.io" => {
            matches!(resource.kind, "Ingress" | "IngressClass" | "NetworkPolicy")
        }
        "scheduling.k8s.io" => resource.kind == "PriorityClass",
        _ => false,
    }
}

/// Returns whether an update increments the generation.
pub(super) fn generation_changes(resource: &Resource, old: &Value, new: &Value) -> bool {
    // A CSIDriver has no generation before it changes.
    if !tracks_generation(resource) && resource.kind != "CSIDriver" {
        return false;
    }
    let differs = |pointer: &str| old.pointer(pointer) != new.pointer(pointer);
    match resource.kind {
        "Deployment" => differs("/spec") || differs("/metadata/annotations"),
        "PodTemplate" => differs("/template"),
        "PriorityClass" => false,
        "EndpointSlice" => differs("/metadata/labels") || content(old) != content(new),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => differs("/webhooks"),
        _ => differs("/spec"),
    }
}

/// Returns the fields that a write never changes.
pub(super) fn reset_fields(resource: &Resource, subresource: Option<&str>) -> &'static [&'static str] {
    match (subresource, resource.kind) {
        (None, _) if resource.subresources.contains(&"status") => &["status"],
        (Some("status"), "Deployment") => &["spec", "metadata.labels"],
        (Some("status"), "Pod") => &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
        (Some("status"), "VolumeAttachment" | "ValidatingAdmissionPolicy" | "ServiceCIDR") => {
            &["metadata", "spec"]
        }
        (Some("status"), _) => &["spec"],
        (Some("finalize"), _) => &["status"],
        _ => &[],
    }
}

/// Returns whether the kind may be created with a status: a kubelet registers its Node with its addresses.
pub(super) fn keeps_new_status(resource: &Resource) -> bool {
    (resource.group, resource.kind) == ("", "Node")
}

/// Returns whether a PUT may create the kind.
pub(super) fn creates_on_update(resource: &Resource) -> bool {
    match resource.group {
        "" => matches!(resource.kind, "Service" | "LimitRange" | "Endpoints" | "Event"),
        "coordination.k8s.io" | "rbac.authorization.k8s.io" | "events.k8s.io" => true,
        _ => false,
    }
}

/// Returns whether the kind may be updated without a resource version.
pub(super) fn allows_unconditional_update(resource: &Resource) -> bool {
    let by_kind = matches!(
        resource.kind,
        "Lease"
            | "PodDisruptionBudget"
            | "CustomResourceDefinition"
            | "CSIDriver"
            | "CSINode"
            | "CSIStorageCapacity"
            | "VolumeAttachment"
    );
    !by_kind && resource.group != "admissionregistration.k8s.io"
}

fn content(object: &Value) -> Map<String, Value> {
    let mut content = object.as_object().cloned().unwrap_or_default();
    content.remove("metadata");
    content
}

/// Prepares a new object.
pub(super) fn create(resource: &Resource, object: &mut Value) {
    if resource.subresources.contains(&"status") && !keeps_new_status(resource) {
        remove(object, "status");
    }
    admit(resource, object);
    match (resource.group, resource.kind) {
        ("", "Namespace") => kubernetes_finalizer(object),
        ("", "Pod") => {
            let period = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
            if period.is_some_and(i64::is_negative) {
                object["spec"]["terminationGracePeriodSeconds"] = 1.into();
            }
            object["status"] = json!({"phase": "Pending", "qosClass": quality_of_service(object)});
        }
        ("", "PersistentVolume") => {
            let created = object.pointer("/metadata/creationTimestamp").cloned().unwrap_or_default();
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": created});
        }
        ("", "PersistentVolumeClaim") => twin_data_sources(object),
        ("", "ServiceAccount") => secret_names_only(object),
        ("apps", "DaemonSet") => {
            let counted = template_generation(object).filter(|generation| *generation >= 1);
            set_template_generation(object, counted.unwrap_or(1));
        }
        ("batch", "Job") => job_selector(object),
        ("discovery.k8s.io", "EndpointSlice") => {
            drop_topology(object);
        }
        _ => {}
    }
    settle(resource, object);
}

/// Removes a field of endpoints that only an earlier version of the kind could set. Returns whether it was set.
fn drop_topology(slice: &mut Value) -> bool {
    let endpoints = slice.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten();
    let dropped = endpoints.filter_map(|endpoint| endpoint.as_object_mut()?.remove("deprecatedTopology"));
    dropped.count() > 0
}

/// Applies the default admission plugins that need no other objects.
fn admit(resource: &Resource, object: &mut Value) {
    match (resource.group, resource.kind) {
        ("", "Node") => admit_node(object),
        ("", "Pod") => admit_pod(object),
        ("", "PersistentVolumeClaim") => protect(object, "kubernetes.io/pvc-protection"),
        ("", "PersistentVolume") => protect(object, "kubernetes.io/pv-protection"),
        ("storage.k8s.io", "VolumeAttributesClass") => protect(object, "kubernetes.io/vac-protection"),
        _ => {}
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    match &mut object["metadata"]["finalizers"] {
        Value::Array(present) if present.iter().any(|given| given == finalizer) => {}
        Value::Array(present) => present.push(finalizer.into()),
        absent => *absent = json!([finalizer]),
    }
}

/// Taints a new Node so that nothing is scheduled to it until it has been ready.
fn admit_node(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    match &mut node["spec"]["taints"] {
        Value::Array(present) if present.contains(&taint) => {}
        Value::Array(present) => present.push(taint),
        absent => *absent = json!([taint]),
    }
}

/// Sets the default priority of a Pod, and the tolerations with which it remains for five minutes on a failed node.
fn admit_pod(pod: &mut Value) {
    let spec = &mut pod["spec"];
    if spec["priorityClassName"].is_null() {
        spec["priority"] = 0.into();
        if spec["preemptionPolicy"].is_null() {
            spec["preemptionPolicy"] = "PreemptLowerPriority".into();
        }
    }
    tolerate_failure(spec);
}

/// Keeps what admission has added to a Pod, which an update need not repeat.
fn admit_pod_update(pod: &mut Value, old: &Value) {
    for field in ["/spec/priority", "/spec/preemptionPolicy"] {
        if pod.pointer(field).is_none_or(Value::is_null) {
            keep(pod, old, field);
        }
    }
    tolerate_failure(&mut pod["spec"]);
}

fn tolerate_failure(spec: &mut Value) {
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |toleration: &Value| {
            let covers = |field: &str, value: &str| toleration[field].is_null() || toleration[field] == value;
            covers("key", taint) && covers("effect", "NoExecute")
        };
        let toleration =
            json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        match &mut spec["tolerations"] {
            Value::Array(present) if present.iter().any(tolerates) => {}
            Value::Array(present) => present.push(toleration),
            absent => *absent = json!([toleration]),
        }
    }
}

/// Prepares an update of the object or of one of its subresources.
pub(super) fn update(
    resource: &Resource,
    subresource: Option<&str>,
    new: &mut Value,
    old: &Value,
    now: Timestamp,
) {
    match subresource {
        None => update_object(resource, new, old),
        Some("status") => update_status(resource, new, old, now),
        Some("finalize") => keep(new, old, "/status"),
        Some(_) => {}
    }
    settle(resource, new);
}

fn update_object(resource: &Resource, new: &mut Value, old: &Value) {
    if resource.subresources.contains(&"status") {
        keep(new, old, "/status");
    }
    match (resource.group, resource.kind) {
        ("", "Namespace") => {
            keep(new, old, "/spec/finalizers");
            let name = new.pointer("/metadata/name").cloned().unwrap_or_default();
            if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.entry("labels").or_insert_with(|| json!({}))["kubernetes.io/metadata.name"] = name;
            }
        }
        ("", "ServiceAccount") => secret_names_only(new),
        ("", "PersistentVolumeClaim") => twin_data_sources(new),
        ("", "Pod") => admit_pod_update(new, old),
        ("", "Service") => services::drop_by_type(new, old),
        ("apps", "DaemonSet") => {
            let changed = old.pointer("/spec/template") != new.pointer("/spec/template");
            let counted = template_generation(old).unwrap_or(0) + i64::from(changed);
            set_template_generation(new, counted);
        }
        // The real server counts the change before it drops it.
        ("discovery.k8s.io", "EndpointSlice") if drop_topology(new) => {
            let counted = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
            new["metadata"]["generation"] = (counted + 1).into();
        }
        _ => {}
    }
}

fn update_status(resource: &Resource, new: &mut Value, old: &Value, now: Timestamp) {
    keep(new, old, "/spec");
    match (resource.group, resource.kind) {
        ("apps", "Deployment") => keep(new, old, "/metadata/labels"),
        // The number is a field of the spec in the server's own form.
        ("apps", "DaemonSet") => set_template_generation(new, template_generation(old).unwrap_or(0)),
        ("", "Pod") => {
            keep(new, old, "/metadata/ownerReferences");
            keep(new, old, "/metadata/deletionTimestamp");
            keep_pod_status(new, old);
        }
        ("", "PersistentVolume") => time_phase(new, old, now),
        ("storage.k8s.io", "VolumeAttachment") => {
            for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
                keep(new, old, &format!("/metadata/{field}"));
            }
        }
        _ => {}
    }
}

/// Keeps what an update of the status of a Pod leaves out: its class, and the generations that the status and its conditions
/// observed.
fn keep_pod_status(new: &mut Value, old: &Value) {
    for field in ["/status/qosClass", "/status/observedGeneration"] {
        if new.pointer(field).is_none_or(Value::is_null) {
            keep(new, old, field);
        }
    }
    let observed = |condition: &Value| condition.get("observedGeneration").cloned();
    // A type may occur several times: the conditions of one type keep their order.
    let mut known: Vec<&Value> = list(part(old, "status"), "conditions").iter().collect();
    let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let Some(index) = known.iter().position(|old| text(old, "type") == text(condition, "type")) else {
            continue;
        };
        let before = observed(known.remove(index));
        if let (None, Some(before)) = (observed(condition), before) {
            condition["observedGeneration"] = before;
        }
    }
}

/// Sets the time of a new phase of a volume, unless the client has set another one. A time that is left out remains.
fn time_phase(new: &mut Value, old: &Value, now: Timestamp) {
    const TIME: &str = "/status/lastPhaseTransitionTime";
    if new.pointer(TIME).is_none_or(Value::is_null) {
        keep(new, old, TIME);
    }
    let differs = |pointer: &str| new.pointer(pointer) != old.pointer(pointer);
    if differs("/status/phase") && !differs(TIME) {
        new["status"]["lastPhaseTransitionTime"] = format!("{now:.0}").into();
    }
}

/// Converts the object to the form in which it is read back from storage.
fn settle(resource: &Resource, object: &mut Value) {
    if let Some(decoded) = codec::round_trip(resource, object, codec::Source::Document) {
        *object = decoded.object;
    }
    defaults::apply(resource, object);
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

/// Replaces the new value of a field (a JSON pointer) by the old one.
fn keep(new: &mut Value, old: &Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    let Some(fields) = new.pointer_mut(parent).and_then(Value::as_object_mut) else { return };
    match old.pointer(pointer) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

fn kubernetes_finalizer(namespace: &mut Value) {
    namespace["status"] = json!({"phase": "Active"});
    let finalizers = &mut namespace["spec"]["finalizers"];
    match finalizers {
        Value::Array(present) if present.iter().any(|finalizer| finalizer == "kubernetes") => {}
        Value::Array(present) => present.push("kubernetes".into()),
        _ => *finalizers = json!(["kubernetes"]),
    }
}

/// Reduces the Secret references of a `ServiceAccount` to their names.
fn secret_names_only(account: &mut Value) {
    for secret in account.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = secret.get("name").cloned();
        *secret = name.map_or_else(|| json!({}), |name| json!({ "name": name }));
    }
}

/// Copies between `dataSource` and `dataSourceRef` unless the reference crosses namespaces.
fn twin_data_sources(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let group = |source: &Value| source["apiGroup"].as_str().unwrap_or_default().to_owned();
    let is_known = |source: &Value| match source["kind"].as_str() {
        Some("PersistentVolumeClaim") => group(source).is_empty(),
        Some("VolumeSnapshot") => group(source) == "snapshot.storage.k8s.io",
        _ => false,
    };
    if spec.get("dataSource").is_some_and(|source| !is_known(source)) {
        spec.remove("dataSource");
    }
    let crosses = |reference: &Value| reference.get("namespace").is_some();
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => spec.insert("dataSourceRef".to_owned(), source),
        (None, Some(reference)) if !crosses(&reference) => spec.insert("dataSource".to_owned(), reference),
        _ => None,
    };
}

/// Adds the annotation that the server's conversion gives every `DaemonSet`.
pub(super) fn complete(resource: &Resource, object: &mut Value) {
    if (resource.group, resource.kind) == ("apps", "DaemonSet") && template_generation(object).is_none() {
        set_template_generation(object, 0);
    }
}

/// Returns the metadata of an object for responses with metadata only, without what the conversion of the whole object adds.
pub(super) fn metadata_alone(object: &Value) -> Cow<'_, Value> {
    let metadata = &object["metadata"];
    if object["kind"] != "DaemonSet" || template_generation(object).is_none() {
        return Cow::Borrowed(metadata);
    }
    let mut metadata = metadata.clone();
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove(TEMPLATE_GENERATION);
        if annotations.is_empty() {
            remove(&mut metadata, "annotations");
        }
    }
    Cow::Owned(metadata)
}

fn template_generation(daemon_set: &Value) -> Option<i64> {
    daemon_set.get("metadata")?.get("annotations")?.get(TEMPLATE_GENERATION)?.as_str()?.parse().ok()
}

fn set_template_generation(daemon_set: &mut Value, generation: i64) {
    let metadata = &mut daemon_set["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][TEMPLATE_GENERATION] = generation.to_string().into();
}

/// Adds a selector with the uid to a Job without its own selector, and the matching labels to its template.
fn job_selector(job: &mut Value) {
    if job.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let uid = job.pointer("/metadata/uid").cloned().unwrap_or_default();
    let name = job.pointer("/metadata/name").cloned().unwrap_or_default();
    // Labels that the Job copied from its template are shared with the template in the server's memory.
    let shared = job
        .pointer("/metadata/labels")
        .is_some_and(|labels| Some(labels) == job.pointer("/spec/template/metadata/labels"));
    let metadata = &mut job["spec"]["template"]["metadata"];
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    let labels = metadata["labels"].as_object_mut().expect("the labels were just made an object");
    for (label, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        labels.entry(label).or_insert_with(|| value.clone());
    }
    if shared {
        job["metadata"]["labels"] = job["spec"]["template"]["metadata"]["labels"].clone();
    }
    let selector = &mut job["spec"]["selector"];
    if !selector.is_object() {
        *selector = json!({});
    }
    if !selector["matchLabels"].is_object() {
        selector["matchLabels"] = json!({});
    }
    let labels = selector["matchLabels"].as_object_mut().expect("the labels were just made an object");
    labels.entry("batch.kubernetes.io/controller-uid").or_insert(uid);
}

/// Returns the quality-of-service class: guaranteed if every container has CPU and memory limits equal to its requests, best
/// effort without any.
fn quality_of_service(pod: &Value) -> &'static str {
    let lists = ["/spec/containers", "/spec/initContainers"];
    let containers: Vec<&Value> =
        lists.iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten().collect();
    let compute = ["cpu", "memory"];
    let of = |container: &Value, kind: &str, resource: &str| {
        container
            .pointer(&format!("/resources/{kind}/{resource}"))
            .cloned()
            .filter(|quantity| quantity != "0")
    };
    let any = containers.iter().any(|container| {
        compute.iter().any(|resource| {
            of(container, "requests", resource).or(of(container, "limits", resource)).is_some()
        })
    });
    let all_equal = containers.iter().all(|container| {
        compute.iter().all(|resource| {
            let limit = of(container, "limits", resource);
            limit.is_some() && limit == of(container, "requests", resource)
        })
    });
    match (any, all_equal) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
