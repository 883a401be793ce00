//! Tests the authentication of pulls.

use lockstep_engine::action::ErrorKind;
use lockstep_engine::broker::SecretString;

use super::raw::answer;
use super::stand_in::{BASIC, Guard, INDEX, TOKEN, answering, asked, registry, repository};
use super::{PATIENCE, class, failure, found, user};

#[tokio::test]
async fn a_token_is_had_for_the_credentials_and_shown_from_then_on() {
    for name in ["token", "access_token"] {
        let server = registry(Guard::Bearer(name)).await;
        let image = found(&format!("{}@{INDEX}", repository(&server)), Some(user())).await;
        assert_eq!(image.release.as_deref(), Some("4.19.3"));
        let asked = asked(&server);
        let token =
            format!("GET /token?service=the+registry&scope=repository%3Aocp%2Frelease%3Apull Basic {BASIC}");
        assert_eq!(asked[0], format!("HEAD /v2/ocp/release/manifests/{INDEX} -"));
        assert_eq!(asked[1], token);
        assert_eq!(asked.len(), 6);
        assert!(
            asked[2..].iter().all(|question| question.ends_with(&format!(" Bearer {TOKEN}"))),
            "{asked:?}"
        );
    }
}

#[tokio::test]
async fn a_public_image_needs_only_an_anonymous_token() {
    let server = registry(Guard::Bearer("token")).await;
    assert_eq!(found(&format!("{}:4.19.3", repository(&server)), None).await.digest, INDEX);
    assert!(asked(&server)[1].starts_with("GET /token?") && asked(&server)[1].ends_with(" -"));
}

#[tokio::test]
async fn basic_credentials_are_shown_when_they_are_asked_for() {
    let server = registry(Guard::Basic).await;
    assert_eq!(found(&format!("{}:4.19.3", repository(&server)), Some(user())).await.digest, INDEX);
    let question = "HEAD /v2/ocp/release/manifests/4.19.3";
    assert_eq!(asked(&server), [format!("{question} -"), format!("{question} Basic {BASIC}")]);
}

#[tokio::test]
async fn wrong_credentials_are_forbidden() {
    for (guard, questions) in [(Guard::Basic, 2), (Guard::Bearer("token"), 2)] {
        let server = registry(guard).await;
        let other = Some(SecretString::new("user:hunter2-old"));
        let failure = failure(&format!("{}:4.19.3", repository(&server)), other, PATIENCE).await;
        let expected = format!("{}: 401 Unauthorized", server.url.replace("http://", ""));
        assert_eq!((failure.class, failure.message), (ErrorKind::Forbidden, expected));
        assert_eq!(asked(&server).len(), questions);
    }
    let server = registry(Guard::Basic).await;
    let without = failure(&format!("{}:4.19.3", repository(&server)), None, PATIENCE).await;
    assert_eq!(without.class, ErrorKind::Forbidden);
    assert!(
        without.message.contains("it requires credentials, and the pull secret has none for it"),
        "{without}"
    );
    assert_eq!(asked(&server).len(), 1);
}

#[tokio::test]
async fn a_token_that_does_not_suffice_is_forbidden() {
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let server = answering(move |head| {
            let challenge =
                format!("WWW-Authenticate: Bearer realm=\"http://{}/token\"", head.headers["host"]);
            match head.authorization() {
                _ if head.line.starts_with("GET /token") => answer("200 OK", &[], r#"{"token":"t"}"#),
                "-" => answer("401 Unauthorized", &[&challenge], ""),
                _ => answer(status, &[&challenge], ""),
            }
        })
        .await;
        assert_eq!(
            class(&format!("{}:4.19.3", repository(&server)), Some(user())).await,
            ErrorKind::Forbidden
        );
        assert_eq!(asked(&server).len(), 3, "{status}");
    }
}

#[tokio::test]
async fn an_unsupported_challenge_is_forbidden() {
    for headers in [&[][..], &["WWW-Authenticate: Digest realm=r"], &["WWW-Authenticate: Bearer service=x"]] {
        let server = answering(move |_| answer("401 Unauthorized", headers, "")).await;
        assert_eq!(
            class(&format!("{}:4.19.3", repository(&server)), Some(user())).await,
            ErrorKind::Forbidden
        );
        assert_eq!(asked(&server).len(), 1);
    }
}

#[tokio::test]
async fn a_failed_token_request_says_nothing_about_the_image() {
    let table = [
        (answer("404 Not Found", &[], ""), ErrorKind::Unavailable),
        (answer("400 Bad Request", &[], ""), ErrorKind::Unavailable),
        (answer("500 Internal Server Error", &[], ""), ErrorKind::Unavailable),
        (answer("200 OK", &[], "{}"), ErrorKind::Unavailable),
        (answer("200 OK", &[], "<html>"), ErrorKind::Unavailable),
        (answer("200 OK", &[], r#"{"token":"","access_token":null}"#), ErrorKind::Unavailable),
        (answer("200 OK", &[], r#"{"token":"two\nlines"}"#), ErrorKind::Unavailable),
        (answer("403 Forbidden", &[], ""), ErrorKind::Forbidden),
        (answer("429 Too Many Requests", &["Retry-After: 9"], ""), ErrorKind::Throttled),
    ];
    for (said, expected) in table {
        let shown = said.clone();
        let server = answering(move |head| {
            let challenge =
                format!("WWW-Authenticate: Bearer realm=\"http://{}/token\"", head.headers["host"]);
            let is_token = head.line.starts_with("GET /token");
            if is_token { said.clone() } else { answer("401 Unauthorized", &[&challenge], "") }
        })
        .await;
        let failure = failure(&format!("{}:4.19.3", repository(&server)), Some(user()), PATIENCE).await;
        assert_eq!(failure.class, expected, "{shown}: {failure}");
        assert_eq!(failure.retry_after.is_some(), expected == ErrorKind::Throttled, "{shown}");
    }
}

#[tokio::test]
async fn credentials_go_to_no_unsafe_token_service() {
    for realm in
        ["http://auth.invalid/token", "http://user:x@127.0.0.1/token", "ftp://127.0.0.1/", "/token", ""]
    {
        let server = answering(move |_| {
            answer("401 Unauthorized", &[&format!("WWW-Authenticate: Bearer realm=\"{realm}\"")], "")
        })
        .await;
        let failure = failure(&format!("{}:4.19.3", repository(&server)), Some(user()), PATIENCE).await;
        assert_eq!(failure.class, ErrorKind::Unavailable, "{realm}");
        assert!(failure.message.contains("its token service has no safe URL"), "{realm}: {failure}");
    }
}
