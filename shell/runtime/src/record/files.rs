//! The files of a recording: the current one, and a few older segments.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// The number of older segments that are kept.
pub const KEPT: usize = 3;

/// The destination of a recording.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file. Older segments have the same name with a suffix: `.1` for the youngest of them, then `.2` and so on.
    pub path: PathBuf,
    /// The size at which a new segment begins, in bytes.
    pub max_bytes: u64,
}

/// The first bytes of every recording.
const BEGINNING: &[u8] = br#"{"header":"#;

/// Creates the file, readable only by its owner. An existing recording becomes an older segment.
pub(super) fn create(path: &Path) -> io::Result<File> {
    for number in (1..KEPT).rev() {
        rename(&older(path, number), &older(path, number + 1))?;
    }
    rename(path, &older(path, 1))?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Checks that the file and its older segments are recordings if they exist, because they will be renamed or overwritten.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    check_one(path)?;
    (1..=KEPT).try_for_each(|number| check_one(&older(path, number)))
}

fn check_one(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.with_context(|| format!("cannot record to {shown}"))?,
    };
    let mut beginning = Vec::new();
    let mut limited = io::Read::by_ref(&mut file).take(BEGINNING.len() as u64);
    limited.read_to_end(&mut beginning).with_context(|| format!("cannot record to {shown}"))?;
    if !BEGINNING.starts_with(&beginning) {
        bail!(
            "cannot record: {shown} exists and is not a recording, and would be renamed or overwritten; record to another \
             file, or remove this one"
        );
    }
    Ok(())
}

fn older(path: &Path, number: usize) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}
