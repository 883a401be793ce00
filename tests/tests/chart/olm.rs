//! Tests the files of the OLM bundles by the rules of operator-sdk, and compares them with the chart.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, ensure};
use kube::ResourceExt as _;
use lockstep_cli::permissions::{BRIDGE, LEASE_VERBS, NAMESPACECLASS};
use lockstep_engine::yaml;
use lockstep_release::olm;
use lockstep_tests::access::{describe, grants};
use lockstep_tests::chart::{apply, install_crd, is_crd, named, render};
use lockstep_tests::control_plane::{self, ControlPlane};
use lockstep_tests::image::Image;
use lockstep_tests::program::workspace;
use serde_json::{Value, json};

const IMAGE: &str = "registry.example.com/lockstep:1";
/// The kinds that OLM creates from the manifests of a bundle, of those that the chart can render.
const KINDS: [&str; 5] =
    ["ClusterRole", "ClusterServiceVersion", "CustomResourceDefinition", "PodDisruptionBudget", "Service"];

/// A bundle, as an image contains it.
struct Bundle {
    controller: &'static str,
    manifests: Vec<Value>,
    annotations: Value,
    image: Image,
}

impl Bundle {
    fn csv(&self) -> anyhow::Result<&Value> {
        let mut found = self.manifests.iter().filter(|object| object["kind"] == "ClusterServiceVersion");
        let csv = found.next().context("no ClusterServiceVersion")?;
        ensure!(found.next().is_none(), "more than one ClusterServiceVersion");
        Ok(csv)
    }

    fn crds(&self) -> impl Iterator<Item = &Value> {
        self.manifests.iter().filter(|object| is_crd(object))
    }
}

/// Returns all bundles.
fn bundles() -> anyhow::Result<Vec<Bundle>> {
    let archives = olm::bundles(workspace(), &control_plane::helm()?, IMAGE)?;
    let controllers = ["namespaceclass", "bridge"];
    ensure!(archives.len() == controllers.len(), "{:?}", archives.keys());
    let bundles = controllers.into_iter().map(|controller| {
        let archive = archives.get(&format!("lockstep-olm-{controller}.tar")).context("no such bundle")?;
        let image = Image::unpack(archive)?;
        let mut manifests = Vec::new();
        for file in fs::read_dir(image.root().join("manifests"))? {
            manifests.push(yaml::read(&fs::read_to_string(file?.path())?)?);
        }
        let annotations = yaml::read(&fs::read_to_string(image.root().join("metadata/annotations.yaml"))?)?;
        Ok(Bundle { controller, manifests, annotations, image })
    });
    bundles.collect()
}

#[test]
fn a_bundle_names_its_package_in_a_file_and_in_the_labels_of_the_image() -> anyhow::Result<()> {
    for bundle in bundles()? {
        let config = bundle.image.configuration.config().as_ref().context("no configuration")?;
        let labels = json!(config.labels().as_ref().context("no labels")?);
        assert_eq!(bundle.annotations, json!({"annotations": labels}));
        let (start, package) =
            ("operators.operatorframework.io.bundle", format!("lockstep-{}", bundle.controller));
        for (name, value) in [
            ("mediatype.v1", "registry+v1"),
            ("manifests.v1", "manifests/"),
            ("metadata.v1", "metadata/"),
            ("package.v1", &*package),
            ("channels.v1", "alpha"),
            ("channel.default.v1", "alpha"),
        ] {
            assert_eq!(labels[format!("{start}.{name}")], value);
        }
    }
    Ok(())
}

#[test]
fn the_cluster_service_version_has_all_required_fields() -> anyhow::Result<()> {
    for bundle in bundles()? {
        let csv = bundle.csv()?;
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(csv["metadata"]["name"], format!("lockstep-{}.v{version}", bundle.controller));
        assert_eq!(csv["spec"]["version"], version);
        assert_eq!(csv["spec"]["minKubeVersion"], "1.27.0");
        for field in
            ["displayName", "description", "keywords", "maintainers", "provider", "icon", "relatedImages"]
        {
            let value = &csv["spec"][field];
            ensure!(!value.is_null() && *value != "" && *value != json!([]), "{field}: {value}");
        }
        let modes = json!([
            {"type": "OwnNamespace", "supported": false},
            {"type": "SingleNamespace", "supported": false},
            {"type": "MultiNamespace", "supported": false},
            {"type": "AllNamespaces", "supported": true},
        ]);
        assert_eq!(csv["spec"]["installModes"], modes);
        assert_eq!(csv["spec"]["install"]["strategy"], "deployment");
        ensure!(csv["spec"]["icon"][0]["mediatype"] == "image/svg+xml");
    }
    Ok(())
}

#[test]
fn a_bundle_owns_its_crds_and_has_an_example_of_what_users_create() -> anyhow::Result<()> {
    for bundle in bundles()? {
        let csv = bundle.csv()?;
        let owned = csv["spec"]["customresourcedefinitions"]["owned"].as_array().context("no CRDs")?;
        let names = |crd: &Value| [&crd["name"], &crd["kind"], &crd["version"]].map(Value::to_string);
        let listed: BTreeSet<_> = owned.iter().map(names).collect();
        let contained: BTreeSet<_> = bundle
            .crds()
            .map(|crd| {
                let (names, version) = (&crd["spec"]["names"], &crd["spec"]["versions"][0]);
                [&crd["metadata"]["name"], &names["kind"], &version["name"]].map(Value::to_string)
            })
            .collect();
        assert_eq!(listed, contained);
        for expected in lockstep_crds::of(bundle.controller) {
            let crd = named(&bundle.manifests, "CustomResourceDefinition", &expected.name_any())?;
            assert_eq!(crd["spec"], serde_json::to_value(&expected.spec)?);
        }
        for text in owned.iter().flat_map(|crd| [&crd["displayName"], &crd["description"]]) {
            ensure!(text.as_str().is_some_and(|text| !text.is_empty()), "{owned:?}");
        }

        let annotation = |name: &str| {
            let text = csv["metadata"]["annotations"][name].as_str().context("no annotation")?;
            anyhow::Ok(serde_json::from_str::<Value>(text)?)
        };
        let examples = annotation("alm-examples")?;
        let internal = annotation("operators.operatorframework.io/internal-objects")?;
        for crd in owned {
            let is_example = |example: &Value| example["kind"] == crd["kind"];
            let has_example = examples.as_array().is_some_and(|all| all.iter().any(is_example));
            let is_internal = internal.as_array().is_some_and(|all| all.contains(&crd["name"]));
            ensure!(has_example != is_internal, "{crd}");
        }
    }
    Ok(())
}

#[test]
fn a_bundle_grants_what_the_chart_grants() -> anyhow::Result<()> {
    for bundle in bundles()? {
        let install = &bundle.csv()?["spec"]["install"]["spec"];
        let deployment = &install["deployments"][0];
        let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
        let granted = |scope: &str| {
            assert_eq!(install[scope].as_array().map(Vec::len), Some(1));
            assert_eq!(install[scope][0]["serviceAccountName"], *account);
            grants(install[scope][0]["rules"].as_array().into_iter().flatten())
        };
        let lease = format!("lockstep-{}", bundle.controller);
        let mut needed: BTreeSet<String> = describe((LEASE_VERBS, "coordination.k8s.io", "leases", ""))
            .map(|permission| format!("{permission}{lease}"))
            .collect();
        needed.extend(describe(("create", "coordination.k8s.io", "leases", "")));
        assert_eq!(granted("permissions"), needed);
        if bundle.controller == "bridge" {
            assert_eq!(granted("clusterPermissions"), BRIDGE.into_iter().flat_map(describe).collect());
        } else {
            // It also has those on the kinds in classes, which the chart's own test counts.
            let objects = render("olm", "{}")?;
            let role = named(&objects, "ClusterRole", "olm-lockstep-namespaceclass")?;
            assert_eq!(granted("clusterPermissions"), grants(role["rules"].as_array().context("no rules")?));
            ensure!(
                granted("clusterPermissions")
                    .is_superset(&NAMESPACECLASS.into_iter().flat_map(describe).collect())
            );
        }
    }
    Ok(())
}

/// OLM chooses the namespace, and creates the accounts of the Deployments.
#[tokio::test]
async fn the_api_server_accepts_what_olm_creates_in_a_namespace_of_its_choice() -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    let namespace = "olm-chosen";
    apply(&client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
        .await?;
    for bundle in bundles()? {
        let csv = bundle.csv()?;
        let deployments =
            csv["spec"]["install"]["spec"]["deployments"].as_array().context("no Deployments")?;
        let deployments = deployments.iter().map(|deployment| {
            let metadata = json!({"name": deployment["name"], "labels": deployment["label"]});
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment["spec"]})
        });
        let others = bundle.manifests.iter().filter(|object| !is_crd(object) && *object != csv).cloned();
        for crd in bundle.crds() {
            install_crd(&client, crd).await?;
        }
        for mut object in deployments.chain(others) {
            let text = object.to_string();
            ensure!(!text.contains("lockstep-system") && !text.contains("\"Helm\""), "{text}");
            ensure!(object["kind"] != "Deployment" || text.contains(IMAGE), "{text}");
            if object["kind"] != "ClusterRole" {
                object["metadata"]["namespace"] = json!(namespace);
            }
            apply(&client, &object).await?;
        }
        for object in &bundle.manifests {
            let kind = object["kind"].as_str().unwrap_or_default();
            ensure!(KINDS.contains(&kind), "OLM creates no {kind}");
        }
    }
    Ok(())
}
