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
use super::{admit, meta, patch, registry, validate};
use crate::managed::{self, Manager, OneVersion, Replicas};

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
    let kind = Scope { resource: registry::scale(), version: 0, ..scope.clone() };
    let given = match *request.method {
        Method::PUT => Some(replacement(&kind, request, options)?),
        Method::PATCH => {
            patch::check_options(request.media_type(), request, options)?;
            None
        }
        _ => None,
    };
    let live = server.store.get(scope.resource.table, &scope.key()).ok_or_else(|| scope.not_found())?;
    let live = Arc::clone(live);
    let paths = Paths::of(scope);
    let shown = scope.resource.view(scope.version(), &live);
    let missing = scope.resource.is_custom() && shown.pointer(&paths.spec).is_none();
    let mut current = scale(scope, &shown);
    if *request.method == Method::GET {
        if missing {
            let field = paths.spec.replace('/', ".");
            return Err(Status::internal(&format!("the spec replicas field \"{field}\" does not exist")));
        }
        return Ok(Answer::Json(200, current));
    }
    let replicas_at = |api_version: &str| replicas_at(scope, api_version);
    managed::show_scale_owners(&shown, &mut current, replicas_at);
    let wanted = match given {
        Some(given) => tracked(scope, &kind, &current, given, options),
        None if request.media_type() == patch::APPLY => apply(scope, &kind, &current, request, options)?,
        None if *request.method == Method::PATCH => {
            let patched = patch::scale(scope, &kind, request, &current, options)?;
            tracked(scope, &kind, &current, patched, options)
        }
        None => return Err(Status::method_not_allowed()),
    };
    check(scope, &current, &wanted)?;
    let mut object = (*shown).clone();
    set(&mut object, &paths.spec, replicas(&wanted));
    let version = meta::resource_version(&wanted);
    let version = if version.is_empty() { meta::resource_version(&live) } else { version }.to_owned();
    meta::set(&mut object, "resourceVersion", version);
    let api_version = scope.resource.api_version(scope.version());
    managed::take_scale_owners(&mut object, &wanted, &api_version, replicas_at);
    let main = Scope { subresource: String::new(), ..scope.clone() };
    match write::update_object(server, &main, &live, object, options, Tracking::Applied)? {
        Answer::Object { object, .. } => Ok(Answer::Json(200, scale(scope, &object))),
        other => Ok(other),
    }
}

/// Reads the scale of a PUT.
fn replacement(kind: &Scope, request: &Request<'_>, options: &mut WriteOptions) -> Result<Value, Status> {
    let object = admit::request_object(kind, request, options)?;
    kind.check_name(&object)?;
    Ok(object)
}

/// Returns where the objects of an API version of the resource have their replicas.
fn replicas_at(scope: &Scope, api_version: &str) -> Replicas {
    let resource = &scope.resource;
    let versions = resource.versions.iter().enumerate();
    let known =
        versions.filter(|(_, version)| resource.api_version(version) == api_version).map(|(index, _)| index);
    let Some(version) = known.last() else { return Replicas::Unknown };
    let scope = Scope { version, ..scope.clone() };
    let entry = scope.version().crd_entry();
    if entry.is_some_and(|entry| entry.pointer("/subresources/scale").is_none()) {
        return Replicas::Nowhere;
    }
    Replicas::At(Paths::of(&scope).spec)
}

/// Returns a replaced or patched scale with its managed fields.
fn tracked(scope: &Scope, kind: &Scope, current: &Value, mut wanted: Value, options: &WriteOptions) -> Value {
    if replicas(&wanted) == 0 && !scope.resource.is_custom() {
        // Go omits a zero: it has no owner, unless it had one before.
        meta::remove(&mut wanted, "managedFields");
        if replicas(current) == 0 {
            meta::copy(current, &mut wanted, "managedFields");
        }
        return wanted;
    }
    match kind.version().schema().filter(|_| !scope.resource.is_custom()) {
        Some(schema) => {
            let time = meta::timestamp(options.now);
            managed::track_update(schema, Some(current), &mut wanted, manager(options, &time));
        }
        // The server does not find the type of the scale of a custom resource, and then forgets its owners.
        None => {
            meta::remove(&mut wanted, "managedFields");
        }
    }
    wanted
}

/// Returns the scale after an applied configuration, with its managed fields.
fn apply(
    scope: &Scope,
    kind: &Scope,
    current: &Value,
    request: &Request<'_>,
    options: &mut WriteOptions,
) -> Result<Value, Status> {
    let body = patch::configuration(request)?;
    let config = body.value;
    let name = managed::name(&config);
    let (_, found) = name.split_once("; ").unwrap_or_default();
    if found != "autoscaling/v1, Kind=Scale" {
        return Err(Status::bad_request(format!("invalid object type: {found}")));
    }
    let Some(schema) = kind.version().schema().filter(|_| !scope.resource.is_custom()) else {
        return Err(Status::unknown(
            "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1",
        ));
    };
    let time = meta::timestamp(options.now);
    let force = options.force.unwrap_or_default();
    let applied = managed::apply(schema, Some(current), &config, manager(options, &time), force);
    let applied = applied.map_err(patch::conflict)?;
    let mut applied = admit::admit_applied(kind, options, &config, applied, &body.duplicates)?;
    kind.settle_namespace(&mut applied)?;
    kind.check_path_name(&applied)?;
    Ok(applied)
}

fn manager<'a>(options: &'a WriteOptions, time: &'a str) -> Manager<'a> {
    let (api_version, subresource) = ("autoscaling/v1", Some("scale"));
    let (reset, versions) = (&["status"], &OneVersion);
    Manager { name: &options.manager, api_version, subresource, reset, versions, time }
}

/// Returns the replicas that a scale requests.
fn replicas(scale: &Value) -> i64 {
    scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default()
}

/// Checks the content and the uid of a scale.
fn check(scope: &Scope, current: &Value, wanted: &Value) -> Result<(), Status> {
    let replicas = replicas(wanted);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let cause = validate::invalid("spec.replicas", &replicas.to_string(), why);
        let kind = Qualified { group: "autoscaling", name: "Scale" };
        return Err(Status::invalid(kind, &scope.name, &[cause]));
    }
    let (uid, live) = (meta::uid(wanted), meta::uid(current));
    if !uid.is_empty() && uid != live && !scope.resource.is_custom() {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {live}");
        let name = format!("{}/scale", scope.resource.plural);
        let resource = Qualified { name: &name, ..scope.resource.qualified() };
        return Err(Status::conflict(resource, &scope.name, &why));
    }
    Ok(())
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
