//! Tests the shell with documents of the HyperFleet API.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use lockstep_apiserver::host::Listener;
use lockstep_engine::action::{ErrorKind, Success};
use lockstep_external::hyperfleet::damage::Damage;
use lockstep_external::hyperfleet::host::{Host, Mishap, State};
use lockstep_external::hyperfleet::{API, Dialect, HyperFleet, Kind, Labels};
use lockstep_runtime::fetch::Fetcher;
use lockstep_sentinel::fleet;
use lockstep_sentinel::resource;
use lockstep_sentinel::selector::Selector;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::{PATIENCE, document, failure, oversized};

async fn start() -> (Host, String) {
    let mut fleet = HyperFleet::new(Dialect::Released, 0);
    fleet.create("a", Labels::new(), Timestamp::UNIX_EPOCH);
    let host = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), fleet).await.unwrap();
    let url = format!("{}{API}/clusters", host.url());
    (host, url)
}

fn under(host: &Host, delay: Duration, damage: Option<Damage>) {
    host.state().set_weather(Some(Box::new(move |_| Mishap { delay, damage })));
}

#[tokio::test]
async fn a_page_is_read_whole() {
    let (_host, url) = start().await;
    let fetcher = Fetcher::default();
    let page: Value = serde_json::from_str(&document(&fetcher, &url).await).unwrap();
    assert_eq!((&page["total"], &page["items"][0]["name"]), (&1.into(), &"a".into()));
}

/// A listener that counts connections.
struct Counting {
    listener: TcpListener,
    accepted: Arc<AtomicUsize>,
}

impl Listener for Counting {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<Self::Stream> {
        let stream = Listener::accept(&mut self.listener).await?;
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Ok(stream)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[tokio::test]
async fn one_connection_serves_all_pages() {
    const PAGES: usize = 50;
    let mut fleet = HyperFleet::new(Dialect::Released, 0);
    fleet.populate(100 * PAGES, |_| Arc::default(), Timestamp::UNIX_EPOCH);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let accepted = Arc::<AtomicUsize>::default();
    let counting = Counting { listener, accepted: Arc::clone(&accepted) };
    let host = Host::start(counting, State::new(fleet, Timestamp::now)).unwrap();
    let (fetcher, mut ids) = (Fetcher::default(), BTreeSet::new());
    for page in 1..=PAGES {
        let url = format!("{}{API}/clusters?order=id&size=100&page={page}", host.url());
        let page: Value = serde_json::from_str(&document(&fetcher, &url).await).unwrap();
        ids.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].to_string()));
    }
    assert_eq!((ids.len(), accepted.load(Ordering::Relaxed)), (100 * PAGES, 1));
}

#[tokio::test]
async fn a_refusal_keeps_the_message_of_the_api() {
    let (_host, url) = start().await;
    let fetcher = Fetcher::default();
    let refused = failure(&fetcher, &format!("{url}?size=101"), PATIENCE).await;
    assert_eq!(refused.class, ErrorKind::Invalid);
    assert_eq!(refused.message, "400 Bad Request: Bad Request: size must be between 1 and 100, got \"101\"");
    let missing = failure(&fetcher, &format!("{url}/none"), PATIENCE).await;
    assert_eq!((missing.class, missing.retry_after), (ErrorKind::NotFound, None));
}

#[tokio::test]
async fn damaged_answers_are_sorted() {
    let (host, url) = start().await;
    let fetcher = Fetcher::default();
    let whole = document(&fetcher, &url).await;
    for (damage, class, retry_after) in [
        (Damage::ServerError(500), ErrorKind::Unavailable, None),
        (Damage::ServerError(503), ErrorKind::Unavailable, None),
        (Damage::ServerError(408), ErrorKind::Unknown, None),
        (Damage::Throttled { retry_after: 7 }, ErrorKind::Throttled, Some(7)),
    ] {
        under(&host, Duration::ZERO, Some(damage));
        let failure = failure(&fetcher, &url, PATIENCE).await;
        assert_eq!(failure.class, class, "{damage:?}: {failure}");
        assert_eq!(failure.retry_after, retry_after.map(Duration::from_secs), "{damage:?}");
    }
    // The fetcher does not check the content of a document.
    under(&host, Duration::ZERO, Some(Damage::Html));
    assert!(document(&fetcher, &url).await.starts_with("<!DOCTYPE html>"));
    under(&host, Duration::ZERO, Some(Damage::EmptyBody));
    assert_eq!(&*document(&fetcher, &url).await, "");
    under(&host, Duration::ZERO, Some(Damage::TruncatedJson));
    assert!(whole.starts_with(&*document(&fetcher, &url).await));
    host.state().set_weather(None);
    assert_eq!(document(&fetcher, &url).await, whole);
}

#[tokio::test]
async fn the_limit_is_named() {
    let (host, url) = start().await;
    under(&host, Duration::ZERO, Some(Damage::HugeBody));
    let fetcher = Fetcher::default();
    let why = oversized(&fetcher, &url, &fleet::fields(), PATIENCE).await;
    assert_eq!(why, "the answer is longer than 64 MiB");
    // The connection of an answer that was too long is not used again.
    host.state().set_weather(None);
    assert!(document(&fetcher, &url).await.starts_with('{'));
}

/// Only a few kilobytes of a page of 20 MB are kept.
#[tokio::test]
async fn of_large_resources_only_what_is_needed_is_kept() {
    let (host, url) = start().await;
    let created = Timestamp::UNIX_EPOCH;
    host.state().with_fleet(|fleet| {
        fleet.populate(70, |_| Arc::default(), created);
        let ids: Vec<String> = fleet.resources(Kind::Cluster).map(|row| row.id.clone()).collect();
        for id in ids {
            assert!(fleet.set_spec(&id, json!({ "manifests": ["x".repeat(300_000)] }), created));
        }
    });
    let (url, keep) = (format!("{url}?size=100"), fleet::fields());
    let fetcher = Fetcher::default();
    let whole = document(&fetcher, &url).await;
    let Ok(Success::Document(kept)) = fetcher.fetch(&url, &BTreeMap::new(), &keep, PATIENCE).await else {
        panic!("no document")
    };
    let length = kept.text().len();
    assert!(whole.len() > 20_000_000 && length < 71 * 1000, "{} {length}", whole.len());
    let page = fleet::read(&kept, resource::Dialect::Search, &Selector::default()).unwrap();
    assert_eq!((page.resources.len(), page.spoiled), (71, 0));
}

#[tokio::test]
async fn a_late_answer_leaves_it_open() {
    let (host, url) = start().await;
    under(&host, PATIENCE, None);
    let failure = failure(&Fetcher::default(), &url, Duration::from_millis(20)).await;
    assert_eq!(failure.class, ErrorKind::Unknown);
    assert_eq!(failure.message, "no whole answer within 20ms");
}

/// An API that selects the tenant by a header.
#[tokio::test]
async fn the_headers_of_the_configuration_are_sent() {
    let (host, url) = start().await;
    host.state().require_tenant(Some("acme"));
    let fetcher = Fetcher::default();
    let refused = failure(&fetcher, &url, PATIENCE).await;
    assert_eq!(refused.class, ErrorKind::Forbidden);
    assert!(refused.message.contains("403 Forbidden"), "{refused}");
    let headers = BTreeMap::from([("X-Tenant".to_owned(), "acme".to_owned())]);
    let answer = fetcher.fetch(&url, &headers, &Arc::default(), PATIENCE).await;
    assert!(matches!(answer, Ok(Success::Document(_))), "{answer:?}");
}

#[tokio::test]
async fn the_token_is_read_again_for_each_request() {
    let (host, url) = start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let fetcher = Fetcher::with_token_file(Some(path.clone()));
    let missing = failure(&fetcher, &url, PATIENCE).await;
    assert_eq!(missing.class, ErrorKind::Unavailable);
    assert!(missing.message.contains("no token in"), "{missing}");
    // The token is a symbolic link that is replaced, as in a projected volume of Kubernetes.
    let project = |version: &str, token: &str| {
        let file = folder.path().join(version);
        std::fs::write(&file, format!("{token}\n")).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::fs::rename(&link, &path).unwrap();
    };
    project("one", "first-token");
    host.state().require_token(Some("first-token"));
    document(&fetcher, &url).await;
    host.state().require_token(Some("other-token"));
    let refused = failure(&fetcher, &url, PATIENCE).await;
    assert_eq!(refused.class, ErrorKind::Forbidden);
    project("two", "other-token");
    document(&fetcher, &url).await;
    assert!(!format!("{fetcher:?} {refused:?} {missing:?}").contains("-token"));
    // Without a usable token, nothing is sent.
    let before = host.state().answered();
    for unusable in ["", "two\nlines"] {
        project(&format!("bad{}", unusable.len()), unusable);
        let failure = failure(&fetcher, &url, PATIENCE).await;
        assert_eq!(failure.class, ErrorKind::Unavailable);
        assert!(!failure.message.contains("lines"), "{failure}");
    }
    assert_eq!(host.state().answered(), before);
}
