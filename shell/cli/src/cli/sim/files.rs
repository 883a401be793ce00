//! The files of a failure.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Writes files with one name to a folder, which is created if it does not exist. Returns their paths.
pub(super) fn write(folder: &Path, name: &str, files: &[(&str, Vec<u8>)]) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))?;
    files
        .iter()
        .map(|(ending, content)| {
            let path = folder.join(format!("{name}.{ending}"));
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        })
        .collect()
}
