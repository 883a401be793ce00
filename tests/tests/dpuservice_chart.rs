//! Tests the DPUService controller in the Helm chart: its rendered objects, whether a real API server accepts them, and the
//! permissions of its account.

#[path = "dpuservice_chart/account.rs"]
mod account;

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use lockstep_cli::permissions::{DPUSERVICE as ANYWHERE, DPUSERVICE_IN_ARGOCD as THERE};
use lockstep_dpuservice::names::{ARGO_NAMESPACE, PROJECT};
use lockstep_engine::yaml;
use lockstep_tests::access::{self, Account, Grant, grants};
use lockstep_tests::chart::{apply, everything, install, is_crd, is_foreign, named, render};
use lockstep_tests::control_plane::ControlPlane;
use serde_json::{Value, json};

const DPUSERVICE: &str = "
namespaceclass: {enabled: false}
dpuservice: {enabled: true}
";

const ALERTS: &str = include_str!("../../deploy/lockstep/files/alerts.yaml");
const KUBE_STATE_METRICS: &str = include_str!("../../deploy/kube-state-metrics/dpuservice.yaml");

fn words(of: impl IntoIterator<Item = Grant>) -> BTreeSet<String> {
    of.into_iter().flat_map(access::describe).collect()
}

fn rules<'a>(objects: &'a [Value], kind: &str, name: &str) -> anyhow::Result<&'a Vec<Value>> {
    named(objects, kind, name)?["rules"].as_array().context("no rules")
}

fn argo_namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ARGO_NAMESPACE}})
}

#[test]
fn it_is_off_unless_asked_for() -> anyhow::Result<()> {
    let objects = render("dpuservice-off", "namespaceclass: {enabled: false}")?;
    assert!(objects.iter().all(is_crd));
    assert!(named(&objects, "CustomResourceDefinition", "dpuservices.svc.dpu.nvidia.com").is_err());
    let objects = render("dpuservice-on", "dpuservice: {enabled: true}")?;
    named(&objects, "CustomResourceDefinition", "dpuservices.svc.dpu.nvidia.com")?;
    Ok(())
}

#[test]
fn the_roles_grant_this_and_no_more() -> anyhow::Result<()> {
    let objects = render("grants", DPUSERVICE)?;
    assert_eq!(grants(rules(&objects, "ClusterRole", "grants-lockstep-dpuservice")?), words(ANYWHERE));
    assert_eq!(grants(rules(&objects, "Role", "grants-lockstep-dpuservice-argocd")?), words(THERE));
    let account =
        json!([{"kind": "ServiceAccount", "name": "grants-lockstep-dpuservice", "namespace": "grants"}]);
    for (kind, name) in [
        ("ClusterRoleBinding", "grants-lockstep-dpuservice"),
        ("RoleBinding", "grants-lockstep-dpuservice-argocd"),
    ] {
        let binding = named(&objects, kind, name)?;
        assert_eq!((&binding["roleRef"]["name"], &binding["subjects"]), (&json!(name), &account));
    }
    for kind in ["Role", "RoleBinding"] {
        let object = named(&objects, kind, "grants-lockstep-dpuservice-argocd")?;
        assert_eq!(object["metadata"]["namespace"], ARGO_NAMESPACE);
    }
    Ok(())
}

/// The release may be in Argo CD's own namespace, which then has both of its Roles.
#[tokio::test]
async fn the_api_server_takes_every_object_with_everything_switched_on() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    let objects = render(ARGO_NAMESPACE, &everything("dpuservice"))?;
    install(&client, ARGO_NAMESPACE, &objects).await?;
    let roles: BTreeSet<&str> = objects
        .iter()
        .filter(|object| object["kind"] == "Role")
        .filter_map(|role| role["metadata"]["name"].as_str())
        .collect();
    ensure!(roles.len() == 2, "{roles:?}");

    let foreign = objects.iter().filter(|object| is_foreign(object)).count();
    ensure!(foreign == 2, "{foreign} objects for the Prometheus operator");
    let name = "dpf-argo-cd-system-lockstep-dpuservice";
    let pod = &named(&objects, "Deployment", name)?["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "custom");
    let arguments = pod["containers"][0]["args"].as_array().context("no args")?;
    for argument in ["--controllers=dpuservice", "--leader-elect", &format!("--lease-name={name}")] {
        assert!(arguments.contains(&json!(argument)), "{argument}: {arguments:?}");
    }
    named(&objects, "PodDisruptionBudget", name)?;
    let rule = named(&objects, "PrometheusRule", "dpf-argo-cd-system-lockstep")?;
    let groups = rule["spec"]["groups"].as_array().context("no groups")?;
    let alerts = groups.iter().find(|group| group["name"] == "dpuservice").context("no alerts")?;
    assert_eq!(alerts["rules"].as_array().map(Vec::len), Some(3));
    let dashboards = named(&objects, "ConfigMap", "dpf-argo-cd-system-lockstep-dashboard")?;
    let dashboard = dashboards["data"]["lockstep.json"].as_str().context("no dashboard")?;
    for metric in ["kube_dpuservice_status_condition", "kube_dpuservice_rollout_health"] {
        assert!(dashboard.contains(metric), "{metric}");
    }
    Ok(())
}

/// Queries the API server for each permission, with the chart installed.
#[tokio::test]
async fn the_account_may_do_this_and_no_more() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    apply(&client, &argo_namespace()).await?;
    let release = "dpuservice-access";
    install(&client, release, &render(release, DPUSERVICE)?).await?;
    let account = Account::new(client, release, "dpuservice-access-lockstep-dpuservice");
    let granted = |grants: &[Grant], verb: &str, group: &str, resource: &str, name: &str| {
        grants.iter().any(|grant| {
            (grant.1, grant.2) == (group, resource)
                && (grant.3.is_empty() || grant.3 == name)
                && grant.0.split(' ').any(|granted| granted == verb)
        })
    };
    for (_, group, resource, _) in ANYWHERE.into_iter().chain(THERE) {
        for verb in access::VERBS {
            for name in ["", PROJECT, "other"] {
                let anywhere = granted(&ANYWHERE, verb, group, resource, name);
                let there = anywhere || granted(&THERE, verb, group, resource, name);
                for (namespace, wanted) in
                    [("anywhere", anywhere), (release, anywhere), (ARGO_NAMESPACE, there)]
                {
                    let may = account.may(verb, group, resource, name, namespace).await?;
                    ensure!(may == wanted, "{verb} {group} {resource} {name:?} in {namespace}: {may}");
                }
            }
        }
    }
    for (verb, group, resource) in [
        ("list", "", "pods"),
        ("create", "", "serviceaccounts/token"),
        ("impersonate", "", "users"),
        ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
        ("bind", "rbac.authorization.k8s.io", "clusterroles"),
        ("patch", "provisioning.dpu.nvidia.com", "dpuclusters"),
        ("patch", "provisioning.dpu.nvidia.com", "dpuclusters/status"),
        ("patch", "argoproj.io", "applications/status"),
        ("create", "", "namespaces"),
        ("get", "", "configmaps"),
    ] {
        for namespace in ["anywhere", ARGO_NAMESPACE] {
            ensure!(
                !account.may(verb, group, resource, "", namespace).await?,
                "{verb} {resource} in {namespace}"
            );
        }
    }
    Ok(())
}

/// The alerts use metrics of the example configuration of kube-state-metrics, with the labels that these have.
#[test]
fn the_alerts_go_by_metrics_that_exist() -> anyhow::Result<()> {
    let configuration: Value = yaml::read(KUBE_STATE_METRICS)?;
    let resource = &configuration["spec"]["resources"][0];
    let prefix = resource["metricNamePrefix"].as_str().context("no prefix")?;
    let metrics = resource["metrics"].as_array().context("no metrics")?;
    let made: BTreeSet<String> =
        metrics.iter().filter_map(|metric| Some(format!("{prefix}_{}", metric["name"].as_str()?))).collect();
    let alerts: Value = yaml::read(ALERTS)?;
    let group = alerts["groups"].as_array().into_iter().flatten().find(|group| group["name"] == "dpuservice");
    let mut used = BTreeSet::new();
    for alert in group.context("no group")?["rules"].as_array().context("no rules")? {
        let expression = alert["expr"].as_str().context("no expression")?;
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named: BTreeSet<String> =
            words.filter(|word| word.starts_with("kube_")).map(str::to_owned).collect();
        ensure!(!named.is_empty() && named.is_subset(&made), "{expression}");
        used.extend(named);
    }
    assert_eq!(used.len(), 2);
    Ok(())
}
