//! Tests that programs with Kubernetes' own libraries get the same results on the embedded API server as on a real
//! kube-apiserver.

use std::path::Path;

use anyhow::ensure;
use lockstep_apiserver::host::{Host, Options};
use lockstep_tests::control_plane::{self, ControlPlane};
use tokio::process::Command;
use tokio::task::spawn_blocking;

/// Returns the output of one of the programs on this API server.
async fn printed(program: &str, kubeconfig: &Path) -> anyhow::Result<String> {
    let clients = spawn_blocking(control_plane::clients).await??;
    let output = Command::new(clients).arg(program).arg(kubeconfig).kill_on_drop(true).output().await?;
    let (printed, said) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{program}: {said}\nafter:\n{printed}");
    Ok(printed)
}

async fn sees_the_same(program: &str, lines_min: usize) -> anyhow::Result<()> {
    let plane = spawn_blocking(ControlPlane::shared).await?;
    let real = printed(program, &plane.kubeconfig()).await?;
    let host = Host::bind("127.0.0.1:0".parse()?, Options::default()).await?;
    let kubeconfig = tempfile::NamedTempFile::new()?;
    std::fs::write(&kubeconfig, host.kubeconfig_yaml())?;
    let embedded = printed(program, kubeconfig.path()).await?;
    ensure!(real.lines().count() >= lines_min, "it does too little:\n{real}");
    let differences =
        similar::TextDiff::from_lines(&real, &embedded).unified_diff().header("real", "embedded").to_string();
    ensure!(differences.is_empty(), "{program} sees:\n{differences}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn client_go() -> anyhow::Result<()> {
    sees_the_same("client-go", 240).await
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_runtime() -> anyhow::Result<()> {
    sees_the_same("controller-runtime", 12).await
}
