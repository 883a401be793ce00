use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

async fn asked(connection: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.unwrap());
    }
}

fn metrics() -> Metrics {
    Metrics::new(prometheus::Registry::new()).unwrap()
}

/// Simulates a connection that a device in between has forgotten: requests on it get no answer, those on a new one do.
#[tokio::test]
async fn a_request_that_hangs_holds_up_no_other() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = client(Config::new(url.parse().unwrap()), &metrics()).unwrap();
    let ask = || {
        let client = client.clone();
        let request = http::Request::get("/version").body(Vec::new()).unwrap();
        tokio::spawn(async move { client.request_text(request).await })
    };
    let first = ask();
    let (mut dead, _) = listener.accept().await.unwrap();
    asked(&mut dead).await;
    dead.write_all(ANSWER).await.unwrap();
    assert_eq!(first.await.unwrap().unwrap(), "{}");

    let hangs = ask();
    asked(&mut dead).await;
    let next = ask();
    let (mut alive, _) = listener.accept().await.unwrap();
    asked(&mut alive).await;
    alive.write_all(ANSWER).await.unwrap();
    assert_eq!(next.await.unwrap().unwrap(), "{}");
    assert!(!hangs.is_finished());
}

const PROXY: &str = "http://me:secret@proxy:3128";

fn is_proxied(cluster: &str, proxy: &str, environment: &[(&str, &str)]) -> bool {
    let variable = |name: &str| {
        let found = environment.iter().find(|(known, _)| *known == name);
        found.map_or_else(String::new, |(_, value)| (*value).to_owned())
    };
    proxy_for(&cluster.parse().unwrap(), proxy.parse().unwrap(), variable).is_some()
}

#[test]
fn the_exempt_are_reached_without_the_proxy_of_the_environment() {
    for (url, list, exempt) in [
        ("https://api.example.com:6443", "example.com", true),
        ("https://api.example.com:6443", "other.com, .example.com", true),
        ("https://10.1.2.3:6443", "10.0.0.0/8", true),
        ("https://[fd00::1]:6443", "fd00::/8", true),
        ("https://api.example.com", "*", true),
        ("https://api.example.com", "", false),
        ("https://api.example.com", "proxy", false),
        ("https://11.1.2.3:6443", "10.0.0.0/8,example.com", false),
        ("https://127.0.0.1:6443", "", true),
        ("https://[::1]:6443", "", true),
        ("https://localhost:6443", "", true),
        ("http://api.example.com", "", true),
    ] {
        let environment = [("HTTPS_PROXY", PROXY), ("no_proxy", list)];
        assert_eq!(is_proxied(url, PROXY, &environment), !exempt, "{url} {list}");
    }
}

#[test]
fn the_proxy_of_a_kubeconfig_counts_as_it_is() {
    let environment = [("HTTPS_PROXY", "http://other:3128"), ("NO_PROXY", "10.0.0.0/8")];
    for url in ["https://10.1.2.3:6443", "https://127.0.0.1:6443", "http://api.example.com"] {
        assert!(is_proxied(url, PROXY, &environment), "{url}");
        assert!(is_proxied(url, PROXY, &[("NO_PROXY", "10.0.0.0/8")]), "{url}");
    }
}

#[test]
fn a_proxy_without_a_scheme_is_one_over_http() {
    let cluster = "https://api.example.com".parse().unwrap();
    let proxy = proxy_for(&cluster, "me:secret@proxy:3128".parse().unwrap(), |_| String::new());
    assert_eq!(proxy.unwrap(), PROXY);
}

#[test]
fn errors_do_not_contain_the_proxy_password() {
    let mut config = Config::new("https://api.example.com".parse().unwrap());
    config.proxy_url = Some("ftp://me:secret@proxy:1080".parse().unwrap());
    let error = client(config, &metrics()).err().unwrap().to_string();
    assert!(error.contains("ftp://***@proxy:1080") && !error.contains("secret"), "{error}");
}
