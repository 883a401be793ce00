//! The files that a failure leaves behind.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Writes files of one name into a folder, which is made if it is not there. Returns their paths.
pub(super) fn write(folder: &Path, name: &str, files: &[(&str, Vec<u8>)]) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    files
        .iter()
        .map(|(ending, content)| {
            let path = folder.join(format!("{name}.{ending}"));
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        })
        .collect()
}
