//! Tests of the HyperFleet model over HTTP.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::net::{Ipv4Addr, SocketAddr};

use jiff::Timestamp;
use lockstep_external::hyperfleet::damage::Damage;
use lockstep_external::hyperfleet::host::{Host, Mishap};
use lockstep_external::hyperfleet::{API, Dialect, HyperFleet, Labels};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn start() -> Host {
    let mut fleet = HyperFleet::new(Dialect::Released, 0);
    fleet.create("a", Labels::new(), Timestamp::UNIX_EPOCH);
    Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), fleet).await.unwrap()
}

/// Returns the complete answer to one request for the clusters.
async fn ask(host: &Host, headers: &str) -> String {
    let mut stream = TcpStream::connect(host.url().strip_prefix("http://").unwrap()).await.unwrap();
    let request = format!("GET {API}/clusters HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn the_model_is_shared_with_the_test() {
    let host = start().await;
    assert!(ask(&host, "").await.contains(r#""total":1"#));
    host.state().with_fleet(|fleet| fleet.create("b", Labels::new(), Timestamp::UNIX_EPOCH));
    assert!(ask(&host, "").await.contains(r#""total":2"#));
    assert_eq!(host.state().answered(), [(200, 2)].into());
    let (addr, state) = (host.url(), host.state().clone());
    host.shutdown().await;
    assert!(TcpStream::connect(addr.strip_prefix("http://").unwrap()).await.is_err());
    // The served state survives the host.
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    assert!(ask(&Host::start(listener, state).unwrap(), "").await.contains(r#""total":2"#));
}

#[tokio::test]
async fn a_token_may_be_required() {
    let host = start().await;
    host.state().require_token(Some("secret"));
    for headers in ["", "Authorization: Bearer wrong\r\n", "Authorization: secret\r\n"] {
        let answer = ask(&host, headers).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
    }
    assert!(ask(&host, "Authorization: Bearer secret\r\n").await.starts_with("HTTP/1.1 200 "));
    host.state().require_token(None);
    assert!(ask(&host, "").await.starts_with("HTTP/1.1 200 "));
    assert_eq!(host.state().answered(), [(200, 2), (401, 3)].into());
}

#[tokio::test]
async fn injected_faults_affect_answers() {
    let host = start().await;
    host.state().set_weather(Some(Box::new(|request| {
        let stormy = request.headers().contains_key("x-storm");
        Mishap { damage: stormy.then_some(Damage::Throttled { retry_after: 7 }), ..Mishap::default() }
    })));
    let throttled = ask(&host, "X-Storm: 1\r\n").await;
    assert!(
        throttled.starts_with("HTTP/1.1 429 ") && throttled.contains("retry-after: 7\r\n"),
        "{throttled}"
    );
    assert!(ask(&host, "").await.starts_with("HTTP/1.1 200 "));
    assert_eq!(host.state().answered(), [(200, 1), (429, 1)].into());
}
