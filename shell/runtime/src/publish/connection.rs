//! An open connection to a broker of any kind.

use futures::future::BoxFuture;
use lockstep_engine::action::Failure;
use lockstep_engine::broker::CloudEvent;
use tokio::time::Instant;

/// The result for an event.
pub(super) struct Answer {
    pub(super) result: Result<(), Failure>,
    pub(super) at: Instant,
}

/// A connection that publishes events.
pub(super) trait Connection: Send + Sync {
    fn is_open(&self) -> bool;

    /// Returns why the broker accepts nothing for now, if that is so.
    fn pause(&self) -> Option<Failure>;

    /// Sends all events, then waits for the broker's answer to each.
    fn publish<'a>(&'a self, events: &'a [CloudEvent]) -> BoxFuture<'a, Vec<Answer>>;

    fn close(&self) -> BoxFuture<'_, ()>;
}
