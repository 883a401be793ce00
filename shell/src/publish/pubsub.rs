//! Publishes to Google Cloud Pub/Sub.

use lockstep_core::engine::action::Failure;
use lockstep_core::engine::broker::CloudEvent;

pub(super) struct Connection {}

impl Connection {
    pub(super) async fn open(_project: &str, _topic: &str) -> Result<Self, Failure> {
        std::future::ready(Ok(Self {})).await
    }

    pub(super) async fn publish(&self, _events: &[CloudEvent]) -> Vec<Result<(), Failure>> {
        std::future::ready(Vec::new()).await
    }
}
