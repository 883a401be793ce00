//! The `ConfigMap`s of a namespace over HTTP.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use futures::stream::BoxStream;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use http::Method;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::history::{Answer, Data, Request, Stored};

/// The label with the name of an object, which watches select.
const LABEL: &str = "object";

/// The `ConfigMap`s of a namespace.
#[derive(Clone)]
pub(super) struct Maps {
    client: Client,
    path: String,
}

impl Maps {
    /// Creates a namespace.
    pub(super) async fn create(client: Client, namespace: &str) -> anyhow::Result<Self> {
        let maps = Self { client, path: format!("/api/v1/namespaces/{namespace}/configmaps") };
        let object = json!({"metadata": {"name": namespace}});
        let request = request(Method::POST, "/api/v1/namespaces", "application/json", &object)?;
        let (code, answer) = maps.answer(request).await?;
        ensure!(code == 201, "creating the namespace {namespace}: {answer}");
        Ok(maps)
    }

    /// Sends a request. An answer that a client with these requests does not expect is an error.
    pub(super) async fn send(&self, sent: &Request) -> anyhow::Result<Answer> {
        let (code, answer) = self.answer(self.encode(sent)?).await?;
        match (code, sent, answer["reason"].as_str()) {
            (200, Request::List, _) => list(&answer),
            (200, Request::Delete { .. }, _) => {
                let uid = answer["details"]["uid"].as_str().with_context(|| format!("no uid in {answer}"))?;
                Ok(Answer::Deleted { uid: uid.to_owned() })
            }
            (200 | 201, _, _) => Ok(Answer::Object(stored(&answer)?)),
            (404, _, Some("NotFound")) => Ok(Answer::NotFound),
            (409, _, Some("AlreadyExists")) => Ok(Answer::AlreadyExists),
            (409, _, Some("Conflict")) => Ok(Answer::Conflict),
            _ => bail!("{sent:?} was answered with {code}: {answer}"),
        }
    }

    /// Opens a watch with these parameters, and returns its lines.
    pub(super) async fn watch(
        &self,
        parameters: &str,
    ) -> anyhow::Result<BoxStream<'static, std::io::Result<String>>> {
        let path = format!("{}?watch=true&allowWatchBookmarks=true&{parameters}", self.path);
        let request = request(Method::GET, &path, "application/json", &Value::Null)?;
        let response = self.client.send(request).await?;
        let (parts, body) = response.into_parts();
        ensure!(parts.status.is_success(), "{path} was answered with {}", parts.status);
        let bytes = body.into_data_stream().map_err(std::io::Error::other).into_async_read();
        Ok(bytes.lines().boxed())
    }

    async fn answer(&self, request: http::Request<Body>) -> anyhow::Result<(u16, Value)> {
        let (parts, body) = self.client.send(request).await?.into_parts();
        let bytes = body.collect_bytes().await?;
        Ok((parts.status.as_u16(), serde_json::from_slice(&bytes).context("an answer that is no JSON")?))
    }

    fn encode(&self, sent: &Request) -> anyhow::Result<http::Request<Body>> {
        let one = |name: &str| format!("{}/{name}", self.path);
        let json = "application/json";
        match sent {
            Request::Create { name, data } => {
                request(Method::POST, &self.path, json, &object(name, data, None))
            }
            Request::Update { name, data, version } => {
                request(Method::PUT, &one(name), json, &object(name, data, *version))
            }
            Request::Patch { name, key, value } => {
                let patch = json!({"data": {key: value}});
                request(Method::PATCH, &one(name), "application/merge-patch+json", &patch)
            }
            Request::Delete { name, uid, version } => {
                let mut preconditions = json!({});
                if let Some(uid) = uid {
                    preconditions["uid"] = uid.as_str().into();
                }
                if let Some(version) = version {
                    preconditions["resourceVersion"] = version.to_string().into();
                }
                let options = json!({"preconditions": preconditions});
                request(Method::DELETE, &one(name), json, &options)
            }
            Request::Get { name } => request(Method::GET, &one(name), json, &Value::Null),
            Request::List => request(Method::GET, &self.path, json, &Value::Null),
        }
    }
}

/// Returns the parameter that selects the objects with these names.
pub(super) fn selector<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    format!("&labelSelector={LABEL}%20in%20({})", names.join("%2C"))
}

/// Reads the name and the state of an object.
pub(super) fn named(object: &Value) -> anyhow::Result<(String, Stored)> {
    let name = object["metadata"]["name"].as_str().with_context(|| format!("no name in {object}"))?;
    Ok((name.to_owned(), stored(object)?))
}

/// Reads the resource version of an object or a list.
pub(super) fn version(object: &Value) -> anyhow::Result<u64> {
    let version = object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
    version.with_context(|| format!("no resource version in {object}"))
}

fn request(method: Method, path: &str, content: &str, body: &Value) -> anyhow::Result<http::Request<Body>> {
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
    let request = http::Request::builder().method(method).uri(path).header("content-type", content);
    // The field manager of all clients.
    Ok(request.header("user-agent", "histories/1").body(body.into())?)
}

fn object(name: &str, data: &Data, version: Option<u64>) -> Value {
    let mut object = json!({"metadata": {"name": name, "labels": {LABEL: name}}, "data": data});
    if let Some(version) = version {
        object["metadata"]["resourceVersion"] = version.to_string().into();
    }
    object
}

fn stored(object: &Value) -> anyhow::Result<Stored> {
    let uid = object["metadata"]["uid"].as_str().with_context(|| format!("no uid in {object}"))?;
    let data =
        serde_json::from_value(object["data"].clone()).with_context(|| format!("the data of {object}"))?;
    Ok(Stored { uid: uid.to_owned(), version: version(object)?, data })
}

fn list(answer: &Value) -> anyhow::Result<Answer> {
    let items = answer["items"].as_array().context("a list without items")?;
    let items: BTreeMap<String, Stored> = items.iter().map(named).collect::<anyhow::Result<_>>()?;
    Ok(Answer::List { revision: version(answer)?, items })
}
