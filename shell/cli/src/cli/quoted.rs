//! Quotes words in commands that are printed for users.

/// Quotes a path or another word for a shell.
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
