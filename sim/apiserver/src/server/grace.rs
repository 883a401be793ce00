//! The grace period of a deletion: Pods on a node are stopped by their kubelet.
//!
//! ```text
//!   Pod on a node ──delete──► deletionTimestamp in the future ──shorter period──► sooner ──0──► gone, or kept by finalizers
//! ```

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::delete_options::DeleteOptions;
use super::meta;
use super::registry::Resource;

/// The effect of a deletion on the remaining grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grace {
    /// The object is removed as soon as it has no finalizers.
    None,
    /// A kubelet has this many seconds to stop the Pod; it then deletes it with a period of zero.
    Seconds(i64),
    /// The Pod is already being deleted, and the request does not shorten the period.
    Pending,
}

impl Grace {
    pub(super) fn of(resource: &Resource, live: &Value, options: &DeleteOptions) -> Self {
        if !resource.is("", "pods") {
            return Self::None;
        }
        let asked = options.grace_seconds.map(at_least);
        if meta::is_deleting(live) {
            let left = meta::field(live, "deletionGracePeriodSeconds").and_then(Value::as_i64);
            return match (left.map(at_least), asked) {
                (None | Some(0), _) => Self::None,
                (Some(left), Some(asked)) if asked < left => Self::Seconds(asked),
                (Some(_), _) => Self::Pending,
            };
        }
        let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let is_running =
            !text("/spec/nodeName").is_empty() && !matches!(text("/status/phase"), "Failed" | "Succeeded");
        let own = live.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
        Self::Seconds(if is_running { asked.unwrap_or(at_least(own.unwrap_or_default())) } else { 0 })
    }

    /// Returns the grace period in seconds.
    pub(super) fn seconds(self) -> i64 {
        match self {
            Self::Seconds(seconds) => seconds,
            Self::None | Self::Pending => 0,
        }
    }

    /// Marks an object as being deleted, or shortens its grace period.
    pub(super) fn mark(self, object: &mut Value, now: Timestamp) {
        let before = meta::text(object, "deletionTimestamp").parse::<Timestamp>().ok();
        let left =
            meta::field(object, "deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default();
        if !meta::is_deleting(object) {
            let generation = meta::generation(object);
            if generation > 0 {
                meta::set(object, "generation", generation + 1);
            }
        }
        let (end, seconds) = match (self, before) {
            (Self::Seconds(seconds), Some(before)) => {
                // The period begins with the first deletion, but does not end before this one.
                let end = later(before, seconds - at_least(left));
                if end < now { (now, seconds.min(1)) } else { (end, seconds) }
            }
            (Self::Seconds(seconds), None) => (later(now, seconds), seconds),
            (Self::None | Self::Pending, before) => (before.map_or(now, |before| before.min(now)), 0),
        };
        meta::set(object, "deletionTimestamp", meta::timestamp(end));
        meta::set(object, "deletionGracePeriodSeconds", seconds);
    }
}

/// Returns the effective period: one below zero counts as one second.
fn at_least(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds))
        .expect("a duration in seconds is no calendar unit")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::registry::Registry;

    /// Returns a Pod that is being deleted with this period.
    fn ending(seconds: i64) -> Value {
        let end = "2026-01-01T00:00:30Z";
        json!({"metadata": {"deletionTimestamp": end, "deletionGracePeriodSeconds": seconds}})
    }

    #[test]
    fn a_period_can_be_shortened_until_it_is_over() {
        let registry = Registry::new();
        let pods = registry.get("", "pods").expect("a built-in kind");
        let again = |left: i64, asked: Option<i64>| {
            let options =
                DeleteOptions { grace_seconds: asked, ..DeleteOptions::background(Timestamp::UNIX_EPOCH) };
            Grace::of(pods, &ending(left), &options)
        };
        assert_eq!(again(30, None), Grace::Pending);
        assert_eq!(again(30, Some(30)), Grace::Pending);
        assert_eq!(again(30, Some(5)), Grace::Seconds(5));
        // An object that only finalizers keep can still be deleted with another policy.
        assert_eq!(again(0, None), Grace::None);
        assert_eq!(again(0, Some(5)), Grace::None);
    }

    #[test]
    fn a_shorter_period_does_not_end_in_the_past() {
        let marked = |grace: Grace, now: &str| {
            let mut pod = ending(30);
            grace.mark(&mut pod, now.parse().expect("a time"));
            let metadata = &pod["metadata"];
            (metadata["deletionTimestamp"].clone(), metadata["deletionGracePeriodSeconds"].clone())
        };
        let expected = |time: &str, seconds: i64| (json!(time), json!(seconds));
        assert_eq!(marked(Grace::Seconds(5), "2026-01-01T00:00:01Z"), expected("2026-01-01T00:00:05Z", 5));
        assert_eq!(marked(Grace::Seconds(5), "2026-01-01T00:00:20Z"), expected("2026-01-01T00:00:20Z", 1));
        assert_eq!(marked(Grace::Seconds(0), "2026-01-01T00:00:20Z"), expected("2026-01-01T00:00:20Z", 0));
    }
}
