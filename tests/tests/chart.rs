//! Tests the Helm chart: its rendered objects, whether a real API server accepts them, and whether the operator works with the
//! permissions that it grants.

#[path = "chart/account.rs"]
mod account;
#[path = "chart/applied.rs"]
mod applied;
#[path = "chart/olm.rs"]
mod olm;
#[path = "chart/options.rs"]
mod options;
#[path = "chart/readme.rs"]
mod readme;
#[path = "chart/refused.rs"]
mod refused;

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lockstep_engine::yaml;
use lockstep_tests::access::Account;
use lockstep_tests::chart::{apply, install, is_crd, is_foreign, named, only, render, template};
use lockstep_tests::control_plane::{self, ControlPlane};
use lockstep_tests::ground::eventually;
use lockstep_tests::program::workspace;
use serde_json::{Value, json};

const EVERYTHING: &str = r#"
image: {repository: registry.example.com/lockstep, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
imagePullSecrets: [{name: registry}]
commonLabels: {team: platform}
metrics:
  renderMode: alwaysRender
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
namespaceclass:
  replicas: 3
  extraArgs: [--context=other]
  env: [{name: LOCKSTEP_LOG_LEVEL, value: debug}]
  volumes: [{name: recordings, emptyDir: {sizeLimit: 300Mi}}]
  volumeMounts: [{name: recordings, mountPath: /recordings}]
  rbac:
    rules:
      networking: null
      widgets: {apiGroups: [example.com], resources: [widgets]}
      roles: {apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [get, bind]}
  serviceAccount: {annotations: {a: b}}
  podAnnotations: {a: b}
  podLabels: {a: b}
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{operator: Exists}]
  affinity: {nodeAffinity: {}}
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
  priorityClassName: system-cluster-critical
"#;

#[tokio::test]
async fn the_api_server_takes_every_object_with_the_default_values() -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    let objects = render("chart-defaults", "{}")?;
    assert!(!objects.iter().any(is_foreign));
    install(&client, "chart-defaults", &objects).await
}

#[tokio::test]
async fn the_api_server_takes_every_object_with_everything_switched_on() -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    let objects = render("chart-everything", EVERYTHING)?;

    install(&client, "chart-everything", &objects).await?;

    let monitor = only(&objects, "ServiceMonitor")?;
    let service = only(&objects, "Service")?;
    let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().context("no selector")?;
    assert!(wanted.iter().all(|(label, value)| service["metadata"]["labels"][label] == *value));
    let rule = only(&objects, "PrometheusRule")?;
    let alerts = rule["spec"]["groups"][0]["rules"].as_array().context("no alerts")?;
    assert!(
        alerts
            .iter()
            .all(|alert| alert["expr"].is_string() && alert["annotations"]["description"].is_string())
    );
    let dashboards: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "ConfigMap").collect();
    let dashboard: Value =
        serde_json::from_str(dashboards[0]["data"]["lockstep.json"].as_str().unwrap_or(""))?;
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 5));
    Ok(())
}

/// Helm parses YAML 1.1, in which `123` is a number, and `on` and `no` are booleans.
#[tokio::test]
async fn names_stay_text() -> anyhow::Result<()> {
    let values = "
fullnameOverride: 'n'
metrics: {renderMode: alwaysRender, serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}
bridge: {enabled: true, serviceAccount: {name: '777'}, priorityClassName: '777'}
sentinels:
  'on': {resourceType: clusters, googleCredentialsSecret: '777', apiToken: {secretName: '777', key: '777'}}
  'no':
    config: {resourceType: clusters, hyperfleetAPI: {url: 'http://a'}, broker: {type: rabbitmq, topic: t, url: 'amqp://a'}}
    trustedCertificates: {secretName: '777', key: '777'}
sentinel: {serviceAccount: {name: 'y'}}
";
    for line in template("123", values)?.lines() {
        let value =
            line.split_once(": ").map_or(line, |(_, value)| value).trim_start_matches([' ', '-', '[']);
        assert!(!["123", "777", "n", "on", "no", "y"].contains(&value.trim_end_matches(']')), "{line}");
    }
    install(&ControlPlane::shared().client().await?, "123", &render("123", values)?).await
}

/// A release may have dots in its name, a Service may not. No prefix may end with a dot or be too long.
#[test]
fn names_are_valid_for_every_name_of_a_release() -> anyhow::Result<()> {
    let values = "{bridge: {enabled: true}, sentinels: {east: {resourceType: clusters}}}";
    for release in
        ["lockstep.prod", "a.b", "n123456789012345678901234567890123456789.lockstep", "n".repeat(53).as_str()]
    {
        let objects = render(release, values)?;
        for object in objects.iter().filter(|object| !is_crd(object) && object["kind"] != "ClusterRole") {
            let name = object["metadata"]["name"].as_str().context("no name")?;
            let characters = |character: char| character.is_ascii_alphanumeric() || character == '-';
            assert!(name.len() <= 63 && name.chars().all(characters), "{}: {name}", object["kind"]);
        }
    }
    Ok(())
}

/// Readers of YAML such as kustomize refuse a key that occurs twice.
#[test]
fn no_label_or_annotation_is_rendered_twice() -> anyhow::Result<()> {
    let values = "
commonLabels: {team: common, app.kubernetes.io/version: own, sentinel.hyperfleet.io/resource-type: own}
metrics:
  renderMode: alwaysRender
  serviceMonitor: {enabled: true, labels: {team: own}}
  prometheusRule: {enabled: true, labels: {team: own}}
  dashboard: {enabled: true, labels: {team: own}}
namespaceclass: {podLabels: {team: own}, podAnnotations: {kubectl.kubernetes.io/default-container: own}}
sentinels: {east: {resourceType: clusters, podLabels: {team: own}}}
";
    let text = template("chart-twice", values)?;
    let mut block: Option<(usize, BTreeSet<&str>)> = None;
    for line in text.lines() {
        let key = line.trim_start();
        let indent = line.len() - key.len();
        match &mut block {
            Some((outer, keys)) if indent > *outer => {
                let key = key.split(": ").next().unwrap_or(key);
                assert!(keys.insert(key), "{key} occurs twice");
            }
            _ => block = matches!(key, "labels:" | "annotations:").then(|| (indent, BTreeSet::new())),
        }
    }

    let objects = render("chart-twice", values)?;
    let team = |kind: &str, name: &str| {
        anyhow::Ok(named(&objects, kind, name)?["metadata"]["labels"]["team"].clone())
    };
    assert_eq!(team("Service", "chart-twice-lockstep-namespaceclass")?, "common");
    for kind in ["ServiceMonitor", "PrometheusRule", "ConfigMap"] {
        for object in objects.iter().filter(|object| object["kind"] == kind) {
            assert_eq!(object["metadata"]["labels"]["team"], "own", "{kind}");
        }
    }
    for name in ["chart-twice-lockstep-namespaceclass", "east"] {
        let pod = &named(&objects, "Deployment", name)?["spec"]["template"]["metadata"];
        assert_eq!(pod["labels"]["team"], "own", "{name}");
    }
    Ok(())
}

#[test]
fn pods_meet_the_restricted_standard_and_carry_the_version_of_the_workspace() -> anyhow::Result<()> {
    let objects = render("chart-pods", "{}")?;
    let deployment = only(&objects, "Deployment")?;
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    // No user and no group: OpenShift's restricted-v2 rejects those outside of the namespace's own range.
    assert_eq!(
        pod["securityContext"],
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["image"], concat!("lockstep:", env!("CARGO_PKG_VERSION")));
    Ok(())
}

/// Two pages have values with volumes: for a recording, and for the CA certificate of a registry.
#[test]
fn documented_volumes_are_where_they_are_needed() -> anyhow::Result<()> {
    for (page, directory) in [("replay.md", "/recordings"), ("bridge.md", "/etc/registry")] {
        let text = std::fs::read_to_string(workspace().join("docs").join(page))?;
        let mut blocks = text.split("```yaml\n").filter_map(|rest| rest.split("```").next());
        let values = blocks.find(|block| block.contains("volumes:")).context("no such values")?;
        let values = format!("namespaceclass: {{enabled: false}}\n{values}  enabled: true\n");
        let objects = render("chart-volumes", &values)?;
        let pod = &only(&objects, "Deployment")?["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let [volume, mount] = [&pod["volumes"], &container["volumeMounts"]].map(|all| &all[0]);
        assert_eq!((&mount["name"], &mount["mountPath"]), (&volume["name"], &json!(directory)));
        let wants = format!("{}{}", container["args"], container["env"]);
        assert!(wants.contains(&format!("{directory}/")), "{page}: {wants}");
    }
    Ok(())
}

#[test]
fn the_budget_is_for_several_replicas_only() -> anyhow::Result<()> {
    let budgets = |values: &str| -> anyhow::Result<usize> {
        let objects = render("chart-budget", values)?;
        Ok(objects.iter().filter(|object| object["kind"] == "PodDisruptionBudget").count())
    };
    assert_eq!(budgets("namespaceclass: {replicas: 2}")?, 1);
    assert_eq!(budgets("namespaceclass: {replicas: 1}")?, 0);
    Ok(())
}

#[test]
fn only_what_is_switched_on_is_defined() -> anyhow::Result<()> {
    let defined = |values: &str| {
        let objects = render("chart-defined", values)?;
        let crds = objects.iter().filter(|object| is_crd(object));
        let groups = crds.map(|crd| crd["spec"]["group"].as_str().unwrap_or_default().to_owned());
        anyhow::Ok(groups.collect::<BTreeSet<_>>())
    };
    let set = |groups: &[&str]| groups.iter().map(|&group| group.to_owned()).collect::<BTreeSet<_>>();
    // The chart creates SentinelConfigs, so Helm must always install their CRD first.
    let (sentinel, classes) = ("hyperfleet.redhat.com", "namespaceclass.akuity.io");
    let (bridge, service) = ("dpf.hcp.bridge.com", "svc.dpu.nvidia.com");
    assert_eq!(defined("{}")?, set(&[sentinel, classes]));
    assert_eq!(defined("namespaceclass: {enabled: false}")?, set(&[sentinel]));
    assert_eq!(defined("bridge: {enabled: true}")?, set(&[sentinel, classes, bridge]));
    assert_eq!(
        defined("{namespaceclass: {enabled: false}, dpuservice: {enabled: true}}")?,
        set(&[sentinel, service])
    );
    assert_eq!(defined("crds: {enabled: false}")?, set(&[sentinel]));
    let off = render("chart-off", "namespaceclass: {enabled: false}")?;
    assert!(off.iter().all(is_crd));
    Ok(())
}

/// The specifications name Kubernetes 1.27 and 1.28; one of the CRDs needs a later version.
#[test]
fn it_installs_on_the_oldest_kubernetes_that_is_named() -> anyhow::Result<()> {
    let render = |version: &str, values: &str| {
        let mut helm = Command::new(control_plane::helm()?);
        helm.args(["template", "old", "--kube-version", version, "--set", values]);
        let output = helm.arg(workspace().join("deploy/lockstep")).output()?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::Ok(if output.status.success() { Ok(()) } else { Err(error) })
    };
    for version in ["1.27.0", "1.28.15"] {
        assert_eq!(render(version, "bridge.enabled=true")?, Ok(()));
        let refused = render(version, "dpuservice.enabled=true")?.expect_err("its CRD is refused there");
        ensure!(refused.contains("needs Kubernetes 1.29") && refused.contains(version), "{refused}");
    }
    assert_eq!(render("1.29.0", "dpuservice.enabled=true")?, Ok(()));
    ensure!(render("1.26.0", "bridge.enabled=true")?.is_err_and(|error| error.contains("kubeVersion")));
    Ok(())
}

/// Tests Helm itself with an API server: the CRDs are installed, upgraded and kept, with the objects of their kinds.
#[tokio::test]
async fn helm_installs_upgrades_and_keeps_definitions() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    let helm = |arguments: &[&str]| {
        let mut command = Command::new(control_plane::helm()?);
        command.arg("--kubeconfig").arg(plane.kubeconfig()).args(["--namespace", "default"]).args(arguments);
        let output = command.current_dir(workspace()).output()?;
        anyhow::Ok(if output.status.success() { None } else { Some(String::from_utf8(output.stderr)?) })
    };
    let succeeds = |arguments: &[&str]| match helm(arguments)? {
        None => anyhow::Ok(()),
        Some(error) => anyhow::bail!("helm {arguments:?}: {error}"),
    };
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let served = async |name: &str| anyhow::Ok(crds.get_opt(name).await?);
    let (classes, bridges) =
        ("namespaceclasses.namespaceclass.akuity.io", "dpfhcpbridges.dpf.hcp.bridge.com");

    succeeds(&["install", "release", "deploy/lockstep"])?;
    let installed = served(classes).await?.context("no CRD of classes")?;
    assert!(served(bridges).await?.is_none());
    let class = json!({
        "apiVersion": "namespaceclass.akuity.io/v1alpha1", "kind": "NamespaceClass",
        "metadata": {"name": "kept"}, "spec": {"resources": []},
    });
    eventually("classes are served", async || apply(&client, &class).await.map(drop)).await?;

    // Restore the state of an older chart.
    let older = json!([{"op": "remove", "path": "/spec/names/categories"}]);
    let older = Patch::<()>::Json(serde_json::from_value(older)?);
    crds.patch(classes, &PatchParams::default(), &older).await?;
    succeeds(&["upgrade", "release", "deploy/lockstep", "--set", "bridge.enabled=true"])?;
    let upgraded = served(classes).await?.context("no CRD of classes")?;
    assert_eq!(upgraded.spec.names.categories, installed.spec.names.categories);
    assert!(served(bridges).await?.is_some());

    succeeds(&["upgrade", "release", "deploy/lockstep", "--set", "bridge.enabled=false"])?;
    assert!(served(bridges).await?.is_some(), "objects of the kind would go with it");
    succeeds(&["uninstall", "release"])?;
    let kept = served(classes).await?.context("it is gone with all classes")?;
    assert!(kept.metadata.deletion_timestamp.is_none());
    assert!(apply(&client, &class).await.is_ok());

    // CRDs of other owners are not changed.
    let foreign: CustomResourceDefinition = {
        let set = lockstep_crds::all().into_iter().find(|set| set.controller == "dpuservice");
        set.and_then(|set| set.crds.into_iter().next()).context("no CRD of DPUServices")?
    };
    crds.create(&PostParams::default(), &foreign).await?;
    let refused = helm(&["install", "release", "deploy/lockstep", "--set", "dpuservice.enabled=true"])?;
    assert!(refused.is_some_and(|error| error.contains("invalid ownership metadata")));
    Ok(())
}

#[test]
fn rules_are_merged_with_the_defaults() -> anyhow::Result<()> {
    let objects = render("chart-rules", EVERYTHING)?;
    let role = named(&objects, "ClusterRole", "chart-rules-lockstep-namespaceclass")?;
    let rules = role["rules"].as_array().context("no rules")?;
    let verbs = |resource: &str| {
        let holds =
            |rule: &&Value| rule["resources"].as_array().is_some_and(|all| all.contains(&json!(resource)));
        rules.iter().find(holds).map(|rule| &rule["verbs"])
    };
    assert_eq!(verbs("configmaps"), Some(&json!(["get", "list", "watch", "create", "patch", "delete"])));
    assert_eq!(verbs("widgets"), verbs("configmaps"));
    assert_eq!(verbs("roles"), Some(&json!(["get", "bind"])));
    assert_eq!(verbs("networkpolicies"), None);
    Ok(())
}

#[test]
fn the_chart_has_the_version_of_the_workspace() -> anyhow::Result<()> {
    let chart: Value = yaml::read(&std::fs::read_to_string(workspace().join("deploy/lockstep/Chart.yaml"))?)?;
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    Ok(())
}

/// `OwnerReferencesPermissionEnforcement` requires these permissions; it is not enabled on the test control plane.
#[tokio::test]
async fn owner_references_may_block_the_deletion_of_owners() -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    let objects = render("chart-owners", "{}")?;
    install(&client, "chart-owners", &objects).await?;
    let account = &only(&objects, "ServiceAccount")?["metadata"]["name"];
    let account = account.as_str().context("no name")?;
    let account = Account::new(client, "chart-owners", account);
    for (group, resource) in
        [("", "namespaces/finalizers"), ("namespaceclass.akuity.io", "namespaceclassbindings/finalizers")]
    {
        assert!(account.may("update", group, resource, "", "anywhere").await?, "{resource}");
    }
    Ok(())
}

/// A controller aggregates the chart's roles into the built-in ones.
#[tokio::test]
async fn who_may_view_a_namespace_may_read_its_binding_and_no_more() -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    install(&client, "chart-viewed", &render("chart-viewed", "{}")?).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "viewer", "namespace": "chart-viewed"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "chart-viewed"}],
    });
    apply(&client, &binding).await?;
    let viewer = Account::new(client, "chart-viewed", "viewer");
    let (group, resource) = ("namespaceclass.akuity.io", "namespaceclassbindings");
    eventually("the role is aggregated", async || {
        ensure!(viewer.may("list", group, resource, "", "chart-viewed").await?);
        Ok(())
    })
    .await?;
    assert!(!viewer.may("patch", group, resource, "", "chart-viewed").await?);
    assert!(!viewer.may("list", group, resource, "", "elsewhere").await?);
    Ok(())
}
