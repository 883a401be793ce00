//! Requests that ask about the asker: reviews and tokens. Everybody may do everything.

use serde_json::{Value, json};

use super::registry::Resource;
use super::request::Request;
use super::respond::Answer;
use super::scope::{Scope, WriteOptions};
use super::status::{Qualified, Status};
use super::write::{self, Tracking};
use super::{ApiServer, body, meta, object_of};
use crate::builtin::field::Path;
use crate::cause::Cause;

const USER: &str = "lockstep-admin";

/// Whether a kind is a question that is answered at once and not stored.
pub(super) fn is_review(resource: &Resource) -> bool {
    ["authorization.k8s.io", "authentication.k8s.io"].contains(&resource.group.as_str())
}

/// Answers a review.
pub(super) fn answer(
    scope: &Scope,
    request: &Request<'_>,
    options: &mut WriteOptions,
) -> Result<Answer, Status> {
    let mut object = object_of(scope, request, options)?;
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

/// What is wrong with a question about access.
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

impl ApiServer {
    /// A token for a service account: it names the account and is worth nothing elsewhere.
    pub(super) fn token_request(
        &self,
        scope: &Scope,
        request: &Request<'_>,
        now: jiff::Timestamp,
    ) -> Result<Answer, Status> {
        if self.store.get(scope.resource.table, &scope.key()).is_none() {
            return Err(scope.not_found());
        }
        let mut object = body::decode(request.media_type(), request.body, "TokenRequest")?.value;
        if !object.is_object() {
            return Err(Status::bad_request(
                "the object provided is unrecognized (must be of type TokenRequest)",
            ));
        }
        let seconds = object.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(3600);
        let expires = now
            .saturating_add(jiff::SignedDuration::from_secs(seconds))
            .expect("a signed duration is no calendar unit");
        object["kind"] = "TokenRequest".into();
        object["apiVersion"] = "authentication.k8s.io/v1".into();
        object["metadata"] = json!({
            "name": scope.name, "namespace": scope.namespace, "creationTimestamp": meta::timestamp(now),
        });
        object["status"] = json!({
            "token": format!("lockstep.{}.{}", scope.namespace, scope.name),
            "expirationTimestamp": meta::timestamp(expires),
        });
        Ok(Answer::Json(201, object))
    }
}
