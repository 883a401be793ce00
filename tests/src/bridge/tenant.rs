//! Who uses the cluster: makes objects, changes them and waits for what comes of it.

use anyhow::{Context as _, bail, ensure};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use super::objects::{SSH_KEY, docker_config, namespace, pool, secret, storage_class};
use crate::chart::apply;
use crate::ground::eventually;

/// A user with namespaces, an address and a StorageClass of their own.
pub struct Tenant {
    client: Client,
    /// The namespace of the bridges; that of the DPUClusters follows from it, and so do those of the control planes.
    pub namespace: String,
    /// The address of the load balancer.
    pub address: String,
    /// The repository with the release images.
    pub repository: String,
}

impl Tenant {
    /// Brings what is common to all of a user's bridges. The number tells the address.
    pub async fn move_in(client: Client, name: &str, number: u8, repository: String) -> anyhow::Result<Self> {
        let address = format!("192.0.2.{number}");
        let tenant = Self { client, namespace: name.to_owned(), address, repository };
        for name in ["metallb-system", name, &tenant.dpus()] {
            apply(&tenant.client, &namespace(name)).await?;
        }
        Ok(tenant)
    }

    /// Brings everything that a bridge needs but its DPUCluster.
    pub async fn provide(&self) -> anyhow::Result<()> {
        self.create(&storage_class(&self.namespace)).await?;
        self.create(&pool(&self.namespace, &format!("{}/32", self.address))).await?;
        self.create(&self.pull_secret("hunter2")).await?;
        self.create(&secret(&self.namespace, "ssh", "ssh-publickey", SSH_KEY)).await
    }

    /// The namespace of the DPUClusters.
    pub fn dpus(&self) -> String {
        format!("{}-dpus", self.namespace)
    }

    /// A pull secret for the registry.
    pub fn pull_secret(&self, password: &str) -> Value {
        let registry = self.repository.split('/').next().unwrap_or_default();
        secret(&self.namespace, "pull", ".dockerconfigjson", &docker_config(registry, password))
    }

    /// A release image.
    pub fn image(&self, tag: &str) -> String {
        format!("{}:{tag}", self.repository)
    }

    /// A bridge for one of the DPUClusters, which would be reached through the load balancer.
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

    async fn send(&self, method: Method, path: &str, content: &str, body: &Value) -> kube::Result<Value> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", content).body(body);
        self.client.request(request.map_err(kube::Error::HttpError)?).await
    }

    /// Creates an object.
    pub async fn create(&self, object: &Value) -> anyhow::Result<()> {
        let kind = object["kind"].as_str().context("an object without kind")?;
        let path = collection(kind, object["metadata"]["namespace"].as_str().unwrap_or_default())?;
        let created = self.send(Method::POST, &path, "application/json", object).await;
        created.map(drop).with_context(|| format!("creating {object}"))
    }

    /// Changes an object by a merge patch.
    pub async fn merge(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> anyhow::Result<()> {
        let path = format!("{}/{name}", collection(kind, namespace)?);
        self.send(Method::PATCH, &path, "application/merge-patch+json", patch).await.map(drop)?;
        Ok(())
    }

    /// Asks for an object to be deleted.
    pub async fn delete(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<()> {
        let path = format!("{}/{name}", collection(kind, namespace)?);
        self.send(Method::DELETE, &path, "application/json", &Value::Null).await.map(drop)?;
        Ok(())
    }

    /// An object; none if there is none.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let path = format!("{}/{name}", collection(kind, namespace)?);
        match self.send(Method::GET, &path, "application/json", &Value::Null).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// All objects of a kind in a namespace.
    pub async fn list(&self, kind: &str, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let path = collection(kind, namespace)?;
        let list = self.send(Method::GET, &path, "application/json", &Value::Null).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Changes the spec of a bridge.
    pub async fn change(&self, bridge: &str, spec: &Value) -> anyhow::Result<()> {
        self.merge("DPFHCPBridge", &self.namespace, bridge, &json!({ "spec": spec })).await
    }

    /// Waits until an object is as it should be, and returns it.
    pub async fn until(
        &self,
        what: &str,
        (kind, namespace, name): (&str, &str, &str),
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        eventually(what, async || {
            let object = self.get(kind, namespace, name).await?.context("there is none")?;
            ensure!(holds(&object), "{object:#}");
            Ok(object)
        })
        .await
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<()> {
        eventually(&format!("{kind} {name} is gone"), async || {
            match self.get(kind, namespace, name).await? {
                None => Ok(()),
                Some(object) => bail!("{object:#}"),
            }
        })
        .await
    }

    /// Waits until a bridge is in a phase, and returns it.
    pub async fn phase(&self, bridge: &str, phase: &str) -> anyhow::Result<Value> {
        let place = ("DPFHCPBridge", self.namespace.as_str(), bridge);
        self.until(&format!("{bridge} is {phase}"), place, |object| object["status"]["phase"] == phase).await
    }

    /// Waits until a condition of a bridge has this status and reason, and returns its message.
    pub async fn told(&self, bridge: &str, condition: &str, told: &str) -> anyhow::Result<String> {
        let place = ("DPFHCPBridge", self.namespace.as_str(), bridge);
        let what = format!("{bridge} tells {condition}={told}");
        let object = self.until(&what, place, |object| said(object, condition).0 == told).await?;
        Ok(said(&object, condition).1)
    }

    /// Waits until there is an event about a bridge, given as `type reason: note`.
    pub async fn event(&self, bridge: &str, wanted: &str) -> anyhow::Result<()> {
        eventually(wanted, async || {
            let events = self.events(bridge).await?;
            ensure!(events.iter().any(|event| event == wanted), "{events:#?}");
            Ok(())
        })
        .await
    }

    /// The events about a bridge, as `type reason: note`.
    pub async fn events(&self, bridge: &str) -> anyhow::Result<Vec<String>> {
        let events = self.list("Event", &self.namespace).await?;
        let about = events.iter().filter(|event| event["regarding"]["name"] == bridge);
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or("?").to_owned();
        Ok(about
            .map(|event| {
                format!("{} {}: {}", text(event, "type"), text(event, "reason"), text(event, "note"))
            })
            .collect())
    }
}

/// The status and reason of a condition, and its message.
fn said(object: &Value, condition: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|it| it["type"] == condition);
    let text = |field: &str| found.and_then(|it| it[field].as_str()).unwrap_or("?").to_owned();
    (format!("{}/{}", text("status"), text("reason")), text("message"))
}

/// The path of a kind's collection.
fn collection(kind: &str, namespace: &str) -> anyhow::Result<String> {
    let (api, plural) = match kind {
        "DPFHCPBridge" => ("apis/dpf.hcp.bridge.com/v1alpha1", "dpfhcpbridges"),
        "HostedCluster" => ("apis/hypershift.openshift.io/v1beta1", "hostedclusters"),
        "NodePool" => ("apis/hypershift.openshift.io/v1beta1", "nodepools"),
        "DPUCluster" => ("apis/provisioning.dpu.nvidia.com/v1alpha1", "dpuclusters"),
        "IPAddressPool" => ("apis/metallb.io/v1beta1", "ipaddresspools"),
        "Secret" => ("api/v1", "secrets"),
        "Event" => ("apis/events.k8s.io/v1", "events"),
        "Namespace" => return Ok("/api/v1/namespaces".to_owned()),
        "StorageClass" => return Ok("/apis/storage.k8s.io/v1/storageclasses".to_owned()),
        other => bail!("{other} is not known here"),
    };
    Ok(format!("/{api}/namespaces/{namespace}/{plural}"))
}
