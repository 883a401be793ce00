//! Tests servers that misbehave.

use std::net::Ipv4Addr;
use std::time::Duration;

use lockstep_engine::action::ErrorKind;
use tokio::io::AsyncWriteExt as _;

use super::raw::{Raw, answer};
use super::stand_in::{CONFIG, Guard, Head, INDEX, answering, repository, respond};
use super::{PATIENCE, class, failure, found, user};

#[tokio::test]
async fn codes_have_their_classes_at_every_question() {
    let table = [
        ("429 Too Many Requests", ErrorKind::Throttled, Some(7)),
        ("503 Service Unavailable", ErrorKind::Unavailable, Some(7)),
        ("500 Internal Server Error", ErrorKind::Unavailable, Some(7)),
        ("408 Request Timeout", ErrorKind::Unknown, Some(7)),
    ];
    for (status, expected, retry_after) in table {
        for at in ["HEAD ", "GET /v2/ocp/release/manifests/", "GET /v2/ocp/release/blobs/"] {
            let server = answering(move |head| {
                let is_it = head.line.starts_with(at);
                if is_it { answer(status, &["Retry-After: 7"], "") } else { respond(head, Guard::Anybody) }
            })
            .await;
            let failure = failure(&format!("{}@{INDEX}", repository(&server)), Some(user()), PATIENCE).await;
            let message = format!("{}: {status}", server.url.replace("http://", ""));
            assert_eq!((failure.class, failure.message), (expected, message), "{at}");
            assert_eq!(failure.retry_after, retry_after.map(Duration::from_secs), "{at}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_never_ends_is_late() {
    for silent in ["HEAD ", "GET /token", "GET /v2/ocp/release/blobs/"] {
        let server = Raw::start(move |head, mut stream| async move {
            let head = Head::read(&head);
            if !head.line.starts_with(silent) {
                return stream.write_all(respond(&head, Guard::Bearer("token")).as_bytes()).await;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n").await?;
            std::future::pending().await
        })
        .await;
        let image = format!("{}@{INDEX}", repository(&server));
        let failure = failure(&image, Some(user()), Duration::from_millis(300)).await;
        let message = format!("{}: no whole answer within 300ms", server.url.replace("http://", ""));
        assert_eq!((failure.class, failure.message), (ErrorKind::Unknown, message), "{silent}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_early_leaves_it_open() {
    for said in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nDocker-Content"] {
        let server = Raw::saying(said).await;
        assert_eq!(
            class(&format!("{}:1", repository(&server)), Some(user())).await,
            ErrorKind::Unknown,
            "{said:?}"
        );
        assert_eq!(server.heads().len(), 1, "{said:?}");
    }
}

#[tokio::test]
async fn what_is_too_long_is_not_read() {
    let endless = |at: &'static str| {
        Raw::start(move |head, mut stream| async move {
            let head = Head::read(&head);
            if !head.line.contains(at) {
                return stream.write_all(respond(&head, Guard::Bearer("token")).as_bytes()).await;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await?;
            loop {
                stream.write_all(&[b' '; 4096]).await?;
            }
        })
    };
    let server = endless(CONFIG).await;
    let image = found(&format!("{}@{INDEX}", repository(&server)), Some(user())).await;
    assert_eq!((image.digest.as_str(), image.release), (INDEX, None));
    let server = endless("/token").await;
    let failure = failure(&format!("{}:4.19.3", repository(&server)), Some(user()), PATIENCE).await;
    assert_eq!(failure.class, ErrorKind::Unavailable);
    assert!(failure.message.ends_with("the answer is longer than 262144 bytes"), "{failure}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_unavailable() {
    let port = {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    assert_eq!(class(&format!("127.0.0.1:{port}/a:1"), Some(user())).await, ErrorKind::Unavailable);
    assert_eq!(class("registry.invalid/a:1", Some(user())).await, ErrorKind::Unavailable);
}

#[tokio::test]
async fn without_tls_no_request_is_sent() {
    let plain = Raw::saying(answer("400 Bad Request", &[], "")).await;
    // This address is not loopback, although the server answers on it.
    let image = repository(&plain).replace("127.0.0.1", "0.0.0.0");
    assert_eq!(class(&format!("{image}:1"), Some(user())).await, ErrorKind::Unavailable);
    // The first byte of TLS.
    assert_eq!(plain.heads(), ["\u{16}"]);
}
