//! Counts in texts for users.

/// Formats a count with its noun, such as `1 run` and `2 runs`.
pub(super) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
