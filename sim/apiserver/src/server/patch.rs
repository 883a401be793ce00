//! PATCH: the four patch types.

use std::sync::Arc;

use serde_json::Value;

use super::request::Request;
use super::respond::Answer;
use super::scope::{Scope, WriteOptions};
use super::state::ApiServer;
use super::status::{Qualified, Status, quote};
use super::write::{self, Tracking};
use super::{admit, body, meta, strategy, validate};
use crate::builtin::Source;
use crate::cause::{Cause, text};
use crate::managed::{self, ApplyError, Manager};
use crate::patch::{self, PatchError};

mod kind;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// Answers a PATCH.
pub(super) fn patch_request(
    server: &mut ApiServer,
    scope: &Scope,
    request: &Request<'_>,
    options: &mut WriteOptions,
) -> Result<Answer, Status> {
    let media_type = request.media_type();
    check_options(media_type, request, options)?;
    if media_type == APPLY {
        return apply_request(server, scope, request, options);
    }
    check_media_type(scope, media_type)?;
    let live = server.store.get(scope.resource.table, &scope.key()).ok_or_else(|| scope.not_found())?;
    let live = Arc::clone(live);
    let current = scope.resource.view(scope.version(), &live);
    let mut object = patched(scope, request, &current, options)?;
    scope.settle_namespace(&mut object)?;
    scope.check_path_name(&object)?;
    write::update_object(server, scope, &live, object, options, Tracking::Update)
}

/// Returns the object after a patch that is not an apply configuration.
fn patched(
    scope: &Scope,
    request: &Request<'_>,
    current: &Value,
    options: &mut WriteOptions,
) -> Result<Value, Status> {
    let media_type = request.media_type();
    let patch = read_patch(media_type, request)?;
    let apply = || match media_type {
        JSON => patch::json(current, &patch.value).map_err(refusal),
        MERGE => Ok(patch::merge(current, &patch.value)),
        _ => {
            let schema = scope.version().schema().ok_or_else(|| unsupported(scope))?;
            patch::strategic(schema, current, &patch.value).map_err(refusal)
        }
    };
    let patched = apply()?;
    let is_document = media_type != STRATEGIC;
    // Only a refusal quotes the document; decoding consumes it.
    let refused = |why: &str| match apply() {
        Ok(patched) if is_document => kind::unreadable(&patched.to_string(), why),
        _ => kind::unreadable(&text::plain(&patch.value), why),
    };
    let source = if is_document {
        kind::check(scope, options, &patched)?;
        Source::Document
    } else {
        kind::check_texts(&patched).map_err(|why| refused(&why))?;
        Source::Untyped
    };
    admit::admit(scope, options, patched, Some(current), &patch.duplicates, source)
        .map_err(|why| refused(&why))
}

/// Refuses patches of types that the resource does not support.
fn check_media_type(scope: &Scope, media_type: &str) -> Result<(), Status> {
    let custom = scope.resource.is_custom();
    match media_type {
        JSON | MERGE => Ok(()),
        STRATEGIC if !custom => Ok(()),
        _ if custom => Err(unsupported(scope)),
        _ => Err(Status::generic(415, "UnsupportedMediaType", "415: Unsupported Media Type")),
    }
}

fn apply_request(
    server: &mut ApiServer,
    scope: &Scope,
    request: &Request<'_>,
    options: &mut WriteOptions,
) -> Result<Answer, Status> {
    let body = configuration(request)?;
    let config = body.value;
    check_config(scope, &config)?;
    let Some(schema) = scope.version().schema() else { return Err(unsupported(scope)) };
    let live = server.store.get(scope.resource.table, &scope.key()).cloned();
    if live.is_none() && !strategy::allows_create_on_apply(scope) {
        return Err(scope.not_found());
    }
    let api_version = scope.resource.api_version(scope.version());
    let time = meta::timestamp(options.now);
    let manager = Manager {
        name: &options.manager,
        api_version: &api_version,
        subresource: scope.tracked_subresource(),
        reset: strategy::reset_fields(scope),
        versions: scope,
        time: &time,
    };
    let current = live.as_ref().map(|live| scope.resource.view(scope.version(), live));
    let force = options.force.unwrap_or_default();
    let mut applied =
        managed::apply(schema, current.as_deref(), &config, manager, force).map_err(conflict)?;
    applied = admit::admit_applied(scope, options, &config, applied, &body.duplicates)?;
    check_live(scope, live.as_deref(), &config)?;
    scope.settle_namespace(&mut applied)?;
    scope.check_path_name(&applied)?;
    let Some(live) = live else {
        meta::remove(&mut applied, "resourceVersion");
        return write::create_object(server, scope, applied, options, Tracking::Applied);
    };
    meta::copy(&live, &mut applied, "resourceVersion");
    write::update_object(server, scope, &live, applied, options, Tracking::Applied)
}

/// Parses an applied configuration.
pub(super) fn configuration(request: &Request<'_>) -> Result<body::Body, Status> {
    let mut body =
        body::yaml(request.body).map_err(|why| Status::bad_request(format!("error decoding YAML: {why}")))?;
    if !body.value.is_object() && !body.value.is_null() {
        let found = text::json_type(&body.value);
        return Err(Status::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )));
    }
    strategy::whole_numbers(&mut body.value);
    Ok(body)
}

/// Parses a patch that is not an apply configuration. Null is a patch that changes nothing.
fn read_patch(media_type: &str, request: &Request<'_>) -> Result<body::Body, Status> {
    const MAP: &str = "map[string]interface {}";
    let prefix = if media_type == STRATEGIC { "" } else { "error decoding patch: " };
    let refused = |why: String| Status::bad_request(format!("{prefix}{why}"));
    let mut patch = body::json(request.body).map_err(refused)?;
    match (media_type, &patch.value) {
        (MERGE, Value::Null) => return Err(Status::bad_request("Invalid JSON Patch")),
        (JSON, Value::Null) => patch.value = Value::Array(Vec::new()),
        (STRATEGIC, Value::Null) => patch.value = Value::Object(serde_json::Map::new()),
        (JSON, _) | (_, Value::Object(_)) => {}
        (_, other) => {
            let found = text::json_type(other);
            return Err(refused(format!("json: cannot unmarshal {found} into Go value of type {MAP}")));
        }
    }
    Ok(patch)
}

/// Patches a `Scale`, the subresource of an object.
pub(super) fn scale(
    scope: &Scope,
    kind: &Scope,
    request: &Request<'_>,
    current: &Value,
    options: &mut WriteOptions,
) -> Result<Value, Status> {
    check_media_type(scope, request.media_type())?;
    let mut object = patched(kind, request, current, options)?;
    kind.settle_namespace(&mut object)?;
    kind.check_path_name(&object)?;
    Ok(object)
}

/// Checks the options `fieldManager` and `force` of apply: the first is required there, the second is allowed only there.
pub(super) fn check_options(
    media_type: &str,
    request: &Request<'_>,
    options: &WriteOptions,
) -> Result<(), Status> {
    let cause = if media_type == APPLY && request.query.text("fieldManager").is_empty() {
        Cause {
            reason: "FieldValueRequired",
            field: "fieldManager".to_owned(),
            message: "Required value: is required for apply patch".to_owned(),
        }
    } else if media_type != APPLY && options.force.is_some() {
        Cause {
            reason: "FieldValueForbidden",
            field: "force".to_owned(),
            message: "Forbidden: may not be specified for non-apply patch".to_owned(),
        }
    } else {
        return Ok(());
    };
    Err(Status::invalid(Qualified { group: "meta.k8s.io", name: "PatchOptions" }, "", &[cause]))
}

fn unsupported(scope: &Scope) -> Status {
    let mut types = vec![JSON, MERGE];
    if !scope.resource.is_custom() {
        types.push(STRATEGIC);
    }
    types.push(APPLY);
    Status::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        types.join(", ")
    ))
}

fn refusal(error: PatchError) -> Status {
    match error {
        PatchError::BadRequest(why) => Status::bad_request(why),
        // The server does not return the reason.
        PatchError::Unprocessable(_) => {
            Status::generic(422, "Invalid", "the server rejected our request due to an error in our request")
        }
        PatchError::TooLarge(why) => Status::new(413, "RequestEntityTooLarge", why),
        PatchError::Internal(why) => Status::unknown(why),
    }
}

/// Checks the kind of a configuration.
fn check_config(scope: &Scope, config: &Value) -> Result<(), Status> {
    let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
    let wanted = scope.resource.api_version(scope.version());
    if text("kind").is_empty() || text("apiVersion").is_empty() {
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        return Err(Status::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={}",
            text("kind")
        )));
    }
    if text("apiVersion") != wanted || text("kind") != scope.resource.kind {
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        return Err(Status::unknown(format!(
            "failed to convert patch object ({}/{}; {group}/{version}, Kind={}) to proper version ({wanted})",
            meta::namespace(config),
            meta::name(config),
            text("kind")
        )));
    }
    Ok(())
}

/// Checks the uid and the resource version of a configuration, if it has them.
fn check_live(scope: &Scope, live: Option<&Value>, config: &Value) -> Result<(), Status> {
    let (uid, version) = (meta::uid(config), meta::resource_version(config));
    let resource = scope.resource.qualified();
    match live {
        None if !uid.is_empty() => {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            Err(Status::conflict(resource, &scope.name, &why))
        }
        Some(live) if !version.is_empty() && version != meta::resource_version(live) => {
            Err(Status::modified(resource, &scope.name))
        }
        Some(live) if !uid.is_empty() && uid != meta::uid(live) => {
            let cause = validate::invalid("metadata.uid", &quote(uid), "field is immutable");
            Err(Status::invalid(scope.resource.qualified_kind(), &scope.name, &[cause.clone(), cause]))
        }
        _ => Ok(()),
    }
}

/// Returns the conflict or the failure of an apply with the server's message.
pub(super) fn conflict(error: ApplyError) -> Status {
    let conflicts = match error {
        ApplyError::Conflicts(conflicts) => conflicts,
        ApplyError::Invalid(why) => return Status::unknown(why),
        ApplyError::BadRequest(why) => return Status::bad_request(why),
    };
    let message = managed::conflict_message(&conflicts);
    let mut status = Status::new(409, "Conflict", message);
    status.details.causes = conflicts
        .into_iter()
        .map(|(manager, field)| {
            ("FieldManagerConflict".to_owned(), format!("conflict with {manager}"), field)
        })
        .collect();
    status
}
