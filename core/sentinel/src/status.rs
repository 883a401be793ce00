//! Conditions and counts of a SentinelConfig, written when they have changed.
//!
//! | condition | meaning |
//! | --- | --- |
//! | `ConfigValid` | whether the configuration is valid |
//! | `FleetReachable` | whether the last poll read the whole list |
//! | `BrokerConnected` | whether events can be published |
//! | `Publishing` | whether every due event of the last cycle was confirmed |
//! | `Ready` | whether all of these are True for the latest generation |
//!
//! A new generation is written at once: clients such as kstatus and `kubectl wait` wait for it. A changed status or reason of
//! a condition is written within 5 s, messages and counts at most once a minute.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use lockstep_crds::sentinel::{LastCycle, SentinelConfigStatus};
use serde_json::json;

use lockstep_engine::action::{Action, Class, Outcome, Subresource};
use lockstep_engine::conditions;
pub use lockstep_engine::conditions::Finding;
use lockstep_engine::conditions::Status;
use lockstep_engine::machine::{Note, Step};
use lockstep_engine::time::{Monotonic, Now};

use super::{Asked, Sentinel};

/// Whether the configuration is valid.
pub const CONFIG_VALID: &str = "ConfigValid";
/// Whether the last poll read the whole list.
pub const FLEET_REACHABLE: &str = "FleetReachable";
/// Whether events can be published.
pub const BROKER_CONNECTED: &str = "BrokerConnected";
/// Whether every due event of the last cycle was confirmed.
pub const PUBLISHING: &str = "Publishing";

/// Whether all of these are True for the latest generation.
pub const READY: &str = "Ready";
/// The conditions that [`READY`] depends on.
const PARTS: [&str; 4] = [CONFIG_VALID, FLEET_REACHABLE, BROKER_CONNECTED, PUBLISHING];

/// The reason of [`FLEET_REACHABLE`] and [`PUBLISHING`] if the selector matches no resource.
pub const NOTHING_SELECTED: &str = "NothingSelected";

/// The minimum time between writes of counts and messages.
const PACE: Duration = Duration::from_mins(1);
/// The minimum time between any two writes of the status, even if a condition has changed.
const PACE_URGENT: Duration = Duration::from_secs(5);
/// The delay before a failed write is retried.
const RETRY: Duration = Duration::from_secs(30);
/// The same if the write is forbidden: the Sentinel works without it.
const RETRY_FORBIDDEN: Duration = Duration::from_mins(10);

/// The desired status.
#[derive(Debug, Default)]
pub struct Conditions {
    wanted: Vec<Condition>,
    last_cycle: Option<LastCycle>,
    is_writing: bool,
    not_before: Monotonic,
    /// The earliest time of the next write after a failed one.
    retry_at: Monotonic,
    /// Whether a status for the latest generation was sent. It is sent without a pause only once. Otherwise a client that
    /// keeps overwriting it would cause writes without a pause.
    is_sent: bool,
    /// Whether the last write had a stale precondition: the watch will show the newer version of the object.
    is_outdated: bool,
    /// The earliest time of the next write of messages and counts.
    pace: Monotonic,
    /// When the status is due to be written; `None` if it is up to date, or is being written.
    due: Option<Monotonic>,
}

impl Conditions {
    /// Returns when the status is due to be written.
    pub(super) fn due(&self) -> Option<Monotonic> {
        self.due
    }

    /// Copies the status of an object that was not seen before. Findings about another object of its name do not apply to it.
    pub(super) fn adopt(&mut self, status: &SentinelConfigStatus) {
        self.wanted.clone_from(&status.conditions);
        self.last_cycle.clone_from(&status.last_cycle);
    }

    /// Applies the findings to this generation as well: nothing that they depend on has changed.
    pub(super) fn hold_for(&mut self, generation: i64) {
        for condition in &mut self.wanted {
            condition.observed_generation = Some(generation);
        }
    }

    /// Records that the watch has shown another version of the object.
    pub(super) fn observed(&mut self, is_new_generation: bool) {
        if std::mem::take(&mut self.is_outdated) || is_new_generation {
            self.retry_at = Monotonic::START;
        }
        self.is_sent &= !is_new_generation;
    }
}

/// Returns the condition Ready. The first condition that does not hold is the reason.
fn ready(conditions: &[Condition], generation: i64, now: Now) -> Condition {
    let current = |name: &str| {
        let is_it = |c: &&Condition| c.type_ == name && c.observed_generation == Some(generation);
        conditions.iter().find(is_it)
    };
    let is_broken = |c: &&Condition| c.status != Status::True.as_str();
    let unknown = || PARTS.into_iter().find(|name| current(name).is_none());
    let (status, reason, message) = match PARTS.into_iter().filter_map(current).find(is_broken) {
        Some(broken) => {
            (Status::False, broken.reason.clone(), format!("{}: {}", broken.type_, broken.message))
        }
        None => match unknown() {
            Some(name) => {
                let message = format!("{name} is not known yet for generation {generation}");
                (Status::Unknown, "Starting".to_owned(), message)
            }
            None => (Status::True, "Ready".to_owned(), "the last poll was published".to_owned()),
        },
    };
    Condition {
        type_: READY.to_owned(),
        status: status.as_str().to_owned(),
        reason,
        message,
        observed_generation: Some(generation),
        last_transition_time: Time(now.wall.timestamp_seconds()),
    }
}

/// Returns the fields of conditions whose change is urgent.
fn gist(conditions: &[Condition]) -> Vec<(&str, &str, &str, Option<i64>)> {
    conditions
        .iter()
        .map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str(), c.observed_generation))
        .collect()
}

impl Sentinel {
    /// Records a finding.
    pub(super) fn find(&mut self, finding: Finding, now: Now, step: &mut Step) {
        let generation = self.loader.generation();
        let wanted = &mut self.conditions.wanted;
        let changed = conditions::set(wanted, finding, generation, now);
        let ready = ready(wanted, generation, now);
        let ready = conditions::enter(wanted, ready);
        for changed in changed.into_iter().chain(ready) {
            if changed.type_ == FLEET_REACHABLE && changed.reason == NOTHING_SELECTED {
                step.notes.push(Note::Warning { message: changed.message.clone() });
            }
            // A problem that this step has reported as a warning is not reported as one again.
            let is_reported = step.notes.iter().any(|note| matches!(note, Note::Warning { .. }));
            step.notes.push(Note::ConditionChanged {
                object: self.object(),
                condition: changed.type_,
                warning: changed.status == Status::False.as_str() && !is_reported,
                status: changed.status,
                reason: changed.reason,
                message: changed.message,
            });
        }
    }

    /// Records a finding that something is wrong, and logs it each time.
    pub(super) fn trouble(&mut self, finding: Finding, now: Now, step: &mut Step) {
        step.notes.push(Note::Warning { message: format!("{}: {}", finding.reason, finding.message) });
        self.find(finding, now, step);
    }

    pub(super) fn tell_cycle(&mut self, tally: LastCycle) {
        self.conditions.last_cycle = Some(tally);
    }

    /// Returns the desired status for a given one. If readers saw a condition in one state all along, its transition time
    /// does not change, whatever its state was in between.
    fn wanted_status(&self, before: &SentinelConfigStatus) -> SentinelConfigStatus {
        let mut conditions = self.conditions.wanted.clone();
        for condition in &mut conditions {
            let same = |old: &&Condition| old.type_ == condition.type_ && old.status == condition.status;
            if let Some(old) = before.conditions.iter().find(same) {
                condition.last_transition_time = old.last_transition_time.clone();
            }
        }
        SentinelConfigStatus {
            observed_generation: self.loader.generation(),
            conditions,
            last_cycle: self.conditions.last_cycle.clone(),
        }
    }

    /// Writes the status, if it is due; otherwise records when it is.
    pub(super) fn write_status(&mut self, now: Now, step: &mut Step) {
        self.conditions.due = None;
        let Some(observed) = self.loader.observed.as_ref().filter(|_| !self.conditions.is_writing) else {
            return;
        };
        let wanted = self.wanted_status(&observed.status);
        if wanted == observed.status {
            return;
        }
        let is_old = wanted.observed_generation != observed.status.observed_generation;
        let is_urgent = is_old || gist(&wanted.conditions) != gist(&observed.status.conditions);
        let Conditions { not_before, pace, retry_at, is_sent, .. } = self.conditions;
        let due = match (is_old && !is_sent, is_urgent) {
            (true, _) => retry_at,
            (false, true) => not_before.max(retry_at),
            (false, false) => not_before.max(retry_at).max(pace),
        };
        if due > now.monotonic {
            self.conditions.due = Some(due);
            return;
        }
        // The write is refused if the status has changed since the comparison, or the object is another one.
        let precondition = json!({ "uid": observed.uid, "resourceVersion": observed.version.to_string() });
        let patch = Arc::new(json!({ "metadata": precondition, "status": wanted }));
        let target = self.object();
        (self.conditions.is_writing, self.conditions.is_sent) = (true, true);
        self.conditions.not_before = now.monotonic + PACE_URGENT;
        self.conditions.pace = now.monotonic + PACE;
        let patch = Action::Patch { target, subresource: Some(Subresource::Status), patch };
        self.ask(patch, Asked::Status(Box::new(wanted)), step);
    }

    pub(super) fn status_written(
        &mut self,
        written: SentinelConfigStatus,
        outcome: Outcome,
        now: Now,
        step: &mut Step,
    ) {
        self.conditions.is_writing = false;
        match outcome {
            Ok(answer) => {
                if let Some(observed) = &mut self.loader.observed {
                    observed.written(written, &answer);
                }
            }
            Err(failure) => {
                let retry = match failure.class {
                    // Another client changed or deleted it: the watch will show that.
                    Class::Conflict | Class::NotFound => {
                        self.conditions.retry_at = now.monotonic + PACE_URGENT;
                        (self.conditions.is_outdated, self.conditions.is_sent) = (true, false);
                        return;
                    }
                    Class::Forbidden => RETRY_FORBIDDEN,
                    _ => RETRY,
                };
                self.conditions.retry_at = now.monotonic + retry;
                let message = format!("the status of {} could not be written: {failure}", self.object());
                step.notes.push(Note::Warning { message });
            }
        }
    }
}
