//! Requests that ask about the asker: reviews and tokens. Everybody may do everything.

use http::Method;
use serde_json::{Value, json};

use super::request::{Request, ResourcePath};
use super::respond::Answer;
use super::scope::Scope;
use super::status::Status;
use super::{ApiServer, body, meta};

const USER: &str = "lockstep-admin";

/// Answers a review; none if the path is another's.
pub(super) fn answer(path: &ResourcePath, request: &Request<'_>) -> Option<Result<Answer, Status>> {
    let kind = match (path.group.as_str(), path.version.as_str(), path.plural.as_str()) {
        ("authorization.k8s.io", "v1", "selfsubjectaccessreviews") => "SelfSubjectAccessReview",
        ("authorization.k8s.io", "v1", "subjectaccessreviews") => "SubjectAccessReview",
        ("authorization.k8s.io", "v1", "localsubjectaccessreviews") => "LocalSubjectAccessReview",
        ("authorization.k8s.io", "v1", "selfsubjectrulesreviews") => "SelfSubjectRulesReview",
        ("authentication.k8s.io", "v1", "selfsubjectreviews") => "SelfSubjectReview",
        _ => return None,
    };
    if request.method != Method::POST || !path.name.is_empty() {
        return Some(Err(Status::method_not_allowed()));
    }
    Some(review(path, kind, request))
}

fn review(path: &ResourcePath, kind: &str, request: &Request<'_>) -> Result<Answer, Status> {
    let mut object = body::decode(request.media_type(), request.body, kind)?.value;
    if !object.is_object() {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind})"
        )));
    }
    object["kind"] = kind.into();
    object["apiVersion"] = format!("{}/{}", path.group, path.version).into();
    object["metadata"] = json!({});
    object["status"] = match kind {
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "SelfSubjectReview" => {
            json!({"userInfo": {"username": USER, "groups": ["system:masters", "system:authenticated"]}})
        }
        _ => json!({"allowed": true}),
    };
    Ok(Answer::Json(201, object))
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
