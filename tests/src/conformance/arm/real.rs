//! The real kube-apiserver.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::{Answer, Arm, body, head, request};
use crate::conformance::scenario::{Step, Variables};

/// How long to wait for what happens by itself: events of a watch, and what a step's `until` names.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait for events that do not come.
const SILENCE: Duration = Duration::from_secs(2);

/// The real server.
pub struct RealArm {
    client: Client,
}

impl RealArm {
    /// Speaks through a client of an administrator.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    async fn once(&self, step: &Step, variables: &Variables) -> anyhow::Result<Answer> {
        let response = self.client.send(request(step, variables)?.map(Body::from)).await?;
        let (parts, stream) = response.into_parts();
        let body = match step.events {
            Some(wanted) if parts.status.is_success() => events(stream, wanted).await?,
            _ => body(&stream.collect_bytes().await?),
        };
        Ok(head(&parts, body))
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

    async fn send(&mut self, step: &Step, variables: &Variables) -> anyhow::Result<Answer> {
        let start = Instant::now();
        loop {
            let answer = self.once(step, variables).await?;
            if step.until.is_none_or(|code| code == answer.code) || start.elapsed() > PATIENCE {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Takes events off a watch until there are enough, the server ends it, or it falls silent.
async fn events(stream: Body, wanted: usize) -> anyhow::Result<Value> {
    let mut lines = stream.into_data_stream().map_err(std::io::Error::other).into_async_read().lines();
    let mut events = Vec::new();
    while events.len() < wanted {
        let Ok(Some(line)) = tokio::time::timeout(SILENCE, lines.next()).await else { break };
        events.push(serde_json::from_str(&line?).context("an event that is no JSON")?);
    }
    Ok(Value::Array(events))
}
