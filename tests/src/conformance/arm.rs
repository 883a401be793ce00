//! The interface of the two servers.

use super::answer::Answer;
use super::scenario::{Step, Variables};

/// A server to send requests to.
#[expect(async_fn_in_trait, reason = "both arms are driven by the test's own task")]
pub trait Arm {
    /// Creates the namespace of a scenario.
    async fn prepare(&mut self, namespace: &str) -> anyhow::Result<()>;

    /// Compacts the history: older versions can no longer be listed or watched.
    async fn compact(&mut self) -> anyhow::Result<()>;

    /// Sends one request and returns the whole answer.
    async fn send(&mut self, step: &Step, variables: &Variables) -> anyhow::Result<Answer>;
}

/// Returns the request of a step, as both servers get it.
pub(super) fn request(step: &Step, variables: &Variables) -> anyhow::Result<http::Request<Vec<u8>>> {
    let mut request = http::Request::builder()
        .method(step.method.clone())
        .uri(step.path(variables))
        // The field manager of a request without one.
        .header(http::header::USER_AGENT, format!("{}/1", step.client))
        .header(http::header::ACCEPT, step.accept);
    if step.body.is_some() {
        request = request.header(http::header::CONTENT_TYPE, step.content_type);
    }
    Ok(request.body(step.body(variables))?)
}
