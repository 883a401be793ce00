//! Patches that change or remove an object's kind.

use serde_json::Value;

use crate::server::admit;
use crate::server::body;
use crate::server::meta;
use crate::server::scope::{Scope, WriteOptions};
use crate::server::status::{Qualified, Status, quote};
use crate::server::validate;

/// Returns the error for a patched object that can't be decoded as its kind.
pub(super) fn unreadable(shown: &str, why: &str) -> Status {
    let cause = validate::invalid("patch", &quote(shown), why);
    Status::invalid(Qualified { group: "", name: "" }, "", &[cause])
}

/// Refuses a patched document that is not an object of the scope's kind.
pub(super) fn check(scope: &Scope, options: &mut WriteOptions, patched: &Value) -> Result<(), Status> {
    let refused = |why: &str| unreadable(&patched.to_string(), why);
    body::check_type_meta(patched)
        .map_err(|why| refused(&format!("couldn't get version/kind; json parse error: {why}")))?;
    if scope.resource.is_custom() {
        return check_custom(scope, options, patched);
    }
    if let Some(why) = admit::wrong_kind(scope, patched) {
        return Err(refused(&why));
    }
    if text_of(patched, "apiVersion").is_empty() && !text_of(patched, "kind").is_empty() {
        // Without a version it is decoded as the server's internal form of the kind, which does not have these fields.
        let fields = patched.as_object().into_iter().flat_map(serde_json::Map::keys);
        let unknown: Vec<String> =
            fields.filter(|key| !["apiVersion", "kind"].contains(&key.as_str())).cloned().collect();
        admit::complain(options, &[], &unknown).map_err(|why| refused(&why))?;
        return scope.check_path_name(&Value::Null);
    }
    Ok(())
}

fn check_custom(scope: &Scope, options: &mut WriteOptions, patched: &Value) -> Result<(), Status> {
    let resource = &scope.resource;
    let (version, kind) = (text_of(patched, "apiVersion"), text_of(patched, "kind"));
    if kind.is_empty() {
        let shown = patched.to_string();
        return Err(unreadable(&shown, &format!("Object 'Kind' is missing in '{shown}'")));
    }
    if version.is_empty() {
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(Status::internal(why));
    }
    let (group, short) = version.split_once('/').unwrap_or(("", version));
    let wanted = resource.api_version(scope.version());
    let mut causes = Vec::new();
    if kind != resource.kind {
        causes.push(validate::invalid("kind", &quote(kind), &format!("must be {}", resource.kind)));
    }
    if version != wanted {
        causes.push(validate::invalid("apiVersion", &quote(version), &format!("must be {wanted}")));
    }
    if causes.is_empty() {
        return Ok(());
    }
    if group == resource.group && !resource.versions.iter().any(|known| known.name == short) {
        let fields = patched.as_object().into_iter().flat_map(serde_json::Map::keys);
        let unknown: Vec<String> = fields
            .filter(|key| !["apiVersion", "kind", "metadata"].contains(&key.as_str()))
            .cloned()
            .collect();
        admit::complain(options, &[], &unknown).map_err(|why| unreadable(&patched.to_string(), &why))?;
    }
    Err(Status::invalid(Qualified { group, name: kind }, meta::name(patched), &causes))
}

/// Refuses a kind or a version that is not a string, as the reader of untyped objects does.
pub(super) fn check_texts(patched: &Value) -> Result<(), String> {
    for key in ["apiVersion", "kind"] {
        let value = &patched[key];
        if !value.is_string() && !value.is_null() {
            return Err(if value.is_i64() {
                "cannot convert int64 to string".to_owned()
            } else {
                "unrecognized type: string".to_owned()
            });
        }
    }
    Ok(())
}

fn text_of<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}
