//! The `ClusterServiceVersion` of a package.

use anyhow::Context as _;
use lockstep_engine::yaml;
use serde_json::{Value, json};

use super::objects::{Objects, deployment_spec};
use super::package::{NAMESPACE, Package, VERSION};

/// The modes in which OLM can install an operator, and whether ours support them. Classes, namespaces and bridges are watched in the
/// whole cluster.
const INSTALL_MODES: [(&str, bool); 4] =
    [("OwnNamespace", false), ("SingleNamespace", false), ("MultiNamespace", false), ("AllNamespaces", true)];

/// Returns the document. `about` is the Chart.yaml.
pub(super) fn document(
    package: &Package,
    about: &Value,
    objects: &Objects,
    example: &Value,
    image: &str,
) -> anyhow::Result<Value> {
    let account = objects.deployment["spec"]["template"]["spec"]["serviceAccountName"].clone();
    let permissions = |rules: &[Value]| json!([{"serviceAccountName": account, "rules": rules}]);
    let crds = owned(about, &objects.crds)?;
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{}.v{VERSION}", package.name()),
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": serde_json::to_string_pretty(&json!([example]))?,
                "capabilities": "Seamless Upgrades",
                "categories": package.categories,
                "containerImage": image,
                "description": package.summary,
                "operatorframework.io/suggested-namespace": NAMESPACE,
                "operators.operatorframework.io/internal-objects": internal(&objects.crds, example).to_string(),
            },
        },
        "spec": {
            "displayName": package.display_name,
            "description": package.description,
            "version": VERSION,
            "maturity": "alpha",
            "minKubeVersion": oldest(about)?,
            "keywords": about["keywords"],
            "maintainers": about["maintainers"],
            "provider": {"name": about["maintainers"][0]["name"]},
            "icon": [icon(about)?],
            "installModes": INSTALL_MODES.map(|(mode, supported)| json!({"type": mode, "supported": supported})),
            "install": {
                "strategy": "deployment",
                "spec": {
                    "clusterPermissions": permissions(&objects.cluster_rules),
                    "permissions": permissions(&objects.rules),
                    "deployments": [{
                        "name": objects.deployment["metadata"]["name"],
                        "label": objects.deployment["metadata"]["labels"],
                        "spec": deployment_spec(&objects.deployment, image)?,
                    }],
                },
            },
            "customresourcedefinitions": {"owned": crds},
            "relatedImages": [{"name": "lockstep", "image": image}],
        },
    }))
}

/// Returns the descriptions of the CRDs. Their texts are those of the chart.
fn owned(about: &Value, crds: &[Value]) -> anyhow::Result<Vec<Value>> {
    let texts = about["annotations"]["artifacthub.io/crds"].as_str().context("Chart.yaml lists no CRDs")?;
    let texts: Vec<Value> = yaml::read(texts)?;
    let described = crds.iter().map(|crd| {
        let name = &crd["metadata"]["name"];
        let text = texts.iter().find(|text| text["name"] == *name);
        let text = text.with_context(|| format!("Chart.yaml does not list the CRD {name}"))?;
        Ok(json!({
            "name": name,
            "kind": crd["spec"]["names"]["kind"],
            "version": crd["spec"]["versions"][0]["name"],
            "displayName": text["displayName"],
            "description": text["description"],
        }))
    });
    described.collect()
}

/// Returns the names of the CRDs with objects that only the controller creates.
fn internal(crds: &[Value], example: &Value) -> Value {
    let internal = crds.iter().filter(|crd| crd["spec"]["names"]["kind"] != example["kind"]);
    internal.map(|crd| crd["metadata"]["name"].clone()).collect()
}

/// Returns the oldest version of Kubernetes, which Chart.yaml has as `>=1.27.0-0`.
fn oldest(about: &Value) -> anyhow::Result<&str> {
    let range = about["kubeVersion"].as_str().context("Chart.yaml has no kubeVersion")?;
    range
        .strip_prefix(">=")
        .and_then(|range| range.strip_suffix("-0"))
        .context("kubeVersion is not >=x.y.z-0")
}

/// Returns the icon, which Chart.yaml has as a `data:` URL.
fn icon(about: &Value) -> anyhow::Result<Value> {
    let url = about["icon"].as_str().context("Chart.yaml has no icon")?;
    let (kind, data) =
        url.strip_prefix("data:").and_then(|url| url.split_once(";base64,")).context("not a data: URL")?;
    Ok(json!({"base64data": data, "mediatype": kind}))
}
