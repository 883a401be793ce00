//! The real server's rules for names, labels and keys. Every function returns its messages, none if the value is valid.

use std::sync::LazyLock;

use regex::Regex;

const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_SUBDOMAIN: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";
const HTTP_HEADER: &str = "[-A-Za-z0-9]+";
const PERCENT: &str = "[0-9]+%";

const LABEL_LENGTH_MAX: usize = 63;
const SUBDOMAIN_LENGTH_MAX: usize = 253;
const PORT_NAME_LENGTH_MAX: usize = 15;

const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
     '-' or '.', and must start and end with an alphanumeric character";
const QUALIFIED_NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character";

struct Pattern {
    source: &'static str,
    regex: LazyLock<Regex>,
}

macro_rules! pattern {
    ($source:expr) => {
        Pattern {
            source: $source,
            regex: LazyLock::new(|| {
                Regex::new(&format!("^(?:{})$", $source)).expect("a constant pattern compiles")
            }),
        }
    };
}

static DNS_LABEL_PATTERN: Pattern = pattern!(DNS_LABEL);
static DNS_SUBDOMAIN_PATTERN: Pattern = pattern!(DNS_SUBDOMAIN);
static WILDCARD_SUBDOMAIN_PATTERN: Pattern = pattern!(WILDCARD_SUBDOMAIN);
static QUALIFIED_NAME_PATTERN: Pattern = pattern!(QUALIFIED_NAME);
static LABEL_VALUE_PATTERN: Pattern = pattern!(LABEL_VALUE);
static CONFIG_KEY_PATTERN: Pattern = pattern!(CONFIG_KEY);
static HTTP_HEADER_PATTERN: Pattern = pattern!(HTTP_HEADER);
static PERCENT_PATTERN: Pattern = pattern!(PERCENT);

impl Pattern {
    fn matches(&self, value: &str) -> bool {
        self.regex.is_match(value)
    }

    fn check(&self, value: &str, rule: &str, examples: &[&str]) -> Option<String> {
        (!self.matches(value)).then(|| self.broken(rule, examples))
    }

    fn broken(&self, rule: &str, examples: &[&str]) -> String {
        let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
        format!("{rule} (e.g. {}regex used for validation is '{}')", examples.join(" or "), self.source)
    }
}

fn too_long(value: &str, max: usize) -> Option<String> {
    (value.len() > max).then(|| format!("must be no more than {max} characters"))
}

/// Checks the length in bytes, for newer rules. The messages of older rules call them characters.
fn too_many_bytes(value: &str, max: usize) -> Option<String> {
    (value.len() > max).then(|| format!("must be no more than {max} bytes"))
}

fn messages(checks: impl IntoIterator<Item = Option<String>>) -> Vec<String> {
    checks.into_iter().flatten().collect()
}

/// Checks a DNS-1123 label, such as a namespace's name.
pub fn dns_label(value: &str) -> Vec<String> {
    let shape = if DNS_SUBDOMAIN_PATTERN.matches(value) && !DNS_LABEL_PATTERN.matches(value) {
        Some("must not contain dots".to_owned())
    } else {
        DNS_LABEL_PATTERN.check(
            value,
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character",
            &["my-name", "123-abc"],
        )
    };
    messages([too_long(value, LABEL_LENGTH_MAX), shape])
}

/// Checks a DNS-1123 subdomain, the rule for most objects' names.
pub fn dns_subdomain(value: &str) -> Vec<String> {
    messages([
        too_long(value, SUBDOMAIN_LENGTH_MAX),
        DNS_SUBDOMAIN_PATTERN.check(value, SUBDOMAIN_RULE, &["example.com"]),
    ])
}

/// Checks a DNS-1123 subdomain after `*.`, as a host of an Ingress may be.
pub fn wildcard_dns_subdomain(value: &str) -> Vec<String> {
    messages([
        too_long(value, SUBDOMAIN_LENGTH_MAX),
        WILDCARD_SUBDOMAIN_PATTERN.check(
            value,
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
             consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &["*.example.com"],
        ),
    ])
}

/// Checks a label's or (in lower case) an annotation's key: an optional prefix and a name.
pub fn qualified_name(value: &str) -> Vec<String> {
    let examples = &["MyName", "my.name", "123-abc"];
    let parts: Vec<&str> = value.split('/').collect();
    let (prefix, name) = match parts[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => {
            let rule = QUALIFIED_NAME_PATTERN.broken(QUALIFIED_NAME_RULE, examples);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    let mut found = match prefix {
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => {
            prefix_messages(prefix).iter().map(|message| format!("prefix part {message}")).collect()
        }
        None => Vec::new(),
    };
    if name.is_empty() {
        found.push("name part must be non-empty".to_owned());
    } else if let Some(message) = too_many_bytes(name, LABEL_LENGTH_MAX) {
        found.push(format!("name part {message}"));
    }
    if let Some(message) = QUALIFIED_NAME_PATTERN.check(name, QUALIFIED_NAME_RULE, examples) {
        found.push(format!("name part {message}"));
    }
    found
}

fn prefix_messages(prefix: &str) -> Vec<String> {
    messages([
        too_many_bytes(prefix, SUBDOMAIN_LENGTH_MAX),
        DNS_SUBDOMAIN_PATTERN.check(prefix, SUBDOMAIN_RULE, &["example.com"]),
    ])
}

/// Checks a label's value.
pub fn label_value(value: &str) -> Vec<String> {
    messages([
        too_many_bytes(value, LABEL_LENGTH_MAX),
        LABEL_VALUE_PATTERN.check(
            value,
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            &["MyValue", "my_value", "12345"],
        ),
    ])
}

/// Checks a key in the data of a `ConfigMap` or `Secret`.
pub fn config_key(value: &str) -> Vec<String> {
    let dots = match value {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        _ if value.starts_with("..") => Some("must not start with '..'"),
        _ => None,
    };
    messages([
        too_long(value, SUBDOMAIN_LENGTH_MAX),
        CONFIG_KEY_PATTERN.check(
            value,
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            &["key.name", "KEY_NAME", "key-name"],
        ),
        dots.map(str::to_owned),
    ])
}

/// Checks the name of an environment variable.
pub fn environment_variable(value: &str) -> Vec<String> {
    let printable = value.chars().all(|c| matches!(c, ' '..='~') && c != '=');
    messages([
        value.is_empty().then(|| "environment variable name must be non-empty".to_owned()),
        (!printable).then(|| {
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned()
        }),
    ])
}

/// Checks the name of a container's or a Service's port.
pub fn port_name(value: &str) -> Vec<String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let rule = |broken: bool, message: &str| broken.then(|| message.to_owned());
    messages([
        too_long(value, PORT_NAME_LENGTH_MAX),
        rule(
            value.is_empty() || !value.chars().all(allowed),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        rule(!value.contains(|c: char| c.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        rule(value.contains("--"), "must not contain consecutive hyphens"),
        rule(value.starts_with('-') || value.ends_with('-'), "must not begin or end with a hyphen"),
    ])
}

/// Checks a port's number.
pub fn port_number(value: i64) -> Vec<String> {
    in_range(value, 1, 65535)
}

/// Checks that a number is within bounds.
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    messages([
        (!(low..=high).contains(&value)).then(|| format!("must be between {low} and {high}, inclusive"))
    ])
}

/// Checks the name of an HTTP header.
pub fn http_header(value: &str) -> Vec<String> {
    messages([HTTP_HEADER_PATTERN.check(
        value,
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        &["X-Header-Name"],
    )])
}

/// Checks a percentage such as `25%`.
pub fn percent(value: &str) -> Vec<String> {
    messages([PERCENT_PATTERN.check(
        value,
        "a valid percent string must be a numeric string followed by an ending '%'",
        &["1%", "93%"],
    )])
}

/// Checks a name that is one segment of a URL path, the rule for roles and role bindings.
pub fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    ["/", "%"]
        .into_iter()
        .filter(|illegal| value.contains(illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

/// Returns the name that is checked for a `generateName`: a suffix will follow its last dash.
pub fn without_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(stem) if !stem.is_empty() => {
            // The real server drops the character before the dash too.
            let shorter = stem.char_indices().next_back().map_or(0, |(index, _)| index);
            format!("{}a", &stem[..shorter])
        }
        _ => prefix.to_owned(),
    }
}
