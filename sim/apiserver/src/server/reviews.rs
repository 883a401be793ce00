//! Reviews and tokens of the client itself. Every client may do everything.

use serde_json::{Value, json};

use super::registry::Resource;
use super::request::Request;
use super::respond::Answer;
use super::scope::{Scope, WriteOptions};
use super::state::ApiServer;
use super::status::{Qualified, Status, quote};
use super::write::{self, Tracking};
use super::{admit, meta, registry, store};
use crate::builtin::field::Path;
use crate::cause::Cause;

const USER: &str = "lockstep-admin";
/// The default audience of tokens.
const AUDIENCE: &str = "https://kubernetes.default.svc";

/// Returns whether a kind is a review, which is answered immediately and not stored.
pub(super) fn is_review(resource: &Resource) -> bool {
    ["authorization.k8s.io", "authentication.k8s.io"].contains(&resource.group.as_str())
}

/// Answers a review.
pub(super) fn answer(
    scope: &Scope,
    request: &Request<'_>,
    options: &mut WriteOptions,
) -> Result<Answer, Status> {
    let mut object = admit::request_object(scope, request, options)?;
    scope.settle_namespace(&mut object)?;
    write::track(scope, None, &mut object, options, Tracking::Update);
    let causes = judge(&scope.resource.kind, &object);
    if !causes.is_empty() {
        let nameless = Qualified { group: &scope.resource.group, name: "" };
        return Err(Status::invalid(nameless, "", &causes));
    }
    object["status"] = match scope.resource.kind.as_str() {
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "SelfSubjectReview" => {
            json!({"userInfo": {"username": USER, "groups": ["system:masters", "system:authenticated"]}})
        }
        "TokenReview" => json!({"user": {}}),
        _ => json!({"allowed": true}),
    };
    Ok(Answer::Json(201, object))
}

/// Returns what is wrong with an access review.
fn judge(kind: &str, review: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !kind.ends_with("AccessReview") {
        return causes;
    }
    let path = Path::root("spec");
    let spec = &review["spec"];
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_null(), other.is_null()) {
        (false, false) => {
            let why = "cannot be specified in combination with resourceAttributes";
            causes.push(path.child("nonResourceAttributes").invalid(other.clone(), why));
        }
        (true, true) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            causes.push(path.child("resourceAttributes").invalid(Value::Null, why));
        }
        _ => {}
    }
    if kind != "SelfSubjectAccessReview" && spec["user"].is_null() && spec["groups"].is_null() {
        causes.push(path.child("user").invalid("", "at least one of user or group must be specified"));
    }
    if kind == "LocalSubjectAccessReview" {
        let namespace = resource["namespace"].as_str().unwrap_or_default();
        if !resource.is_null() && namespace != meta::namespace(review) {
            let path = path.child("resourceAttributes").child("namespace");
            causes.push(path.invalid(namespace, "must match metadata.namespace"));
        }
        if !other.is_null() {
            let path = path.child("nonResourceAttributes");
            causes.push(path.invalid(other.clone(), "disallowed on this kind of request"));
        }
    }
    causes
}

/// Creates a token for a service account: it contains the account's name and is not valid anywhere else.
pub(super) fn token_request(
    server: &ApiServer,
    scope: &Scope,
    request: &Request<'_>,
    options: &mut WriteOptions,
) -> Result<Answer, Status> {
    let kind = Scope { resource: registry::token_request(), version: 0, ..scope.clone() };
    let mut object = admit::request_object(&kind, request, options)?;
    kind.settle_namespace(&mut object)?;
    let seconds = object.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(3600);
    object["spec"]["expirationSeconds"] = seconds.into();
    write::track(&kind, None, &mut object, options, Tracking::Update);
    let refused = |name: &str, cause| Err(Status::invalid(kind.resource.qualified_kind(), name, &[cause]));
    let name = meta::name(&object).to_owned();
    if !name.is_empty() && name != scope.name {
        let why = "must match the service account name if specified";
        return refused(&scope.name, Path::root("metadata").child("name").invalid(name, why));
    }
    let account = server.store.get(scope.resource.table, &scope.key()).ok_or_else(|| scope.not_found())?;
    let (given, uid) = (meta::uid(&object), meta::uid(account));
    if !given.is_empty() && given != uid {
        let why = format!(
            "the UID in the token request ({given}) does not match the UID of the service account ({uid})"
        );
        return Err(Status::conflict(kind.resource.qualified_kind(), &scope.name, &why));
    }
    if let Some(cause) = judge_duration(seconds) {
        return refused("", cause);
    }
    check_bound(server, scope, &object["spec"]["boundObjectRef"])?;
    let audiences = &mut object["spec"]["audiences"];
    if audiences.as_array().is_none_or(Vec::is_empty) {
        *audiences = json!([AUDIENCE]);
    }
    let expires = options
        .now
        .saturating_add(jiff::SignedDuration::from_secs(seconds))
        .expect("a signed duration is no calendar unit");
    meta::set(&mut object, "name", scope.name.clone());
    meta::set(&mut object, "creationTimestamp", meta::timestamp(options.now));
    meta::copy(account, &mut object, "uid");
    object["status"] = json!({
        "token": format!("lockstep.{}.{}", scope.namespace, scope.name),
        "expirationTimestamp": meta::timestamp(expires),
    });
    Ok(Answer::Json(201, object))
}

/// Checks the object to which a token is bound: a Pod of the account, a Secret or a Node.
fn check_bound(server: &ApiServer, scope: &Scope, bound: &Value) -> Result<(), Status> {
    let text = |key: &str| bound.get(key).and_then(Value::as_str).unwrap_or_default();
    let (plural, namespace) = match (text("apiVersion"), text("kind")) {
        _ if bound.is_null() => return Ok(()),
        ("v1", "Pod") => ("pods", scope.namespace.as_str()),
        ("v1", "Secret") => ("secrets", scope.namespace.as_str()),
        ("v1", "Node") => ("nodes", ""),
        (version, kind) => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(why));
        }
    };
    let name = text("name");
    let Some(found) = server.find("", plural, &store::key(namespace, name)) else {
        return Err(Status::not_found(Qualified { group: "", name: plural }, name));
    };
    let account = found.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or_default();
    if plural == "pods" && account != scope.name {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            quote(&scope.name)
        )));
    }
    let uid = text("uid");
    if !uid.is_empty() && uid != meta::uid(found) {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(Qualified { group: "", name: text("kind") }, name, &why));
    }
    Ok(())
}

/// Returns what is wrong with the requested duration of a token.
fn judge_duration(seconds: i64) -> Option<Cause> {
    let why = if seconds < 600 {
        "may not specify a duration less than 10 minutes"
    } else if seconds > 1 << 32 {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return None;
    };
    Some(Path::root("spec").child("expirationSeconds").invalid(seconds, why))
}
