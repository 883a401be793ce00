//! Maps the errors of clients and watches to the failure classes of the machines. The meaning of single answers is defined in
//! [`lockstep_engine::wire`].

use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::wire::{class, cut};

/// Returns the failure of a request that got no answer, or that the client did not send.
pub fn from_client(error: &kube::Error) -> Failure {
    use kube::Error;
    let class = match error {
        Error::Api(status) => return from_status(status),
        Error::BuildRequest(_) | Error::HttpError(_) => ErrorKind::Invalid,
        // There were no credentials, so nothing was sent.
        Error::Auth(_) => ErrorKind::Unavailable,
        Error::Service(error) if never_connected(error.as_ref()) => ErrorKind::Unavailable,
        _ => ErrorKind::Unknown,
    };
    Failure::new(class, cut(&describe(error)))
}

/// Returns the failure of a watch. A watch changes nothing, so a missing answer counts as no effect.
pub(crate) fn from_watch(error: &kube::runtime::watcher::Error) -> Failure {
    use kube::runtime::watcher::Error;
    let failure = match error {
        Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
            // kube takes what is no event for a refusal.
            if matches!(error, kube::Error::Api(status) if status.code == 0) {
                return Failure::new(ErrorKind::Invalid, "the answer is neither an event nor a refusal");
            }
            from_client(error)
        }
        Error::WatchError(status) => from_status(status),
        Error::NoResourceVersion => Failure::new(ErrorKind::Invalid, error.to_string()),
    };
    let class = if failure.class == ErrorKind::Unknown { ErrorKind::Unavailable } else { failure.class };
    Failure { class, ..failure }
}

/// Formats an error and its causes in one line, each once, without the passwords in URLs. It uses only the first line of each
/// error, which says what is wrong. Parsers add lines that quote their input, which may contain credentials.
pub fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let mut text = first_line(error.to_string());
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = first_line(error.to_string());
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    masked(&text)
}

/// Hides the user information in URLs: a password may precede the host.
pub fn masked(text: &str) -> String {
    let mut parts = text.split("://");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_whitespace() || "/?#\"".contains(c)).unwrap_or(part.len());
        let (authority, rest) = part.split_at(end);
        let host = authority.rsplit_once('@').map(|(_, host)| format!("***@{host}"));
        masked = format!("{masked}://{}{rest}", host.as_deref().unwrap_or(authority));
    }
    masked
}

fn from_status(status: &kube::core::Status) -> Failure {
    let retry_after = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|s| *s > 0);
    Failure {
        class: class(status.code, status),
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
    fn credentials_in_urls_are_masked() {
        for (text, expected) in [
            (
                "at http://me:p@ss@a.b:1/x@y and https://c/?d=e@f",
                "at http://***@a.b:1/x@y and https://c/?d=e@f",
            ),
            ("\"socks5://me@a\", me@b", "\"socks5://***@a\", me@b"),
            ("http://", "http://"),
            ("", ""),
        ] {
            assert_eq!(masked(text), expected);
        }
    }

    #[test]
    fn a_watch_has_no_unknown_effect() {
        use kube::runtime::watcher::Error;
        let status = kube::core::Status { code: 503, ..kube::core::Status::default() };
        for error in
            [Error::WatchFailed(kube::Error::Api(status.clone().boxed())), Error::WatchError(status.boxed())]
        {
            assert_eq!(from_watch(&error).class, ErrorKind::Unavailable, "{error}");
        }
    }

    #[test]
    fn a_parser_quotes_no_credentials() {
        let config = "users:\n- name: me\n  user:\n    token: hunter2\n  - broken: [\n";
        let error = kube::config::Kubeconfig::from_yaml(config).unwrap_err();
        assert!(error.to_string().contains("hunter2"), "it quotes the lines around: {error}");
        assert!(!describe(&error).contains("hunter2"), "{}", describe(&error));
    }
}
