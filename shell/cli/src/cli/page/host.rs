//! Which requests are answered: those of a browser that shows the page itself, and those of other programs.

use std::net::IpAddr;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, StatusCode};

/// What the page may load: its own files, and nothing else. `require-trusted-types-for` makes the browser refuse code that would
/// parse text as HTML.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Refuses requests that another site caused, and adds the headers of all answers.
///
/// A site can point a name of its own at this address (DNS rebinding): then the browser treats the page as part of the site. Such a
/// request has that name in `Host`. So only addresses and `localhost` are accepted.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let mut response = if !has_allowed_host(headers) {
        refused("the Host of the request must be an IP address or localhost")
    } else if is_cross_site(headers) {
        refused("the page can only be opened directly")
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refused(why: &'static str) -> Response {
    (StatusCode::FORBIDDEN, format!("{why}\n")).into_response()
}

fn has_allowed_host(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    host.to_str().is_ok_and(is_allowed)
}

/// Returns whether a host, with or without a port, is an address or `localhost`.
fn is_allowed(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() && !name.ends_with(':') => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

/// Returns whether a browser says that another site caused the request. Links from other sites are followed, because the page
/// itself shows nothing to them.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    matches!(value("sec-fetch-site"), Some("cross-site" | "same-site"))
        && value("sec-fetch-mode") != Some("navigate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_hosts_of_the_page() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8082",
            "localhost:8082",
            "LOCALHOST",
            "[::1]:8082",
            "[::1]",
            "192.0.2.1:80",
        ] {
            assert!(is_allowed(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8082",
            "127.0.0.1.evil.example",
            "localhost.evil.example:1",
            "",
            ":80",
            "a@127.0.0.1:80x",
        ] {
            assert!(!is_allowed(host), "{host}");
        }
    }
}
