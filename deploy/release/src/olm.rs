//! OLM bundles: controllers as packages of the Operator Lifecycle Manager, generated from what Helm renders.
//!
//! There is a bundle for each controller that OLM can install. Sentinels are not among them, because a Deployment for each shard
//! follows from the values of the chart. Nor is the DPUService controller: OLM grants permissions in all namespaces or in that
//! of the operator, and this controller may write Secrets in the namespace of Argo CD only.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{fs, iter};

use anyhow::{Context as _, ensure};
use lockstep_engine::yaml;
use serde_json::{Map, Value, json};

use self::package::{NAMESPACE, PACKAGES, Package};
use crate::image;

mod csv;
mod objects;
mod package;

/// The directories of a bundle.
const MANIFESTS: &str = "manifests/";
const METADATA: &str = "metadata/";

/// Returns the bundles as archives of images, by their file names. The controllers run this image.
///
/// # Errors
/// If Helm is missing or fails, or if the chart contains objects that a bundle can't contain.
pub fn bundles(checkout: &Path, helm: &Path, image: &str) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let bundles = PACKAGES.iter().map(|package| {
        let files = files(package, checkout, helm, image)?;
        let archive = image::files(&format!("{}-bundle", package.name()), files, &labels(package))?;
        Ok((format!("lockstep-olm-{}.tar", package.controller), archive))
    });
    bundles.collect()
}

/// Returns the files of a bundle.
fn files(
    package: &Package,
    checkout: &Path,
    helm: &Path,
    image: &str,
) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let chart = checkout.join("deploy/lockstep");
    let rendered = objects::sort(render(package, &chart, helm)?, NAMESPACE)?;
    let about: Value = yaml::read(&read(&chart.join("Chart.yaml"))?)?;
    let example: Value = yaml::read(&read(&checkout.join(package.example))?)?;
    let csv = csv::document(package, &about, &rendered, &example, image)?;
    let name = format!("{}.clusterserviceversion", package.name());
    let manifests = rendered.crds.iter().chain(&rendered.others).map(|object| {
        let (kind, name) = (object["kind"].as_str(), object["metadata"]["name"].as_str());
        (format!("{}.{}", name.unwrap_or_default(), kind.unwrap_or_default().to_lowercase()), object)
    });
    let mut files = BTreeMap::new();
    for (name, object) in manifests.chain(iter::once((name, &csv))) {
        files.insert(format!("{MANIFESTS}{name}.yaml"), yaml::write(object)?.into_bytes());
    }
    let annotations = json!({"annotations": labels(package)});
    files.insert(format!("{METADATA}annotations.yaml"), yaml::write(&annotations)?.into_bytes());
    Ok(files)
}

/// Returns what Helm renders for a controller alone.
fn render(package: &Package, chart: &Path, helm: &Path) -> anyhow::Result<Vec<Value>> {
    let output = Command::new(helm)
        .args(["template", "lockstep", "--namespace", NAMESPACE, "--skip-tests"])
        .args(["--set", "namespaceclass.enabled=false", "--set"])
        .arg(format!("{}.enabled=true", package.controller))
        .arg(chart)
        .output()
        .with_context(|| format!("starting {}", helm.display()))?;
    ensure!(output.status.success(), "helm template failed: {}", String::from_utf8_lossy(&output.stderr));
    yaml::read_all(&String::from_utf8(output.stdout)?).context("reading what helm rendered")
}

/// Returns the labels of the image, which are also in a file of the bundle.
fn labels(package: &Package) -> Value {
    let name = package.name();
    let labels = [
        ("mediatype.v1", "registry+v1"),
        ("manifests.v1", MANIFESTS),
        ("metadata.v1", METADATA),
        ("package.v1", &*name),
        ("channels.v1", "alpha"),
        ("channel.default.v1", "alpha"),
    ];
    let labels = labels
        .map(|(name, value)| (format!("operators.operatorframework.io.bundle.{name}"), Value::from(value)));
    Value::Object(Map::from_iter(labels))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}
