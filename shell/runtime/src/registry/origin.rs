//! The servers to which requests may be sent.

use std::net::IpAddr;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::image::{DOCKER_HUB, ImageReference};
use reqwest::{Url, redirect};

use crate::web::REDIRECTS;

/// The host of Docker Hub's API.
const DOCKER_HUB_API: &str = "registry-1.docker.io";

/// Returns the URL of a repository. A registry on this host is queried over plain HTTP, as container tools do.
pub(super) fn repository(image: &ImageReference) -> Result<Url, Failure> {
    let host = if image.registry == DOCKER_HUB { DOCKER_HUB_API } else { &image.registry };
    let url = |scheme| Url::parse(&format!("{scheme}://{host}/v2/{}/", image.repository));
    match url("http") {
        Ok(url) if is_local(&url) => Ok(url),
        _ => url("https").map_err(|error| Failure::new(ErrorKind::Invalid, format!("{host}: {error}"))),
    }
}

/// Returns whether a registry may redirect to this URL: it has no credentials of its own, and is as secure.
pub(super) fn is_safe(url: &Url, registry: &Url) -> bool {
    let is_safe = match url.scheme() {
        "https" => true,
        "http" => registry.scheme() == "http" && is_local(url),
        _ => false,
    };
    is_safe && url.username().is_empty() && url.password().is_none()
}

/// Follows redirects to secure URLs. The client sends no credentials to other servers.
pub(super) fn safely(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let previous = attempt.previous();
    let is_safe = previous.first().is_some_and(|first| is_safe(attempt.url(), first));
    if is_safe && previous.len() <= REDIRECTS { attempt.follow() } else { attempt.stop() }
}

/// Returns the host and port, for messages.
pub(super) fn name(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn only_this_machine_is_asked_over_plain_http() {
        let table = [
            ("quay.io/a/b", "https://quay.io/v2/a/b/"),
            ("quay.io:80/a", "https://quay.io:80/v2/a/"),
            ("busybox", "https://registry-1.docker.io/v2/library/busybox/"),
            ("localhost/a", "http://localhost/v2/a/"),
            ("localhost:443/a", "http://localhost:443/v2/a/"),
            ("127.0.0.1:5000/a", "http://127.0.0.1:5000/v2/a/"),
            ("127.1.2.3:5000/a", "http://127.1.2.3:5000/v2/a/"),
            ("[::1]:5000/a", "http://[::1]:5000/v2/a/"),
            ("0.0.0.0:5000/a", "https://0.0.0.0:5000/v2/a/"),
            ("10.0.0.1:5000/a", "https://10.0.0.1:5000/v2/a/"),
            ("localhost.example.com/a", "https://localhost.example.com/v2/a/"),
            ("127.0.0.1.example.com/a", "https://127.0.0.1.example.com/v2/a/"),
        ];
        for (image, expected) in table {
            let image = ImageReference::parse(image).unwrap();
            assert_eq!(repository(&image).unwrap().as_str(), expected);
        }
        let image = ImageReference::parse("999.1.1.1/a").unwrap();
        assert_eq!(repository(&image).unwrap_err().class, ErrorKind::Invalid);
    }

    #[test]
    fn safety_is_never_given_up() {
        let (safe, local) = (url("https://quay.io"), url("http://localhost:5000"));
        let table = [
            ("https://auth.quay.io/token", true, true),
            ("http://quay.io/token", false, false),
            ("http://127.0.0.1:5001/token", false, true),
            ("https://user@quay.io/", false, false),
            ("https://:word@quay.io/", false, false),
            ("file:///etc/passwd", false, false),
        ];
        for (place, from_safe, from_local) in table {
            let answers = (is_safe(&url(place), &safe), is_safe(&url(place), &local));
            assert_eq!(answers, (from_safe, from_local), "{place}");
        }
        assert_eq!(name(&url("https://user:word@quay.io:8443/a")), "quay.io:8443");
    }
}
