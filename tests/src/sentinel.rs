//! Configurations of Sentinels, and their status.
//!
//! No server runs at the addresses that they name, unless a test starts one: fleet and broker are unreachable.

use anyhow::{Context as _, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _};
use lockstep_crds::sentinel::{SentinelConfig, SentinelConfigStatus};
use serde_json::{Value, json};

use crate::ground::eventually;

/// Returns a valid spec of a Sentinel that polls often.
pub fn spec() -> Value {
    json!({
        "resourceType": "clusters",
        "hyperfleetAPI": {"url": "http://127.0.0.1:1", "timeout": "1s"},
        "broker": {"type": "rabbitmq", "topic": "events", "url": "amqp://127.0.0.1:1/"},
        "pollInterval": "100ms",
    })
}

/// A SentinelConfig.
#[derive(Debug, Clone)]
pub struct Config {
    api: Api<DynamicObject>,
    name: String,
}

impl Config {
    /// Returns the one with this name.
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        let resource = ApiResource::erase::<SentinelConfig>(&());
        Self { api: Api::namespaced_with(client.clone(), namespace, &resource), name: name.to_owned() }
    }

    /// Creates it, or returns why the API server rejects it.
    pub async fn create(&self, spec: &Value) -> kube::Result<Value> {
        let object = json!({
            "apiVersion": SentinelConfig::api_version(&()),
            "kind": SentinelConfig::kind(&()),
            "metadata": {"name": self.name},
            "spec": spec,
        });
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        Ok(self.api.create(&PostParams::default(), &object).await?.data["spec"].take())
    }

    /// Changes its spec.
    pub async fn change(&self, spec: &Value) -> anyhow::Result<()> {
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await?;
        Ok(())
    }

    /// Deletes it.
    pub async fn delete(&self) -> anyhow::Result<()> {
        self.api.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Returns its status.
    pub async fn status(&self) -> anyhow::Result<SentinelConfigStatus> {
        let mut object = self.api.get(&self.name).await?;
        let status: Option<SentinelConfigStatus> = serde_json::from_value(object.data["status"].take())?;
        Ok(status.unwrap_or_default())
    }

    /// Waits for a condition with this status and reason about the latest generation.
    pub async fn until_condition(
        &self,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> anyhow::Result<Condition> {
        eventually(&format!("{condition} is {status}, {reason}"), async || {
            let object = self.api.get(&self.name).await?;
            let generation = object.metadata.generation.context("no generation")?;
            let current = self.status().await?;
            let found = current
                .conditions
                .iter()
                .find(|c| c.type_ == condition)
                .with_context(|| format!("{current:?}"))?;
            ensure!(found.status == status && found.reason == reason, "{current:?}");
            ensure!(current.observed_generation == generation, "{generation}: {current:?}");
            Ok(found.clone())
        })
        .await
    }
}
