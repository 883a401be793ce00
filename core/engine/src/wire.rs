//! The HTTP form of actions and answers: pure translation between [`KubeRequest`], HTTP and [`Outcome`].
//!
//! The shell sends the requests of [`encode`] over a network. The simulator passes them directly to its model of the API
//! server. Both read the answers with [`decode`].

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube_core::Status;
use serde::Deserialize;
use serde_json::{Value, json};

use super::action::{ErrorKind, Failure, KubeRequest, Outcome, Subresource, Success};
use crate::object::{Kind, ObjectRef, ResourceVersion, Uid};

mod deep;
mod generate;
pub mod path;
mod redact;

pub use self::deep::ReadObject;
pub use self::generate::{generated, lengths};
pub use self::redact::cut;

/// The media type that requests whole objects.
pub const JSON: &str = "application/json";
/// The media type that requests only the metadata of objects.
pub const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// The media type that requests only the metadata of a list's objects.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Returns the field manager of a machine's writes.
pub fn field_manager(machine: &str) -> String {
    format!("lockstep-{machine}")
}

/// Returns the HTTP request of a request to the Kubernetes API. It fails if a name is missing, or a value that has to be
/// [`generated`].
pub fn encode(request: &KubeRequest, field_manager: &str) -> Result<http::Request<Vec<u8>>, Failure> {
    match request {
        KubeRequest::Discover { api_version } => get(&path::api_version(api_version), JSON),
        KubeRequest::Get { target, metadata_only } => {
            get(&path::object(target)?, if *metadata_only { METADATA } else { JSON })
        }
        KubeRequest::GetLengths { target } => get(&path::object(target)?, JSON),
        KubeRequest::List { kind, scope } => {
            let path = path::list(kind, scope);
            get(&path, if scope.metadata_only { METADATA_LIST } else { JSON })
        }
        KubeRequest::Apply { target, manifest } => {
            let path = format!("{}&force=true", with_manager(&path::object(target)?, field_manager));
            send(Method::PATCH, &path, APPLY_PATCH, manifest)
        }
        KubeRequest::Create { target, manifest } => create(target, manifest, field_manager),
        KubeRequest::CreateSecret { target, manifest, generate } => {
            generate::check(manifest, generate)?;
            create(target, manifest, field_manager)
        }
        KubeRequest::Update { target, manifest } => {
            send(Method::PUT, &with_manager(&path::object(target)?, field_manager), JSON, manifest)
        }
        KubeRequest::Patch { target, subresource, patch } => {
            let mut path = path::object(target)?;
            if *subresource == Some(Subresource::Status) {
                path.push_str("/status");
            }
            send(Method::PATCH, &with_manager(&path, field_manager), MERGE_PATCH, patch)
        }
        KubeRequest::Delete { target, uid, resource_version } => delete(target, uid, *resource_version),
    }
}

/// Returns the outcome of an answer to the request. Values of a Secret in the request never appear in the outcome's message.
pub fn decode(request: &KubeRequest, code: StatusCode, retry_after: Option<&str>, body: &[u8]) -> Outcome {
    if code.is_success() {
        return success(request, body);
    }
    Err(redacted(request, &from_answer(code, retry_after, body)))
}

/// Returns a failure whose message is safe for logs and conditions.
pub fn redacted(request: &KubeRequest, failure: &Failure) -> Failure {
    Failure { message: redact::message(request, &failure.message), ..failure.clone() }
}

fn with_manager(path: &str, field_manager: &str) -> String {
    format!("{path}?fieldManager={field_manager}")
}

fn get(path: &str, accept: &'static str) -> Result<http::Request<Vec<u8>>, Failure> {
    finish(http::Request::get(path).header(ACCEPT, accept), Vec::new())
}

fn create(
    target: &ObjectRef,
    manifest: &Value,
    field_manager: &str,
) -> Result<http::Request<Vec<u8>>, Failure> {
    let path = path::collection(&target.kind, target.namespace.as_deref());
    send(Method::POST, &with_manager(&path, field_manager), JSON, manifest)
}

fn delete(
    target: &ObjectRef,
    uid: &Uid,
    resource_version: Option<ResourceVersion>,
) -> Result<http::Request<Vec<u8>>, Failure> {
    let mut preconditions = json!({ "uid": uid });
    if let Some(version) = resource_version.filter(|version| !version.is_none()) {
        preconditions["resourceVersion"] = json!(version);
    }
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": preconditions,
    });
    send(Method::DELETE, &path::object(target)?, JSON, &options)
}

fn send(
    method: Method,
    path: &str,
    content_type: &'static str,
    body: &Value,
) -> Result<http::Request<Vec<u8>>, Failure> {
    let request = http::Request::builder().method(method).uri(path);
    let body = serde_json::to_vec(body).map_err(|error| invalid(&error))?;
    finish(request.header(ACCEPT, JSON).header(CONTENT_TYPE, content_type), body)
}

fn finish(request: http::request::Builder, body: Vec<u8>) -> Result<http::Request<Vec<u8>>, Failure> {
    request.body(body).map_err(|error| invalid(&error))
}

fn invalid(error: &dyn std::error::Error) -> Failure {
    Failure::new(ErrorKind::Invalid, error.to_string())
}

/// The answer to a list.
#[derive(Deserialize)]
struct List {
    kind: Option<String>,
    items: Option<Vec<ReadObject>>,
}

fn success(request: &KubeRequest, body: &[u8]) -> Outcome {
    // The meaning of an answer that can't be parsed is unknown.
    let unreadable =
        |_| Failure::new(ErrorKind::Unknown, "the server's answer is not the JSON that was asked for");
    let object = || serde_json::from_slice::<ReadObject>(body).map(|object| object.0).map_err(unreadable);
    match request {
        KubeRequest::Delete { .. } => {
            let shown = Value::Object(object()?);
            // A `Status` means that the object is gone. The object itself means that finalizers keep it for now.
            Ok(if shown["kind"] == "Status" { Success::Done } else { Success::Object(Arc::new(shown)) })
        }
        KubeRequest::Discover { api_version } => {
            let list = serde_json::from_slice::<APIResourceList>(body).map_err(unreadable)?;
            Ok(Success::Kinds(kinds(api_version, list)))
        }
        KubeRequest::Get { metadata_only: true, .. } => {
            let metadata = object()?.remove("metadata");
            Ok(Success::Object(Arc::new(json!({ "metadata": metadata }))))
        }
        KubeRequest::GetLengths { .. } | KubeRequest::CreateSecret { .. } => {
            Ok(Success::Object(Arc::new(lengths(&Value::Object(object()?)))))
        }
        KubeRequest::List { .. } => {
            let list: List = serde_json::from_slice(body).map_err(unreadable)?;
            match list.items {
                // Go writes a nil list as null.
                None if list.kind.is_some() => Ok(Success::Objects(Vec::new())),
                Some(items) => {
                    let objects = items.into_iter().map(|item| Arc::new(Value::Object(item.0)));
                    Ok(Success::Objects(objects.collect()))
                }
                None => Err(Failure::new(ErrorKind::Unknown, "the server's answer is no list")),
            }
        }
        KubeRequest::Get { .. }
        | KubeRequest::Apply { .. }
        | KubeRequest::Create { .. }
        | KubeRequest::Update { .. }
        | KubeRequest::Patch { .. } => Ok(Success::Object(Arc::new(Value::Object(object()?)))),
    }
}

fn kinds(api_version: &str, list: APIResourceList) -> Vec<Arc<Kind>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resources = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
    resources
        .map(|resource| Kind::known(group, version, &resource.kind, &resource.name, resource.namespaced))
        .collect()
}

/// Returns the class of an answer for its code and its `Status`.
///
/// | code | class |
/// | --- | --- |
/// | 404 | not found; kind not served, if no `Status` names the object |
/// | 409 | already exists, if that is the reason; else conflict |
/// | 401, 403 | forbidden |
/// | 410 | gone |
/// | 429 | throttled |
/// | 408, 502, 504, other 5xx without a reason, or the reason `Timeout` or `ServerTimeout` | unknown: it may have taken effect |
/// | other 5xx | unavailable: it did not take effect |
/// | everything else | invalid |
///
/// [`decode`] recognises an apply that does not fit its kind's schema, which has code 500 as well: it is invalid. It also recognises a
/// create in a namespace that is being deleted, which has code 403 as well: it is a conflict.
pub fn class(code: u16, status: &Status) -> ErrorKind {
    let reason = status.reason.as_str();
    match code {
        404 if status.details.as_ref().is_some_and(|details| !details.name.is_empty()) => ErrorKind::NotFound,
        // No handler has this path: the answer is plain text.
        404 => ErrorKind::KindNotServed,
        409 if reason == "AlreadyExists" => ErrorKind::AlreadyExists,
        409 => ErrorKind::Conflict,
        401 | 403 => ErrorKind::Forbidden,
        410 => ErrorKind::Gone,
        429 => ErrorKind::Throttled,
        408 | 502 | 504 => ErrorKind::Unknown,
        // An error of etcd, such as "etcdserver: request timed out", which may have committed the write; or a panic of the API
        // server. Errors with the reason `InternalError` arise before the write, for example in a webhook. Or an answer of a proxy,
        // such as "error trying to reach service": it may have lost the connection after it passed the request on.
        500..=599 if reason.is_empty() => ErrorKind::Unknown,
        500..=599 if matches!(reason, "Timeout" | "ServerTimeout") => ErrorKind::Unknown,
        500..=599 => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    }
}

/// The beginning of the API server's message, with code 500 and no reason, if an apply has a field that is not in the kind's
/// schema, or a value of another type. Every retry gets the same answer.
const UNFIT: &str = "failed to create typed patch object";

/// Returns whether the answer refuses a new object because its namespace is being deleted. That passes with the namespace, and no
/// permission is missing, although the code is 403.
fn is_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// Returns the failure of an unsuccessful answer. Its body is a `Status`, or plain text if a proxy or a filter in front of
/// the API has answered.
fn from_answer(code: StatusCode, retry_after: Option<&str>, body: &[u8]) -> Failure {
    let mut status = serde_json::from_slice::<Status>(body).unwrap_or_default();
    let class = match (code, status.reason.as_str()) {
        (StatusCode::INTERNAL_SERVER_ERROR, "") if status.message.starts_with(UNFIT) => ErrorKind::Invalid,
        (StatusCode::FORBIDDEN, _) if is_terminating(&status) => ErrorKind::Conflict,
        _ => class(code.as_u16(), &status),
    };
    let message = if status.message.is_empty() {
        let text = String::from_utf8_lossy(body);
        format!("{code}: {}", text.trim()).trim_end_matches([':', ' ']).to_owned()
    } else {
        std::mem::take(&mut status.message)
    };
    let asked = retry_after
        .and_then(|seconds| seconds.trim().parse().ok())
        .or_else(|| status.details.map(|details| u64::from(details.retry_after_seconds)))
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs);
    Failure { class, message, retry_after: asked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_class() {
        let table = [
            (400, "BadRequest", ErrorKind::Invalid),
            (401, "Unauthorized", ErrorKind::Forbidden),
            (403, "Forbidden", ErrorKind::Forbidden),
            (404, "NotFound", ErrorKind::KindNotServed),
            (404, "", ErrorKind::KindNotServed),
            (405, "MethodNotAllowed", ErrorKind::Invalid),
            (408, "", ErrorKind::Unknown),
            (409, "AlreadyExists", ErrorKind::AlreadyExists),
            (409, "Conflict", ErrorKind::Conflict),
            (409, "", ErrorKind::Conflict),
            (410, "Expired", ErrorKind::Gone),
            (413, "RequestEntityTooLarge", ErrorKind::Invalid),
            (415, "UnsupportedMediaType", ErrorKind::Invalid),
            (422, "Invalid", ErrorKind::Invalid),
            (429, "TooManyRequests", ErrorKind::Throttled),
            (500, "InternalError", ErrorKind::Unavailable),
            (500, "ServerTimeout", ErrorKind::Unknown),
            (500, "", ErrorKind::Unknown),
            (502, "", ErrorKind::Unknown),
            (503, "ServiceUnavailable", ErrorKind::Unavailable),
            (501, "", ErrorKind::Unknown),
            (503, "", ErrorKind::Unknown),
            (504, "Timeout", ErrorKind::Unknown),
        ];
        for (code, reason, expected) in table {
            let status = Status { reason: reason.to_owned(), ..Status::default() };
            assert_eq!(class(code, &status), expected, "{code} {reason}");
        }
    }

    #[test]
    fn a_kind_that_is_not_served_is_no_missing_object() {
        let missing = json!({
            "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
            "message": "configmaps \"a\" not found", "details": { "name": "a", "kind": "configmaps" },
        });
        let class = |body: &[u8]| from_answer(StatusCode::NOT_FOUND, None, body).class;
        assert_eq!(class(missing.to_string().as_bytes()), ErrorKind::NotFound);
        assert_eq!(class(b"404 page not found\n"), ErrorKind::KindNotServed);
        assert_eq!(class(b""), ErrorKind::KindNotServed);
    }

    #[test]
    fn a_proxy_may_lose_the_answer_to_a_write() {
        let class = |body: &[u8]| from_answer(StatusCode::SERVICE_UNAVAILABLE, None, body).class;
        let lost = [
            &b"error trying to reach service: unexpected EOF"[..],
            b"upstream connect error or disconnect/reset before headers. reset reason: connection termination",
            b"<html><h1>503</h1></html>",
            br#"{"error":"no healthy upstream"}"#,
            b"",
        ];
        for body in lost {
            assert_eq!(class(body), ErrorKind::Unknown, "{}", String::from_utf8_lossy(body));
        }
        let busy = br#"{"kind":"Status","reason":"ServiceUnavailable","message":"not yet","code":503}"#;
        assert_eq!(class(busy), ErrorKind::Unavailable);
    }

    #[test]
    fn a_namespace_that_is_being_deleted_is_no_missing_permission() {
        let refused = |causes: Value| {
            let status = json!({
                "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "configmaps \"a\" is forbidden: no", "details": { "name": "a", "causes": causes },
            });
            from_answer(StatusCode::FORBIDDEN, None, status.to_string().as_bytes()).class
        };
        let terminating = json!([{
            "reason": "NamespaceTerminating", "message": "namespace team is being terminated", "field": "metadata.namespace",
        }]);
        assert_eq!(refused(terminating), ErrorKind::Conflict);
        assert_eq!(refused(json!([])), ErrorKind::Forbidden);
    }

    #[test]
    fn an_answer_that_is_no_object_is_unreadable() {
        let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        let target = ObjectRef::namespaced(&kind, "team", "a");
        let get = |metadata_only| KubeRequest::Get { target: target.clone(), metadata_only };
        let delete = KubeRequest::Delete { target: target.clone(), uid: "1".into(), resource_version: None };
        for body in ["null", "[]", "7", "\"text\"", "<html>"] {
            for request in [get(false), get(true), delete.clone()] {
                let failure = decode(&request, StatusCode::OK, None, body.as_bytes()).expect_err(body);
                assert_eq!(failure.class, ErrorKind::Unknown, "{body}");
            }
        }
    }

    #[test]
    fn a_version_that_cannot_be_compared_is_no_precondition() {
        let kind = Kind::known("projectcalico.org", "v3", "NetworkPolicy", "networkpolicies", true);
        let target = ObjectRef::namespaced(&kind, "team", "a");
        let preconditions = |version: &str| {
            let seen = json!({ "metadata": { "uid": "1", "resourceVersion": version } });
            let crate::action::Action::Kube(request) = crate::write::delete(target.clone(), &seen) else {
                panic!("a request to Kubernetes");
            };
            let request = encode(&request, "lockstep").expect("it can be sent");
            serde_json::from_slice::<Value>(request.body()).expect("JSON")["preconditions"].clone()
        };
        assert_eq!(preconditions("12"), json!({ "uid": "1", "resourceVersion": "12" }));
        assert_eq!(preconditions("12/"), json!({ "uid": "1" }));
    }

    #[test]
    fn an_apply_that_does_not_fit_its_schema_is_wrong_for_good() {
        let unfit = "failed to create typed patch object (team/a; /v1, Kind=ConfigMap): .dta: field not declared in schema";
        let table = [
            (500, "", unfit, ErrorKind::Invalid),
            (500, "InternalError", unfit, ErrorKind::Unavailable),
            (503, "ServiceUnavailable", unfit, ErrorKind::Unavailable),
            (500, "", "failed to create typed live object", ErrorKind::Unknown),
            (500, "", "etcdserver: request timed out", ErrorKind::Unknown),
        ];
        for (code, reason, message, expected) in table {
            let status = json!({ "kind": "Status", "code": code, "reason": reason, "message": message });
            let code = StatusCode::from_u16(code).expect("a code");
            let failure = from_answer(code, None, status.to_string().as_bytes());
            assert_eq!(failure.class, expected, "{status}");
        }
    }

    #[test]
    fn retry_after_is_read_from_the_header() {
        let failure = from_answer(StatusCode::TOO_MANY_REQUESTS, Some("7"), b"Too many requests\n");
        assert_eq!(failure.class, ErrorKind::Throttled);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(failure.message, "429 Too Many Requests: Too many requests");
    }

    #[test]
    fn retry_after_is_read_from_the_status_without_a_header() {
        let body = br#"{"kind":"Status","message":"busy","reason":"ServerTimeout","code":500,"details":{"retryAfterSeconds":2}}"#;
        let failure = from_answer(StatusCode::INTERNAL_SERVER_ERROR, None, body);
        assert_eq!(failure.class, ErrorKind::Unknown);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(2)));
        assert_eq!(failure.message, "busy");
    }

    #[test]
    fn an_empty_body_leaves_the_code() {
        assert_eq!(
            from_answer(StatusCode::SERVICE_UNAVAILABLE, None, b"").message,
            "503 Service Unavailable"
        );
    }
}
