//! Tests the recording of a bridge's lifecycle. The Secrets of a bridge pass through the controller.

use anyhow::ensure;
use lockstep_external as external;
use lockstep_tests::bridge::{Surroundings, Tenant, lifecycle};
use lockstep_tests::upstream::definitions;

use super::Site;

pub(crate) async fn the_lifecycle_of_a_bridge_replays(site: Site) -> anyhow::Result<()> {
    let surroundings = Surroundings::start(site.client.clone(), definitions(&external::BRIDGE)?).await?;
    let operator = site.run("bridge", "64Mi")?;
    let tenant = Tenant::move_in(site.client.clone(), "replay", 10, surroundings.repository()).await?;
    lifecycle::comes(&tenant).await?;
    lifecycle::has_secrets_rotated(&tenant).await?;
    let key = lifecycle::key(&tenant).await?;
    lifecycle::goes(&tenant).await?;
    operator.terminate()?;

    let text = site.read("run.jsonl")?;
    lifecycle::hushed(&text)?;
    lifecycle::hides(&text, &key)?;
    // The recording contains the Secrets, with placeholders for their values.
    for written in
        ["prod-pull-secret", "prod-ssh-key", "prod-etcd-encryption-key", "replay-prod-dpucluster-kubeconfig"]
    {
        ensure!(text.contains(&format!("\"name\":\"{written}\"")), "{written}: {text}");
    }
    for key in [".dockerconfigjson", "ssh-publickey", "id_rsa.pub", "kubeconfig", "super-admin.conf"] {
        ensure!(text.contains(&format!("\"{key}\":")), "{key}: {text}");
    }
    let header = text.lines().next().unwrap_or_default();
    ensure!(header.contains("\"concurrency\":5,"), "{header}");
    let steps = text.lines().filter(|line| line.starts_with(r#"{"step":"#)).count();
    ensure!(steps > 100 && site.replays("run.jsonl")? == u64::try_from(steps)?, "{steps}");
    Ok(())
}
