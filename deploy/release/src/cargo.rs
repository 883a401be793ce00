//! What cargo reports about the workspace and its dependencies.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::target::Target;

/// The packages of the workspace and their dependencies on the platforms of a release.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// The root of the checkout.
    pub workspace_root: PathBuf,
    /// The directory in which cargo builds.
    pub target_directory: PathBuf,
    pub(crate) packages: Vec<Package>,
    pub(crate) resolve: Resolve,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    /// `None` for packages of the workspace.
    pub(crate) source: Option<String>,
    pub(crate) manifest_path: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

/// A package with the packages that it depends on.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) pkg: String,
    pub(crate) dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DependencyKind {
    /// `dev`, `build`, or `None` for ordinary dependencies.
    pub(crate) kind: Option<String>,
}

impl Metadata {
    /// Queries cargo about the workspace that contains a directory.
    ///
    /// # Errors
    /// If cargo fails, for example because `Cargo.lock` is outdated.
    pub fn read(directory: &Path, targets: &[Target]) -> anyhow::Result<Self> {
        let output = cargo()
            .args(["metadata", "--format-version=1", "--locked"])
            .args(targets.iter().flat_map(|target| ["--filter-platform", target.triple()]))
            .current_dir(directory)
            .output()
            .context("starting cargo")?;
        ensure!(
            output.status.success(),
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// Returns a cargo command that is independent of the one that runs this program. Build scripts would read the variables
/// that `cargo run` sets about this package, and cargo would compile what depends on them again.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let of_this_package =
            |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.starts_with(start));
        if name.to_str().is_some_and(of_this_package) {
            command.env_remove(name);
        }
    }
    command
}
