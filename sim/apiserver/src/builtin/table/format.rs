//! The formats of cells.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::builtin::time::epoch_seconds;
use crate::builtin::view::{entries, list, text};

/// Formats the time since a time in an object, in the short form.
pub(super) fn age(time: &Value, now: i64) -> String {
    match time.as_str().and_then(epoch_seconds) {
        Some(then) => duration(now - then),
        None => "<unknown>".to_owned(),
    }
}

/// Formats a duration with one or two units.
fn duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(days, "d", hours % 24, "h"),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// Returns the text, or `<none>` for an empty one.
pub(super) fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text.to_owned() }
}

/// Formats labels as `key=value` pairs.
pub(super) fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    or_none(&pairs.join(","))
}

/// Formats a label selector as a query; empty for one that selects all.
pub(super) fn label_selector(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = entries(selector, "matchLabels")
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for requirement in list(selector, "matchExpressions") {
        let key = text(requirement, "key");
        let values: BTreeSet<&str> = list(requirement, "values").iter().filter_map(Value::as_str).collect();
        let values = values.into_iter().collect::<Vec<_>>().join(",");
        let shown = match text(requirement, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key.to_owned(), shown));
    }
    parts.sort_by(|left, right| left.0.cmp(&right.0));
    parts.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join(",")
}

/// Returns the names and the images of containers.
pub(super) fn containers_and_images(containers: &Value) -> (String, String) {
    let of = |field: &str| {
        let values = containers.as_array().into_iter().flatten().map(|container| text(container, field));
        values.collect::<Vec<_>>().join(",")
    };
    (of("name"), of("image"))
}

/// Returns the addresses or host names of a load balancer.
pub(super) fn address(ingress: &[Value]) -> String {
    let points = ingress.iter().map(|point| match text(point, "ip") {
        "" => text(point, "hostname"),
        ip => ip,
    });
    let points: BTreeSet<&str> = points.filter(|point| !point.is_empty()).collect();
    points.into_iter().collect::<Vec<_>>().join(",")
}

/// Returns the first items and the number of further ones.
pub(super) fn some_of(items: &[String], max: usize, none: &str) -> String {
    match items.len() {
        0 => none.to_owned(),
        count if count <= max => items.join(","),
        count => format!("{} + {} more...", items[..max].join(","), count - max),
    }
}

/// Returns `True` or `False`.
pub(super) fn boolean(value: &Value) -> &'static str {
    if value == true { "True" } else { "False" }
}

/// Returns a number or a text as it is.
pub(super) fn int_or_string(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
