//! Whether the Bridge can live on what the chart grants, and needs all of it.

use std::collections::BTreeSet;

use anyhow::ensure;
use lockstep_sim::worlds;
use lockstep_tests::bridge::{Surroundings, Tenant, life};
use lockstep_tests::chart::{install, named, render, start};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::eventually;
use lockstep_tests::upstream::definitions;
use serde_json::Value;

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

/// The API server's own account of what was asked for, in the words of rules, and what of it was refused.
fn asked(plane: &ControlPlane, user: &str) -> anyhow::Result<(BTreeSet<String>, BTreeSet<String>)> {
    let (mut allowed, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for line in std::fs::read_to_string(plane.log("audit"))?.lines() {
        let request: Value = serde_json::from_str(line)?;
        let object = &request["objectRef"];
        if request["user"]["username"] != user || object.is_null() {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut resource = text(&object["resource"]);
        if let Some(subresource) = object["subresource"].as_str() {
            resource = format!("{resource}/{subresource}");
        }
        let (verb, group) = (text(&request["verb"]), text(&object["apiGroup"]));
        let is_refused = request["annotations"]["authorization.k8s.io/decision"] != "allow";
        let words = if is_refused { &mut refused } else { &mut allowed };
        for name in [String::new(), text(&object["name"])] {
            words.insert(format!("{verb} {group} {resource} {name}"));
        }
    }
    Ok((allowed, refused))
}

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
