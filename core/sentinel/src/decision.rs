//! Decides whether a resource is due, exactly as the specification defines it.
//!
//! | phase | backoff | `lastTransitionTime + backoff` | decision |
//! | --- | --- | --- | --- |
//! | Ready | `backoffReady` | is now or has passed | publish |
//! | Ready | `backoffReady` | is in the future | skip, `ready` |
//! | any other | `backoffNotReady` | is now or has passed | publish |
//! | any other | `backoffNotReady` | is in the future | skip, `not_ready` |
//!
//! Source: HyperFleet Sentinel, "Decision Logic", "Decision Engine". If nothing was ever reported about a resource, its
//! creation time is used; one without a creation time is due.

use std::time::Duration;

use jiff::Timestamp;
use lockstep_engine::time::Wall;
use serde::{Deserialize, Serialize};

use super::resource::Resource;

/// The backoffs of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoffs {
    /// The backoff of Ready resources.
    pub ready: Duration,
    /// The backoff of all others.
    pub not_ready: Duration,
}

/// Why an event is published: the only reason in the specification.
pub const BACKOFF_EXPIRED: &str = "backoff-expired";

/// The decision about a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Its backoff has expired: publish an event.
    Publish,
    /// No event is published before that time.
    Skip {
        /// When its backoff expires.
        until: Timestamp,
    },
}

/// Decides on one resource.
pub fn evaluate(resource: &Resource, backoffs: &Backoffs, now: Wall) -> Decision {
    let backoff = if resource.is_ready { backoffs.ready } else { backoffs.not_ready };
    let Some(since) = resource.since else { return Decision::Publish };
    let until = since.checked_add(backoff).unwrap_or(Timestamp::MAX);
    if now.timestamp() >= until { Decision::Publish } else { Decision::Skip { until } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFFS: Backoffs =
        Backoffs { ready: Duration::from_mins(30), not_ready: Duration::from_secs(10) };

    fn decide(is_ready: bool, since: Option<&str>, now: &str) -> Decision {
        let since = since.map(|since| since.parse().unwrap());
        let resource = Resource { is_ready, since, ..Resource::default() };
        evaluate(&resource, &BACKOFFS, Wall::from_timestamp(now.parse().unwrap()))
    }

    #[test]
    fn the_table_of_decisions() {
        let since = "2025-10-21T12:00:00Z";
        let table = [
            (false, Some(since), "2025-10-21T12:00:09.999Z"),
            (false, Some(since), "2025-10-21T12:00:10Z"),
            (false, Some(since), "2025-10-21T12:00:11Z"),
            (true, Some(since), "2025-10-21T12:29:59Z"),
            (true, Some(since), "2025-10-21T12:30:00Z"),
            (true, Some(since), "2025-10-21T13:00:00Z"),
            (true, Some(since), "2025-10-21T11:00:00Z"),
            (false, None, "2025-10-21T12:00:00Z"),
            (true, None, "2025-10-21T12:00:00Z"),
        ];
        let decided = table.map(|(ready, since, now)| {
            let phase = if ready { "Ready" } else { "other" };
            format!(
                "{phase:<6} since {:<22} at {now:<25} {:?}",
                since.unwrap_or("-"),
                decide(ready, since, now)
            )
        });
        insta::assert_snapshot!(decided.join("\n"));
    }

    #[test]
    fn a_time_at_the_end_of_the_calendar_is_never_due() {
        let resource = Resource { since: Some(Timestamp::MAX), ..Resource::default() };
        let now = Wall::from_timestamp(Timestamp::UNIX_EPOCH);
        assert_eq!(evaluate(&resource, &BACKOFFS, now), Decision::Skip { until: Timestamp::MAX });
    }
}
