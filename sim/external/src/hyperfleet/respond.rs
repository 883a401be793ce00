//! Encodes answers.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

/// Why a request is refused (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) detail: String,
}

impl Problem {
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: "HYPERFLEET-VAL-005", detail: detail.into() }
    }

    pub(super) fn unauthorized() -> Self {
        let detail = "Account authentication could not be verified".to_owned();
        Self { status: StatusCode::UNAUTHORIZED, code: "HYPERFLEET-AUT-001", detail }
    }

    pub(super) fn forbidden(detail: &str) -> Self {
        Self { status: StatusCode::FORBIDDEN, code: "HYPERFLEET-AUT-003", detail: detail.to_owned() }
    }

    pub(super) fn not_found(what: &str) -> Self {
        let detail = format!("{what} not found");
        Self { status: StatusCode::NOT_FOUND, code: "HYPERFLEET-NTF-001", detail }
    }

    pub(super) fn method_not_allowed() -> Self {
        let detail = "this path does not take the method".to_owned();
        Self { status: StatusCode::METHOD_NOT_ALLOWED, code: "HYPERFLEET-VAL-002", detail }
    }

    pub(super) fn into_response(self) -> http::Response<Bytes> {
        let title = self.status.canonical_reason().unwrap_or_default();
        let body = json!({
            "type": format!("https://api.hyperfleet.io/errors/{}", title.to_lowercase().replace(' ', "-")),
            "title": title,
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
        });
        response(self.status, "application/problem+json", body.to_string().into())
    }
}

/// A list, or one page of it.
#[derive(Debug, Serialize)]
pub(super) struct List<'a> {
    pub(super) page: usize,
    /// Number of items on this page.
    pub(super) size: usize,
    /// Number of items on all pages.
    pub(super) total: usize,
    pub(super) items: Vec<&'a RawValue>,
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> http::Response<Bytes> {
    let body = serde_json::to_vec(value).expect("maps have string keys only");
    response(status, "application/json", body.into())
}

pub(super) fn response(status: StatusCode, media_type: &'static str, body: Bytes) -> http::Response<Bytes> {
    let mut response = http::Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
