//! Builds the program and writes a release.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Parser as _;
use lockstep_release::{Metadata, Target, compile, olm, write};

/// Builds a release: program, image, chart, CRDs, SBOM, release notes and checksums
#[derive(clap::Parser)]
struct Args {
    /// Directory to create
    directory: PathBuf,
    /// Platforms of the program, such as amd64,arm64
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Target::Amd64])]
    architecture: Vec<Target>,
    /// Also write OLM bundles, which run this image, such as registry.example.com/lockstep@sha256:...; needs helm
    #[arg(long, value_name = "IMAGE")]
    olm_image: Option<String>,
}

fn main() -> anyhow::Result<()> {
    let Args { directory, mut architecture, olm_image } = Args::parse();
    architecture.sort_unstable();
    architecture.dedup();
    // Before the program is compiled, which takes minutes.
    ensure!(!directory.exists(), "{} exists; remove it or name a new directory", directory.display());
    let metadata = Metadata::read(Path::new("."), &architecture)?;
    let bundles = olm_image.map(|image| olm::bundles(&metadata.workspace_root, Path::new("helm"), &image));
    let bundles = bundles.transpose()?.unwrap_or_default();
    let mut programs = Vec::new();
    for target in architecture {
        let program = compile(&metadata, target)?;
        let program = fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
        programs.push((target, program));
    }
    write(&directory, &metadata, &programs, bundles)?;
    Ok(writeln!(std::io::stdout(), "wrote {}", directory.display())?)
}
