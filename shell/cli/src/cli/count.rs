//! Counts in texts for users.

/// Formats a count with its noun, such as `1 run`, `2 runs` and `2 NamespaceClasses`.
pub(super) fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ if noun.ends_with('s') => format!("{number} {noun}es"),
        _ => format!("{number} {noun}s"),
    }
}
