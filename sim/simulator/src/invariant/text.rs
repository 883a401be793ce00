//! The form of messages for people. A value that is missing in a message leaves a gap, which is recognized here.

use lockstep_engine::machine::Note;

/// What remains of a message around an empty value.
const GAPS: [&str; 11] = ["  ", " \"\"", "``", "''", " ()", " ,", " ;", ",,", ";;", "( ", " )"];
/// What a message that ends in the middle of a sentence ends with.
const OPEN_ENDS: [&str; 6] = [",", ";", ":", "(", " and", " or"];

/// Returns the message of a note, if it has one.
pub(super) fn message(note: &Note) -> Option<&str> {
    match note {
        Note::ConditionChanged { message, .. }
        | Note::Warning { message }
        | Note::Error { message, .. }
        | Note::Log { message, .. }
        | Note::EventAnnounced { note: message, .. } => Some(message),
        Note::Reconciled { .. }
        | Note::LeadershipChanged { .. }
        | Note::Published { .. }
        | Note::Measured(_)
        | Note::Traced(_) => None,
    }
}

/// Returns what is wrong with the form of a message.
pub(super) fn flaw(message: &str) -> Option<String> {
    if message.trim() != message || message.is_empty() {
        return Some("it is empty, or begins or ends with a space".to_owned());
    }
    // A long message is cut anywhere.
    let cut = message.strip_suffix(" ...").map(str::trim_end);
    let whole = cut.unwrap_or(message);
    let gap = GAPS.iter().find(|gap| whole.contains(**gap)).map(|gap| format!("it contains {gap:?}"));
    gap.or_else(|| {
        let end = OPEN_ENDS.iter().find(|end| message.ends_with(**end))?;
        Some(format!("it ends with {end:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_gaps_is_well_formed() {
        for message in
            ["created", "`a` was created (twice): b, c; d", "spec.resources[0]: .metadata.name is missing"]
        {
            assert_eq!(flaw(message), None, "{message}");
        }
    }

    #[test]
    fn a_message_may_be_cut_anywhere_and_shows_gaps_before() {
        for message in ["several problems: a, ...", "several problems:  ...", "a and ..."] {
            assert_eq!(flaw(message), None, "{message}");
        }
        for message in ["class `` of ...", "class  of a, ...", "a ...  "] {
            assert!(flaw(message).is_some(), "{message}");
        }
    }

    #[test]
    fn a_missing_value_leaves_a_gap() {
        for message in [
            "",
            " ",
            " a",
            "a ",
            "class  of",
            "class \"\" of",
            "class `` of",
            "a () b",
            "as wanted:",
            "a and",
            "a , b",
            "this: a, ",
        ] {
            assert!(flaw(message).is_some(), "{message}");
        }
    }
}
