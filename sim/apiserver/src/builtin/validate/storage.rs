//! Storage claims, volumes and classes.

use serde_json::Value;

use super::common::{immutable, label_selector};
use super::pod::host_path;
use super::resources;
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::quantity::Quantity;
use crate::builtin::view::{entries, given, list, part, text};
use crate::cause::Cause;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
/// Sources of volumes, in the order in which the server checks them.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub(super) fn claim(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    claim_spec(part(object, "spec"), &Path::root("spec"), causes);
    if let Some(old) = old {
        claim_update(object, old, causes);
    }
}

/// Validates a `PersistentVolumeClaimSpec`.
pub(super) fn claim_spec(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    access_modes(spec, "at least 1 access mode is required", &path.child("accessModes"), causes);
    if let Some(selector) = given(spec, "selector") {
        label_selector(selector, &path.child("selector"), causes);
    }
    let storage_path = path.child("resources").key("storage");
    match part(part(spec, "resources"), "requests").get("storage") {
        None => causes.push(storage_path.required("")),
        Some(amount) => match Quantity::of(amount) {
            Some(quantity) if quantity.is_negative() || quantity.is_zero() => {
                causes.push(storage_path.invalid(amount.clone(), "must be greater than zero"));
            }
            _ => resources::amount("storage", amount, &storage_path, causes),
        },
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        causes.extend(path.child("storageClassName").all_invalid(class, names::dns_subdomain(class)));
    }
    volume_mode(spec, path, causes);
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = given(spec, field) {
            data_source(source, &path.child(field), causes);
        }
    }
}

fn data_source(source: &Value, path: &Path, causes: &mut Vec<Cause>) {
    for field in ["name", "kind"] {
        if text(source, field).is_empty() {
            causes.push(path.child(field).required(""));
        }
    }
    let (kind, group) = (text(source, "kind"), text(source, "apiGroup"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let message = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        causes.push(path.invalid(kind, message));
    }
    if !group.is_empty() {
        causes.extend(path.child("apiGroup").all_invalid(group, names::dns_subdomain(group)));
    }
}

/// Checks that only the requests of a bound claim change; the volume of an unbound one can be set.
fn claim_update(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let bound = text(part(object, "status"), "phase") == "Bound";
    let fixed = |claim: &Value| {
        let mut spec = part(claim, "spec").clone();
        if let Some(fields) = spec.as_object_mut() {
            if text(part(old, "spec"), "volumeName").is_empty() {
                fields.remove("volumeName");
            }
            if bound {
                fields.remove("resources");
                fields.remove("volumeAttributesClassName");
            }
        }
        spec
    };
    if fixed(object) != fixed(old) {
        let message = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        causes.push(Path::root("spec").forbidden(message));
    }
    let size = |claim: &Value| {
        let requests = part(part(part(claim, "spec"), "resources"), "requests");
        requests.get("storage").and_then(Quantity::of)
    };
    let capacity = part(part(old, "status"), "capacity").get("storage").and_then(Quantity::of);
    let is_below = |size: &Quantity| match &capacity {
        Some(capacity) => size <= capacity,
        None => size.is_negative() || size.is_zero(),
    };
    if size(object) < size(old) && size(object).as_ref().is_none_or(is_below) {
        let path = Path::root("spec").child("resources").child("requests").child("storage");
        causes.push(path.forbidden("field can not be less than status.capacity"));
    }
    immutable(&Path::root("volumeMode"), part(object, "spec"), Some(part(old, "spec")), "volumeMode", causes);
}

fn access_modes(spec: &Value, required: &str, path: &Path, causes: &mut Vec<Cause>) {
    let modes = list(spec, "accessModes");
    if modes.is_empty() {
        causes.push(path.required(required));
    }
    for mode in modes.iter().filter_map(Value::as_str).filter(|mode| !MODES.contains(mode)) {
        causes.push(path.not_supported(mode, &MODES));
    }
    let alone = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    if alone && modes.iter().any(|mode| mode != "ReadWriteOncePod") {
        causes.push(path.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

fn volume_mode(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    if let Some(mode) = given(spec, "volumeMode").and_then(Value::as_str)
        && !VOLUME_MODES.contains(&mode)
    {
        causes.push(path.child("volumeMode").not_supported(mode, &VOLUME_MODES));
    }
}

pub(super) fn volume(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    volume_spec(part(object, "spec"), causes);
    let Some(old) = old else { return };
    let (spec, old) = (part(object, "spec"), part(old, "spec"));
    let sources =
        |spec: &'_ Value| sources(spec).map(|(name, source)| (name, source.clone())).collect::<Vec<_>>();
    if sources(spec) != sources(old) {
        let path = Path::root("spec").child("persistentvolumesource");
        causes.push(path.forbidden("spec.persistentvolumesource is immutable after creation"));
    }
    immutable(&Path::root("volumeMode"), spec, Some(old), "volumeMode", causes);
}

/// Returns the sources in the spec of a volume; a valid one has one.
fn sources(spec: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    SOURCES.iter().filter_map(|field| Some((*field, given(spec, field)?)))
}

fn volume_spec(spec: &Value, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    access_modes(spec, "", &path.child("accessModes"), causes);
    let capacity = part(spec, "capacity");
    if capacity.as_object().is_none_or(serde_json::Map::is_empty) {
        causes.push(path.child("capacity").required(""));
    }
    if capacity.get("storage").is_none() || capacity.as_object().is_some_and(|amounts| amounts.len() > 1) {
        causes.push(path.child("capacity").not_supported(capacity.clone(), &["storage"]));
    }
    for (resource, amount) in entries(spec, "capacity") {
        positive(amount, &path.child("capacity").key(resource), causes);
    }
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    let policy_path = path.child("persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !RECLAIM_POLICIES.contains(&policy) {
        causes.push(policy_path.not_supported(policy, &RECLAIM_POLICIES));
    }
    volume_source(spec, &path, causes);
    if policy == "Recycle" && is_root(text(part(spec, "hostPath"), "path")) {
        causes.push(policy_path.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        causes.extend(path.child("storageClassName").all_invalid(class, names::dns_subdomain(class)));
    }
    volume_mode(spec, &path, causes);
    if let Some(class) = given(spec, "volumeAttributesClassName").and_then(Value::as_str) {
        attributes_class(spec, class, &path, causes);
    }
}

/// Checks the amount of storage of a volume.
fn positive(amount: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let Some(quantity) = Quantity::of(amount) else { return };
    if quantity.is_negative() {
        // The server quotes it as a number.
        causes.push(path.invalid_as(&quantity.units().to_string(), "must be a valid resource quantity"));
    }
    if quantity.is_negative() || quantity.is_zero() {
        causes.push(path.invalid(amount.clone(), "must be greater than zero"));
    }
}

fn volume_source(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let mut sources = sources(spec);
    match sources.next() {
        None => causes.push(path.required("must specify a volume type")),
        Some((field @ "hostPath", source)) => host_path(source, &path.child(field), causes),
        Some(_) => {}
    }
    for (field, _) in sources {
        causes.push(path.child(field).forbidden("may not specify more than 1 volume type"));
    }
}

/// Returns whether a path is `/`, perhaps written in another way.
fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| matches!(part, "" | "." | ".."))
}

fn attributes_class(spec: &Value, class: &str, path: &Path, causes: &mut Vec<Cause>) {
    let class_path = path.child("volumeAttributesClassName");
    if class.is_empty() {
        causes.push(class_path.required("an empty string is disallowed"));
    } else {
        causes.extend(class_path.all_invalid(class, names::dns_subdomain(class)));
    }
    if given(spec, "csi").is_none() {
        causes.push(path.child("csi").required("has to be specified when using volumeAttributesClassName"));
    }
}

pub(super) fn class(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let words = [
        ("reclaimPolicy", ["Delete", "Retain"]),
        ("volumeBindingMode", ["Immediate", "WaitForFirstConsumer"]),
    ];
    match text(object, "provisioner") {
        "" => causes.push(Path::root("provisioner").required("")),
        name => {
            let messages = names::qualified_name(&name.to_lowercase());
            causes.extend(Path::root("provisioner").all_invalid(name, messages));
        }
    }
    for (field, supported) in words {
        let word = text(object, field);
        // Only the policy may be an empty word.
        let is_left_out = word.is_empty() && (field == "reclaimPolicy" || given(object, field).is_none());
        if !is_left_out && !supported.contains(&word) {
            causes.push(Path::root(field).not_supported(word, &supported));
        }
    }
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        immutable(&Path::root(field), object, old, field, causes);
    }
}
