//! The body of a watch: each event as one line of JSON.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::Frame;

use super::state::State;
use super::stop::Stop;
use crate::server::{WatchId, WatchPoll};

/// One open watch. It is closed on drop, when the client disconnects.
struct Open {
    state: State,
    id: WatchId,
    stop: Arc<Stop>,
    closed: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.closed {
            self.state.cancel_watch(self.id);
        }
    }
}

/// Returns the events of a watch until it ends or the host stops.
pub(super) fn events(
    state: State,
    id: WatchId,
    stop: Arc<Stop>,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
    let open = Open { state, id, stop, closed: false };
    futures::stream::unfold(open, |mut open| async move {
        let bytes = open.next().await?;
        Some((Ok(Frame::data(bytes)), open))
    })
}

impl Open {
    /// Waits for events; none when the watch has ended.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.closed || self.stop.is_pulled() {
                return None;
            }
            let changed = self.state.changed();
            let WatchPoll { events, closed, more, wake_at } = self.state.poll_watch(self.id);
            self.closed = closed;
            if !events.is_empty() {
                let mut bytes = BytesMut::new();
                for event in &events {
                    bytes.extend_from_slice(&event.encode());
                }
                return Some(bytes.freeze());
            }
            if closed || more {
                continue;
            }
            let wait = wake_at.duration_since(self.state.now());
            let wait = Duration::try_from(wait).unwrap_or_default().max(Duration::from_millis(1));
            tokio::select! {
                biased;
                () = self.stop.pulled() => return None,
                () = changed => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}
