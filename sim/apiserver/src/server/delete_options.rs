//! The options of a deletion, from its body or, without a body, from its query.

use serde_json::Value;

use super::request::Request;
use super::scope::dry_run;
use super::status::{Qualified, Status, quote};
use super::{body, meta, validate};
use crate::cause::{Cause, text};

/// How the dependents of a deleted object are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of a deletion.
#[derive(Debug, Clone)]
pub(super) struct DeleteOptions {
    pub(super) now: jiff::Timestamp,
    pub(super) dry_run: bool,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) propagation: Option<Propagation>,
    /// The time for a Pod to stop, in seconds; by default that of its spec.
    pub(super) grace_seconds: Option<i64>,
    /// Whether the request has `orphanDependents: false`.
    pub(super) cascades: bool,
}

impl DeleteOptions {
    /// Parses the options from the body, or from the query if there is no body.
    pub(super) fn parse(request: &Request<'_>, now: jiff::Timestamp) -> Result<Self, Status> {
        let mut causes = Vec::new();
        let body = read_body(request)?;
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("kind"), "" | "DeleteOptions") {
            return Err(Status::bad_request(format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                quote(text("kind")),
                quote(text("apiVersion"))
            )));
        }
        let from_query = |key: &str| request.query.get(key).map(Value::from).unwrap_or_default();
        let (policy, orphan, dry) = if body.is_null() {
            (from_query("propagationPolicy"), request.query.flag("orphanDependents"), None)
        } else {
            let dry = meta::strings(body.get("dryRun"));
            (body["propagationPolicy"].clone(), body["orphanDependents"].as_bool(), Some(dry))
        };
        let grace_seconds = if body.is_null() {
            request.query.number("gracePeriodSeconds")?
        } else {
            check_types(&body)?;
            body["gracePeriodSeconds"].as_i64()
        };
        let dry_run = match dry {
            Some(values) => dry_run(values.into_iter(), &mut causes),
            None => dry_run(request.query.all("dryRun"), &mut causes),
        };
        let propagation = propagation(policy.as_str(), orphan, &mut causes);
        if !causes.is_empty() {
            let kind = Qualified { group: "meta.k8s.io", name: "DeleteOptions" };
            return Err(Status::invalid(kind, "", &causes));
        }
        let precondition = |key: &str| {
            body.pointer(&format!("/preconditions/{key}")).and_then(Value::as_str).map(str::to_owned)
        };
        Ok(Self {
            now,
            dry_run,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            propagation,
            grace_seconds,
            cascades: orphan == Some(false),
        })
    }

    /// Returns the options of a background deletion.
    pub(super) fn background(now: jiff::Timestamp) -> Self {
        Self {
            now,
            dry_run: false,
            uid: None,
            resource_version: None,
            propagation: Some(Propagation::Background),
            grace_seconds: None,
            cascades: false,
        }
    }
}

fn propagation(policy: Option<&str>, orphan: Option<bool>, causes: &mut Vec<Cause>) -> Option<Propagation> {
    let field = "propagationPolicy";
    if let (Some(policy), Some(_)) = (policy, orphan) {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        causes.push(validate::invalid(field, &quote(policy), why));
    }
    match (policy, orphan) {
        (None, None) => None,
        (None, Some(true)) | (Some("Orphan"), _) => Some(Propagation::Orphan),
        (None, Some(false)) | (Some("Background"), _) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some(other), _) => {
            causes.push(Cause {
                reason: "FieldValueNotSupported",
                field: field.to_owned(),
                message: format!(
                    r#"Unsupported value: {}: supported values: "Foreground", "Background", "Orphan", "nil""#,
                    quote(other)
                ),
            });
            None
        }
    }
}

/// Reads the body; null if there is none.
fn read_body(request: &Request<'_>) -> Result<Value, Status> {
    if request.body.is_empty() {
        return Ok(Value::Null);
    }
    if matches!(request.media_type(), "" | "application/json" | "*/*") {
        return body::object(request.body).map(|body| body.value).map_err(Status::bad_request);
    }
    let body = body::decode(request.media_type(), request.body, "DeleteOptions")?.value;
    if body.is_null() || body.is_object() {
        return Ok(body);
    }
    Err(Status::bad_request("decoded object cannot be converted to DeleteOptions"))
}

/// Refuses options of the wrong type; to ignore them could delete too much.
fn check_types(body: &Value) -> Result<(), Status> {
    let mismatch = |holder: &str, field: &str, value: &Value, wanted: &str| {
        let found = match value {
            Value::Number(number) if wanted == "int64" => format!("number {number}"),
            other => text::json_type(other).to_owned(),
        };
        Status::bad_request(format!(
            "json: cannot unmarshal {found} into Go struct field {holder}.{field} of type {wanted}"
        ))
    };
    let fields = body.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    for (key, value) in fields {
        let wanted = match key.as_str() {
            "gracePeriodSeconds" if !value.is_i64() => "int64",
            "propagationPolicy" if !value.is_string() => "v1.DeletionPropagation",
            "orphanDependents" if !value.is_boolean() => "bool",
            "dryRun" if !value.is_array() => "[]string",
            "preconditions" if !value.is_object() => "v1.Preconditions",
            _ => continue,
        };
        return Err(mismatch("DeleteOptions", key, value, wanted));
    }
    for (key, wanted) in [("resourceVersion", "string"), ("uid", "types.UID")] {
        let value = &body["preconditions"][key];
        if !value.is_null() && !value.is_string() {
            return Err(mismatch("Preconditions", &format!("preconditions.{key}"), value, wanted));
        }
    }
    let named = body["dryRun"].as_array().into_iter().flatten();
    match named.clone().find(|value| !value.is_string() && !value.is_null()) {
        Some(value) => Err(mismatch("DeleteOptions", "dryRun", value, "string")),
        None => Ok(()),
    }
}
