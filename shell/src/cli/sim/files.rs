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

/// A path or another word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./,=:@+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_take_quoted_words_as_they_are() {
        assert_eq!(quoted("lockstep-failures/x-17.json"), "lockstep-failures/x-17.json");
        assert_eq!(quoted("my plans/it's.json"), r"'my plans/it'\''s.json'");
        assert_eq!(quoted(""), "''");
    }
}
