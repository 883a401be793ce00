//! Mistakes while a kind can't be watched.

use std::sync::Arc;

use lockstep_engine::action::{ErrorKind, Outcome, Request, Success};
use lockstep_engine::machine::Event;
use lockstep_sim::bugs::Flaw;
use serde_json::{Value, json};

use super::super::common::{Known, Refused};
use super::super::requests::status_patch;

/// The server never receives the status.
#[derive(Default)]
pub(super) struct Freezes {
    refused: Refused,
    known: Known,
}

impl Flaw for Freezes {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.refused.absorb(&event);
        self.known.absorb(&event, "");
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (target, _) = status_patch(&mut request.action)?;
        let known = self.known.objects.get(target).filter(|_| !self.refused.0.is_empty())?;
        Some(Ok(Success::Object(Arc::clone(known))))
    }
}

#[derive(Default)]
pub(super) struct EmptiesRollout(Refused);

impl Flaw for EmptiesRollout {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.0.absorb(&event);
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (_, patch) = status_patch(&mut request.action)?;
        if !["DPUCluster", "Application"].iter().any(|kind| self.0.0.contains(*kind)) {
            return None;
        }
        let mut changed = Value::clone(patch);
        changed["status"]["rollout"] = json!({ "clusters": "0/0", "sync": "", "health": "" });
        *patch = Arc::new(changed);
        None
    }
}

#[derive(Default)]
pub(super) struct WaitsForUnserved;

impl Flaw for WaitsForUnserved {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        if let Event::WatchFailed { kind, failure } = &mut event
            && kind.kind == "DPUCluster"
            && failure.class == ErrorKind::KindNotServed
        {
            failure.class = ErrorKind::Forbidden;
        }
        Some(event)
    }
}
