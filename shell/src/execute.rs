//! Carries out single actions with the kube client: one HTTP request each, on paths made from the [`Kind`].

mod path;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use lockstep_core::engine::action::{Action, Class, Failure, Outcome, Subresource, Success};
use lockstep_core::object::{Kind, ObjectRef};
use serde_json::{Value, json};

use crate::{failure, redact};

/// How long an answer may take; after that the outcome is unknown.
pub const TIMEOUT: Duration = Duration::from_secs(30);

const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Carries out the actions of one machine.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    field_manager: String,
}

impl Executor {
    /// Acts through the client as `lockstep-<controller>`.
    pub fn new(client: Client, controller: &str) -> Self {
        Self { client, field_manager: format!("lockstep-{controller}") }
    }

    /// The client that requests go through.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Carries out one action. Watches are not requests: [`crate::run`] keeps them.
    pub async fn execute(&self, action: &Action) -> Outcome {
        let request = match self.request(action) {
            Ok(request) => request,
            Err(failure) => return Err(failure),
        };
        let answer = tokio::time::timeout(TIMEOUT, self.exchange(request)).await;
        let body = answer.unwrap_or_else(|_| {
            Err(Failure::new(Class::Unknown, format!("no answer within {} s", TIMEOUT.as_secs())))
        });
        body.and_then(|body| success(action, &body))
            .map_err(|failure| Failure { message: redact::message(action, &failure.message), ..failure })
    }

    fn request(&self, action: &Action) -> Result<http::Request<Vec<u8>>, Failure> {
        match action {
            Action::Watch { .. } | Action::Unwatch { .. } => {
                Err(Failure::new(Class::Invalid, "a watch is not a request"))
            }
            Action::Discover { api_version } => get(&path::api_version(api_version), JSON),
            Action::Get { target, metadata_only } => {
                get(&path::object(target)?, if *metadata_only { METADATA } else { JSON })
            }
            Action::Apply { target, manifest } => self.apply(target, manifest),
            Action::Create { target, manifest } => {
                let path = self.with_manager(&path::collection(&target.kind, target.namespace.as_deref()));
                send(Method::POST, &path, JSON, manifest)
            }
            Action::Update { target, manifest } => {
                send(Method::PUT, &self.with_manager(&path::object(target)?), JSON, manifest)
            }
            Action::Patch { target, subresource, patch } => self.patch(target, *subresource, patch),
            Action::Delete { target, uid, resource_version } => {
                delete(target, uid, resource_version.as_deref())
            }
        }
    }

    fn apply(&self, target: &ObjectRef, manifest: &Value) -> Result<http::Request<Vec<u8>>, Failure> {
        let path = format!("{}&force=true", self.with_manager(&path::object(target)?));
        send(Method::PATCH, &path, APPLY_PATCH, manifest)
    }

    fn patch(
        &self,
        target: &ObjectRef,
        subresource: Option<Subresource>,
        patch: &Value,
    ) -> Result<http::Request<Vec<u8>>, Failure> {
        let mut at = path::object(target)?;
        if let Some(Subresource::Status) = subresource {
            at.push_str("/status");
        }
        send(Method::PATCH, &self.with_manager(&at), MERGE_PATCH, patch)
    }

    fn with_manager(&self, path: &str) -> String {
        format!("{path}?fieldManager={}", self.field_manager)
    }

    async fn exchange(&self, request: http::Request<Vec<u8>>) -> Result<Vec<u8>, Failure> {
        let request = request.map(kube::client::Body::from);
        let answer = self.client.send(request).await.map_err(|error| failure::from_client(&error))?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(|error| failure::from_client(&error))?.to_bytes();
        if parts.status.is_success() {
            return Ok(body.into());
        }
        let retry_after = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        Err(failure::from_answer(parts.status, retry_after, &body))
    }
}

fn get(path: &str, accept: &'static str) -> Result<http::Request<Vec<u8>>, Failure> {
    finish(http::Request::get(path).header(ACCEPT, accept), Vec::new())
}

fn delete(
    target: &ObjectRef,
    uid: &str,
    resource_version: Option<&str>,
) -> Result<http::Request<Vec<u8>>, Failure> {
    let mut preconditions = json!({ "uid": uid });
    if let Some(version) = resource_version {
        preconditions["resourceVersion"] = version.into();
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

fn invalid(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new(Class::Invalid, failure::describe(error))
}

fn success(action: &Action, body: &[u8]) -> Outcome {
    // An answer that can't be read leaves open what it meant.
    let unreadable =
        |_| Failure::new(Class::Unknown, "the server's answer is not the JSON that was asked for");
    match action {
        Action::Watch { .. } | Action::Unwatch { .. } => Ok(Success::Done),
        Action::Delete { .. } => {
            let shown = serde_json::from_slice::<Value>(body).map_err(unreadable)?;
            // A status tells that the object is gone; the object itself, that finalizers keep it for now.
            Ok(if shown["kind"] == "Status" { Success::Done } else { Success::Object(Arc::new(shown)) })
        }
        Action::Discover { api_version } => {
            let list = serde_json::from_slice::<APIResourceList>(body).map_err(unreadable)?;
            Ok(Success::Kinds(kinds(api_version, list)))
        }
        Action::Get { metadata_only: true, .. } => {
            let mut object = serde_json::from_slice::<Value>(body).map_err(unreadable)?;
            Ok(Success::Object(Arc::new(json!({ "metadata": object["metadata"].take() }))))
        }
        Action::Get { .. }
        | Action::Apply { .. }
        | Action::Create { .. }
        | Action::Update { .. }
        | Action::Patch { .. } => {
            Ok(Success::Object(Arc::new(serde_json::from_slice(body).map_err(unreadable)?)))
        }
    }
}

fn kinds(api_version: &str, list: APIResourceList) -> Vec<Arc<Kind>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resources = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
    resources
        .map(|resource| Kind::known(group, version, &resource.kind, &resource.name, resource.namespaced))
        .collect()
}

#[cfg(test)]
mod tests;
