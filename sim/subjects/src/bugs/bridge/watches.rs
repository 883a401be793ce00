//! Mistakes while a kind can't be watched, or is not served.

use lockstep_engine::action::{ErrorKind, Outcome, Request};
use lockstep_engine::machine::Event;
use lockstep_sim::bugs::Flaw;

use super::super::common::{Asked, is};

#[derive(Default)]
pub(super) struct IgnoresOwnWatch;

impl Flaw for IgnoresOwnWatch {
    fn event(&mut self, event: Event) -> Option<Event> {
        let is_own = matches!(&event, Event::WatchFailed { kind, .. } if kind.kind == "DPFHCPBridge");
        (!is_own).then_some(event)
    }
}

/// Takes the answer that a kind is not served for the absence of the object.
#[derive(Default)]
pub(super) struct BelievesUnserved;

impl Flaw for BelievesUnserved {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        if let Event::Finished { outcome: Err(failure), .. } = &mut event
            && failure.class == ErrorKind::KindNotServed
        {
            failure.class = ErrorKind::NotFound;
        }
        Some(event)
    }
}

#[derive(Default)]
pub(super) struct WaitsForUnserved(Asked);

impl Flaw for WaitsForUnserved {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        let is_read = self.0.answered(&event).is_some_and(|action| is(&action, "get", "DPUCluster"));
        if let Event::Finished { outcome: Err(failure), .. } = &mut event
            && is_read
            && failure.class == ErrorKind::KindNotServed
        {
            failure.class = ErrorKind::Unavailable;
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        self.0.note(request);
        None
    }
}
