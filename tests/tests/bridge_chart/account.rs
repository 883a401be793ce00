//! Tests that the Bridge works with the permissions that the chart grants, and needs all of them.

use anyhow::ensure;
use kube::Client;
use lockstep_external as external;
use lockstep_tests::access::{asked, needs_all_of};
use lockstep_tests::bridge::{Surroundings, Tenant, lifecycle, storm, validation};
use lockstep_tests::chart::{install, named, render, start};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::program::Program;
use lockstep_tests::upstream::definitions;
use serde_json::Value;

use super::{BRIDGE, wanted};

/// Permissions in the specification's role that the Bridge does not use: it patches the status, and its Events use the newer
/// API.
const UNUSED: [&str; 4] = [
    "update dpf.hcp.bridge.com dpfhcpbridges/status ",
    // An admission plugin requires this permission, if it is enabled.
    "update dpf.hcp.bridge.com dpfhcpbridges/finalizers ",
    "create  events ",
    "patch  events ",
];

/// How often the DPUCluster is deleted at most.
const ROUNDS: usize = 20;

/// The Bridge as the chart deploys it.
struct Deployed {
    plane: ControlPlane,
    client: Client,
    definitions: Vec<Value>,
    surroundings: Surroundings,
    program: Program,
}

impl Deployed {
    /// Installs the systems around it, and a release with this name.
    async fn start(release: &str) -> anyhow::Result<Self> {
        let plane = ControlPlane::start()?;
        let client = plane.client().await?;
        let definitions = definitions(&external::BRIDGE)?;
        let surroundings = Surroundings::start(client.clone(), definitions.clone()).await?;
        let objects = render(release, &format!("{BRIDGE}log: {{level: debug}}\n"))?;
        install(&client, release, &objects).await?;
        let deployment = named(&objects, "Deployment", &format!("{release}-lockstep-bridge"))?;
        let program = start(&plane, deployment).await?;
        Ok(Self { plane, client, definitions, surroundings, program })
    }

    async fn tenant(&self, name: &str, number: u8) -> anyhow::Result<Tenant> {
        Tenant::move_in(self.client.clone(), name, number, self.surroundings.repository()).await
    }
}

#[tokio::test]
async fn dpucluster_validation_with_the_deployed_bridge() -> anyhow::Result<()> {
    let deployed = Deployed::start("bridge-validates").await?;
    validation::end_to_end(&deployed.tenant("end-to-end", 10).await?).await?;
    validation::deletion(&deployed.tenant("deletion", 11).await?).await?;
    validation::real_cluster(&deployed.tenant("real-cluster", 12).await?).await
}

#[tokio::test]
async fn the_bridge_needs_exactly_the_permissions_of_the_chart() -> anyhow::Result<()> {
    let deployed = Deployed::start("bridge-lives").await?;
    let Deployed { plane, program, definitions, .. } = &deployed;
    let tenant = deployed.tenant("lives", 10).await?;
    lifecycle::comes(&tenant).await?;
    lifecycle::is_upgraded(&tenant).await?;
    lifecycle::has_secrets_rotated(&tenant).await?;
    let key = lifecycle::key(&tenant).await?;
    let user = "system:serviceaccount:bridge-lives:bridge-lives-lockstep-bridge";
    // A repeated Event increases the count of the first one, but not that soon.
    for _ in 0..ROUNDS {
        lifecycle::loses_its_dpu_cluster(&tenant).await?;
        if asked(plane, user)?.0.contains("patch events.k8s.io events ") {
            break;
        }
    }
    lifecycle::goes(&tenant).await?;
    let balanced = deployed.tenant("balanced", 11).await?;
    lifecycle::comes(&balanced).await?;
    let on_node_ports = deployed.tenant("ports", 12).await?;
    lifecycle::comes_on_node_ports(&on_node_ports).await?;
    lifecycle::is_upgraded(&on_node_ports).await?;
    let pooled = deployed.tenant("pooled", 13).await?;
    lifecycle::comes_with_pool(&pooled).await?;
    lifecycle::has_pool_restored(&pooled).await?;
    lifecycle::goes(&pooled).await?;
    program.never_counted("lockstep_watch_errors_total", "").await?;
    program.never_counted("lockstep_actions_total", "\"forbidden\"").await?;

    let tenants = [&balanced, &on_node_ports];
    storm::breaks(&tenants, definitions).await?;
    storm::passes(&tenants, definitions).await?;
    for tenant in tenants {
        lifecycle::goes(tenant).await?;
    }

    // While a CRD is being deleted, the API server forbids everyone to create its objects.
    let is_creation = |series: &str| {
        let is_of = |definition: &Value| {
            let (kind, group) = (&definition["spec"]["names"]["kind"], &definition["spec"]["group"]);
            let kind =
                format!("{}.{}", kind.as_str().unwrap_or_default(), group.as_str().unwrap_or_default());
            series.contains(&format!("kind=\"{kind}\""))
        };
        ["create", "apply"].iter().any(|action| series.contains(&format!("action=\"{action}\"")))
            && definitions.iter().any(is_of)
    };
    program.never_counted_but("lockstep_actions_total", "\"forbidden\"", is_creation).await?;
    program.never_counted("lockstep_watch_errors_total", "\"forbidden\"").await?;
    let metrics = program.metrics().await?;
    for result in ["success", "not_found"] {
        let holding = format!("result=\"{result}\"");
        let total = program.metric("dpfhcpbridge_dpucluster_validation_total", &holding).await?;
        ensure!(total > 0, "{result}: {metrics}");
        // The buckets of the specification, and larger ones.
        for bucket in ["0.01", "0.05", "0.1", "0.5", "1", "5", "+Inf"] {
            let has_bucket = metrics.lines().any(|line| {
                line.starts_with("dpfhcpbridge_dpucluster_validation_duration_seconds_bucket")
                    && line.contains(&holding)
                    && line.contains(&format!("le=\"{bucket}\""))
            });
            ensure!(has_bucket, "{result}, {bucket}: {metrics}");
        }
    }
    let output = format!("{}\n{}\n{metrics}", program.log(), lifecycle::shown(&tenant).await?);
    lifecycle::hushed(&output)?;
    lifecycle::hides(&output, &key)?;
    needs_all_of(plane, user, &wanted(), &UNUSED).await
}
