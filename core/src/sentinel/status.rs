//! Conditions and counts of a SentinelConfig, written when they have changed.
//!
//! | condition | tells |
//! | --- | --- |
//! | `ConfigValid` | whether the configuration can be gone by |
//! | `FleetReachable` | whether the last poll brought the whole list |
//! | `BrokerConnected` | whether events can be published |
//! | `Publishing` | whether every due event of the last cycle was confirmed |
//! | `Ready` | whether all of these are True for the latest generation |
//!
//! A new generation is written at once: clients such as kstatus and `kubectl wait` wait for it. A condition that changes its
//! status or its reason follows within 5 s, messages and counts at most once a minute.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use lockstep_crds::sentinel::{LastCycle, SentinelConfigStatus};
use serde_json::json;

use crate::engine::action::{Action, Class, Outcome, Subresource};
pub use crate::engine::conditions::Finding;
use crate::engine::conditions::{self, Status};
use crate::engine::machine::{Note, Step};
use crate::time::{Monotonic, Now};

use super::{Asked, Sentinel};

/// Whether the configuration can be gone by.
pub const CONFIG_VALID: &str = "ConfigValid";
/// Whether the last poll brought the whole list.
pub const FLEET_REACHABLE: &str = "FleetReachable";
/// Whether events can be published.
pub const BROKER_CONNECTED: &str = "BrokerConnected";
/// Whether every due event of the last cycle was confirmed.
pub const PUBLISHING: &str = "Publishing";

/// Whether all of these are True for the latest generation.
pub const READY: &str = "Ready";
/// Of what [`READY`] is made.
const PARTS: [&str; 4] = [CONFIG_VALID, FLEET_REACHABLE, BROKER_CONNECTED, PUBLISHING];

/// The reason of [`FLEET_REACHABLE`] and [`PUBLISHING`] where the selector matches no resource.
pub const NOTHING_SELECTED: &str = "NothingSelected";

/// How often counts and messages are written at most.
const PACE: Duration = Duration::from_mins(1);
/// How often the status is written at most, even where a condition has changed.
const PACE_URGENT: Duration = Duration::from_secs(5);
/// How long after a failed write the next is tried.
const RETRY: Duration = Duration::from_secs(30);
/// The same, where it is not allowed: the Sentinel works without it.
const RETRY_FORBIDDEN: Duration = Duration::from_mins(10);

/// What the status should say.
#[derive(Debug, Default)]
pub struct Conditions {
    wanted: Vec<Condition>,
    last_cycle: Option<LastCycle>,
    is_writing: bool,
    not_before: Monotonic,
    /// When it may be written again after a failed write.
    retry_at: Monotonic,
    /// Whether a status that speaks of the latest generation was sent: it is sent at once only once, so that another client that
    /// keeps overwriting it is not answered without a pause.
    is_sent: bool,
    /// Whether the last write met another version of the object than it was compared with: the watch will bring it.
    is_outdated: bool,
    /// When messages and counts may be written.
    pace: Monotonic,
    /// When the status is to be written; none if it says what it should, or is being written.
    due: Option<Monotonic>,
}

impl Finding {
    /// It holds.
    pub(super) fn valid(condition: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { condition, status: Status::True, reason, message: message.into() }
    }

    /// It does not hold.
    pub(super) fn broken(condition: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { condition, status: Status::False, reason, message: message.into() }
    }
}

impl Conditions {
    /// When the status is to be written.
    pub(super) fn due(&self) -> Option<Monotonic> {
        self.due
    }

    /// Takes over what an object says that was not seen before: what was found out about another one of its name does not
    /// hold for it.
    pub(super) fn adopt(&mut self, status: &SentinelConfigStatus) {
        self.wanted.clone_from(&status.conditions);
        self.last_cycle.clone_from(&status.last_cycle);
    }

    /// What was found out holds for this generation as well: nothing has changed that it depends on.
    pub(super) fn hold_for(&mut self, generation: i64) {
        for condition in &mut self.wanted {
            condition.observed_generation = Some(generation);
        }
    }

    /// The watch has brought another version of the object.
    pub(super) fn observed(&mut self, is_new_generation: bool) {
        if std::mem::take(&mut self.is_outdated) || is_new_generation {
            self.retry_at = Monotonic::START;
        }
        self.is_sent &= !is_new_generation;
    }
}

/// Whether all is well, by the other conditions: the first that is not tells why.
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

/// What readers see at a glance.
fn gist(conditions: &[Condition]) -> Vec<(&str, &str, &str, Option<i64>)> {
    conditions
        .iter()
        .map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str(), c.observed_generation))
        .collect()
}

impl Sentinel {
    /// Enters a finding.
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
            // What this step has reported as a warning is not reported as one again.
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

    /// Enters a finding that something is wrong, and tells of it each time.
    pub(super) fn trouble(&mut self, finding: Finding, now: Now, step: &mut Step) {
        step.notes.push(Note::Warning { message: format!("{}: {}", finding.reason, finding.message) });
        self.find(finding, now, step);
    }

    pub(super) fn tell_cycle(&mut self, tally: LastCycle) {
        self.conditions.last_cycle = Some(tally);
    }

    /// What the status should say, given what it says. A condition that readers saw in one state all along has not moved,
    /// whatever it was in between.
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

    /// Writes the status, if it is to be written now; else tells when it is.
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
        // Only over the status that it was compared with, of the object that it speaks of.
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
                    // Another client wrote, or deleted it: the watch tells what.
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
