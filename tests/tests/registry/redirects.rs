//! Tests redirects, which carry no credentials to other servers.

use lockstep_engine::action::ErrorKind;

use super::raw::answer;
use super::stand_in::{
    CONFIG, Guard, INDEX, TOKEN, answering, asked, content, registry, repository, respond,
};
use super::{class, found, user};

fn moved(to: &str) -> String {
    answer("307 Temporary Redirect", &[&format!("Location: {to}")], "")
}

#[tokio::test]
async fn a_redirect_to_another_server_forwards_no_credentials() {
    let (_, config) = content(&format!("blobs/{CONFIG}")).unwrap();
    let storage = answering(move |_| answer("200 OK", &[], &config.to_string())).await;
    let at = format!("{}/bucket?signature=x", storage.url);
    let server = answering(move |head| {
        let is_blob = head.line.contains("/blobs/");
        if is_blob { moved(&at) } else { respond(head, Guard::Bearer("token")) }
    })
    .await;
    let image = found(&format!("{}@{INDEX}", repository(&server)), Some(user())).await;
    assert_eq!(image.release.as_deref(), Some("4.19.3"));
    assert_eq!(asked(&storage), ["GET /bucket?signature=x -"]);
    assert!(asked(&server).last().unwrap().ends_with(&format!("/blobs/{CONFIG} Bearer {TOKEN}")));
}

#[tokio::test]
async fn the_same_server_may_answer_at_another_path() {
    let server = answering(move |head| {
        if head.line.contains("/old/") {
            return moved("/v2/ocp/release/manifests/4.19.3");
        }
        respond(head, Guard::Basic)
    })
    .await;
    let old = repository(&server).replace("ocp/release", "old/release:4.19.3");
    assert_eq!(found(&old, Some(user())).await.digest, INDEX);
    assert_eq!(asked(&server).len(), 4);
}

#[tokio::test]
async fn a_challenge_from_elsewhere_is_not_answered() {
    for guard in [Guard::Basic, Guard::Bearer("token")] {
        let other = registry(guard).await;
        let at = format!("{}/v2/ocp/release/manifests/4.19.3", other.url);
        let server = answering(move |_| moved(&at)).await;
        assert_eq!(
            class(&format!("{}:4.19.3", repository(&server)), Some(user())).await,
            ErrorKind::Forbidden
        );
        assert_eq!(asked(&other), ["HEAD /v2/ocp/release/manifests/4.19.3 -"]);
    }
}

#[tokio::test]
async fn a_token_service_that_moves_takes_no_credentials_along() {
    let other = answering(|_| answer("401 Unauthorized", &[], "")).await;
    let at = format!("{}/token", other.url);
    let server = answering(move |head| {
        let is_token = head.line.starts_with("GET /token");
        if is_token { moved(&at) } else { respond(head, Guard::Bearer("token")) }
    })
    .await;
    assert_eq!(class(&format!("{}:4.19.3", repository(&server)), Some(user())).await, ErrorKind::Forbidden);
    assert_eq!(asked(&other), ["GET /token -"]);
}

#[tokio::test]
async fn redirects_end() {
    for (to, questions) in [("/v2/again", 6), ("http://elsewhere.invalid/", 1), ("file:///etc/passwd", 1)] {
        let server = answering(move |_| moved(to)).await;
        assert_eq!(
            class(&format!("{}:4.19.3", repository(&server)), Some(user())).await,
            ErrorKind::Unavailable,
            "{to}"
        );
        assert_eq!(asked(&server).len(), questions, "{to}");
    }
}
