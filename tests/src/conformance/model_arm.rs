//! The API server model.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use lockstep_apiserver::server::{
    ApiServer, GarbageCollector, NamespaceController, Options, Response, WatchId,
};
use serde_json::{Value, json};

use super::answer::{Answer, body};
use super::arm::{Arm, request};
use super::scenario::{Step, Variables, Watch};

/// How many seconds of virtual time to wait for the condition of a step.
const PATIENCE_SECONDS: u32 = 60;

/// A model of its own, with a garbage collector and a namespace controller that run only while a step waits. The real control
/// plane has no other controllers.
pub struct ModelArm {
    server: ApiServer,
    garbage: GarbageCollector,
    namespaces: NamespaceController,
    now: Timestamp,
    /// The open watch of each client.
    watches: BTreeMap<&'static str, WatchId>,
}

impl Default for ModelArm {
    fn default() -> Self {
        let options = Options::default();
        // A table shows the times of specimens as ages only if they are past.
        let now = options.start + SignedDuration::from_hours(24 * 365 * 60);
        let server = ApiServer::new(&Options { start: now, ..options });
        Self {
            server,
            garbage: GarbageCollector::default(),
            namespaces: NamespaceController::default(),
            now,
            watches: BTreeMap::new(),
        }
    }
}

impl ModelArm {
    fn once(&mut self, step: &Step, variables: &Variables) -> anyhow::Result<Answer> {
        self.now += SignedDuration::from_millis(1);
        if step.watch == Watch::Read {
            let Some(id) = self.watches.remove(step.client) else {
                return Ok(Answer::of_events(Value::Null));
            };
            return Ok(Answer::of_events(self.events(id, step)?));
        }
        let request = request(step, variables)?.map(Bytes::from);
        match self.server.handle(&request, self.now) {
            Response::Complete(response) => {
                let (parts, bytes) = response.into_parts();
                let body = body(&parts, &bytes);
                Ok(Answer::new(&parts, body))
            }
            Response::Watch(response, id) if step.watch == Watch::Open => {
                if let Some(earlier) = self.watches.insert(step.client, id) {
                    self.server.cancel_watch(earlier);
                }
                Ok(Answer::new(&response.into_parts().0, Value::Null))
            }
            Response::Watch(response, id) => {
                let events = self.events(id, step)?;
                Ok(Answer::new(&response.into_parts().0, events))
            }
        }
    }

    /// Takes events from a watch until there are enough, or until no more are available.
    fn events(&mut self, id: WatchId, step: &Step) -> anyhow::Result<Value> {
        let mut events = Vec::new();
        'enough: loop {
            let poll = self.server.poll_watch(id, self.now);
            let silent = poll.events.is_empty();
            for event in poll.events {
                if step.has_enough(&events) {
                    break 'enough;
                }
                events.push(serde_json::from_slice(&event.encode())?);
            }
            if silent || poll.closed {
                break;
            }
        }
        self.server.cancel_watch(id);
        Ok(Value::Array(events))
    }
}

impl Arm for ModelArm {
    async fn prepare(&mut self, namespace: &str) -> anyhow::Result<()> {
        let object = json!({"metadata": {"name": namespace}});
        let step = Step::new(http::Method::POST, "/api/v1/namespaces", Some(object));
        let answer = self.once(&step, &Variables::new())?;
        anyhow::ensure!(answer.code == 201, "creating the namespace {namespace}: {}", answer.body);
        Ok(())
    }

    async fn compact(&mut self) -> anyhow::Result<()> {
        self.server.compact();
        Ok(())
    }

    async fn send(&mut self, step: &Step, variables: &Variables) -> anyhow::Result<Answer> {
        let mut answer = self.once(step, variables)?;
        for _ in 0..PATIENCE_SECONDS {
            if step.is_answered(&answer) {
                break;
            }
            self.now += SignedDuration::from_secs(1);
            self.garbage.tick(&mut self.server, self.now);
            self.namespaces.tick(&mut self.server, self.now);
            answer = self.once(step, variables)?;
        }
        Ok(answer)
    }
}
