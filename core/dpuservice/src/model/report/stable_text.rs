//! The texts of a report: truncated, and without values that differ at each attempt.

use lockstep_engine::conditions::cut;

/// The maximum length of a text, in bytes.
const TEXT_MAX_BYTES: usize = 1024;

/// Truncates a text. Control characters are replaced, because each would take six bytes as JSON.
pub(super) fn short(text: &str) -> String {
    let is_odd = |letter: char| letter.is_control() && letter != '\n';
    cut(text.replace(is_odd, " "), TEXT_MAX_BYTES)
}

/// Returns a message with a star for each value that differs each time: random names, such as those of the files into which
/// charts are loaded, and the local ports of connections.
pub(super) fn steady(message: &str) -> String {
    let words = message.split_inclusive(char::is_whitespace).map(|word| {
        let word = without_local_port(&without_uuids(word));
        if word.contains('/') { without_long_numbers(&word) } else { word }
    });
    short(&words.collect::<String>())
}

/// The lengths of the groups of hexadecimal digits in a UUID.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

fn without_uuids(word: &str) -> String {
    let groups: Vec<&str> = word.split('-').collect();
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut kept: Vec<String> = Vec::new();
    let mut at = 0;
    while at < groups.len() {
        let candidate = groups.get(at..at + UUID.len()).and_then(|found| {
            // It may have text before and after it.
            let (first, last) = (found[0], found[4]);
            let before = first.len().checked_sub(UUID[0]).filter(|start| first.is_char_boundary(*start))?;
            let behind = (last.len() >= UUID[4] && last.is_char_boundary(UUID[4])).then_some(UUID[4])?;
            let inner = found[1..4]
                .iter()
                .zip(&UUID[1..4])
                .all(|(group, length)| group.len() == *length && is_hex(group));
            let is_uuid = inner && is_hex(&first[before..]) && is_hex(&last[..behind]);
            is_uuid.then(|| format!("{}*{}", &first[..before], &last[behind..]))
        });
        if let Some(replacement) = candidate {
            kept.push(replacement);
            at += UUID.len();
        } else {
            kept.push(groups[at].to_owned());
            at += 1;
        }
    }
    kept.join("-")
}

/// Removes the local port. Go names a connection by both of its ends, as in `read tcp 10.0.0.1:41234->10.0.0.2:6443`.
fn without_local_port(word: &str) -> String {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = word.split_once("->").and_then(|(from, to)| Some((from.rsplit_once(':')?, to)));
    match parts {
        Some(((host, port), to)) if is_port(port) => format!("{host}:*->{to}"),
        _ => word.to_owned(),
    }
}

/// A number in a path with at least this many digits counts as random.
const RANDOM_DIGITS: usize = 7;

fn without_long_numbers(path: &str) -> String {
    let mut kept = String::new();
    let mut digits = String::new();
    for letter in path.chars().chain(['\0']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        kept.push_str(if digits.len() < RANDOM_DIGITS { &digits } else { "*" });
        digits.clear();
        if letter != '\0' {
            kept.push(letter);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_names_are_left_out() {
        let uuid = "b2f1c4e2-0a1b-4c3d-8e9f-0123456789ab";
        let table = [
            (format!("helm pull --destination /tmp/{uuid} failed"), "helm pull --destination /tmp/* failed"),
            (format!("/tmp/_argocd-repo/{uuid}/c-{uuid}.tgz: no"), "/tmp/_argocd-repo/*/c-*.tgz: no"),
            ("open /tmp/helm3871625591/c.tgz".to_owned(), "open /tmp/helm*/c.tgz"),
            (
                "https://10.0.0.1:6443/api/v1 after 12345678 ns".to_owned(),
                "https://10.0.0.1:6443/api/v1 after 12345678 ns",
            ),
            (
                "read tcp 10.0.0.1:41234->10.0.0.2:6443: reset, [::1]:5->[::1]:6".to_owned(),
                "read tcp 10.0.0.1:*->10.0.0.2:6443: reset, [::1]:*->[::1]:6",
            ),
            ("a->b :->c".to_owned(), "a->b :->c"),
            ("chart a-b-c-d-e-f 1.2.3-rc-1".to_owned(), "chart a-b-c-d-e-f 1.2.3-rc-1"),
            (
                "é-é-é-é-é zzzzzzzz-0a1b-4c3d-8e9f-0123456789ab".to_owned(),
                "é-é-é-é-é zzzzzzzz-0a1b-4c3d-8e9f-0123456789ab",
            ),
        ];
        for (message, expected) in table {
            assert_eq!(steady(&message), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_message_can_be_anything(message in ".{0,80}") {
            let once = steady(&message);
            proptest::prop_assert_eq!(steady(&once), once);
        }
    }
}
