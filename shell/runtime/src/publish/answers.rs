//! Common handling of answers, for connections of all kinds.

use std::pin::Pin;
use std::time::Duration;

use futures::future::{MaybeDone, join_all};
use lockstep_engine::action::Failure;
use tokio::time::Instant;

use super::connection::Answer;

/// The timeout for a connection attempt.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout for the answers to the events of one call.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

impl Answer {
    pub(super) fn now(result: Result<(), Failure>) -> Self {
        Self { result, at: Instant::now() }
    }
}

/// Waits for the answers to all events, up to [`ANSWER_TIMEOUT`]; `None` is a missing answer.
pub(super) async fn settle<F>(mut sendings: Vec<MaybeDone<F>>) -> Vec<Option<Answer>>
where
    F: Future<Output = Answer> + Unpin,
{
    // All at once: answers may arrive in another order than the events, and the time of each is recorded.
    let _late = tokio::time::timeout(ANSWER_TIMEOUT, join_all(&mut sendings)).await;
    sendings.iter_mut().map(|sending| Pin::new(sending).take_output()).collect()
}
