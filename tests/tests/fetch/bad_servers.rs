//! Tests servers that misbehave.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Success};
use lockstep_engine::document::Fields;
use lockstep_runtime::fetch::Fetcher;
use tokio::io::AsyncWriteExt as _;

use super::raw::{Raw, answer};
use super::{PATIENCE, document, failure, oversized};

#[tokio::test]
async fn requests_say_who_asks_and_for_what() {
    let server = Raw::saying(answer("200 OK", &[], "{}")).await;
    assert_eq!(&*document(&Fetcher::default(), &format!("{}/a?b=c%20d", server.url)).await, "{}");
    let head = server.heads().remove(0).to_lowercase();
    assert!(head.starts_with("get /a?b=c%20d http/1.1\r\n"), "{head}");
    for header in ["accept: application/json", concat!("user-agent: lockstep/", env!("CARGO_PKG_VERSION"))] {
        assert!(head.contains(&format!("\r\n{header}\r\n")), "{head}");
    }
    assert!(!head.contains("authorization") && !head.contains("accept-encoding"), "{head}");
}

#[tokio::test]
async fn a_body_that_trickles_is_late() {
    let server = Raw::start(async |_, mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await?;
        loop {
            stream.write_all(b"x").await?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let failure = failure(&Fetcher::default(), &server.url, Duration::from_millis(40)).await;
    assert_eq!(failure.class, ErrorKind::Unknown, "{failure}");
}

/// A large and incomplete answer counts as too large, and not as late.
#[tokio::test]
async fn a_large_body_that_is_late_is_too_large() {
    let server = Raw::start(async |_, mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"spec\":\"").await?;
        stream.write_all(&vec![b'x'; 2 << 20]).await?;
        std::future::pending().await
    })
    .await;
    let (fetcher, keep, mut timeout) =
        (Fetcher::default(), Arc::new(Fields::at(["id"])), Duration::from_millis(100));
    // The timeout grows until the partial answer arrives in time, which depends on the load of the machine.
    loop {
        match fetcher.fetch(&server.url, &BTreeMap::new(), &keep, timeout).await {
            Ok(Success::Oversized { why, is_late: true })
                if why.starts_with("2 MiB of the answer came within ") =>
            {
                break;
            }
            _ if timeout < PATIENCE => timeout *= 2,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_error_with_an_incomplete_body_is_still_that_error() {
    let server = Raw::start(async |_, mut stream| {
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 1000\r\n\r\nbusy").await?;
        std::future::pending().await
    })
    .await;
    // The timeout grows until the partial answer arrives in time, which depends on the load of the machine.
    let (fetcher, mut timeout) = (Fetcher::default(), Duration::from_millis(100));
    loop {
        let failure = failure(&fetcher, &server.url, timeout).await;
        if (failure.class, failure.message.as_str())
            == (ErrorKind::Unavailable, "503 Service Unavailable: busy")
        {
            break;
        }
        timeout *= 2;
        assert!(timeout < PATIENCE, "{failure}");
    }
}

#[tokio::test]
async fn an_endless_body_is_too_long() {
    for head in ["transfer-encoding: chunked", "connection: close"] {
        let server = Raw::start(move |_, mut stream| async move {
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes()).await?;
            let part = vec![b'x'; 0x10000];
            loop {
                if head == "transfer-encoding: chunked" {
                    stream.write_all(b"10000\r\n").await?;
                    stream.write_all(&part).await?;
                    stream.write_all(b"\r\n").await?;
                } else {
                    stream.write_all(&part).await?;
                }
            }
        })
        .await;
        for (keep, limit) in [
            (Fields::at(["id"]), "the answer is longer than 64 MiB"),
            (Fields::default(), "what is read of the answer is longer than 32 MiB"),
        ] {
            let why = oversized(&Fetcher::default(), &server.url, &Arc::new(keep), PATIENCE).await;
            assert_eq!(why, limit);
        }
    }
}

#[tokio::test]
async fn an_endless_error_body_is_truncated() {
    let server = Raw::start(async |_, mut stream| {
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n").await?;
        loop {
            stream.write_all(&[b'x'; 4096]).await?;
        }
    })
    .await;
    let failure = failure(&Fetcher::default(), &server.url, PATIENCE).await;
    assert_eq!(failure.class, ErrorKind::NotFound);
    assert!(failure.message.starts_with("404 Not Found: xxx") && failure.message.len() < 1100, "{failure}");
}

#[tokio::test]
async fn a_connection_that_ends_early_leaves_it_open() {
    for said in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"items\":"] {
        let server = Raw::saying(said).await;
        let failure = failure(&Fetcher::default(), &server.url, PATIENCE).await;
        assert_eq!(failure.class, ErrorKind::Unknown, "{said:?}: {failure}");
        // No request is retried.
        assert_eq!(server.heads().len(), 1, "{said:?}");
    }
}

#[tokio::test]
async fn what_is_no_text_is_refused() {
    let server = Raw::start(async |_, mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\n\xff{}").await
    })
    .await;
    let refused = failure(&Fetcher::default(), &server.url, PATIENCE).await;
    assert_eq!((refused.class, refused.message.as_str()), (ErrorKind::Invalid, "the answer is not UTF-8"));
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_server_only() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "hunter2").unwrap();
    let fetcher = Fetcher::with_token_file(Some(token));

    let moved = Raw::start(async |head: String, mut stream| {
        let answer = if head.starts_with("GET /new ") {
            answer("200 OK", &[], "here")
        } else {
            answer("307 Temporary Redirect", &["location: /new"], "")
        };
        stream.write_all(answer.as_bytes()).await
    })
    .await;
    assert_eq!(&*document(&fetcher, &format!("{}/old", moved.url)).await, "here");
    assert!(
        moved.heads().iter().all(|head| head.to_lowercase().contains("authorization: bearer hunter2\r\n"))
    );

    let elsewhere = Raw::saying(answer("200 OK", &[], "not for you")).await;
    let location = format!("location: {}/stolen", elsewhere.url);
    let leaving = Raw::saying(answer("302 Found", &[&location], "")).await;
    let refused = failure(&fetcher, &leaving.url, PATIENCE).await;
    assert_eq!(refused.class, ErrorKind::Invalid);
    assert!(refused.message.starts_with("302 Found: redirects are not followed"), "{refused}");
    assert!(elsewhere.heads().is_empty());

    let circle = Raw::saying(answer("302 Found", &["location: /round"], "")).await;
    assert_eq!(failure(&fetcher, &circle.url, PATIENCE).await.class, ErrorKind::Invalid);
    assert_eq!(circle.heads().len(), 6);
}

#[tokio::test]
async fn who_throttles_says_for_how_long() {
    for (headers, expected) in [
        (&["retry-after: 30"] as &[&str], Some(30)),
        (&["date: Wed, 21 Oct 2026 07:28:00 GMT", "retry-after: Wed, 21 Oct 2026 07:28:45 GMT"], Some(45)),
        (&[], None),
    ] {
        for (status, class) in [
            ("429 Too Many Requests", ErrorKind::Throttled),
            ("503 Service Unavailable", ErrorKind::Unavailable),
        ] {
            let server = Raw::saying(answer(status, headers, "")).await;
            let failure = failure(&Fetcher::default(), &server.url, PATIENCE).await;
            assert_eq!((failure.class, failure.message.as_str()), (class, status));
            assert_eq!(failure.retry_after, expected.map(Duration::from_secs), "{headers:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_unavailable() {
    let port = {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let fetcher = Fetcher::default();
    let refused = failure(&fetcher, &format!("http://user:hunter2@127.0.0.1:{port}/x"), PATIENCE).await;
    assert_eq!(refused.class, ErrorKind::Unavailable, "{refused}");
    assert!(refused.message.to_lowercase().contains("connection refused"), "{refused}");
    let unknown = failure(&fetcher, "http://user:hunter2@nowhere.invalid/", PATIENCE).await;
    assert_eq!(unknown.class, ErrorKind::Unavailable, "{unknown}");
    // This server does not support TLS.
    let plain = Raw::saying(answer("400 Bad Request", &[], "")).await;
    let url = plain.url.replace("http://", "https://user:hunter2@");
    let untrusted = failure(&fetcher, &url, PATIENCE).await;
    assert_eq!(untrusted.class, ErrorKind::Unavailable, "{untrusted}");
    for failure in [refused, unknown, untrusted] {
        assert!(!failure.message.contains("hunter2"), "{failure}");
    }
    for url in
        ["", "clusters", "ftp://user:hunter2@127.0.0.1/", "http://user:hunter2@:x/", "file:///etc/hosts"]
    {
        let failure = failure(&fetcher, url, PATIENCE).await;
        assert_eq!(failure.class, ErrorKind::Invalid, "{url}: {failure}");
        assert!(!failure.message.contains("hunter2"), "{failure}");
    }
}

#[tokio::test]
async fn what_the_server_repeats_of_the_token_is_masked() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "hunter2").unwrap();
    let fetcher = Fetcher::with_token_file(Some(token));
    let echo = Raw::start(async |head: String, mut stream| {
        stream.write_all(answer("401 Unauthorized", &[], &head).as_bytes()).await
    })
    .await;
    let failure = failure(&fetcher, &echo.url.replace("http://", "http://user:hunter2@"), PATIENCE).await;
    assert_eq!(failure.class, ErrorKind::Forbidden);
    assert!(!failure.message.contains("hunter2"), "{failure}");
    // The token replaces the credentials in the URL.
    let head = echo.heads().remove(0).to_lowercase();
    assert_eq!(head.matches("authorization:").count(), 1, "{head}");
    assert!(head.contains("authorization: bearer hunter2\r\n"), "{head}");
}
