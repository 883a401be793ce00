//! The `scale` subresource: the number of replicas of an object of any kind.

use std::sync::Arc;

use http::Method;
use serde_json::{Map, Value, json};

use super::request::Request;
use super::respond::Answer;
use super::scope::{Scope, WriteOptions};
use super::state::ApiServer;
use super::status::{Qualified, Status};
use super::write::{self, Tracking};
use super::{body, meta, patch, validate};
use crate::builtin;

/// The fields with an object's replicas, as JSON pointers.
struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
}

impl Paths {
    fn of(scope: &Scope) -> Self {
        let declared = scope.version().crd_entry().and_then(|entry| entry.pointer("/subresources/scale"));
        let pointer = |key: &str| declared?.get(key)?.as_str().map(|path| path.replace('.', "/"));
        Self {
            spec: pointer("specReplicasPath").unwrap_or_else(|| "/spec/replicas".to_owned()),
            status: pointer("statusReplicasPath").unwrap_or_else(|| "/status/replicas".to_owned()),
            selector: pointer("labelSelectorPath"),
        }
    }
}

/// Returns the `Scale` of an object.
fn scale(scope: &Scope, object: &Value) -> Value {
    let paths = Paths::of(scope);
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = meta::field(object, key) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut spec = Map::new();
    if number(&paths.spec) != 0 {
        spec.insert("replicas".to_owned(), number(&paths.spec).into());
    }
    let mut status = Map::new();
    status.insert("replicas".to_owned(), number(&paths.status).into());
    let selector = match &paths.selector {
        Some(pointer) => object.pointer(pointer).and_then(Value::as_str).map(str::to_owned),
        None => selector(object),
    };
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status.insert("selector".to_owned(), selector.into());
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": metadata, "spec": spec, "status": status,
    })
}

/// Returns the label selector of a workload as text.
fn selector(object: &Value) -> Option<String> {
    let selector = object.pointer("/spec/selector")?;
    let labels = selector.get("matchLabels").unwrap_or(selector).as_object()?;
    let pairs: Vec<String> =
        labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    Some(pairs.join(","))
}

/// Answers a request for the scale of an object.
pub(super) fn scale_request(
    server: &mut ApiServer,
    scope: &Scope,
    request: &Request<'_>,
    options: &mut WriteOptions,
) -> Result<Answer, Status> {
    let live = server.store.get(scope.resource.table, &scope.key()).ok_or_else(|| scope.not_found())?;
    let live = Arc::clone(live);
    let paths = Paths::of(scope);
    let shown = scope.resource.view(scope.version(), &live);
    let missing = scope.resource.is_custom() && shown.pointer(&paths.spec).is_none();
    let current = scale(scope, &shown);
    let wanted = match *request.method {
        Method::GET if missing => {
            let field = paths.spec.replace('/', ".");
            return Err(Status::internal(&format!("the spec replicas field \"{field}\" does not exist")));
        }
        Method::GET => return Ok(Answer::Json(200, current)),
        Method::PUT => body::decode(request.media_type(), request.body, "Scale")?.value,
        Method::PATCH => patch::scale(request, &current)?,
        _ => return Err(Status::method_not_allowed()),
    };
    if !wanted.is_object() {
        return Err(Status::bad_request("the object provided is unrecognized (must be of type Scale)"));
    }
    if let Some(metadata) = wanted.get("metadata") {
        builtin::read_metadata(metadata).map_err(Status::bad_request)?;
    }
    scope.check_name(&wanted)?;
    let replicas = match wanted.pointer("/spec/replicas") {
        None | Some(Value::Null) => 0,
        Some(value) => value
            .as_i64()
            .ok_or_else(|| Status::bad_request("Scale in version \"v1\" cannot be handled as a Scale"))?,
    };
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let cause = validate::invalid("spec.replicas", &replicas.to_string(), why);
        let kind = Qualified { group: "autoscaling", name: "Scale" };
        return Err(Status::invalid(kind, &scope.name, &[cause]));
    }
    let mut object = (*shown).clone();
    set(&mut object, &paths.spec, replicas);
    let version = meta::resource_version(&wanted);
    let version = if version.is_empty() { meta::resource_version(&live) } else { version }.to_owned();
    meta::set(&mut object, "resourceVersion", version);
    let main = Scope { subresource: String::new(), ..scope.clone() };
    match write::update_object(server, &main, &live, object, options, Tracking::Subresource("scale"))? {
        Answer::Object { object, .. } => Ok(Answer::Json(200, scale(scope, &object))),
        other => Ok(other),
    }
}

/// Sets a number at a pointer, and creates the maps on its path.
fn set(object: &mut Value, pointer: &str, number: i64) {
    let mut keys: Vec<&str> = pointer.split('/').filter(|key| !key.is_empty()).collect();
    let Some(last) = keys.pop() else { return };
    let mut at = object;
    for key in keys {
        meta::map_at(at, key);
        at = &mut at[key];
    }
    at[last] = number.into();
}
