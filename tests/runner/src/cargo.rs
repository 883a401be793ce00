//! Builds the test binaries and lists them.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// A test binary that cargo built.
#[derive(Debug)]
pub(crate) struct Binary {
    /// Package and target, such as `lockstep-sim/bridge`; the unit tests of a library are `lockstep-sim/lib`.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// The directory in which cargo would run it.
    pub(crate) directory: PathBuf,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    package_id: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the wanted test binaries of the workspace. Targets of other packages with the same name are built as well. The
/// compiler's progress is printed on standard error.
pub(crate) fn build(is_wanted: &dyn Fn(&str) -> bool) -> anyhow::Result<Vec<Binary>> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(["--lib", "--bins"]);
    for name in integration_tests()? {
        if is_wanted(&name) {
            command.args(["--test", name.rsplit_once('/').map_or(&*name, |(_, target)| target)]);
        }
    }
    let mut cargo = command.stdout(Stdio::piped()).spawn().context("starting cargo")?;
    let stdout = cargo.stdout.take().context("cargo has no standard output")?;
    let mut binaries = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let message: Message = serde_json::from_str(&line?)?;
        binaries.extend(binary(message)?);
    }
    ensure!(cargo.wait()?.success(), "the tests do not compile; the compiler's messages are above");
    binaries.retain(|binary| is_wanted(&binary.name));
    binaries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(binaries)
}

/// Returns the names of all test targets of the workspace.
fn integration_tests() -> anyhow::Result<Vec<String>> {
    let output = cargo().args(["metadata", "--format-version", "1", "--no-deps", "--locked"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let tests = metadata.packages.iter().flat_map(|package| {
        let tests = package.targets.iter().filter(|target| target.kind == ["test"]);
        tests.map(|target| format!("{}/{}", package.name, target.name))
    });
    Ok(tests.collect())
}

/// Returns a cargo command that is independent of the one that runs this program.
fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    // `cargo run` sets variables about the package of this program. A build script that reads such variables, as that of ring
    // does, would cause a new compilation of all its dependents, and another one with the next cargo that has other variables.
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
    command
}

fn binary(message: Message) -> anyhow::Result<Option<Binary>> {
    let tested = message.profile.is_some_and(|profile| profile.test);
    let (Some(executable), Some(target), true) = (message.executable, message.target, tested) else {
        return Ok(None);
    };
    ensure!(
        message.reason == "compiler-artifact",
        "an executable in a message of cargo's about {}",
        message.reason
    );
    let manifest = message.manifest_path.context("an artifact without a manifest")?;
    let package = message.package_id.context("an artifact without a package")?;
    let package = package_name(&package);
    let directory = manifest.parent().context("a manifest in no directory")?.to_owned();
    let kind = target.kind.first().map_or("", String::as_str);
    let name = match kind {
        "lib" | "bin" => format!("{package}/{kind}"),
        _ => format!("{package}/{}", target.name),
    };
    Ok(Some(Binary { name, executable, directory }))
}

/// Returns the name in a package id such as `path+file:///src/sim#lockstep-sim@0.1.0`.
fn package_name(id: &str) -> &str {
    let id = id.rsplit_once('#').map_or(id, |(_, id)| id);
    id.split_once('@').map_or(id, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::package_name;

    #[test]
    fn package_ids_are_read() {
        assert_eq!(package_name("path+file:///src/sim#lockstep-sim@0.1.0"), "lockstep-sim");
    }
}
