//! The real kube-apiserver.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::stream::BoxStream;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::answer::{Answer, body};
use super::arm::{Arm, request};
use super::scenario::{Step, Variables, Watch};
use crate::control_plane::ControlPlane;

/// How long to wait for asynchronous results: events of a watch, and the conditions of a step.
const PATIENCE: Duration = Duration::from_mins(3);

/// How long to wait for events that do not arrive.
const SILENCE: Duration = Duration::from_secs(10);

/// The time between two repetitions of a request.
const PAUSE: Duration = Duration::from_millis(20);

/// The real server of a comparison.
pub struct RealArm {
    client: Client,
    etcd: PathBuf,
    /// The lines of the open watch of each client.
    watches: BTreeMap<&'static str, Lines>,
}

type Lines = BoxStream<'static, std::io::Result<String>>;

impl RealArm {
    /// Uses a control plane as its administrator.
    pub async fn new(plane: &ControlPlane) -> anyhow::Result<Self> {
        Ok(Self { client: plane.client().await?, etcd: plane.etcd(), watches: BTreeMap::new() })
    }

    /// Sends a request to etcd's JSON gateway.
    async fn ask_etcd(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut socket = UnixStream::connect(&self.etcd).await.context("connecting to etcd")?;
        socket.write_all(format!("{head}{body}").as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
        anyhow::ensure!(head.lines().next().is_some_and(|line| line.contains(" 200 ")), "{path}: {answer}");
        Ok(serde_json::from_str(body)?)
    }

    /// Waits until the server's watch cache has the newest state of an object: a consistent list waits for it. The server tries a
    /// patch on its cache first, and the answer keeps the warnings of that try, even if a newer state gives others.
    async fn catch_up(&self, path: &str) -> anyhow::Result<()> {
        let path = path.split('?').next().unwrap_or_default();
        let path = path.strip_suffix("/status").or_else(|| path.strip_suffix("/scale")).unwrap_or(path);
        let Some((collection, _)) = path.rsplit_once('/').filter(|(collection, _)| !collection.is_empty())
        else {
            return Ok(());
        };
        let list = http::Request::get(format!("{collection}?labelSelector=conformance%3Dnone"));
        // A collection that does not exist has no cache.
        let answer = self.client.send(list.body(Body::empty())?).await?;
        answer.into_body().collect_bytes().await?;
        Ok(())
    }

    /// Waits until the controllers of the server have set the conditions of a new CRD, which the model sets at once.
    async fn establish(&self, crd: &str) -> anyhow::Result<()> {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}");
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let response = self.client.send(http::Request::get(&path).body(Body::empty())?).await?;
            let (parts, stream) = response.into_parts();
            let answer = Answer::new(&parts, body(&parts, &stream.collect_bytes().await?));
            // A dry run creates nothing.
            if answer.code == 404 || is_established(&answer.body) {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        anyhow::bail!("{crd} is not established after {PATIENCE:?}")
    }

    async fn once(&mut self, step: &Step, variables: &Variables) -> anyhow::Result<Answer> {
        if step.watch == Watch::Read {
            let Some(lines) = self.watches.remove(step.client) else {
                return Ok(Answer::of_events(Value::Null));
            };
            return Ok(Answer::of_events(events(lines, step).await?));
        }
        let request = request(step, variables)?.map(Body::from);
        let sent = self.client.send(request).await;
        let response = sent.with_context(|| format!("{} {} as {}", step.method, step.path, step.accept))?;
        let (parts, stream) = response.into_parts();
        let body = match (step.watch, step.events) {
            (Watch::Open, _) if parts.status.is_success() => {
                self.watches.insert(step.client, lines(stream));
                Value::Null
            }
            (_, Some(_)) if parts.status.is_success() => events(lines(stream), step).await?,
            _ => body(&parts, &stream.collect_bytes().await?),
        };
        Ok(Answer::new(&parts, body))
    }
}

impl Arm for RealArm {
    async fn prepare(&mut self, namespace: &str) -> anyhow::Result<()> {
        let object = json!({"metadata": {"name": namespace}});
        let step = Step::new(http::Method::POST, "/api/v1/namespaces", Some(object));
        let answer = self.once(&step, &Variables::new()).await?;
        anyhow::ensure!(answer.code == 201, "creating the namespace {namespace}: {}", answer.body);
        Ok(())
    }

    async fn compact(&mut self) -> anyhow::Result<()> {
        let nothing = json!({"key": "AA==", "limit": "1", "keys_only": true});
        let answer = self.ask_etcd("/v3/kv/range", &nothing).await?;
        let compaction = json!({"revision": answer["header"]["revision"], "physical": true});
        self.ask_etcd("/v3/kv/compaction", &compaction).await?;
        Ok(())
    }

    async fn send(&mut self, step: &Step, variables: &Variables) -> anyhow::Result<Answer> {
        if step.method == http::Method::PATCH {
            self.catch_up(&step.path(variables)).await?;
        }
        let start = Instant::now();
        loop {
            let answer = self.once(step, variables).await?;
            // After each change of a CRD, the server rejects requests until its watch cache is filled, which takes a moment.
            let is_put_off = answer.code == 429;
            if (!is_put_off && step.is_answered(&answer)) || start.elapsed() > PATIENCE {
                if let Some(crd) = created_crd(&answer) {
                    self.establish(crd).await?;
                }
                return Ok(answer);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Returns the name of the CRD that a request created.
fn created_crd(answer: &Answer) -> Option<&str> {
    let is_created = answer.code == 201 && answer.body["kind"] == "CustomResourceDefinition";
    answer.body["metadata"]["name"].as_str().filter(|_| is_created)
}

/// Returns whether the server has decided about a CRD: it serves it, or its names are taken.
fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["reason"] != "Installing")
}

fn lines(stream: Body) -> Lines {
    stream.into_data_stream().map_err(std::io::Error::other).into_async_read().lines().boxed()
}

/// Takes events from a watch until there are enough, the server ends it, or no more events arrive.
async fn events(mut lines: Lines, step: &Step) -> anyhow::Result<Value> {
    let mut events = Vec::new();
    while !step.has_enough(&events) {
        let Ok(Some(line)) = tokio::time::timeout(SILENCE, lines.next()).await else { break };
        let event: Value = serde_json::from_str(&line?).context("an event that is no JSON")?;
        if !is_progress(&event) {
            events.push(event);
        }
    }
    Ok(Value::Array(events))
}

/// Returns whether an event is a bookmark that the server sends about once a minute, and so depends on the speed of the test.
fn is_progress(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event.pointer("/object/metadata/annotations").is_none()
}
