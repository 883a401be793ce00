//! Formats of strings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use regex::Regex;

use crate::schema::node::{Kind, Node};

/// Formats that are checked; all others are ignored.
const CHECKED: [&str; 18] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "byte",
    "date",
    "datetime",
    "hexcolor",
    "duration",
    "password",
];
/// Formats of names, which keep their dashes in messages.
const NAMES: [&str; 2] = ["k8s-short-name", "k8s-long-name"];

/// Returns the format of a node, if the server supports it for the node's type.
pub(super) fn applicable(node: &Node) -> Option<&str> {
    let format = node.format.as_deref().filter(|format| !format.is_empty())?;
    let known = match node.kind {
        Kind::Any | Kind::String => {
            CHECKED.contains(&format.replace('-', "").as_str()) || NAMES.contains(&format)
        }
        Kind::Integer => matches!(format, "int32" | "int64"),
        Kind::Number => matches!(format, "float" | "double"),
        _ => false,
    };
    (known && !node.int_or_string).then_some(format)
}

/// Returns whether a string has a format.
pub(super) fn is_valid(format: &str, string: &str) -> bool {
    match format.replace('-', "").as_str() {
        "ipv4" => string.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => string.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(string),
        "mac" => is_mac(string),
        "uuid" => is_uuid(string, None),
        "uuid3" => is_uuid(string, Some('3')),
        "uuid4" => is_uuid(string, Some('4')),
        "uuid5" => is_uuid(string, Some('5')),
        "byte" => base64::engine::general_purpose::STANDARD.decode(string).is_ok(),
        "date" => string.len() == 10 && string.parse::<jiff::civil::Date>().is_ok(),
        "datetime" => is_date_time(string),
        "hostname" => is_hostname(string),
        "email" => string.split_once('@').is_some_and(|(local, host)| !local.is_empty() && !host.is_empty()),
        "uri" => {
            string.starts_with('/') || string.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))
        }
        "bsonobjectid" => string.len() == 24 && string.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "hexcolor" => {
            let digits = string.strip_prefix('#').unwrap_or(string);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        "duration" => is_duration(string),
        "k8sshortname" => string.len() <= 63 && is_label(string),
        "k8slongname" => string.len() <= 253 && string.split('.').all(is_label),
        _ => true,
    }
}

fn is_label(string: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !string.is_empty() && !string.starts_with('-') && !string.ends_with('-') && string.bytes().all(inner)
}

fn is_scheme(string: &str) -> bool {
    string.starts_with(|char: char| char.is_ascii_alphabetic())
        && string.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn is_cidr(string: &str) -> bool {
    let Some((address, bits)) = string.split_once('/') else { return false };
    let max = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.bytes().all(|byte| byte.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= max)
}

fn is_mac(string: &str) -> bool {
    let separator = if string.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = string.split(separator).collect();
    matches!(parts.len(), 6 | 8 | 20)
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_uuid(string: &str, version: Option<char>) -> bool {
    let groups: Vec<&str> = string.split('-').collect();
    let digits = string.replace('-', "");
    let grouped = groups.len() == 1 || groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]);
    let variant = |char: char| matches!(char.to_ascii_lowercase(), '8' | '9' | 'a' | 'b');
    grouped
        && digits.len() == 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && version.is_none_or(|version| digits.chars().nth(12) == Some(version))
        && (matches!(version, None | Some('3')) || digits.chars().nth(16).is_some_and(variant))
}

fn is_date_time(string: &str) -> bool {
    let bytes = string.as_bytes();
    bytes.len() >= 19 && matches!(bytes[10], b'T' | b't') && string.parse::<jiff::Timestamp>().is_ok()
}

fn is_hostname(string: &str) -> bool {
    // One label with a dash in second place at most, or labels of which the last consists of letters.
    const PATTERN: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    static HOSTNAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PATTERN).ok());
    HOSTNAME.as_ref().is_some_and(|pattern| pattern.is_match(string))
        && string.len() <= 255
        && string.split('.').all(|label| label.len() <= 63)
}

/// Returns whether a string is a duration: either in Go's notation, or any text that contains a number with a unit of time.
fn is_duration(string: &str) -> bool {
    const SHORT: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const LONG: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    static LOOSE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(\d+)\s*([A-Za-zµ]+)").ok());
    static STRICT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$").ok());
    if STRICT.as_ref().is_some_and(|pattern| pattern.is_match(string)) {
        return true;
    }
    let Some(loose) = LOOSE.as_ref() else { return false };
    let mut found = loose.captures_iter(string).filter_map(|captures| captures.get(2));
    found.any(|unit| {
        let unit = unit.as_str().to_lowercase();
        SHORT.contains(&unit.as_str()) || LONG.iter().any(|long| unit.starts_with(long))
    })
}
