//! The Helm chart: what it renders, whether a real API server takes it, and whether the operator can live on the
//! permissions that it grants.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use lockstep_crds::namespaceclass::NamespaceClassBinding;
use lockstep_tests::chart::{apply, install, is_crd, is_foreign, only, render, start};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::program::{sum, workspace};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);
const LABEL: &str = "namespaceclass.akuity.io/name";

const EVERYTHING: &str = r#"
image: {repository: registry.example.com/lockstep, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
imagePullSecrets: [{name: registry}]
commonLabels: {team: platform}
metrics:
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
namespaceclass:
  replicas: 3
  extraArgs: [--context=other]
  env: [{name: LOCKSTEP_LOG_LEVEL, value: debug}]
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

/// Waits until `judge` finds what it looks for.
async fn until<T, F: Future<Output = anyhow::Result<Option<T>>>>(
    what: &str,
    judge: impl Fn() -> F,
) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = judge().await? {
            return Ok(found);
        }
        if start.elapsed() > PATIENCE {
            bail!("{what}: not within {PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn until_there<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, name: &str) -> anyhow::Result<K> {
    until(&format!("{name} is there"), || async { Ok(api.get_opt(name).await?) }).await
}

async fn until_gone<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, name: &str) -> anyhow::Result<()> {
    until(&format!("{name} is gone"), || async { Ok(api.get_opt(name).await?.is_none().then_some(())) }).await
}

fn class(name: &str, resources: &Value) -> Value {
    json!({
        "apiVersion": "namespaceclass.akuity.io/v1alpha1",
        "kind": "NamespaceClass",
        "metadata": {"name": name},
        "spec": {"resources": resources},
    })
}

async fn label(client: &Client, namespace: &str, class: Option<&str>) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": {LABEL: class}}}));
    namespaces.patch(namespace, &PatchParams::default(), &patch).await?;
    Ok(())
}

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
        alerts.iter().all(|alert| alert["expr"].is_string() && alert["annotations"]["remedy"].is_string())
    );
    let dashboards: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "ConfigMap").collect();
    let dashboard: Value =
        serde_json::from_str(dashboards[0]["data"]["lockstep.json"].as_str().unwrap_or(""))?;
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 5));
    Ok(())
}

#[test]
fn pods_meet_the_restricted_standard_and_carry_the_version_of_the_workspace() -> anyhow::Result<()> {
    let objects = render("chart-pods", "{}")?;
    let deployment = only(&objects, "Deployment")?;
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["image"], concat!("lockstep:", env!("CARGO_PKG_VERSION")));
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
fn a_controller_that_is_switched_off_leaves_only_definitions() -> anyhow::Result<()> {
    let objects = render("chart-off", "namespaceclass: {enabled: false}")?;
    assert!(objects.iter().all(is_crd));
    Ok(())
}

#[test]
fn values_that_mean_nothing_are_refused_by_name() -> anyhow::Result<()> {
    for (values, names) in [
        ("namespaceclas: {enabled: true}", "namespaceclas"),
        ("namespaceclass: {replicas: two}", "/namespaceclass/replicas"),
        ("namespaceclass: {resync: soon}", "/namespaceclass/resync"),
        ("namespaceclass: {concurrency: 0}", "/namespaceclass/concurrency"),
        ("namespaceclass: {rbac: {rules: [configmaps]}}", "/namespaceclass/rbac/rules"),
        ("namespaceclass: {rbac: {rules: {apps: {apiGroups: [apps]}}}}", "resources"),
        ("bridge: {replicas: two}", "/bridge/replicas"),
        ("bridge: {dpuCluster: prod}", "/bridge"),
        (
            "bridge: {rbac: {rules: {apps: {apiGroups: [apps], resources: [deployments]}}}}",
            "/bridge/rbac/rules",
        ),
        ("log: {format: xml}", "/log/format"),
        ("image: {digest: latest}", "/image/digest"),
    ] {
        let refusal = render("chart-refused", values).err().with_context(|| format!("{values} was taken"))?;
        let message = refusal.to_string();
        assert!(message.contains("schema") && message.contains(names), "{values}: {message}");
    }
    Ok(())
}

#[test]
fn rules_are_merged_with_the_defaults() -> anyhow::Result<()> {
    let objects = render("chart-rules", EVERYTHING)?;
    let rules = only(&objects, "ClusterRole")?["rules"].as_array().context("no rules")?;
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
    let chart: Value =
        serde_yaml::from_str(&std::fs::read_to_string(workspace().join("deploy/lockstep/Chart.yaml"))?)?;
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    Ok(())
}

/// One object of each kind that the chart grants by default.
fn one_of_each() -> Value {
    json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": {"a": "1"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker"}},
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"},
         "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}, "spec": {"hard": {"pods": "5"}}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "deny"},
         "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
    ])
}

async fn until_ready(bindings: &Api<NamespaceClassBinding>, name: &str, class: &str) -> anyhow::Result<()> {
    until(&format!("{name} is ready"), || async {
        let status = bindings.get_opt(name).await?.and_then(|binding| binding.status);
        Ok(status.filter(|status| {
            status.observed_class_name == class
                && status
                    .conditions
                    .iter()
                    .any(|condition| condition.type_ == "Ready" && condition.status == "True")
        }))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn the_operator_lives_on_what_the_chart_grants() -> anyhow::Result<()> {
    // A control plane of its own: every operator acts on all classes of its cluster.
    let (plane, release) = (&ControlPlane::start()?, "chart-operator");
    let client = plane.client().await?;
    let objects = render(release, "{}")?;
    install(&client, release, &objects).await?;
    let program = start(plane, only(&objects, "Deployment")?).await?;

    apply(&client, &class("chart-all", &one_of_each())).await?;
    let one = json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}]);
    apply(&client, &class("chart-one", &one)).await?;
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "chart-team"}});
    apply(&client, &team).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "chart-team");
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), "chart-team");
    let bindings: Api<NamespaceClassBinding> = Api::namespaced(client.clone(), "chart-team");

    label(&client, "chart-team", Some("chart-all")).await?;
    until_ready(&bindings, "chart-team", "chart-all").await?;
    maps.get("settings").await?;
    quotas.get("quota").await?;

    // Drift is repaired with the same permissions.
    maps.delete("settings", &DeleteParams::default()).await?;
    until_there(&maps, "settings").await?;

    label(&client, "chart-team", Some("chart-one")).await?;
    until_ready(&bindings, "chart-team", "chart-one").await?;
    maps.get("other").await?;
    until_gone(&maps, "settings").await?;
    until_gone(&quotas, "quota").await?;

    label(&client, "chart-team", None).await?;
    until_gone(&bindings, "chart-team").await?;
    until_gone(&maps, "other").await?;

    let metrics = program.metrics().await?;
    ensure!(sum(&metrics, "lockstep_leader", "") > 0, "the lease was not won:\n{metrics}");
    ensure!(sum(&metrics, "lockstep_actions_total", "kind=\"Event") > 0, "no event was written:\n{metrics}");
    ensure!(sum(&metrics, "lockstep_actions_total", "\"forbidden\"") == 0, "forbidden calls:\n{metrics}");
    ensure!(sum(&metrics, "lockstep_watch_errors_total", "") == 0, "failed watches:\n{metrics}");
    Ok(())
}

#[tokio::test]
async fn a_kind_that_is_not_granted_is_reported_with_the_value_that_grants_it() -> anyhow::Result<()> {
    let (plane, release) = (&ControlPlane::start()?, "chart-denied");
    let client = plane.client().await?;
    let objects = render(release, "{}")?;
    install(&client, release, &objects).await?;
    let denied = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app"}}]);
    let program = start(plane, only(&objects, "Deployment")?).await?;
    apply(&client, &class("chart-denied", &denied)).await?;
    let team = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "chart-denied-team", "labels": {LABEL: "chart-denied"}},
    });
    apply(&client, &team).await?;

    let bindings: Api<NamespaceClassBinding> = Api::namespaced(client, "chart-denied-team");
    let message = until("the refusal is reported", || async {
        let status = bindings.get_opt("chart-denied-team").await?.and_then(|binding| binding.status);
        let mut conditions = status.into_iter().flat_map(|status| status.conditions);
        Ok(conditions.find(|condition| condition.reason == "Forbidden").map(|condition| condition.message))
    })
    .await
    .with_context(|| program.log())?;
    assert!(
        message.contains("namespaceclass.rbac.rules") && message.contains("spec.resources[0]"),
        "{message}"
    );
    Ok(())
}

/// `OwnerReferencesPermissionEnforcement` asks for these; the test control plane does not have it on.
#[tokio::test]
async fn owner_references_may_block_the_deletion_of_owners() -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    let objects = render("chart-owners", "{}")?;
    install(&client, "chart-owners", &objects).await?;
    let account = &only(&objects, "ServiceAccount")?["metadata"]["name"];
    let account = account.as_str().context("no name")?;
    let reviews: Api<SubjectAccessReview> = Api::all(client);
    for (group, resource) in [("", "namespaces"), ("namespaceclass.akuity.io", "namespaceclassbindings")] {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:chart-owners:{account}")),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some("update".to_owned()),
                    group: Some(group.to_owned()),
                    resource: Some(resource.to_owned()),
                    subresource: Some("finalizers".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = reviews.create(&PostParams::default(), &review).await?;
        assert!(answer.status.is_some_and(|status| status.allowed), "{resource}/finalizers");
    }
    Ok(())
}
