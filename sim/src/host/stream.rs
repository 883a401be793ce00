//! The body of a watch: events as they come, one line of JSON each.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::Frame;
use tokio::sync::watch;

use super::{Shared, now};
use crate::apiserver::{WatchId, WatchPoll};

/// One open watch; closing it on drop frees it when the client goes away.
struct Open {
    shared: Arc<Shared>,
    id: WatchId,
    revision: watch::Receiver<u64>,
    stop: watch::Receiver<bool>,
    closed: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.closed {
            self.shared.lock().cancel_watch(self.id);
        }
    }
}

/// The events of a watch until it ends or the host stops.
pub(super) fn events(
    shared: Arc<Shared>,
    id: WatchId,
    stop: watch::Receiver<bool>,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
    let revision = shared.revision.subscribe();
    let open = Open { shared, id, revision, stop, closed: false };
    futures::stream::unfold(open, |mut open| async move {
        let bytes = open.next().await?;
        Some((Ok(Frame::data(bytes)), open))
    })
}

impl Open {
    /// Waits for events; none when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.closed || *self.stop.borrow() {
                return None;
            }
            self.revision.mark_unchanged();
            let WatchPoll { events, closed, more, wake_at } = self.shared.lock().poll_watch(self.id, now());
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
            let wait = wake_at.duration_since(now());
            let wait = Duration::try_from(wait).unwrap_or_default().max(Duration::from_millis(1));
            tokio::select! {
                biased;
                () = super::stopped(&mut self.stop) => return None,
                _ = self.revision.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}
