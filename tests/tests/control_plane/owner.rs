//! Tests a control plane in another process: it ends when its owner is killed, and uses the servers that its owner names.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use lockstep_tests::control_plane::{ControlPlane, programs};
use lockstep_tests::ground::eventually;

/// Set for the process that owns a control plane. It is this test binary, started for a single test.
const OWNER: &str = "LOCKSTEP_TESTS_OWN_A_CONTROL_PLANE";
/// The prefix of the line that such a process prints when the control plane is ready.
const READY: &str = "the control plane runs in ";

/// Starts a control plane and keeps it until this process ends.
#[expect(clippy::print_stdout, reason = "it is how this process speaks to the one that has started it")]
fn own() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    println!("{READY}{}", directory(&plane)?.display());
    // The process that started this one kills it, or ends and so closes its standard input.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

fn directory(plane: &ControlPlane) -> anyhow::Result<PathBuf> {
    Ok(plane.kubeconfig().parent().context("a kubeconfig in no directory")?.to_owned())
}

/// Another process, which owns a control plane.
struct Owner {
    process: Child,
    /// The directory of the control plane: the working directory of all its processes.
    directory: PathBuf,
}

impl Owner {
    /// Runs the test of that name, which must call [`own`], in a separate process.
    fn start(test: &str, assets: Option<&Path>) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", test, "--nocapture"]).env(OWNER, "1");
        if let Some(assets) = assets {
            command.env("KUBEBUILDER_ASSETS", assets);
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = process.stdout.take().context("no standard output")?;
        for line in BufReader::new(stdout).lines() {
            // The test harness prints something first, without a line break.
            if let Some((_, directory)) = line?.split_once(READY) {
                return Ok(Self { process, directory: directory.into() });
            }
        }
        bail!("the owner started no control plane ({})", process.wait()?)
    }

    /// Returns the ids of its processes, each with the path of the program as it was called.
    fn processes(&self) -> anyhow::Result<Vec<(u32, PathBuf)>> {
        let mut processes = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let process = entry?.path();
            let Some(id) = process.file_name().and_then(|name| name.to_str()?.parse().ok()) else { continue };
            // A process that has ended, or that belongs to another user, does not belong to the control plane. Linux marks deleted
            // directories.
            let is_here = std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| {
                Path::new(cwd.to_string_lossy().trim_end_matches(" (deleted)")) == self.directory
            });
            let Ok(line) = std::fs::read_to_string(process.join("cmdline")) else { continue };
            if is_here && !line.is_empty() {
                processes.push((id, line.split('\0').next().unwrap_or_default().into()));
            }
        }
        Ok(processes)
    }

    /// Returns the process that runs a program of that name.
    fn running(&self, program: &str) -> anyhow::Result<(u32, PathBuf)> {
        let processes = self.processes()?;
        let mut found = processes.iter().filter(|(_, path)| path.ends_with(program));
        match (found.next(), found.next()) {
            (Some(found), None) => Ok(found.clone()),
            _ => bail!("not one {program}: {processes:?}"),
        }
    }

    /// Waits until no process of the control plane is left.
    async fn leaves_nothing(&self) -> anyhow::Result<()> {
        eventually("every process is gone", async || {
            let left = self.processes()?;
            ensure!(left.is_empty(), "{left:?}");
            Ok(())
        })
        .await
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn no_process_is_left_when_the_owner_is_killed() -> anyhow::Result<()> {
    if std::env::var_os(OWNER).is_some() {
        return own();
    }
    let mut owner = Owner::start("owner::no_process_is_left_when_the_owner_is_killed", None)?;
    for program in ["lockstep-control-plane", "etcd", "kube-apiserver"] {
        owner.running(program)?;
    }
    owner.process.kill()?;
    owner.process.wait()?;
    owner.leaves_nothing().await?;
    // The supervisor has noticed the end of its owner, and has had time to clean up.
    assert!(!owner.directory.exists(), "{} was left", owner.directory.display());
    Ok(())
}

/// The controllers run in the supervisor, so they end with it.
#[tokio::test]
async fn no_process_is_left_when_the_supervisor_is_killed() -> anyhow::Result<()> {
    if std::env::var_os(OWNER).is_some() {
        return own();
    }
    let owner = Owner::start("owner::no_process_is_left_when_the_supervisor_is_killed", None)?;
    let (supervisor, _) = owner.running("lockstep-control-plane")?;
    let killed = Command::new("kill").args(["-KILL", &supervisor.to_string()]).status()?;
    assert!(killed.success());
    owner.leaves_nothing().await?;
    std::fs::remove_dir_all(&owner.directory)?;
    Ok(())
}

#[tokio::test]
async fn the_servers_that_are_named_are_used() -> anyhow::Result<()> {
    if std::env::var_os(OWNER).is_some() {
        return own();
    }
    // Like the assets of envtest, but built here. The path stays the same, because the binary that is built for it is kept.
    let assets = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubebuilder-assets");
    if assets.exists() {
        std::fs::remove_dir_all(&assets)?;
    }
    std::fs::create_dir_all(&assets)?;
    let built = programs()?;
    for program in ["etcd", "kube-apiserver"] {
        symlink(built.join(program), assets.join(program))?;
    }
    let owner = Owner::start("owner::the_servers_that_are_named_are_used", Some(&assets))?;
    for program in ["etcd", "kube-apiserver"] {
        let (_, path) = owner.running(program)?;
        assert_eq!(std::fs::read_link(path)?, assets.join(program));
    }
    Ok(())
}

/// Runs the build script with these assets, and returns its error output. The script must fail.
fn refused(assets: &Path) -> anyhow::Result<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/control-plane/build.sh");
    let output = Command::new(script).env("KUBEBUILDER_ASSETS", assets).output()?;
    assert!(!output.status.success());
    Ok(String::from_utf8(output.stderr)?)
}

#[test]
fn a_server_that_is_missing_is_named_before_anything_is_built() -> anyhow::Result<()> {
    let assets = tempfile::tempdir()?;
    let says = |program: &str| {
        format!(
            "build.sh: KUBEBUILDER_ASSETS={} holds no {program} that can be run; name a directory that does, or\n\
             unset it to have them built\n",
            assets.path().display()
        )
    };
    assert_eq!(refused(assets.path())?, says("etcd"));
    symlink("/bin/true", assets.path().join("etcd"))?;
    assert_eq!(refused(assets.path())?, says("kube-apiserver"));
    // The file exists, but is no program.
    std::fs::write(assets.path().join("kube-apiserver"), "")?;
    assert_eq!(refused(assets.path())?, says("kube-apiserver"));
    let nowhere = assets.path().join("nowhere");
    assert!(refused(&nowhere)?.contains(&format!("KUBEBUILDER_ASSETS={} holds no etcd", nowhere.display())));
    Ok(())
}
