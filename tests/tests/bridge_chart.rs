//! Tests the Bridge in the Helm chart: its rendered objects, whether a real API server accepts them, and the permissions of its
//! account.

#[path = "bridge_chart/account.rs"]
mod account;

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use lockstep_bridge::names;
use lockstep_cli::permissions::BRIDGE as GRANTED;
use lockstep_engine::action::ErrorKind;
use lockstep_engine::yaml;
use lockstep_tests::access::{self, Account, grants};
use lockstep_tests::chart::{everything, install, is_crd, is_foreign, named, render};
use lockstep_tests::control_plane::ControlPlane;
use serde_json::{Value, json};

/// The role's name in "DPFHCPBridge DPUCluster Validation".
const VALIDATOR: &str = "dpf-hcp-bridge-operator-dpucluster-validator";
const SPECIFIED: &str = include_str!("bridge/specified-role.yaml");
const ALERTS: &str = include_str!("../../deploy/lockstep/files/alerts.yaml");

const BRIDGE: &str = "
namespaceclass: {enabled: false}
bridge: {enabled: true}
";

/// Returns all permissions that must be granted.
fn wanted() -> BTreeSet<String> {
    GRANTED.into_iter().flat_map(access::describe).collect()
}

fn rules<'a>(objects: &'a [Value], name: &str) -> anyhow::Result<&'a Vec<Value>> {
    named(objects, "ClusterRole", name)?["rules"].as_array().context("no rules")
}

#[test]
fn it_is_off_unless_asked_for() -> anyhow::Result<()> {
    let objects = render("bridge-off", "namespaceclass: {enabled: false}")?;
    assert!(objects.iter().all(is_crd));
    assert!(named(&objects, "CustomResourceDefinition", "dpfhcpbridges.dpf.hcp.bridge.com").is_err());
    let objects = render("bridge-on", "bridge: {enabled: true}")?;
    named(&objects, "CustomResourceDefinition", "dpfhcpbridges.dpf.hcp.bridge.com")?;
    Ok(())
}

#[test]
fn the_specified_role_is_bound_to_its_account() -> anyhow::Result<()> {
    let objects = render("bridge-role", BRIDGE)?;
    let specified: Value = yaml::read(SPECIFIED)?;
    assert_eq!(specified["metadata"]["name"], VALIDATOR);
    let role = named(&objects, "ClusterRole", VALIDATOR)?;
    assert_eq!(role["rules"], specified["rules"]);
    let pod = &named(&objects, "Deployment", "bridge-role-lockstep-bridge")?["spec"]["template"]["spec"];
    for role in [VALIDATOR, "bridge-role-lockstep-bridge"] {
        let binding = named(&objects, "ClusterRoleBinding", role)?;
        assert_eq!(binding["roleRef"]["name"], role);
        let account = json!([{"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": "bridge-role"}]);
        assert_eq!(binding["subjects"], account);
    }
    let arguments = pod["containers"][0]["args"].as_array().context("no args")?;
    for argument in [
        "--controllers=bridge",
        "--concurrency=5",
        "--leader-elect",
        "--lease-name=bridge-role-lockstep-bridge",
    ] {
        assert!(arguments.contains(&json!(argument)), "{argument}: {arguments:?}");
    }
    Ok(())
}

#[test]
fn the_roles_grant_this_and_no_more() -> anyhow::Result<()> {
    let objects = render("bridge-grants", BRIDGE)?;
    let own = rules(&objects, "bridge-grants-lockstep-bridge")?;
    let granted = grants(own.iter().chain(rules(&objects, VALIDATOR)?));
    assert_eq!(granted, wanted());
    Ok(())
}

#[tokio::test]
async fn the_api_server_takes_every_object_with_everything_switched_on() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    let objects = render("bridge-everything", &everything("bridge"))?;
    install(&client, "bridge-everything", &objects).await?;

    let foreign = objects.iter().filter(|object| is_foreign(object)).count();
    ensure!(foreign == 2, "{foreign} objects for the Prometheus operator");
    let name = "bridge-everything-lockstep-bridge";
    let deployment = named(&objects, "Deployment", name)?;
    assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], "custom");
    named(&objects, "PodDisruptionBudget", name)?;
    let rule = named(&objects, "PrometheusRule", "bridge-everything-lockstep")?;
    let groups = rule["spec"]["groups"].as_array().context("no groups")?;
    let alerts = groups.iter().find(|group| group["name"] == "dpf-hcp-bridge").context("no alerts")?;
    assert_eq!(alerts["rules"].as_array().map(Vec::len), Some(2));
    let dashboards = named(&objects, "ConfigMap", "bridge-everything-lockstep-dashboard")?;
    let dashboard = dashboards["data"]["lockstep.json"].as_str().context("no dashboard")?;
    for metric in [
        "dpfhcpbridge_dpucluster_validation_total",
        "dpfhcpbridge_dpucluster_validation_duration_seconds_bucket",
    ] {
        assert!(dashboard.contains(metric), "{metric}");
    }
    Ok(())
}

#[test]
fn the_alert_about_watches_knows_that_metallb_may_be_missing() {
    let kinds = [names::pool(), names::advertisement()].map(|kind| {
        assert_eq!(kind.group, "metallb.io");
        kind.kind.clone()
    });
    let missing = format!(
        "{{kind=~\"({}).metallb.io\", class=\"{}\"}}",
        kinds.join("|"),
        ErrorKind::KindNotServed.name()
    );
    assert!(ALERTS.contains(&format!("unless on (kind, class) lockstep_watch_errors_total{missing}")));
}

/// Queries the API server for each permission, with the chart installed.
#[tokio::test]
async fn the_account_may_do_this_and_no_more() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    let release = "bridge-access";
    install(&client, release, &render(release, BRIDGE)?).await?;
    let account = Account::new(client, release, "bridge-access-lockstep-bridge");
    let may = async |verb: &str, group: &str, resource: &str, name: &str, namespace: &str| {
        account.may(verb, group, resource, name, namespace).await
    };

    for (verbs, group, resource, name) in GRANTED {
        for verb in access::VERBS {
            let granted =
                verbs.split(' ').any(|granted| granted == verb) || (resource, verb) == ("leases", "create");
            ensure!(
                may(verb, group, resource, name, "anywhere").await? == granted,
                "{verb} {resource} {name}"
            );
        }
        if !name.is_empty() {
            ensure!(!may("list", group, resource, "other", "anywhere").await?, "list other {resource}");
            ensure!(!may("list", group, resource, "", "anywhere").await?, "list all {resource}");
        }
    }
    for (verb, group, resource) in [
        ("list", "", "pods"),
        ("create", "", "serviceaccounts/token"),
        ("impersonate", "", "users"),
        ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
        ("bind", "rbac.authorization.k8s.io", "clusterroles"),
        ("patch", "provisioning.dpu.nvidia.com", "dpuclusters/status"),
        ("patch", "hypershift.openshift.io", "hostedclusters/status"),
        ("update", "", "services/status"),
        ("patch", "", "nodes"),
    ] {
        ensure!(!may(verb, group, resource, "", "anywhere").await?, "{verb} {resource}");
    }
    Ok(())
}
