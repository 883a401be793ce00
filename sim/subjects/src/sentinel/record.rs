//! Checks that the status follows the configuration.

use std::time::Duration;

use lockstep_engine::action::{Action, ActionId, ErrorKind, KubeRequest, Outcome, Success};
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::object::{ResourceVersion, generation};
use lockstep_engine::time::{Monotonic, Now};
use lockstep_sim::subject::Testimony;
use serde_json::Value;

/// Minimum interval between status writes, except for new generations.
const PACE: Duration = Duration::from_secs(5);
/// Delay after a failed status write; longer after a forbidden one.
const RETRY: Duration = Duration::from_secs(30);
const RETRY_FORBIDDEN: Duration = Duration::from_mins(10);

/// What a process knows of its configuration and its status.
#[derive(Clone, Default)]
pub(super) struct Record {
    is_leading: bool,
    is_listed: bool,
    known: Option<Known>,
    /// The write in flight, with its generation.
    writing: Option<(ActionId, i64)>,
    /// When a status for the latest generation was sent. After that, it is written at most once every few seconds.
    sent: Option<Monotonic>,
    /// Until when no write is required, and whether that ends with the next version of the object.
    rests: Option<(Monotonic, bool)>,
}

#[derive(Clone)]
struct Known {
    uid: String,
    version: ResourceVersion,
    generation: i64,
    /// The generation in the status.
    reported: i64,
}

impl Record {
    pub(super) fn see(&mut self, now: Now, event: &Event, step: &Step) -> Result<(), Testimony> {
        match event {
            Event::LeadershipChanged { leading } => self.is_leading = *leading,
            Event::ListStarted { .. } => self.is_listed = false,
            Event::ListCompleted { .. } if !self.is_listed => self.known = None,
            Event::Deleted { .. } => self.known = None,
            Event::Applied { kind, object } if kind.kind == "SentinelConfig" => self.observed(object),
            Event::Finished { id, outcome } => self.finished(*id, outcome, now),
            _ => {}
        }
        for request in &step.requests {
            if let Action::Kube(KubeRequest::Patch { patch, .. }) = &request.action {
                let generation = patch["status"]["observedGeneration"].as_i64().unwrap_or_default();
                self.writing = Some((request.id, generation));
                self.sent = Some(now.monotonic);
            }
        }
        let is_paced = self.sent.is_some_and(|sent| now.monotonic < sent + PACE);
        let rests = is_paced || self.rests.is_some_and(|(until, _)| now.monotonic < until);
        match &self.known {
            Some(known)
                if known.reported != known.generation
                    && self.is_leading
                    && self.writing.is_none()
                    && !rests =>
            {
                Err(Testimony {
                    invariant: "the_observed_generation_follows_at_once",
                    sentence: "When a process has seen a generation, it writes a status that has another one at once, unless the last write has just failed.",
                    seen: format!(
                        "generation {} is known, but the status is of {}",
                        known.generation, known.reported
                    ),
                })
            }
            _ => Ok(()),
        }
    }

    fn observed(&mut self, object: &Value) {
        self.is_listed = true;
        let version = ResourceVersion::of(object);
        if self.known.as_ref().is_some_and(|known| known.version > version) {
            return;
        }
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let generation = generation(object);
        let is_same = |known: &Known| known.uid == uid && known.generation == generation;
        let is_new = !self.known.as_ref().is_some_and(is_same);
        self.rests.take_if(|(_, ends)| is_new || *ends);
        self.sent.take_if(|_| is_new);
        let reported = object["status"]["observedGeneration"].as_i64().unwrap_or_default();
        self.known = Some(Known { uid, version, generation, reported });
    }

    fn finished(&mut self, id: ActionId, outcome: &Outcome, now: Now) {
        let Some((_, generation)) = self.writing.take_if(|(writing, _)| *writing == id) else { return };
        match outcome {
            Ok(answer) => {
                let Some(known) = &mut self.known else { return };
                if let Success::Object(object) = answer {
                    let version = ResourceVersion::of(object);
                    if version < known.version {
                        return;
                    }
                    known.version = version;
                }
                known.reported = generation;
            }
            Err(failure) => {
                let (rest, ends) = match failure.class {
                    ErrorKind::Conflict | ErrorKind::NotFound => (Duration::from_secs(5), true),
                    ErrorKind::Forbidden => (RETRY_FORBIDDEN, false),
                    _ => (RETRY, false),
                };
                self.rests = Some((now.monotonic + rest, ends));
                self.sent.take_if(|_| ends);
            }
        }
    }
}
