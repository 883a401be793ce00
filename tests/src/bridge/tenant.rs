//! A user of the Bridge.

use std::ops::Deref;

use anyhow::ensure;
use kube::Client;
use serde_json::{Value, json};

use super::objects::{SSH_KEY, docker_config, namespace, pool, secret, storage_class};
use crate::chart::apply;
use crate::ground::eventually;
use crate::user::User;

/// A user with namespaces, an address and a StorageClass of their own.
pub struct Tenant {
    user: User,
    /// The namespace of the bridges. The namespaces of the DPUClusters and of the control planes are derived from it.
    pub namespace: String,
    /// The address of the load balancer.
    pub address: String,
    /// The repository with the release images.
    pub repository: String,
}

impl Tenant {
    /// Creates the objects that all of a user's bridges share. The number determines the address.
    pub async fn move_in(client: Client, name: &str, number: u8, repository: String) -> anyhow::Result<Self> {
        let address = format!("192.0.2.{number}");
        let tenant = Self { user: User { client }, namespace: name.to_owned(), address, repository };
        for name in ["metallb-system", name, &tenant.dpus()] {
            apply(&tenant.client, &namespace(name)).await?;
        }
        Ok(tenant)
    }

    /// Creates everything that a bridge needs except its DPUCluster.
    pub async fn provide(&self) -> anyhow::Result<()> {
        self.create(&pool(&self.namespace, &format!("{}/32", self.address))).await?;
        self.provide_all_but_pool().await
    }

    /// Creates the same except the pool.
    pub async fn provide_all_but_pool(&self) -> anyhow::Result<()> {
        self.create(&storage_class(&self.namespace)).await?;
        self.create(&self.pull_secret("hunter2")).await?;
        self.create(&secret(&self.namespace, "ssh", "ssh-publickey", SSH_KEY)).await
    }

    /// Returns the namespace of the DPUClusters.
    pub fn dpus(&self) -> String {
        format!("{}-dpus", self.namespace)
    }

    /// Returns a pull secret for the registry.
    pub fn pull_secret(&self, password: &str) -> Value {
        let registry = self.repository.split('/').next().unwrap_or_default();
        secret(&self.namespace, "pull", ".dockerconfigjson", &docker_config(registry, password))
    }

    /// Returns a release image.
    pub fn image(&self, tag: &str) -> String {
        format!("{}:{tag}", self.repository)
    }

    /// Returns a bridge for one of the DPUClusters, which is reached through the load balancer.
    pub fn bridge(&self, name: &str, dpu_cluster: &str) -> Value {
        json!({
            "apiVersion": "dpf.hcp.bridge.com/v1alpha1",
            "kind": "DPFHCPBridge",
            "metadata": { "name": name, "namespace": self.namespace },
            "spec": {
                "dpuClusterRef": { "name": dpu_cluster, "namespace": self.dpus() },
                "baseDomain": "clusters.example.com",
                "ocpReleaseImage": self.image("4.19.3"),
                "sshKeySecretRef": { "name": "ssh" },
                "pullSecretRef": { "name": "pull" },
                "etcdStorageClass": self.namespace,
                "controlPlaneAvailabilityPolicy": "HighlyAvailable",
                "infrastructureAvailabilityPolicy": "HighlyAvailable",
                "exposeThroughLoadBalancer": true,
                "metalLBVirtualIP": self.address,
                "clusterType": "dpf-production",
            },
        })
    }

    /// Returns the same, reached through node ports.
    pub fn bridge_on_node_ports(&self, name: &str, dpu_cluster: &str) -> Value {
        let mut bridge = self.bridge(name, dpu_cluster);
        bridge["spec"]["exposeThroughLoadBalancer"] = json!(false);
        bridge["spec"]["metalLBVirtualIP"] = json!("");
        bridge
    }

    /// Changes the spec of a bridge.
    pub async fn change(&self, bridge: &str, spec: &Value) -> anyhow::Result<()> {
        self.merge("DPFHCPBridge", &self.namespace, bridge, &json!({ "spec": spec })).await
    }

    /// Waits until a bridge is in a phase, and returns it.
    pub async fn phase(&self, bridge: &str, phase: &str) -> anyhow::Result<Value> {
        let place = ("DPFHCPBridge", self.namespace.as_str(), bridge);
        self.until(&format!("{bridge} is {phase}"), place, |object| object["status"]["phase"] == phase).await
    }

    /// Waits until a condition of a bridge has this status and reason, and returns its message.
    pub async fn until_condition(
        &self,
        bridge: &str,
        condition: &str,
        state: &str,
    ) -> anyhow::Result<String> {
        self.user.until_condition(("DPFHCPBridge", &self.namespace, bridge), condition, state).await
    }

    /// Waits for an event about a bridge, given as `type reason: note`.
    pub async fn event(&self, bridge: &str, wanted: &str) -> anyhow::Result<()> {
        eventually(wanted, async || {
            let events = self.events(bridge).await?;
            ensure!(events.iter().any(|event| event == wanted), "{events:#?}");
            Ok(())
        })
        .await
    }

    /// Waits until an event about a bridge, given as `type reason: note`, has occurred so often.
    pub async fn event_times(&self, bridge: &str, wanted: &str, times: u64) -> anyhow::Result<()> {
        eventually(&format!("{times} times {wanted}"), async || {
            let events = self.user.counted_events(&self.namespace, bridge).await?;
            let counted: u64 =
                events.iter().filter(|(event, _)| event == wanted).map(|(_, times)| times).sum();
            ensure!(counted == times, "{events:#?}");
            Ok(())
        })
        .await
    }

    /// Returns the events about a bridge, as `type reason: note`.
    pub async fn events(&self, bridge: &str) -> anyhow::Result<Vec<String>> {
        self.user.events(&self.namespace, bridge).await
    }
}

impl Deref for Tenant {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}
