//! Volumes of Pods.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::quantity::Quantity;
use crate::builtin::view::{given, integer, list, part, text};
use crate::cause::Cause;

const MODE_RULE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const MODE_MAX: i64 = 0o777;

/// Sources of volumes, in the order in which the server checks them.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Validates the volumes and returns the names of the valid ones, which containers can mount.
pub(super) fn volumes<'a>(spec: &'a Value, path: &Path, causes: &mut Vec<Cause>) -> BTreeSet<&'a str> {
    let mut sound = BTreeSet::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let path = path.index(index);
        let before = causes.len();
        source(volume, &path, causes);
        let name = text(volume, "name");
        if name.is_empty() {
            causes.push(path.child("name").required(""));
        } else {
            causes.extend(path.child("name").all_invalid(name, names::dns_label(name)));
        }
        if sound.contains(name) {
            causes.push(path.child("name").duplicate(name));
        }
        if causes.len() == before {
            sound.insert(name);
        }
    }
    sound
}

fn source(volume: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let mut sources = SOURCES.iter().filter_map(|field| Some((*field, given(volume, field)?)));
    let Some((field, first)) = sources.next() else {
        causes.push(path.required("must specify a volume type"));
        return;
    };
    single(field, first, &path.child(field), causes);
    for (field, _) in sources {
        causes.push(path.child(field).forbidden("may not specify more than 1 volume type"));
    }
}

fn single(field: &str, source: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let mut require = |name: &str| {
        if text(source, name).is_empty() {
            causes.push(path.child(name).required(""));
        }
    };
    match field {
        "hostPath" => host_path(source, path, causes),
        "secret" => {
            require("secretName");
            files(source, path, causes);
        }
        "configMap" => {
            require("name");
            files(source, path, causes);
        }
        "persistentVolumeClaim" => require("claimName"),
        "nfs" => {
            require("server");
            require("path");
        }
        "csi" => require("driver"),
        "emptyDir"
            if source.get("sizeLimit").and_then(Quantity::of).is_some_and(|limit| limit.is_negative()) =>
        {
            let message = "SizeLimit field must be a valid resource quantity";
            causes.push(path.child("sizeLimit").forbidden(message));
        }
        "downwardAPI" | "projected" => mode(source, "defaultMode", path, causes),
        _ => {}
    }
}

/// Validates a `HostPathVolumeSource`.
pub(in crate::builtin::validate) fn host_path(source: &Value, path: &Path, causes: &mut Vec<Cause>) {
    if text(source, "path").is_empty() {
        causes.push(path.child("path").required(""));
        return;
    }
    if text(source, "path").split('/').any(|part| part == "..") {
        causes.push(path.child("path").invalid(text(source, "path"), "must not contain '..'"));
    }
    let kinds =
        ["BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let kind = text(source, "type");
    if !kind.is_empty() && !kinds.contains(&kind) {
        let mut supported = vec![""];
        supported.extend(kinds);
        causes.push(path.child("type").not_supported(kind, &supported));
    }
}

fn files(source: &Value, path: &Path, causes: &mut Vec<Cause>) {
    mode(source, "defaultMode", path, causes);
    for (index, item) in list(source, "items").iter().enumerate() {
        let path = path.child("items").index(index);
        for field in ["key", "path"] {
            if text(item, field).is_empty() {
                causes.push(path.child(field).required(""));
            }
        }
        let target = part(item, "path").as_str().unwrap_or_default();
        if target.starts_with('/') {
            causes.push(path.child("path").invalid(target, "must be a relative path"));
        }
        if target.split('/').any(|part| part == "..") {
            causes.push(path.child("path").invalid(target, "must not contain '..'"));
        }
        if target.starts_with("..") && !target.starts_with("../") {
            causes.push(path.child("path").invalid(target, "must not start with '..'"));
        }
        mode(item, "mode", &path, causes);
    }
}

fn mode(source: &Value, field: &str, path: &Path, causes: &mut Vec<Cause>) {
    if let Some(mode) = integer(source, field).filter(|mode| !(0..=MODE_MAX).contains(mode)) {
        causes.push(path.child(field).invalid(mode, MODE_RULE));
    }
}
