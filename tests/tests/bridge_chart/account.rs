//! Whether the Bridge can live on what the chart grants, and needs all of it.

use std::collections::BTreeSet;

use anyhow::ensure;
use lockstep_sim::worlds;
use lockstep_tests::access::asked;
use lockstep_tests::bridge::{Surroundings, Tenant, life};
use lockstep_tests::chart::{install, named, render, start};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::eventually;
use lockstep_tests::upstream::definitions;

use super::{BRIDGE, wanted};

/// What the specification's role grants, and nothing here needs: the status is patched, and Events are of the newer API.
const UNUSED: [&str; 4] = [
    "update dpf.hcp.bridge.com dpfhcpbridges/status ",
    // Asked for by an admission plugin, where that is on.
    "update dpf.hcp.bridge.com dpfhcpbridges/finalizers ",
    "create  events ",
    "patch  events ",
];

/// How often the DPUCluster is lost at most.
const ROUNDS: usize = 20;

#[tokio::test]
async fn the_bridge_lives_on_what_the_chart_grants_and_needs_all_of_it() -> anyhow::Result<()> {
    let (plane, release) = (ControlPlane::start()?, "bridge-lives");
    let client = plane.client().await?;
    let surroundings = Surroundings::start(client.clone(), definitions(&worlds::BRIDGE)?).await?;
    let objects = render(release, &format!("{BRIDGE}log: {{level: debug}}\n"))?;
    install(&client, release, &objects).await?;
    let program = start(&plane, named(&objects, "Deployment", "bridge-lives-lockstep-bridge")?).await?;

    let tenant = Tenant::move_in(client, "lives", 10, surroundings.repository()).await?;
    life::comes(&tenant).await?;
    life::is_upgraded(&tenant).await?;
    life::has_secrets_rotated(&tenant).await?;
    let user = "system:serviceaccount:bridge-lives:bridge-lives-lockstep-bridge";
    // An Event that happens again is counted on the first one, but not so soon.
    for _ in 0..ROUNDS {
        life::loses_its_dpu_cluster(&tenant).await?;
        if asked(&plane, user)?.0.contains("patch events.k8s.io events ") {
            break;
        }
    }
    life::goes(&tenant).await?;

    let metrics = program.metrics().await?;
    ensure!(program.metric("lockstep_actions_total", "\"forbidden\"").await? == 0, "{metrics}");
    ensure!(program.metric("lockstep_watch_errors_total", "").await? == 0, "{metrics}");
    for result in ["success", "not_found"] {
        let holding = format!("result=\"{result}\"");
        let total = program.metric("dpfhcpbridge_dpucluster_validation_total", &holding).await?;
        ensure!(total > 0, "{result}: {metrics}");
        // The buckets of the specification, and whatever is slower.
        for bucket in ["0.01", "0.05", "0.1", "0.5", "1", "5", "+Inf"] {
            let has_bucket = metrics.lines().any(|line| {
                line.starts_with("dpfhcpbridge_dpucluster_validation_duration_seconds_bucket")
                    && line.contains(&holding)
                    && line.contains(&format!("le=\"{bucket}\""))
            });
            ensure!(has_bucket, "{result}, {bucket}: {metrics}");
        }
    }
    life::hushed(&format!("{}\n{}\n{metrics}", program.log(), life::shown(&tenant).await?))?;
    eventually("every permission was used but those of the specification alone", async || {
        let (allowed, refused) = asked(&plane, user)?;
        ensure!(refused.is_empty(), "refused: {refused:#?}");
        let unused: BTreeSet<String> = wanted().difference(&allowed).cloned().collect();
        ensure!(unused == UNUSED.map(str::to_owned).into(), "never asked for: {unused:#?}");
        Ok(())
    })
    .await
}
