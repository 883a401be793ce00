//! The reports of adapters, and their effect on the API.

use std::borrow::Cow;

use jiff::Timestamp;

use super::resource::{Condition, READY, RECONCILED, Resource, State, Status};

/// The phase of every other resource, unless an adapter sets one.
pub(super) const PROVISIONING: &str = "Provisioning";

/// The condition [`RECONCILED`] for the last generation for which all adapters reported.
const LAST_KNOWN: &str = "LastKnownReconciled";

/// The adapters that must report on a resource.
pub const ADAPTERS: [&str; 2] = ["validation", "dns"];

const MISSING: &str = "ReconciledMissingAdapters";

/// The report of one adapter on one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report<'a> {
    /// The adapter.
    pub(super) adapter: &'a str,
    /// The generation that it worked on.
    pub(super) generation: i64,
    /// Whether its work is complete.
    pub(super) available: State,
}

/// Returns the conditions of a resource without any report.
pub(super) fn unreported(now: Timestamp) -> Vec<Condition> {
    let condition = |kind: &'static str| Condition {
        r#type: Cow::Borrowed(kind),
        status: State::False,
        reason: Cow::Borrowed(MISSING),
        observed_generation: 1,
        created_time: now,
        last_updated_time: now,
        last_transition_time: now,
    };
    vec![condition(RECONCILED), condition(LAST_KNOWN)]
}

/// Reports the same state for all adapters on the resource's generation.
pub(super) fn report_all(resource: &mut Resource, ready: bool, now: Timestamp) {
    match &mut resource.status {
        Status::Phase { phase, last_transition } => {
            if ready || phase == READY {
                (if ready { READY } else { PROVISIONING }).clone_into(phase);
            }
            *last_transition = now;
        }
        Status::Conditions(_) => {
            let (generation, available) =
                (resource.generation, if ready { State::True } else { State::False });
            for adapter in ADAPTERS {
                report(resource, &Report { adapter, generation, available }, now);
            }
        }
    }
}

/// Adds one adapter's report. A report on a generation that is older than the adapter's last one, or that does not exist yet, is
/// ignored.
pub(super) fn report(resource: &mut Resource, report: &Report<'_>, now: Timestamp) {
    let generation = resource.generation;
    let Status::Conditions(conditions) = &mut resource.status else { return };
    let kind = condition_type(report.adapter);
    let known = conditions.iter().find(|condition| condition.r#type == kind);
    let oldest = known.map_or(0, |condition| condition.observed_generation);
    if !(oldest..=generation).contains(&report.generation) {
        return;
    }
    let reason = if report.available == State::True { "Available" } else { "NotAvailable" };
    set(conditions, &kind, report.available, reason, report.generation, now, now);
    aggregate(conditions, generation, now);
}

/// Handles a change of the resource's specification: there is no report on this generation yet.
pub(super) fn outdate(resource: &mut Resource, now: Timestamp) {
    if let Status::Conditions(conditions) = &mut resource.status {
        aggregate(conditions, resource.generation, now);
    }
}

/// Aggregates the reports of the adapters. The time of the aggregate is that of the oldest report on this generation; without
/// one, it does not change.
fn aggregate(conditions: &mut Vec<Condition>, generation: i64, now: Timestamp) {
    let reports: Vec<(State, Timestamp)> = ADAPTERS
        .iter()
        .filter_map(|adapter| {
            let kind = condition_type(adapter);
            let reported = conditions.iter().find(|condition| condition.r#type == kind)?;
            (reported.observed_generation == generation)
                .then_some((reported.status, reported.last_updated_time))
        })
        .collect();
    let complete = reports.len() == ADAPTERS.len();
    let reconciled = complete && reports.iter().all(|(state, _)| *state == State::True);
    let oldest = reports.iter().map(|(_, reported)| *reported).min();
    let kept = conditions.iter().find(|condition| condition.r#type == RECONCILED);
    let updated = oldest.or(kept.map(|condition| condition.last_updated_time)).unwrap_or(now);
    let (status, reason) = match (reconciled, complete) {
        (true, _) => (State::True, "ReconciledAll"),
        (false, true) => (State::False, "ReconciledAdaptersFailing"),
        (false, false) => (State::False, MISSING),
    };
    set(conditions, RECONCILED, status, reason, generation, updated, now);
    if complete {
        let reason = if reconciled { "AllAdaptersReconciled" } else { reason };
        set(conditions, LAST_KNOWN, status, reason, generation, updated, now);
    }
}

fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: State,
    reason: &'static str,
    generation: i64,
    updated: Timestamp,
    now: Timestamp,
) {
    let reason = Cow::Borrowed(reason);
    match conditions.iter_mut().find(|condition| condition.r#type == kind) {
        Some(condition) => {
            if condition.status != status {
                condition.last_transition_time = now;
            }
            (condition.status, condition.reason) = (status, reason);
            (condition.observed_generation, condition.last_updated_time) = (generation, updated);
        }
        None => conditions.push(Condition {
            r#type: Cow::Owned(kind.to_owned()),
            status,
            reason,
            observed_generation: generation,
            created_time: now,
            last_updated_time: updated,
            last_transition_time: now,
        }),
    }
}

/// Returns the condition type of an adapter: `PullSecretSuccessful` for `pull-secret`.
fn condition_type(adapter: &str) -> String {
    let mut kind: String = adapter
        .split(['-', '_'])
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
        })
        .collect();
    kind.push_str("Successful");
    kind
}
