//! Checks that failures of the broker and the fleet are reported, and that failing systems are not overloaded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lockstep_engine::action::{
    Action, ActionId, BrokerRequest, ErrorKind, Failure, Fetch, KubeRequest, Outcome, Success,
};
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::object::generation;
use lockstep_engine::time::{Monotonic, Now};
use lockstep_sentinel::metrics;
use lockstep_sim::subject::Testimony;
use serde_json::Value;

use super::measured::measured;
use super::oracle::size_of;
use super::record::Record;

/// Maximum number of failed or lost connections within that period while no event is confirmed. Half a second, doubled each time,
/// makes seven.
const LOSSES_MAX: usize = 10;
const LOSSES_WITHIN: Duration = Duration::from_mins(1);

/// The failures that one process must know.
#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct OutageChecker {
    asked: BTreeMap<ActionId, Asked>,
    object: Option<(String, Value)>,
    /// The generation of the configuration, if its selector is invalid.
    invalid_selector: Option<i64>,
    /// Whether the last attempt to connect has failed, or to read the connection's Secret while there was no connection.
    is_cut_off: bool,
    /// Whether the broker has refused all events of the last publication.
    is_refused: bool,
    /// Whether the last cycle skipped pages, and no page was read since.
    is_blind: bool,
    /// The pages that failed in this cycle and were not read since.
    missing: BTreeSet<String>,
    /// Whether some items of the last cycle could not be parsed, and how many of this cycle.
    is_spoilt: bool,
    spoilt: u64,
    record: Record,
    is_up: bool,
    /// When connections failed or were lost since an event was last confirmed or a cycle succeeded.
    losses: VecDeque<Monotonic>,
    /// The content of the Secret that was read last.
    secret: Value,
}

#[derive(Clone)]
enum Asked {
    Secret,
    Broker,
    Page(String),
    Events,
}

impl OutageChecker {
    pub(super) fn see(&mut self, now: Now, event: &Event, step: &Step) -> Result<(), Testimony> {
        match event {
            Event::Applied { kind, object } if kind.kind == "SentinelConfig" => self.observed(object),
            Event::Deleted { .. } | Event::ListStarted { .. } => self.invalid_selector = None,
            Event::Finished { id, outcome } => match self.asked.remove(id) {
                Some(Asked::Secret) => self.secret_read(outcome),
                Some(Asked::Broker) => self.answered(outcome, now)?,
                Some(Asked::Page(url)) => self.came(url, outcome),
                Some(Asked::Events) => self.published(outcome, now)?,
                None => {}
            },
            _ => {}
        }
        self.spoilt += measured(step, metrics::MALFORMED, None).unwrap_or(0);
        if measured(step, metrics::DURATION, None).is_some() {
            self.is_spoilt = std::mem::take(&mut self.spoilt) > 0;
            self.is_blind |= !self.missing.is_empty();
            self.missing.clear();
            if self.is_up {
                self.losses.clear();
                self.is_refused = false;
            }
        }
        for request in &step.requests {
            let asked = match &request.action {
                Action::Kube(KubeRequest::Get { .. }) => Asked::Secret,
                Action::Broker(BrokerRequest::Connect { .. }) => Asked::Broker,
                Action::Http(Fetch { url, .. }) => Asked::Page(url.clone()),
                Action::Broker(BrokerRequest::Publish { .. }) => Asked::Events,
                Action::Kube(KubeRequest::Patch { patch, .. }) => {
                    self.check_status(&patch["status"])?;
                    continue;
                }
                _ => continue,
            };
            self.asked.insert(request.id, asked);
        }
        self.record.see(now, event, step)
    }

    /// Handles a new state of the configuration. Information about another object or configuration may no longer be valid. The
    /// connection is kept as long as `spec.broker` is the same, and its Secret may be out of reach meanwhile.
    fn observed(&mut self, object: &Value) {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let spec = &object["spec"];
        let known = self.object.replace((uid.to_owned(), spec.clone()));
        let before = known.filter(|(known, _)| known == uid).map(|(_, spec)| spec);
        if before.as_ref() != Some(spec) {
            let mut fresh = Self { object: self.object.take(), ..Self::default() };
            std::mem::swap(&mut fresh.record, &mut self.record);
            if before.is_some_and(|before| before["broker"] == spec["broker"]) {
                fresh.is_up = self.is_up;
                self.asked.retain(|_, asked| matches!(asked, Asked::Broker));
                std::mem::swap(&mut fresh.asked, &mut self.asked);
            }
            *self = fresh;
        }
        self.invalid_selector = has_invalid_selector(spec).then(|| generation(object));
    }

    /// Handles a read of the connection's Secret. Another URL begins with a backoff of its own.
    fn secret_read(&mut self, outcome: &Outcome) {
        let Ok(Success::Object(secret)) = outcome else {
            self.is_cut_off |= outcome.is_err() && !self.is_up;
            return;
        };
        if self.secret != secret["data"] {
            self.secret = secret["data"].clone();
            self.losses.clear();
        }
    }

    fn answered(&mut self, outcome: &Outcome, now: Now) -> Result<(), Testimony> {
        self.is_up = outcome.is_ok();
        self.is_cut_off = !self.is_up;
        if self.is_up { Ok(()) } else { self.lost(now) }
    }

    fn came(&mut self, url: String, outcome: &Outcome) {
        match outcome {
            // Smaller pages replace it.
            Ok(Success::Oversized { .. }) if size_of(&url) > 1 => {
                self.missing.remove(&url);
            }
            Ok(Success::Oversized { .. }) | Err(_) => {
                self.missing.insert(url);
            }
            Ok(_) => {
                self.missing.remove(&url);
                self.is_blind = false;
            }
        }
    }

    fn published(&mut self, outcome: &Outcome, now: Now) -> Result<(), Testimony> {
        let is_lost = match outcome {
            Ok(Success::Published(results)) => {
                // A pause is longer each time, until all events of a publication are confirmed.
                let is_throttled = results.iter().any(is_pause);
                if results.iter().any(Result::is_ok) && !is_throttled {
                    self.losses.clear();
                    self.is_refused = false;
                }
                if (is_throttled || results.iter().all(is_refusal)) && std::mem::take(&mut self.is_up) {
                    self.is_refused = true;
                    return self.lost(now);
                }
                results.iter().any(|it| it.as_ref().is_err_and(|failure| failure.class == ErrorKind::Unknown))
            }
            Ok(_) => true,
            Err(failure) => matches!(failure.class, ErrorKind::Unknown | ErrorKind::Unavailable),
        };
        if is_lost && std::mem::take(&mut self.is_up) {
            self.is_cut_off = true;
            return self.lost(now);
        }
        Ok(())
    }

    fn lost(&mut self, now: Now) -> Result<(), Testimony> {
        self.losses.push_back(now.monotonic);
        while self.losses.front().is_some_and(|first| now.monotonic.since(*first) > LOSSES_WITHIN) {
            self.losses.pop_front();
        }
        if self.losses.len() <= LOSSES_MAX {
            return Ok(());
        }
        Err(Testimony {
            invariant: "connections_to_a_failing_broker_are_bounded",
            sentence: "While no event gets through to the broker, connections are retried with exponential backoff.",
            seen: format!("{} connections failed or were lost within a minute", self.losses.len()),
        })
    }

    /// Checks that the status does not report a failure as healthy.
    fn check_status(&self, status: &Value) -> Result<(), Testimony> {
        let wrong = [
            (self.is_cut_off || self.is_refused, "BrokerConnected"),
            (self.is_cut_off || self.is_refused, "Publishing"),
            (self.is_blind, "FleetReachable"),
            (self.is_blind, "Publishing"),
            (self.is_spoilt, "Publishing"),
            (self.is_cut_off || self.is_refused || self.is_blind || self.is_spoilt, "Ready"),
        ];
        let conditions = || status["conditions"].as_array().into_iter().flatten();
        let is_true = |name: &str| conditions().any(|it| it["type"] == name && it["status"] == "True");
        let is_invalid =
            self.invalid_selector.is_some_and(|generation| status["observedGeneration"] == generation);
        if is_invalid && is_true("ConfigValid") {
            return Err(Testimony {
                invariant: "invalid_selectors_are_reported",
                sentence: "ConfigValid is not True if the selector of the configuration is invalid.",
                seen: "ConfigValid is True, and a value in spec.shardSelector is no value of a label"
                    .to_owned(),
            });
        }
        let unreported = wrong.into_iter().find(|(is_wrong, name)| *is_wrong && is_true(name));
        unreported.map_or(Ok(()), |(_, name)| {
            Err(Testimony {
                invariant: "outages_are_reported",
                sentence: "No condition is True that should be False while the broker refuses events, or the broker, its Secret or some of the list is out of reach.",
                seen: format!("{name} is True"),
            })
        })
    }
}

/// Returns whether the broker does not permit events, has no such topic, or asks for a pause.
pub(super) fn is_refusal(result: &Result<(), Failure>) -> bool {
    let is = |failure: &Failure| matches!(failure.class, ErrorKind::Forbidden | ErrorKind::NotFound);
    is_pause(result) || result.as_ref().is_err_and(is)
}

/// Returns whether the broker asks for a pause.
pub(super) fn is_pause(result: &Result<(), Failure>) -> bool {
    result.as_ref().is_err_and(|failure| failure.class == ErrorKind::Throttled)
}

/// Returns whether a value in a selector is no value of a label. The simulation makes no other mistake in selectors.
fn has_invalid_selector(spec: &Value) -> bool {
    let labels = spec["shardSelector"]["matchLabels"].as_object().into_iter().flatten();
    labels.into_iter().any(|(_, value)| value.as_str().is_some_and(|value| value.contains(' ')))
}
