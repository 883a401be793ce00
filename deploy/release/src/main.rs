//! Builds the program and writes a release.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Parser as _;
use lockstep_release::{Metadata, Target, compile, write};

/// Builds a release: program, image, chart, CRDs, SBOM, release notes and checksums
#[derive(clap::Parser)]
struct Args {
    /// Directory to create
    directory: PathBuf,
    /// Platform of the program
    #[arg(long, value_enum, default_value_t = Target::Amd64)]
    architecture: Target,
}

fn main() -> anyhow::Result<()> {
    let Args { directory, architecture } = Args::parse();
    // Before the program is compiled, which takes minutes.
    ensure!(!directory.exists(), "{} exists; remove it or name a new directory", directory.display());
    let metadata = Metadata::read(Path::new("."), architecture.triple())?;
    let program = compile(&metadata, architecture)?;
    let program = fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
    write(&directory, &metadata, architecture, &program)?;
    Ok(writeln!(std::io::stdout(), "wrote {}", directory.display())?)
}
