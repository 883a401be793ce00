//! Sorts the objects that Helm renders by how OLM installs them.

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

/// Labels that Helm sets for itself.
const OF_HELM: [&str; 2] = ["app.kubernetes.io/managed-by", "helm.sh/chart"];

/// The rendered objects of a controller.
pub(super) struct Objects {
    pub(super) crds: Vec<Value>,
    pub(super) deployment: Value,
    /// The rules in all namespaces.
    pub(super) cluster_rules: Vec<Value>,
    /// The rules in the namespace of the operator.
    pub(super) rules: Vec<Value>,
    /// Objects that OLM creates as they are, in the namespace of the operator.
    pub(super) others: Vec<Value>,
}

/// Sorts the objects of a release in this namespace.
///
/// # Errors
/// If a bundle can't contain an object.
pub(super) fn sort(rendered: Vec<Value>, namespace: &str) -> anyhow::Result<Objects> {
    let (mut crds, mut deployments, mut roles, mut bindings, mut others) = Default::default();
    for mut object in rendered {
        remove_labels(&mut object);
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let place = object["metadata"]["namespace"].as_str();
        ensure!(place.is_none_or(|place| place == namespace), "a {kind} in another namespace: {object}");
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        let list: &mut Vec<Value> = match &*kind {
            "CustomResourceDefinition" => {
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("annotations");
                }
                &mut crds
            }
            "Deployment" => &mut deployments,
            "Role" | "ClusterRole" => &mut roles,
            "RoleBinding" | "ClusterRoleBinding" => &mut bindings,
            "Service" | "PodDisruptionBudget" => &mut others,
            // OLM creates the accounts of Deployments.
            "ServiceAccount" => continue,
            _ => bail!("the chart renders a {kind}, which no bundle contains: {object}"),
        };
        list.push(object);
    }
    let (mut cluster_rules, mut rules) = (Vec::new(), Vec::new());
    for role in roles {
        let is_bound = |binding: &&Value| {
            binding["roleRef"]["kind"] == role["kind"]
                && binding["roleRef"]["name"] == role["metadata"]["name"]
        };
        let granted = if role["kind"] == "Role" { &mut rules } else { &mut cluster_rules };
        match bindings.iter().find(is_bound) {
            Some(_) => granted.extend(role["rules"].as_array().into_iter().flatten().cloned()),
            // It is aggregated into the roles of users.
            None => others.push(role),
        }
    }
    let [deployment] = <[Value; 1]>::try_from(deployments).ok().context("not one Deployment")?;
    Ok(Objects { crds, deployment, cluster_rules, rules, others })
}

/// Removes the labels of Helm, also from templates of pods.
fn remove_labels(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else { return };
    if let Some(labels) = fields.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|name, _| !OF_HELM.contains(&&**name));
    }
    for name in ["metadata", "spec", "template"] {
        if let Some(field) = fields.get_mut(name) {
            remove_labels(field);
        }
    }
}

/// Returns the spec of the Deployment with this image. The controller finds the namespace of its pod by itself.
pub(super) fn deployment_spec(deployment: &Value, image: &str) -> anyhow::Result<Value> {
    let mut spec = deployment["spec"].clone();
    let container = &mut spec["template"]["spec"]["containers"][0];
    container["image"] = json!(image);
    let arguments = container["args"].as_array_mut().context("no arguments")?;
    arguments.retain(|argument| !argument.as_str().is_some_and(|it| it.starts_with("--namespace=")));
    Ok(spec)
}
