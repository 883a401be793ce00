//! Sorts what the API server and the network answer into the classes of failure that machines know.

use std::time::Duration;

use http::StatusCode;
use lockstep_core::engine::action::{Class, Failure};

use crate::redact::cut;

/// The class of an answer by its code and the `reason` of its `Status`.
///
/// | code | class |
/// | --- | --- |
/// | 404 | not found |
/// | 409 | already exists, if that is the reason; else conflict |
/// | 401, 403 | forbidden |
/// | 410 | gone |
/// | 429 | throttled |
/// | 408, 502, 504, or the reason `Timeout` or `ServerTimeout` | unknown: it may have taken effect |
/// | other 5xx | unavailable |
/// | everything else | invalid |
pub fn class(code: u16, reason: &str) -> Class {
    match code {
        404 => Class::NotFound,
        409 if reason == "AlreadyExists" => Class::AlreadyExists,
        409 => Class::Conflict,
        401 | 403 => Class::Forbidden,
        410 => Class::Gone,
        429 => Class::Throttled,
        408 | 502 | 504 => Class::Unknown,
        500..=599 if matches!(reason, "Timeout" | "ServerTimeout") => Class::Unknown,
        500..=599 => Class::Unavailable,
        _ => Class::Invalid,
    }
}

/// What an unsuccessful answer says. Its body is a `Status`, or plain text where a proxy or a filter in front of the API
/// has answered.
pub(crate) fn from_answer(code: StatusCode, retry_after: Option<&str>, body: &[u8]) -> Failure {
    let status = serde_json::from_slice::<kube::core::Status>(body).unwrap_or_default();
    let message = if status.message.is_empty() {
        let text = String::from_utf8_lossy(body);
        format!("{code}: {}", text.trim()).trim_end_matches([':', ' ']).to_owned()
    } else {
        status.message
    };
    let asked = retry_after
        .and_then(|seconds| seconds.trim().parse().ok())
        .or_else(|| status.details.map(|details| u64::from(details.retry_after_seconds)))
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs);
    Failure { class: class(code.as_u16(), &status.reason), message, retry_after: asked }
}

/// What a request that got no answer, or that the client would not even send, has met.
pub fn from_client(error: &kube::Error) -> Failure {
    use kube::Error;
    let class = match error {
        Error::Api(status) => return from_status(status),
        Error::BuildRequest(_) | Error::HttpError(_) => Class::Invalid,
        // No credentials could be had, so nothing was sent.
        Error::Auth(_) => Class::Unavailable,
        Error::Service(error) if never_connected(error.as_ref()) => Class::Unavailable,
        _ => Class::Unknown,
    };
    Failure::new(class, cut(&describe(error)))
}

/// What a watch has met. A watch changes nothing, so that an answer which never came is as good as none.
pub(crate) fn from_watch(error: &kube::runtime::watcher::Error) -> Failure {
    use kube::runtime::watcher::Error;
    match error {
        Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
            let failure = from_client(error);
            let class = if failure.class == Class::Unknown { Class::Unavailable } else { failure.class };
            Failure { class, ..failure }
        }
        Error::WatchError(status) => from_status(status),
        Error::NoResourceVersion => Failure::new(Class::Invalid, error.to_string()),
    }
}

/// An error and its causes in one line, each said once.
pub fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

fn from_status(status: &kube::core::Status) -> Failure {
    let retry_after = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|s| *s > 0);
    Failure {
        class: class(status.code, &status.reason),
        message: cut(&status.message),
        retry_after: retry_after.map(|seconds| Duration::from_secs(seconds.into())),
    }
}

fn never_connected(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return error.is_connect();
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_class() {
        let table = [
            (400, "BadRequest", Class::Invalid),
            (401, "Unauthorized", Class::Forbidden),
            (403, "Forbidden", Class::Forbidden),
            (404, "NotFound", Class::NotFound),
            (404, "", Class::NotFound),
            (405, "MethodNotAllowed", Class::Invalid),
            (408, "", Class::Unknown),
            (409, "AlreadyExists", Class::AlreadyExists),
            (409, "Conflict", Class::Conflict),
            (409, "", Class::Conflict),
            (410, "Expired", Class::Gone),
            (413, "RequestEntityTooLarge", Class::Invalid),
            (415, "UnsupportedMediaType", Class::Invalid),
            (422, "Invalid", Class::Invalid),
            (429, "TooManyRequests", Class::Throttled),
            (500, "InternalError", Class::Unavailable),
            (500, "ServerTimeout", Class::Unknown),
            (502, "", Class::Unknown),
            (503, "ServiceUnavailable", Class::Unavailable),
            (504, "Timeout", Class::Unknown),
        ];
        for (code, reason, expected) in table {
            assert_eq!(class(code, reason), expected, "{code} {reason}");
        }
    }

    #[test]
    fn the_header_tells_how_long_to_wait() {
        let failure = from_answer(StatusCode::TOO_MANY_REQUESTS, Some("7"), b"Too many requests\n");
        assert_eq!(failure.class, Class::Throttled);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(failure.message, "429 Too Many Requests: Too many requests");
    }

    #[test]
    fn the_status_tells_how_long_to_wait_where_the_header_is_missing() {
        let body = br#"{"kind":"Status","message":"busy","reason":"ServerTimeout","code":500,"details":{"retryAfterSeconds":2}}"#;
        let failure = from_answer(StatusCode::INTERNAL_SERVER_ERROR, None, body);
        assert_eq!(failure.class, Class::Unknown);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(2)));
        assert_eq!(failure.message, "busy");
    }

    #[test]
    fn an_empty_body_leaves_the_code() {
        assert_eq!(
            from_answer(StatusCode::SERVICE_UNAVAILABLE, None, b"").message,
            "503 Service Unavailable"
        );
    }
}
