//! The rules for names, labels and label values, with the server's messages.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

/// The rule for the names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// RFC 1123 subdomain, as most kinds.
    Subdomain,
    /// RFC 1123 label: namespaces, services and `StatefulSets`.
    Label,
    /// Any valid path segment: RBAC.
    PathSegment,
}

impl NameRule {
    /// Returns the rule of a resource.
    pub(crate) fn of(group: &str, plural: &str) -> Self {
        match (group, plural) {
            ("", "namespaces" | "services") | ("apps", "statefulsets") => Self::Label,
            ("rbac.authorization.k8s.io", _) => Self::PathSegment,
            _ => Self::Subdomain,
        }
    }

    /// Returns what is wrong with a name; `prefix` if a suffix follows later.
    pub(crate) fn check(self, name: &str, prefix: bool) -> Vec<String> {
        let masked = match name.strip_suffix('-').and_then(|rest| rest.char_indices().next_back()) {
            Some((last, _)) if prefix => format!("{}a", &name[..last]),
            _ => name.to_owned(),
        };
        match self {
            Self::Subdomain => subdomain(&masked),
            Self::Label => label(&masked),
            Self::PathSegment => path_segment(name, prefix),
        }
    }
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn pattern(text: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}'")).collect();
    format!("{text} (e.g. {}, regex used for validation is '{pattern}')", examples.join(",  or "))
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| alphanumeric(*byte) || *byte == b'-')
        && bytes.first().is_some_and(|byte| alphanumeric(*byte))
        && bytes.last().is_some_and(|byte| alphanumeric(*byte))
}

/// Checks an RFC 1123 label.
pub(crate) fn label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(name) {
        let edges = name.as_bytes().first().zip(name.as_bytes().last());
        let subdomain = name.split('.').all(is_label);
        if subdomain && edges.is_some() {
            problems.push("must not contain dots".to_owned());
        } else {
            let text = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
            problems.push(pattern(text, LABEL, &["my-name", "123-abc"]));
        }
    }
    problems
}

/// Checks an RFC 1035 label.
pub(crate) fn label_1035(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(name) || !name.as_bytes()[0].is_ascii_lowercase() {
        let text = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
        problems.push(pattern(text, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    problems
}

/// Checks an RFC 1123 subdomain.
pub(crate) fn subdomain(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push(too_long(253));
    }
    if !name.split('.').all(is_label) {
        let text = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        problems.push(pattern(text, SUBDOMAIN, &["example.com"]));
    }
    problems
}

/// Checks a segment of a path.
pub(crate) fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| name.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

fn is_qualified_part(text: &str, empty: bool) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return empty;
    }
    bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && bytes[0].is_ascii_alphanumeric()
        && bytes[bytes.len() - 1].is_ascii_alphanumeric()
}

/// Checks a label or annotation key, or a finalizer: an optional DNS prefix and a name.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let shape = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let examples = ["MyName", "my.name", "123-abc"];
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems
                    .extend(subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")));
            }
            *name
        }
        _ => {
            let text = format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                pattern(
                    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                    QUALIFIED,
                    &examples
                )
            );
            return vec![text];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63)));
    }
    if !is_qualified_part(name, false) {
        problems.push(pattern(shape, QUALIFIED, &examples));
    }
    problems
}

/// Returns what is wrong with the value of a label.
pub(crate) fn label_value(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some(too_long(63));
    }
    let text = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    (!is_qualified_part(value, true)).then(|| pattern(text, LABEL_VALUE, &["MyValue", "my_value", "12345"]))
}
