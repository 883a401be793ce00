//! The Helm chart and the CRDs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use flate2::Compression;

use crate::archive::{Entry, gzip, tar};

/// Returns the name and the content of the packaged chart. `helm package` would put the current time into it.
pub(crate) fn package(chart: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let mut entries = BTreeMap::new();
    for path in files(chart)? {
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let path = path.strip_prefix(chart)?.to_str().context("a file of the chart with an unusual name")?;
        entries.insert(format!("lockstep/{path}"), Entry::Data(Cow::Owned(bytes)));
    }
    let manifest = fs::read_to_string(chart.join("Chart.yaml"))?;
    let version = version(&manifest)?;
    Ok((format!("lockstep-{version}.tgz"), gzip(&tar(&entries)?, Compression::best())?))
}

/// Returns the CRDs of all controllers as one file. The files of the chart are documents with a start line.
pub(crate) fn crds(chart: &Path) -> anyhow::Result<Vec<u8>> {
    let mut documents = Vec::new();
    for folder in ["crds", "files/crds"] {
        for path in files(&chart.join(folder))? {
            let document = fs::read(&path)?;
            ensure!(document.starts_with(b"---\n"), "{} is not one YAML document", path.display());
            documents.extend(document);
        }
    }
    Ok(documents)
}

/// Returns the files below a folder, in order, except those that editors and `.helmignore` hide.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let found = if entry.file_type()?.is_dir() { &mut folders } else { &mut files };
            found.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the version in a Chart.yaml.
fn version(text: &str) -> anyhow::Result<&str> {
    text.lines().find_map(|line| line.strip_prefix("version: ")).context("Chart.yaml has no version")
}
