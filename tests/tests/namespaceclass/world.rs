//! The operations of the operator's users, and the state that they see.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use lockstep_crds::namespaceclass::{
    AppliedResource, NamespaceClass, NamespaceClassBinding, NamespaceClassSpec,
};
use lockstep_tests::ground::{Ground, eventually};
use serde_json::{Value, json};

pub(crate) const LABEL: &str = "namespaceclass.akuity.io/name";

/// One of the backends, as users see it.
pub(crate) struct World {
    pub(crate) ground: &'static Ground,
    pub(crate) client: Client,
}

impl World {
    pub(crate) fn new(ground: &'static Ground) -> Self {
        Self { ground, client: ground.client() }
    }

    pub(crate) fn classes(&self) -> Api<NamespaceClass> {
        Api::all(self.client.clone())
    }

    pub(crate) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    pub(crate) fn bindings(&self, namespace: &str) -> Api<NamespaceClassBinding> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) fn config_maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) async fn define(&self, name: &str, resources: Vec<Value>) -> anyhow::Result<NamespaceClass> {
        let class =
            NamespaceClass::new(name, NamespaceClassSpec { resources, ..NamespaceClassSpec::default() });
        Ok(self.classes().create(&PostParams::default(), &class).await?)
    }

    pub(crate) async fn redefine(&self, name: &str, resources: Vec<Value>) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "resources": resources } }));
        self.classes().patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub(crate) async fn namespace(&self, name: &str, class: Option<&str>) -> anyhow::Result<()> {
        let labels = class.map(|class| BTreeMap::from([(LABEL.to_owned(), class.to_owned())]));
        let metadata = ObjectMeta { name: Some(name.to_owned()), labels, ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        self.namespaces().create(&PostParams::default(), &namespace).await?;
        Ok(())
    }

    pub(crate) async fn label(&self, namespace: &str, class: Option<&str>) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { LABEL: class } } }));
        self.namespaces().patch(namespace, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until the binding reports that this generation of the class is applied.
    pub(crate) async fn ready(&self, namespace: &str, class: &str) -> anyhow::Result<NamespaceClassBinding> {
        eventually("the binding is ready", async || {
            let generation = self.classes().get(class).await?.metadata.generation;
            let binding = self.bindings(namespace).get(namespace).await?;
            let status = binding.status.clone().unwrap_or_default();
            let ready = status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
            ensure!(
                ready
                    && status.observed_class_name == class
                    && Some(status.observed_class_generation) == generation,
                "{status:?}"
            );
            Ok(binding)
        })
        .await
    }

    pub(crate) async fn gone<K>(&self, api: &Api<K>, name: &str) -> anyhow::Result<()>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        eventually("the object is gone", async || match api.get_opt(name).await? {
            None => Ok(()),
            Some(_) => bail!("{name} is still there"),
        })
        .await
    }

    pub(crate) async fn value(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let map = self.config_maps(namespace).get(name).await?;
        Ok(map.data.and_then(|mut data| data.remove("value")).unwrap_or_default())
    }
}

pub(crate) fn settings(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": value } })
}

pub(crate) fn secret(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "pin": "4711" } })
}

pub(crate) fn account(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } })
}

pub(crate) fn listed(binding: &NamespaceClassBinding) -> Vec<String> {
    let status = binding.status.clone().unwrap_or_default();
    let name =
        |resource: AppliedResource| format!("{} {} {}", resource.api_version, resource.kind, resource.name);
    status.applied_resources.into_iter().map(name).collect()
}
