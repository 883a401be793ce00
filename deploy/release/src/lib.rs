//! Writes a release: the program, its image, the Helm chart, the CRDs, an SBOM, release notes and checksums.
//!
//! The files depend on the checkout, the toolchain and nothing else: they contain no time, no path of the machine and no
//! name of a user. No container engine is needed, and Helm only for the OLM bundles.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

mod archive;
mod cargo;
mod chart;
mod compile;
mod digest;
pub mod image;
mod notes;
pub mod olm;
mod sbom;
mod target;

pub use cargo::Metadata;
pub use compile::compile;
pub use target::Target;

/// The file with the checksums of all others, in the format of `sha256sum`.
pub const CHECKSUMS: &str = "SHA256SUMS";

/// Writes the files of a release into a new directory: those of the checkout, those of the program on each platform, and `more`.
///
/// # Errors
/// If the directory exists, if a file can't be read or written, or if the checkout lacks a section of release notes.
pub fn write(
    directory: &Path,
    metadata: &Metadata,
    programs: &[(Target, Vec<u8>)],
    more: BTreeMap<String, Vec<u8>>,
) -> anyhow::Result<()> {
    let root = &metadata.workspace_root;
    let lock = read(&root.join("Cargo.lock"))?;
    let (chart_name, chart) = chart::package(&root.join("deploy/lockstep"))?;
    let mut files = more;
    files.extend([
        (chart_name, chart),
        ("crds.yaml".to_owned(), chart::crds(&root.join("deploy/lockstep"))?),
        ("lockstep.cdx.json".to_owned(), sbom::document(metadata, &lock)?),
        ("release-notes.md".to_owned(), notes::section(&read(&root.join("CHANGELOG.md"))?)?.into_bytes()),
    ]);
    let image = |programs: &[(Target, &[u8])]| image::archive(programs, flate2::Compression::best());
    let programs: Vec<(Target, &[u8])> =
        programs.iter().map(|(target, program)| (*target, &**program)).collect();
    for (target, program) in &programs {
        let architecture = target.architecture();
        files.insert(format!("lockstep-linux-{architecture}"), program.to_vec());
        files.insert(format!("lockstep-image-linux-{architecture}.tar"), image(&[(*target, *program)])?);
    }
    if programs.len() > 1 {
        files.insert("lockstep-image.tar".to_owned(), image(&programs)?);
    }
    let sums: Vec<String> =
        files.iter().map(|(name, bytes)| format!("{}  {name}\n", digest::sha256(bytes))).collect();
    files.insert(CHECKSUMS.to_owned(), sums.concat().into_bytes());

    fs::create_dir(directory).with_context(|| format!("creating {}", directory.display()))?;
    for (name, bytes) in &files {
        let path = directory.join(name);
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    for (target, _) in programs {
        archive::make_executable(&directory.join(format!("lockstep-linux-{}", target.architecture())))?;
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}
