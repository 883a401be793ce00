//! The table and the causes as text.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::super::age::age;
use super::super::count::count;
use super::causes::Cause;
use super::row::Row;

/// The maximum number of characters of a message in a table that is not wide.
const MESSAGE_MAX: usize = 60;
/// The maximum number of objects that are named with a cause.
const NAMED_MAX: usize = 3;

/// Returns a table with a header. Its last column is not padded.
pub(super) fn table(rows: &[Row], wide: bool, now: Timestamp) -> String {
    let since =
        |time: Option<Timestamp>| time.map_or_else(|| "-".to_owned(), |time| age(now.duration_since(time)));
    let header =
        ["KIND", "NAMESPACE", "NAME", "READY", "SINCE", "REASON", "AGE", "MESSAGE"].map(str::to_owned);
    let lines = rows.iter().map(|row| {
        let message = if wide { row.message.clone() } else { shortened(&row.message) };
        let (kind, name, ready) = (row.kind.clone(), row.name.clone(), row.ready.clone());
        let reason = row.reason.clone();
        [kind, row.namespace.clone(), name, ready, since(row.since), reason, since(row.created), message]
    });
    let lines: Vec<[String; 8]> = std::iter::once(header).chain(lines).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.filter(|(column, _)| wide || *column != 4);
        let cells = cells.map(
            |(column, (cell, width))| {
                if column == 7 { cell.clone() } else { format!("{cell:width$}") }
            },
        );
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn shortened(message: &str) -> String {
    if message.chars().count() <= MESSAGE_MAX {
        return message.to_owned();
    }
    let begin: String = message.chars().take(MESSAGE_MAX - 1).collect();
    format!("{}…", begin.trim_end())
}

/// Returns a line for each cause.
pub(super) fn causes(causes: &[Cause]) -> String {
    if causes.is_empty() {
        return String::new();
    }
    let mut text = "\nNot ready:\n".to_owned();
    for Cause { count: number, kind, reason, message, objects } in causes {
        let named = objects.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
        let more = match objects.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let counted = count(*number as u64, kind);
        let _infallible = writeln!(text, "  {counted}: {reason}: {message} ({named}{more})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::causes::group;
    use super::*;

    fn row(name: &str, reason: &str, message: &str) -> Row {
        Row {
            kind: "DPUService".to_owned(),
            namespace: "dpf".to_owned(),
            name: name.to_owned(),
            ready: if reason == "Success" { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            since: "2026-01-01T00:00:00Z".parse().ok(),
            created: "2025-12-31T00:00:00Z".parse().ok(),
        }
    }

    fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    #[test]
    fn columns_are_aligned_and_messages_shortened() {
        let long = "x".repeat(61);
        let rows = [row("a", "Success", ""), row("longer", "Failure", &long)];
        let expected = format!(
            "KIND        NAMESPACE  NAME    READY  REASON   AGE  MESSAGE\n\
             DPUService  dpf        a       True   Success  24h\n\
             DPUService  dpf        longer  False  Failure  24h  {}…\n",
            "x".repeat(59)
        );
        assert_eq!(table(&rows, false, now()), expected);
        let wide = table(&rows, true, now());
        assert!(wide.contains("SINCE") && wide.contains(&long) && wide.contains("10m"), "{wide}");
    }

    #[test]
    fn equal_reasons_and_messages_are_counted_together() {
        let message = "TLS certificate expired";
        let mut rows: Vec<Row> = (1..=5).map(|n| row(&format!("s{n}"), "Error", message)).collect();
        rows.extend([row("other", "Error", "no connection"), row("fine", "Success", "")]);
        let expected = "\nNot ready:\n\
             \x20 5 DPUServices: Error: TLS certificate expired (dpf/s1, dpf/s2, dpf/s3 and 2 more)\n\
             \x20 1 DPUService: Error: no connection (dpf/other)\n";
        assert_eq!(causes(&group(&rows)), expected);
        assert_eq!(causes(&group(&rows[6..])), "");
    }
}
