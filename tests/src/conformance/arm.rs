//! The interface of the two servers.

mod model;
mod real;

use serde_json::Value;

pub use self::model::ModelArm;
pub use self::real::RealArm;
use super::scenario::{Step, Variables};

/// The answer of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// The media type without parameters.
    pub media_type: String,
    /// The texts of the `Warning` headers.
    pub warnings: Vec<String>,
    /// The body: JSON, an array of events if the request was a watch, or else a string.
    pub body: Value,
}

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
fn request(step: &Step, variables: &Variables) -> anyhow::Result<http::Request<Vec<u8>>> {
    let mut request = http::Request::builder()
        .method(step.method.clone())
        .uri(step.path(variables))
        // The field manager of a request without one.
        .header(http::header::USER_AGENT, "conformance/1")
        .header(http::header::ACCEPT, step.accept);
    if step.body.is_some() {
        request = request.header(http::header::CONTENT_TYPE, step.content_type);
    }
    Ok(request.body(step.body(variables))?)
}

/// Reads the head of a response.
fn head(response: &http::response::Parts, body: Value) -> Answer {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let media_type = response.headers.get(http::header::CONTENT_TYPE).map(text).unwrap_or_default();
    Answer {
        code: response.status.as_u16(),
        media_type: media_type.split(';').next().unwrap_or_default().to_owned(),
        warnings: response.headers.get_all(http::header::WARNING).iter().map(text).collect(),
        body,
    }
}

fn body(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}
