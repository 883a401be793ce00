//! The meaning of unsuccessful answers.

use std::time::Duration;

use http::header::{DATE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use lockstep_engine::action::{ErrorKind, Failure};
use serde::Deserialize;

/// Returns the class of an answer to a request that changes nothing.
///
/// | code | class |
/// | --- | --- |
/// | 401, 403 | forbidden |
/// | 404 | not found |
/// | 408 | unknown |
/// | 410 | gone |
/// | 429 | throttled |
/// | 5xx | unavailable |
/// | everything else | invalid |
fn class(status: StatusCode) -> ErrorKind {
    match status.as_u16() {
        401 | 403 => ErrorKind::Forbidden,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::Unknown,
        410 => ErrorKind::Gone,
        429 => ErrorKind::Throttled,
        500..=599 => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    }
}

/// Returns the failure of an answer. Its message is in one line, and not truncated yet.
pub(crate) fn failure(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
    let said = if status.is_redirection() && headers.contains_key(LOCATION) {
        "redirects are not followed to other servers, nor for long".to_owned()
    } else {
        said(body)
    };
    let message = format!("{status}: {said}").trim_end_matches([':', ' ']).to_owned();
    Failure { class: class(status), message, retry_after: retry_after(headers, Timestamp::now()) }
}

/// A description of a problem (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
}

/// Returns the text of a body: that of the problem details, or all of it.
fn said(body: &[u8]) -> String {
    let problem = serde_json::from_slice::<Problem>(body).ok();
    let words = problem.map(|Problem { title, detail }| {
        title.into_iter().chain(detail).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ")
    });
    let words = words.filter(|words| !words.is_empty());
    let words = words.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    words
        .split(|letter: char| letter.is_whitespace() || letter.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the delay that the server requests: in seconds, or until a time. The time is compared with the server's own clock,
/// if the answer has one.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let time = |text: &str| rfc2822::DateTimeParser::new().parse_timestamp(text).ok();
    let asked = text(RETRY_AFTER)?;
    let wait = if let Ok(seconds) = asked.parse() {
        Duration::from_secs(seconds)
    } else {
        let now = text(DATE).and_then(time).unwrap_or(now);
        Duration::try_from(time(asked)?.duration_since(now)).ok()?
    };
    (!wait.is_zero()).then_some(wait)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn failed(code: u16, headers: &[(HeaderName, &'static str)], body: &str) -> Failure {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        failure(StatusCode::from_u16(code).unwrap(), &headers.collect(), body.as_bytes())
    }

    #[test]
    fn every_code_has_its_class() {
        let table: [(&[u16], ErrorKind); 7] = [
            (&[302, 400, 405, 406, 409, 413, 414, 415, 418, 422], ErrorKind::Invalid),
            (&[401, 403], ErrorKind::Forbidden),
            (&[404], ErrorKind::NotFound),
            (&[408], ErrorKind::Unknown),
            (&[410], ErrorKind::Gone),
            (&[429], ErrorKind::Throttled),
            (&[500, 501, 502, 503, 504, 599], ErrorKind::Unavailable),
        ];
        for (codes, class) in table {
            for code in codes {
                assert_eq!(failed(*code, &[], "").class, class, "{code}");
            }
        }
    }

    #[test]
    fn the_message_is_what_the_server_says() {
        let problem =
            r#"{"type":"x","title":"Bad Request","status":400,"detail":"page must be\nat least 1"}"#;
        assert_eq!(
            failed(400, &[], problem).message,
            "400 Bad Request: Bad Request: page must be at least 1"
        );
        assert_eq!(failed(503, &[], "").message, "503 Service Unavailable");
        assert_eq!(failed(503, &[], "{}").message, "503 Service Unavailable: {}");
        assert_eq!(
            failed(502, &[], "<h1>\r\n  no\u{0}upstream</h1>").message,
            "502 Bad Gateway: <h1> no upstream</h1>"
        );
        let moved = failed(302, &[(LOCATION, "https://user:secret@elsewhere/")], "secret").message;
        assert_eq!(moved, "302 Found: redirects are not followed to other servers, nor for long");
    }

    #[test]
    fn the_server_asks_for_time_in_seconds_or_by_the_clock() {
        let asked = |headers: &[(HeaderName, &'static str)]| failed(429, headers, "").retry_after;
        let date = (DATE, "Wed, 21 Oct 2026 07:28:00 GMT");
        assert_eq!(asked(&[(RETRY_AFTER, "120")]), Some(Duration::from_mins(2)));
        let later = (RETRY_AFTER, "Wed, 21 Oct 2026 07:28:30 GMT");
        assert_eq!(asked(&[date.clone(), later]), Some(Duration::from_secs(30)));
        let earlier = (RETRY_AFTER, "Wed, 21 Oct 2026 07:27:00 GMT");
        assert_eq!(asked(&[date, earlier]), None);
        // Without the server's clock, the local clock is used.
        let far = asked(&[(RETRY_AFTER, "Thu, 31 Dec 9998 23:59:59 GMT")]);
        assert!(far.is_some_and(|wait| wait > Duration::from_hours(1)), "{far:?}");
        for nonsense in ["", "0", "-1", "soon", "1.5"] {
            assert_eq!(asked(&[(RETRY_AFTER, nonsense)]), None, "{nonsense}");
        }
    }
}
