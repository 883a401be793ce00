//! The Helm chart: what it renders, whether a real API server takes it, and whether the operator can live on the
//! permissions that it grants.

#[path = "chart/account.rs"]
mod account;

use anyhow::Context as _;
use lockstep_tests::access::Account;
use lockstep_tests::chart::{install, is_crd, is_foreign, only, render};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::program::workspace;
use serde_json::{Value, json};

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

/// `OwnerReferencesPermissionEnforcement` asks for these; the test control plane does not have it on.
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
