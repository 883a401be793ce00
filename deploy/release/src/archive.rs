//! Archives with the same bytes for the same content: sorted entries, no times, and root as the owner.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

/// The permissions of directories and programs: everyone may read and execute, only root may write.
const EXECUTABLE: u32 = 0o755;
const READABLE: u32 = 0o644;

/// A file of an archive.
pub(crate) enum Entry<'a> {
    Data(Cow<'a, [u8]>),
    Program(&'a [u8]),
    Link(&'static str),
}

/// Returns a tar archive of the entries, by their paths, with the directories that contain them.
pub(crate) fn tar(entries: &BTreeMap<String, Entry<'_>>) -> io::Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    let mut directories = BTreeSet::new();
    for (path, entry) in entries {
        for (end, _) in path.match_indices('/') {
            if directories.insert(&path[..end]) {
                let mut directory = header(EntryType::Directory, EXECUTABLE);
                tar.append_data(&mut directory, &path[..=end], io::empty())?;
            }
        }
        match entry {
            Entry::Data(bytes) => append(&mut tar, path, READABLE, bytes)?,
            Entry::Program(bytes) => append(&mut tar, path, EXECUTABLE, bytes)?,
            Entry::Link(target) => {
                tar.append_link(&mut header(EntryType::Symlink, 0o777), path, target)?;
            }
        }
    }
    tar.into_inner()
}

fn append(tar: &mut Builder<Vec<u8>>, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut header = header(EntryType::Regular, mode);
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, path, bytes)
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    header
}

/// Compresses with gzip, without a time and the name of a file.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Gives a file the permissions of a program.
pub(crate) fn make_executable(path: &Path) -> anyhow::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(EXECUTABLE))
        .with_context(|| format!("setting the permissions of {}", path.display()))
}
