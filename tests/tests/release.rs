//! Tests the container image: its content, and the operator in its file system, as the user of the image, with the account
//! of the chart and nothing of this machine.

use std::io::Write as _;
use std::process::{Command, Output};
use std::sync::OnceLock;

use anyhow::{Context as _, ensure};
use lockstep_release::image::{CERTIFICATES, PROGRAM, SENTINEL, USER, variables};
use lockstep_tests::chart::{configure, install, only, render};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::image::{Image, archive};
use lockstep_tests::program::Program;
use lockstep_tests::user::User;
use serde_json::{Value, json};

/// Returns the archive, which is made once: that takes seconds.
fn image() -> anyhow::Result<&'static [u8]> {
    static ARCHIVE: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let archive = ARCHIVE.get_or_init(|| archive().map_err(|error| format!("{error:#}")));
    archive.as_deref().map_err(|error| anyhow::anyhow!("{error}"))
}

#[test]
fn the_image_contains_the_program_certificates_and_a_user_and_nothing_else() -> anyhow::Result<()> {
    let image = Image::unpack(image()?)?;

    let entries = image.entries()?;
    let paths: Vec<&str> = entries.iter().map(|entry| &*entry.path).collect();
    let directories = ["etc/", "etc/ssl/", "etc/ssl/certs/", "usr/", "usr/local/", "usr/local/bin/"];
    let mut expected = directories.to_vec();
    expected.extend(["etc/group", "etc/passwd", CERTIFICATES, SENTINEL, PROGRAM]);
    expected.sort_unstable();
    assert_eq!(paths, expected);
    for entry in &entries {
        assert_eq!(entry.owner, (0, 0), "{entry:?}");
        // No entry has other bits, such as setuid; the permissions of a link have no effect.
        assert!(entry.path == SENTINEL || [0o755, 0o644].contains(&entry.mode), "{entry:?}");
    }

    let config = image.configuration.config().as_ref().context("no configuration of containers")?;
    // By number: Kubernetes can't check `runAsNonRoot` of a name.
    assert_eq!(config.user().as_deref(), Some(USER));
    assert_eq!(config.entrypoint().as_deref(), Some(&[format!("/{PROGRAM}")][..]));
    assert_eq!(config.cmd().as_deref(), Some(&["run".to_owned()][..]));
    Ok(())
}

#[tokio::test]
async fn the_operator_works_in_the_image_with_the_account_of_the_chart() -> anyhow::Result<()> {
    let image = Image::unpack(image()?)?;
    let Some(mut command) = image.command(&format!("/{PROGRAM}"))? else { return Ok(()) };
    let (plane, release) = (&ControlPlane::start()?, "image-operator");
    let client = plane.client().await?;
    let objects = render(release, "{}")?;
    install(&client, release, &objects).await?;
    let deployment = only(&objects, "Deployment")?;
    let account =
        deployment["spec"]["template"]["spec"]["serviceAccountName"].as_str().context("no account")?;
    configure(&mut command, deployment)?;
    image.mount_account(&mut command, plane, release, account).await?;

    let program = Program::start_as_pod(command).await?;

    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id()))?;
    ensure!(status.contains("Uid:\t65532\t65532\t65532\t65532\n"), "{status}");
    ensure!(status.contains("CapEff:\t0000000000000000\n"), "{status}");
    let user = User { client };
    let resources = json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}]);
    user.create(&json!({
        "apiVersion": "namespaceclass.akuity.io/v1alpha1",
        "kind": "NamespaceClass",
        "metadata": {"name": "image"},
        "spec": {"resources": resources},
    }))
    .await?;
    let labels = json!({"namespaceclass.akuity.io/name": "image"});
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "image-team", "labels": labels}});
    user.create(&team).await?;
    let applied = user.until("the class is applied", ("ConfigMap", "image-team", "settings"), |_| true).await;
    applied.with_context(|| program.log())?;
    program.never_counted("lockstep_actions_total", "\"forbidden\"").await?;
    let log = program.log();
    let status = program.terminate().await?;
    ensure!(status.success(), "{status}: {log}");
    Ok(())
}

#[test]
fn the_image_runs_the_sentinel_by_its_own_name() -> anyhow::Result<()> {
    let image = Image::unpack(image()?)?;
    let Some(mut command) = image.command(&format!("/{SENTINEL}"))? else { return Ok(()) };
    let version = text(&command.arg("--version").output()?)?;
    assert_eq!(version, concat!("sentinel ", env!("CARGO_PKG_VERSION"), "\n"));
    Ok(())
}

#[test]
fn skopeo_reads_the_image_in_both_forms() -> anyhow::Result<()> {
    if Command::new("skopeo").arg("--version").output().is_err() {
        // Not the macro: its output is captured for tests that pass.
        writeln!(std::io::stderr(), "SKIPPED: skopeo is not installed; no other program reads the image")?;
        return Ok(());
    }
    let (directory, archive) = (tempfile::tempdir()?, image()?);
    let (file, copy) = (directory.path().join("image.tar"), directory.path().join("copy"));
    std::fs::write(&file, archive)?;
    let (file, image) = (file.display(), Image::unpack(archive)?);

    // As podman and containerd read it. The copy is byte for byte: a registry gives the image the same digest.
    let found = text(&skopeo(&["inspect", "--format={{.Digest}}", &format!("oci-archive:{file}")])?)?;
    assert_eq!(found.trim(), image.digest);
    text(&skopeo(&["copy", &format!("oci-archive:{file}"), &format!("oci:{}:copy", copy.display())])?)?;
    let index: Value = serde_json::from_slice(&std::fs::read(copy.join("index.json"))?)?;
    assert_eq!(index["manifests"][0]["digest"], image.digest);

    // As `docker load` reads it.
    let config = text(&skopeo(&["inspect", "--config", &format!("docker-archive:{file}")])?)?;
    let config: Value = serde_json::from_str(&config)?;
    assert_eq!(config["config"]["User"], USER);
    let variables = variables();
    assert_eq!(config["config"]["Env"], json!(variables));
    // So `kubectl exec` finds the program by its name.
    let path = variables.iter().find_map(|variable| variable.strip_prefix("PATH=")).context("no PATH")?;
    assert!(
        path.split(':').any(|directory| format!("{directory}/lockstep") == format!("/{PROGRAM}")),
        "{path}"
    );
    Ok(())
}

fn skopeo(arguments: &[&str]) -> anyhow::Result<Output> {
    Ok(Command::new("skopeo").arg("--insecure-policy").args(arguments).output()?)
}

/// Returns the standard output of a program that succeeded.
fn text(output: &Output) -> anyhow::Result<String> {
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout.clone())?)
}
