//! Decides whether a resource is due, exactly as the specification defines it.
//!
//! | phase | backoff | `lastTransitionTime + backoff` | decision |
//! | --- | --- | --- | --- |
//! | Ready | `backoffReady` | is now or has passed | publish |
//! | Ready | `backoffReady` | is in the future | skip, `ready` |
//! | any other | `backoffNotReady` | is now or has passed | publish |
//! | any other | `backoffNotReady` | is in the future | skip, `not_ready` |
//!
//! Source: HyperFleet Sentinel, "Decision Logic", "Decision Engine". Expressions of the configuration may decide instead; if one fails,
//! the table decides about that resource, so that it still gets its events, and not more often than without expressions. If nothing was ever reported about a resource, its
//! creation time is used; one without a creation time is due.

use std::time::Duration;

use jiff::Timestamp;
use lockstep_engine::time::Wall;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::resource::Resource;
use super::rules::{Evaluator, ExpressionError};

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
/// The reason if expressions decide, as in the released Sentinel.
pub const DECISION_MATCHED: &str = "message decision matched";

/// The decision about a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is due: publish an event.
    Publish {
        /// Why it is due.
        reason: &'static str,
    },
    /// It is not due.
    Skip {
        /// When its backoff expires; `None` if expressions decide.
        until: Option<Timestamp>,
    },
}

/// What the configuration says about one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The decision.
    pub decision: Decision,
    /// The additional fields of its event.
    pub data: Map<String, Value>,
    /// The expressions that failed.
    pub failures: Vec<ExpressionError>,
}

/// Decides about one resource, with the expressions of the configuration if there are any.
pub fn judge(
    resource: &Resource,
    backoffs: &Backoffs,
    evaluator: Option<&Evaluator<'_>>,
    now: Wall,
) -> Judgement {
    let Some(evaluator) = evaluator else {
        let decision = evaluate(resource, backoffs, now);
        return Judgement { decision, data: Map::new(), failures: Vec::new() };
    };
    let mut evaluation = evaluator.about(resource.document.as_deref(), now);
    let mut failures = Vec::new();
    let decision = match evaluation.is_due() {
        Some(Ok(true)) => Decision::Publish { reason: DECISION_MATCHED },
        Some(Ok(false)) => Decision::Skip { until: None },
        None => evaluate(resource, backoffs, now),
        Some(Err(failure)) => {
            failures.push(failure);
            evaluate(resource, backoffs, now)
        }
    };
    let Decision::Publish { reason } = decision else {
        return Judgement { decision, data: Map::new(), failures };
    };
    let (data, of_data) = evaluation.data(reason);
    failures.extend(of_data);
    Judgement { decision, data, failures }
}

/// Decides about one resource by the table.
pub fn evaluate(resource: &Resource, backoffs: &Backoffs, now: Wall) -> Decision {
    let backoff = if resource.is_ready { backoffs.ready } else { backoffs.not_ready };
    let publish = Decision::Publish { reason: BACKOFF_EXPIRED };
    let Some(since) = resource.since else { return publish };
    let until = since.checked_add(backoff).unwrap_or(Timestamp::MAX);
    if now.timestamp() >= until { publish } else { Decision::Skip { until: Some(until) } }
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
        assert_eq!(evaluate(&resource, &BACKOFFS, now), Decision::Skip { until: Some(Timestamp::MAX) });
    }
}
