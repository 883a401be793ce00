//! The difference of two texts, as `diff -u` shows it.

use similar::{ChangeTag, TextDiff};

/// Returns the lines that differ, each with three lines of context.
pub(super) fn unified((old_name, old): (&str, &str), (new_name, new): (&str, &str)) -> String {
    let diff = TextDiff::from_lines(old, new);
    let mut shown = vec![format!("--- {old_name}"), format!("+++ {new_name}")];
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        shown.push(hunk.header().to_string());
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            shown.push(format!("{sign}{}", change.value().trim_end_matches('\n')));
        }
    }
    shown.push(String::new());
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_changed_and_a_little_around_it() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8";
        let shown = unified(("recorded", before), ("now", &before.replace('7', "seven")));
        assert_eq!(shown, "--- recorded\n+++ now\n@@ -4,5 +4,5 @@\n 4\n 5\n 6\n-7\n+seven\n 8\n");
    }
}
