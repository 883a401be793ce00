//! Mistakes in how a Sentinel reads the broker's answers about events.

use lockstep_engine::action::{ErrorKind, Failure, Success};
use lockstep_engine::machine::Event;
use lockstep_sim::bugs::Flaw;

/// Replaces failures of this class in answers about events.
fn answer(event: &mut Event, class: ErrorKind, instead: &Result<(), Failure>) {
    if let Event::Finished { outcome: Ok(Success::Published(results)), .. } = event {
        for result in results {
            if result.as_ref().is_err_and(|failure| failure.class == class) {
                result.clone_from(instead);
            }
        }
    }
}

#[derive(Default)]
pub(super) struct PauseIsANack;

impl Flaw for PauseIsANack {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        answer(&mut event, ErrorKind::Throttled, &Err(Failure::new(ErrorKind::Unavailable, "nack")));
        Some(event)
    }
}

#[derive(Default)]
pub(super) struct MissingTopicIsALoss;

impl Flaw for MissingTopicIsALoss {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        answer(&mut event, ErrorKind::NotFound, &Err(Failure::new(ErrorKind::Unknown, "no such topic")));
        Some(event)
    }
}

#[derive(Default)]
pub(super) struct SilenceIsAConfirm;

impl Flaw for SilenceIsAConfirm {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        answer(&mut event, ErrorKind::Unknown, &Ok(()));
        Some(event)
    }
}

#[derive(Default)]
pub(super) struct NackIsAConfirm;

impl Flaw for NackIsAConfirm {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        answer(&mut event, ErrorKind::Unavailable, &Ok(()));
        Some(event)
    }
}
