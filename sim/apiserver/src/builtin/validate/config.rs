//! `ConfigMap` and `Secret`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::common::immutable;
use crate::builtin::field::Path;
use crate::builtin::json_syntax;
use crate::builtin::names;
use crate::builtin::view::{entries, flag, given, text};
use crate::cause::Cause;

/// Maximum total size of the values of one object, in bytes.
const DATA_BYTES_MAX: usize = 1024 * 1024;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    frozen(object, old, &["data", "binaryData"], causes);
    let mut size = 0;
    let data = Path::root("data");
    for (key, value) in entries(object, "data") {
        let path = data.key(key);
        causes.extend(path.all_invalid(key, names::config_key(key)));
        if object.get("binaryData").is_some_and(|binary| binary.get(key).is_some()) {
            causes.push(path.invalid(key.as_str(), "duplicate of key present in binaryData"));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in entries(object, "binaryData") {
        causes.extend(Path::root("binaryData").key(key).all_invalid(key, names::config_key(key)));
        size += decoded(value).len();
    }
    if size > DATA_BYTES_MAX {
        causes.push(Path::root("").too_long(DATA_BYTES_MAX));
    }
}

pub(super) fn secret(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    immutable(&Path::root("type"), object, old, "type", causes);
    frozen(object, old, &["data"], causes);
    let data = Path::root("data");
    let mut size = 0;
    for (key, value) in entries(object, "data") {
        causes.extend(data.key(key).all_invalid(key, names::config_key(key)));
        size += decoded(value).len();
    }
    if size > DATA_BYTES_MAX {
        causes.push(data.too_long(DATA_BYTES_MAX));
    }
    required_keys(object, causes);
}

fn decoded(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default()
}

fn frozen(object: &Value, old: Option<&Value>, fields: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = old.filter(|old| flag(old, "immutable")) else { return };
    if !flag(object, "immutable") {
        causes.push(Path::root("immutable").forbidden(IMMUTABLE));
    }
    for field in fields.iter().filter(|field| object.get(**field) != old.get(**field)) {
        causes.push(Path::root(field).forbidden(IMMUTABLE));
    }
}

/// Checks the keys that the well-known types require.
fn required_keys(secret: &Value, causes: &mut Vec<Cause>) {
    let path = Path::root("data");
    let value = |key: &str| secret.get("data").and_then(|data| data.get(key));
    let mut require = |key: &str| causes.push(path.key(key).required(""));
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            let annotations = secret.get("metadata").and_then(|metadata| given(metadata, "annotations"));
            if annotations.is_none_or(|annotations| text(annotations, annotation).is_empty()) {
                causes.push(Path::root("metadata").child("annotations").key(annotation).required(""));
            }
        }
        "kubernetes.io/dockercfg" => docker_config(&path.key(".dockercfg"), value(".dockercfg"), causes),
        "kubernetes.io/dockerconfigjson" => {
            docker_config(&path.key(".dockerconfigjson"), value(".dockerconfigjson"), causes);
        }
        "kubernetes.io/basic-auth" if value("username").is_none() && value("password").is_none() => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" if value("ssh-privatekey").is_none_or(|key| key == "") => {
            require("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| value(key).is_none()) {
                require(key);
            }
        }
        _ => {}
    }
}

fn docker_config(path: &Path, value: Option<&Value>, causes: &mut Vec<Cause>) {
    let Some(value) = value else {
        causes.push(path.required(""));
        return;
    };
    let bytes = decoded(value);
    if serde_json::from_slice::<Option<Map<String, Value>>>(&bytes).is_err() {
        causes.push(path.invalid("<secret contents redacted>", &json_syntax::error(&bytes)));
    }
}
