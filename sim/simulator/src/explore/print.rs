//! Fingerprints of states. Two states that differ only in names without meaning have the same fingerprint: ids of actions, uids,
//! and resource versions, of which only the order between the versions of one object counts.
//!
//! The input is the `Debug` text of a state. The order of entries between braces does not count, because a map that is ordered by
//! ids has another order under other names.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Fields without influence on behaviour that count steps or order versions of different objects: the events that a watch has
/// still to deliver say as much.
const IGNORED: [&str; 2] = ["next_id", "watched_up_to"];

/// The fingerprint of a text, and the resource versions in it. Their meaning changes whenever an object changes, so they are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Print {
    pub(super) text: u64,
    pub(super) versions: Vec<u64>,
}

/// The meaning of names in a text.
pub(super) struct Names<'a> {
    /// The actions in flight, by id.
    pub(super) actions: &'a BTreeMap<u64, u64>,
    /// The objects that were created during the run, by uid.
    pub(super) uids: &'a BTreeMap<Arc<str>, u64>,
}

/// Returns the hash of a value; it is the same in each run.
pub(super) fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Print {
    /// Reads a text.
    pub(super) fn of(text: &str, names: &Names<'_>) -> Self {
        let mut scan =
            Scan { names, frames: vec![Frame::default()], key: "", word: "", versions: Vec::new() };
        let mut rest = text;
        while let Some(next) = rest.bytes().next() {
            let length = match next {
                b'"' => scan.string(rest),
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => scan.word(rest),
                b'0'..=b'9' => scan.number(rest),
                _ => scan.symbol(next),
            };
            rest = &rest[length..];
        }
        let Scan { frames, versions, .. } = scan;
        Self { text: hash(&frames.into_iter().map(Frame::close).collect::<Vec<_>>()), versions }
    }
}

/// The text between two brackets.
#[derive(Default)]
struct Frame {
    in_braces: bool,
    /// The sum over the complete entries, if their order does not count.
    sum: u64,
    entry: DefaultHasher,
}

impl Frame {
    fn end_entry(&mut self) {
        self.sum = self.sum.wrapping_add(std::mem::take(&mut self.entry).finish());
    }

    fn close(mut self) -> u64 {
        self.end_entry();
        self.sum
    }
}

struct Scan<'a> {
    names: &'a Names<'a>,
    frames: Vec<Frame>,
    /// The last word or string before a colon.
    key: &'a str,
    word: &'a str,
    versions: Vec<u64>,
}

impl<'a> Scan<'a> {
    /// Adds bytes that were read together. Their number counts, so bytes that are read apart are another text.
    fn push(&mut self, bytes: &[u8]) {
        if let Some(frame) = self.frames.last_mut() {
            frame.entry.write(bytes);
            frame.entry.write_usize(bytes.len());
        }
    }

    fn push_word(&mut self, word: u64) {
        if let Some(frame) = self.frames.last_mut() {
            frame.entry.write_u64(word);
        }
    }

    /// Reads a string literal and returns its length.
    fn string(&mut self, rest: &'a str) -> usize {
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let length = end.map_or(rest.len(), |end| end + 2);
        let content = &rest[1..length.max(2) - 1];
        match (content.parse(), self.names.uids.get(content)) {
            (Ok(version), _) if self.is_version() => self.versions.push(version),
            (_, Some(name)) => self.push_word(*name),
            _ => self.push(&rest.as_bytes()[..length]),
        }
        self.word = content;
        length
    }

    fn word(&mut self, rest: &'a str) -> usize {
        let is_end = |byte: u8| !byte.is_ascii_alphanumeric() && byte != b'_';
        let length = rest.bytes().position(is_end).unwrap_or(rest.len());
        self.word = &rest[..length];
        self.push(self.word.as_bytes());
        length
    }

    fn number(&mut self, rest: &'a str) -> usize {
        let length = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        let (number, is_action) = (&rest[..length], self.word == "ActionId");
        match number.parse() {
            _ if IGNORED.contains(&self.key) => {}
            Ok(id) if is_action => {
                let name = self.names.actions.get(&id).copied().unwrap_or_default();
                self.push_word(name);
            }
            Ok(version) if self.is_version() => self.versions.push(version),
            _ => self.push(number.as_bytes()),
        }
        self.word = "";
        length
    }

    fn symbol(&mut self, symbol: u8) -> usize {
        match symbol {
            b'{' | b'[' | b'(' => self.frames.push(Frame { in_braces: symbol == b'{', ..Frame::default() }),
            b'}' | b']' | b')' => {
                if let Some(frame) = self.frames.pop() {
                    self.push_word(frame.close());
                }
            }
            b',' => match self.frames.last_mut() {
                Some(frame) if frame.in_braces => frame.end_entry(),
                _ => self.push_word(u64::from(symbol)),
            },
            b':' => {
                self.key = self.word;
                self.push_word(u64::from(symbol));
            }
            b' ' => {}
            other => self.push_word(u64::from(other)),
        }
        1
    }

    fn is_version(&self) -> bool {
        matches!(self.key, "resourceVersion" | "resource_version" | "version")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(text: &str, actions: &[(u64, u64)], uids: &[(&str, u64)]) -> Print {
        let actions = actions.iter().copied().collect();
        let uids = uids.iter().map(|(uid, name)| (Arc::from(*uid), *name)).collect();
        Print::of(text, &Names { actions: &actions, uids: &uids })
    }

    #[test]
    fn names_without_meaning_and_their_order_do_not_count() {
        let one = r#"S { next_id: 7, ledger: {ActionId(5): K("a"), ActionId(6): K("b")}, uid: "u-1" }"#;
        let two = r#"S { next_id: 9, ledger: {ActionId(3): K("b"), ActionId(4): K("a")}, uid: "u-2" }"#;
        let one = print(one, &[(5, 50), (6, 60)], &[("u-1", 1)]);
        assert_eq!(one, print(two, &[(4, 50), (3, 60)], &[("u-2", 1)]));
    }

    #[test]
    fn everything_else_counts() {
        let texts = [
            r#"[K("a"), K("b")]"#,
            r#"[K("b"), K("a")]"#,
            r#"{K("a"), K("b")}"#,
            r#"{K("a"), K("a")}"#,
            r#"{K("a"), K("\"a")}"#,
            "S { generation: 1 }",
            "S { generation: 2 }",
            "S { generation: {1} }",
        ];
        let prints: Vec<Print> = texts.iter().map(|text| print(text, &[], &[])).collect();
        for (index, print) in prints.iter().enumerate() {
            assert!(!prints[..index].contains(print), "{}", texts[index]);
        }
    }

    #[test]
    fn resource_versions_are_kept_apart() {
        let text = |version: u64| {
            format!(
                r#"S {{ resource_version: {version}, object: Object {{"resourceVersion": String("{version}")}} }}"#
            )
        };
        let [one, two] = [17, 23].map(|version| print(&text(version), &[], &[]));
        assert_eq!(one.text, two.text);
        assert_eq!((one.versions, two.versions), (vec![17, 17], vec![23, 23]));
    }
}
