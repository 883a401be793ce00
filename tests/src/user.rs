//! A user of a cluster: creates and changes objects, and waits for the results.

use anyhow::{Context as _, bail, ensure};
use http::{Method, Request};
use kube::Client;
use serde_json::Value;

use crate::ground::eventually;

/// A user with a client.
#[derive(Clone)]
pub struct User {
    /// The client of the cluster.
    pub client: Client,
}

impl User {
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

    /// Requests the deletion of an object.
    pub async fn delete(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<()> {
        let path = format!("{}/{name}", collection(kind, namespace)?);
        self.send(Method::DELETE, &path, "application/json", &Value::Null).await.map(drop)?;
        Ok(())
    }

    /// Returns an object; `None` if it does not exist.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let path = format!("{}/{name}", collection(kind, namespace)?);
        match self.send(Method::GET, &path, "application/json", &Value::Null).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns all objects of a kind in a namespace.
    pub async fn list(&self, kind: &str, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let path = collection(kind, namespace)?;
        let list = self.send(Method::GET, &path, "application/json", &Value::Null).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until an object meets a condition, and returns it.
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

    /// Waits until a condition of an object has this status and reason, and returns its message.
    pub async fn until_condition(
        &self,
        place: (&str, &str, &str),
        condition: &str,
        state: &str,
    ) -> anyhow::Result<String> {
        let what = format!("{} {} has {condition}={state}", place.0, place.2);
        let object = self.until(&what, place, |object| said(object, condition).0 == state).await?;
        Ok(said(&object, condition).1)
    }

    /// Returns the events about an object of this name, as `type reason: note`.
    pub async fn events(&self, namespace: &str, name: &str) -> anyhow::Result<Vec<String>> {
        Ok(self.counted_events(namespace, name).await?.into_iter().map(|(event, _)| event).collect())
    }

    /// Returns the same with the count of each.
    pub async fn counted_events(&self, namespace: &str, name: &str) -> anyhow::Result<Vec<(String, u64)>> {
        let events = self.list("Event", namespace).await?;
        let about = events.iter().filter(|event| event["regarding"]["name"] == name);
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or("?").to_owned();
        let counted = about.map(|event| {
            let line = format!("{} {}: {}", text(event, "type"), text(event, "reason"), text(event, "note"));
            (line, event["series"]["count"].as_u64().unwrap_or(1))
        });
        Ok(counted.collect())
    }
}

/// Returns the status and reason of a condition, and its message.
fn said(object: &Value, condition: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|it| it["type"] == condition);
    let text = |field: &str| found.and_then(|it| it[field].as_str()).unwrap_or("?").to_owned();
    (format!("{}/{}", text("status"), text("reason")), text("message"))
}

/// Returns the path of a kind's collection.
fn collection(kind: &str, namespace: &str) -> anyhow::Result<String> {
    let (api, plural) = match kind {
        "NamespaceClassBinding" => ("apis/namespaceclass.akuity.io/v1alpha1", "namespaceclassbindings"),
        "DPUService" => ("apis/svc.dpu.nvidia.com/v1alpha1", "dpuservices"),
        "Application" => ("apis/argoproj.io/v1alpha1", "applications"),
        "AppProject" => ("apis/argoproj.io/v1alpha1", "appprojects"),
        "ConfigMap" => ("api/v1", "configmaps"),
        "Deployment" => ("apis/apps/v1", "deployments"),
        "DPFHCPBridge" => ("apis/dpf.hcp.bridge.com/v1alpha1", "dpfhcpbridges"),
        "HostedCluster" => ("apis/hypershift.openshift.io/v1beta1", "hostedclusters"),
        "NodePool" => ("apis/hypershift.openshift.io/v1beta1", "nodepools"),
        "DPUCluster" => ("apis/provisioning.dpu.nvidia.com/v1alpha1", "dpuclusters"),
        "IPAddressPool" => ("apis/metallb.io/v1beta1", "ipaddresspools"),
        "L2Advertisement" => ("apis/metallb.io/v1beta1", "l2advertisements"),
        "Secret" => ("api/v1", "secrets"),
        "Service" => ("api/v1", "services"),
        "ServiceAccount" => ("api/v1", "serviceaccounts"),
        "LimitRange" => ("api/v1", "limitranges"),
        "ResourceQuota" => ("api/v1", "resourcequotas"),
        "NetworkPolicy" => ("apis/networking.k8s.io/v1", "networkpolicies"),
        "Event" => ("apis/events.k8s.io/v1", "events"),
        "NamespaceClass" => {
            return Ok("/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses".to_owned());
        }
        "Namespace" => return Ok("/api/v1/namespaces".to_owned()),
        "Node" => return Ok("/api/v1/nodes".to_owned()),
        "CustomResourceDefinition" => {
            return Ok("/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned());
        }
        "StorageClass" => return Ok("/apis/storage.k8s.io/v1/storageclasses".to_owned()),
        other => bail!("{other} is not known here"),
    };
    Ok(format!("/{api}/namespaces/{namespace}/{plural}"))
}
