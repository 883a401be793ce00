//! The kubeconfig that `lockstep dev` writes for kubectl while it runs.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::cli::quoted::quoted;

/// The first line of our files, which distinguishes them from others.
const MARK: &str = "# Written by `lockstep dev`, which removes it at its end.\n";

/// A file that is removed when this is dropped, unless another process has written it since.
pub(super) struct Kubeconfig {
    path: PathBuf,
    content: String,
}

impl Kubeconfig {
    /// Writes the file. It replaces a file that an earlier `lockstep dev` left behind, and does not change any other file.
    pub(super) fn write(path: &Path, yaml: &str) -> anyhow::Result<Self> {
        match fs::read(path) {
            Ok(bytes) if !bytes.starts_with(MARK.as_bytes()) => {
                bail!("{} exists and is not ours to overwrite (--kubeconfig chooses another)", path.display())
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| {
                    format!("cannot read {} (--kubeconfig chooses another place)", path.display())
                });
            }
            Ok(_) | Err(_) => {}
        }
        let content = format!("{MARK}{yaml}");
        let write = || {
            // A temporary file is renamed, so that no process reads a partial file.
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(content.as_bytes())?;
            file.persist(path).map_err(|error| error.error)
        };
        write().with_context(|| {
            format!("cannot write the kubeconfig {} (--kubeconfig chooses another place)", path.display())
        })?;
        Ok(Self { path: path.to_owned(), content })
    }

    /// Returns the path as the user gave it, quoted for a shell if necessary.
    pub(super) fn shown(&self) -> String {
        quoted(&self.path.to_string_lossy())
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // Another `lockstep dev` in this folder may have replaced the file.
        if fs::read(&self.path).is_ok_and(|content| content == self.content.as_bytes()) {
            // If it can't be removed, it names a server that no longer runs; the next `lockstep dev` overwrites it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_replaces_its_own_file_only_and_removes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it's");
        let first = Kubeconfig::write(&path, "a: 1\n").unwrap();
        assert!(first.shown().ends_with(r"it'\''s'"));
        let second = Kubeconfig::write(&path, "a: 2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{MARK}a: 2\n"));
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{MARK}a: 2\n"));
        drop(second);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(Kubeconfig::write(&path, "a: 3\n").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
