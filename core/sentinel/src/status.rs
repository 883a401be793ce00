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

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use lockstep_crds::sentinel::{LastCycle, SentinelConfigStatus};
use lockstep_engine::action::ErrorKind;
use lockstep_engine::conditions;
pub use lockstep_engine::conditions::Finding;
use lockstep_engine::conditions::Status;
use lockstep_engine::time::{Monotonic, Now};

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
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    wanted: Vec<Condition>,
    /// The counts of the last cycle that has ended for this object since this process became the leader. Before the first one,
    /// the status keeps its counts.
    last_cycle: Option<LastCycle>,
    /// The conditions that this process has found for this object since it became the leader. The status shows the others as
    /// the former leader left them.
    own: BTreeSet<&'static str>,
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
        self.own.clear();
        self.last_cycle = None;
        self.follow(status);
    }

    /// Copies the status when this process becomes the leader: another leader may have written it since. Only what this
    /// process has found about the configuration is kept, because a standby reads it too.
    pub(super) fn take_over(&mut self, status: &SentinelConfigStatus) {
        self.own.retain(|name| *name == CONFIG_VALID);
        self.last_cycle = None;
        self.follow(status);
    }

    /// Copies what this process has not found itself from a newer status. The last write of the former leader may arrive late.
    pub(super) fn follow(&mut self, status: &SentinelConfigStatus) {
        if PARTS.iter().all(|name| self.own.contains(name)) {
            return;
        }
        let before = std::mem::replace(&mut self.wanted, status.conditions.clone());
        for condition in before.into_iter().filter(|condition| self.own.contains(&*condition.type_)) {
            conditions::enter(&mut self.wanted, condition);
        }
    }

    /// Applies the findings since a generation to this generation as well: nothing that they depend on has changed. Older ones
    /// are about another configuration.
    pub(super) fn hold_for(&mut self, generation: i64, since: i64) {
        let is_current = |condition: &&mut Condition| condition.observed_generation >= Some(since);
        for condition in self.wanted.iter_mut().filter(is_current) {
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

    /// Records a finding. Returns the conditions that changed their status or reason.
    pub(super) fn find(&mut self, finding: Finding, generation: i64, now: Now) -> Vec<Condition> {
        self.own.insert(finding.condition);
        let changed = conditions::set(&mut self.wanted, finding, generation, now);
        changed.into_iter().chain(self.summarise(generation, now)).collect()
    }

    /// Sets Ready from the other conditions. Returns it if it changed its status or reason.
    pub(super) fn summarise(&mut self, generation: i64, now: Now) -> Option<Condition> {
        self.own.insert(READY);
        let ready = ready(&self.wanted, generation, now);
        conditions::enter(&mut self.wanted, ready)
    }

    /// Records the counts of a cycle that has ended.
    pub(super) fn cycle_ended(&mut self, tally: LastCycle) {
        self.last_cycle = Some(tally);
    }

    /// Returns the desired status for a given one. If readers saw a condition in one state all along, its transition time
    /// does not change, whatever its state was in between.
    fn wanted_status(&self, before: &SentinelConfigStatus, generation: i64) -> SentinelConfigStatus {
        let mut conditions = self.wanted.clone();
        for condition in &mut conditions {
            let same = |old: &&Condition| old.type_ == condition.type_ && old.status == condition.status;
            if let Some(old) = before.conditions.iter().find(same) {
                condition.last_transition_time = old.last_transition_time.clone();
            }
        }
        SentinelConfigStatus {
            observed_generation: generation,
            conditions,
            last_cycle: self.last_cycle.clone().or_else(|| before.last_cycle.clone()),
        }
    }

    /// Begins a write of the status of an object that has this status and generation, and returns the desired status, if the
    /// write is due; otherwise records when it is.
    pub(super) fn begin_write(
        &mut self,
        object: Option<(&SentinelConfigStatus, i64)>,
        now: Monotonic,
    ) -> Option<SentinelConfigStatus> {
        self.due = None;
        let (status, generation) = object.filter(|_| !self.is_writing)?;
        let wanted = self.wanted_status(status, generation);
        if wanted == *status {
            return None;
        }
        let is_old = wanted.observed_generation != status.observed_generation;
        let is_urgent = is_old || gist(&wanted.conditions) != gist(&status.conditions);
        let due = match (is_old && !self.is_sent, is_urgent) {
            (true, _) => self.retry_at,
            (false, true) => self.not_before.max(self.retry_at),
            (false, false) => self.not_before.max(self.retry_at).max(self.pace),
        };
        if due > now {
            self.due = Some(due);
            return None;
        }
        (self.is_writing, self.is_sent) = (true, true);
        self.not_before = now + PACE_URGENT;
        self.pace = now + PACE;
        Some(wanted)
    }

    /// Records that a write took effect.
    pub(super) fn written(&mut self) {
        self.is_writing = false;
    }

    /// Records that a write failed. Returns whether that has to be reported: if another client changed or deleted the object,
    /// the watch will show that.
    pub(super) fn write_failed(&mut self, class: ErrorKind, now: Monotonic) -> bool {
        self.is_writing = false;
        let is_outdated =
            matches!(class, ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::KindNotServed);
        let retry = match class {
            _ if is_outdated => PACE_URGENT,
            ErrorKind::Forbidden => RETRY_FORBIDDEN,
            _ => RETRY,
        };
        self.retry_at = now + retry;
        if is_outdated {
            (self.is_outdated, self.is_sent) = (true, false);
        }
        !is_outdated
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

#[cfg(test)]
mod tests {
    use lockstep_engine::time::Wall;

    use super::*;

    fn at(second: u64) -> Monotonic {
        Monotonic::START + Duration::from_secs(second)
    }

    /// A poll with the configuration of generation 1 says nothing about that of generations 2 and 3.
    #[test]
    fn findings_hold_only_for_generations_of_the_same_configuration() {
        let mut conditions = Conditions::default();
        let now = Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic: at(0) };
        for (condition, generation) in [(FLEET_REACHABLE, 1), (PUBLISHING, 2)] {
            conditions.find(Finding::valid(condition, "Works", "it works"), generation, now);
        }
        conditions.hold_for(3, 2);
        let observed = |name: &str| {
            let condition = conditions.wanted.iter().find(|condition| condition.type_ == name);
            condition.and_then(|condition| condition.observed_generation)
        };
        assert_eq!((observed(FLEET_REACHABLE), observed(PUBLISHING)), (Some(1), Some(3)));
    }

    /// A failed write, whether it is reported, and when it is repeated; the last is the same after the watch has shown another
    /// version of the object.
    #[test]
    fn a_failed_write_is_repeated_at_its_time() {
        for (class, is_reported, again, after_a_change) in [
            (ErrorKind::Conflict, false, 6, 1),
            (ErrorKind::NotFound, false, 6, 1),
            (ErrorKind::KindNotServed, false, 6, 1),
            (ErrorKind::Unavailable, true, 31, 31),
            (ErrorKind::Invalid, true, 31, 31),
            (ErrorKind::Forbidden, true, 601, 601),
        ] {
            for (is_changed, again) in [(false, again), (true, after_a_change)] {
                let (mut conditions, status) = (Conditions::default(), SentinelConfigStatus::default());
                let wall = Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH);
                let valid = Finding::valid(CONFIG_VALID, "Valid", "it is valid");
                conditions.find(valid, 1, Now { wall, monotonic: at(0) });
                assert!(conditions.begin_write(Some((&status, 1)), at(0)).is_some());
                assert_eq!(conditions.write_failed(class, at(1)), is_reported, "{class}");
                if is_changed {
                    conditions.observed(false);
                }
                let is_due_at =
                    |second| conditions.clone().begin_write(Some((&status, 1)), at(second)).is_some();
                assert!(is_due_at(again), "{class} {is_changed}");
                assert!(again == 1 || !is_due_at(again - 1), "{class} {is_changed}");
            }
        }
    }
}
