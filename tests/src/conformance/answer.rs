//! The answer of a server to a request.

use lockstep_engine::yaml;
use serde_json::Value;

/// The answer of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// The media type without parameters.
    pub media_type: String,
    /// The texts of the `Warning` headers.
    pub warnings: Vec<String>,
    /// Whether the answer has an `Audit-Id`.
    pub has_audit_id: bool,
    /// The body: the value in JSON or YAML, an array of events if the request was a watch, or else a string.
    pub body: Value,
}

impl Answer {
    /// Returns the answer with the events of a watch that is open; its head was an answer of its own.
    pub(super) fn of_events(events: Value) -> Self {
        Self { code: 200, media_type: String::new(), warnings: Vec::new(), has_audit_id: false, body: events }
    }

    /// Reads an answer with this body.
    pub(super) fn new(response: &http::response::Parts, body: Value) -> Self {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let media_type = response.headers.get(http::header::CONTENT_TYPE).map(text).unwrap_or_default();
        Self {
            code: response.status.as_u16(),
            media_type: media_type.split(';').next().unwrap_or_default().to_owned(),
            warnings: response.headers.get_all(http::header::WARNING).iter().map(text).collect(),
            has_audit_id: response.headers.get("audit-id").is_some_and(|id| !id.is_empty()),
            body,
        }
    }
}

/// Reads a body.
pub(super) fn body(response: &http::response::Parts, bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    let media_type = response.headers.get(http::header::CONTENT_TYPE);
    let is_yaml = media_type.is_some_and(|it| it.as_bytes().starts_with(b"application/yaml"));
    let read = if is_yaml { yaml::read(&text).ok() } else { serde_json::from_str(&text).ok() };
    read.unwrap_or_else(|| Value::String(text.into_owned()))
}
