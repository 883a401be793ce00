//! A client that sends requests one after another and records them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::history::{Answer, Call};
use super::maps::Maps;
use super::workload::Workload;

/// The counter of moments. If one call was completed before another was invoked, its moments are lower.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock(Arc<AtomicU64>);

impl Clock {
    /// Returns the next moment.
    pub(super) fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// A client.
pub(super) struct Client {
    pub(super) index: usize,
    pub(super) maps: Maps,
    pub(super) clock: Clock,
    pub(super) workload: Workload,
    pub(super) calls: Vec<Call>,
}

impl Client {
    /// Sends this number of requests. Some of them it gives up, so it does not know whether they take effect.
    pub(super) async fn send(&mut self, requests: usize) -> anyhow::Result<()> {
        for _ in 0..requests {
            let request = self.workload.draw();
            let loss = self.workload.draw_loss(&request);
            let invoked = self.clock.tick();
            let answer = tokio::select! {
                biased;
                answer = self.maps.send(&request) => Some(answer?),
                () = turns(loss) => None,
            };
            let completed = answer.map(|answer| (self.clock.tick(), answer));
            if let Some((_, answer)) = &completed {
                self.workload.learn(&request, answer);
            }
            self.calls.push(Call { client: self.index, request, invoked, completed });
        }
        Ok(())
    }

    /// Returns the revision of its last list; `None` if it has sent none.
    pub(super) fn last_list(&self) -> Option<u64> {
        self.calls.iter().rev().find_map(|call| match call.answer() {
            Some(Answer::List { revision, .. }) => Some(*revision),
            _ => None,
        })
    }
}

/// Returns after this number of scheduling turns; never for `None`.
async fn turns(number: Option<u64>) {
    let Some(number) = number else { return std::future::pending().await };
    for _ in 0..number {
        tokio::task::yield_now().await;
    }
}
