//! Sends any requests to the model of the API server: it never panics, and its answers have the form that clients rely on.

use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use lockstep_apiserver::server::{Actors, ApiServer, Options, Response, WatchId};
use serde_json::Value;

/// The maximum number of requests in one run; later ones are skipped.
const REQUESTS_MAX: usize = 32;
/// The maximum number of rounds until the actors are idle after the last request.
const ROUNDS_MAX: usize = 1000;

/// Reads the bytes as requests, separated by lines of three dashes:
///
/// ```text
/// PATCH /api/v1/namespaces/a/configmaps/b?fieldManager=x application/apply-patch+yaml
/// {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}
/// ---
/// GET /api/v1/configmaps?watch=true
/// ```
///
/// The third word is the media type of the body or, without a body, of the answer.
pub fn apiserver(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (mut server, mut now) = (prepared().clone(), Timestamp::UNIX_EPOCH);
    let mut actors = Actors::default();
    let mut watches = Vec::new();
    for request in text.split("\n---\n").filter_map(parse).take(REQUESTS_MAX) {
        now += SignedDuration::from_secs(1);
        match server.handle(&request, now) {
            Response::Complete(response) => check(&request, &response),
            Response::Watch(head, id) => {
                assert_eq!(head.status(), 200);
                watches.push(id);
            }
        }
        actors.tick(&mut server, now);
        watches.retain(|id| !is_closed(&mut server, *id, now));
    }
    let rest = (0..ROUNDS_MAX).position(|_| {
        now += SignedDuration::from_secs(1);
        !actors.tick(&mut server, now)
    });
    assert!(rest.is_some(), "the actors do not come to rest");
    watches.retain(|id| !is_closed(&mut server, *id, now));
}

/// Returns a server with our kinds.
fn prepared() -> &'static ApiServer {
    static PREPARED: OnceLock<ApiServer> = OnceLock::new();
    PREPARED.get_or_init(|| {
        let mut server = ApiServer::new(&Options::default());
        for crd in lockstep_crds::all().into_iter().flat_map(|set| set.crds) {
            let body = serde_json::to_vec(&crd).expect("a CRD is JSON");
            let request = Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
                .header(CONTENT_TYPE, "application/json")
                .body(Bytes::from(body))
                .expect("a request");
            let Response::Complete(response) = server.handle(&request, Timestamp::UNIX_EPOCH) else {
                unreachable!("a create is no watch")
            };
            assert_eq!(response.status(), 201, "{:?}", response.body());
        }
        server
    })
}

fn parse(block: &str) -> Option<Request<Bytes>> {
    let (head, body) = block.split_once('\n').unwrap_or((block, ""));
    let mut words = head.split_whitespace();
    let method = Method::from_bytes(words.next()?.as_bytes()).ok()?;
    let path = words.next().filter(|path| path.starts_with('/'))?;
    let media_type = words.next().unwrap_or("application/json");
    let header = if body.is_empty() { ACCEPT } else { CONTENT_TYPE };
    let request = Request::builder().method(method).uri(path).header(header, media_type);
    request.body(Bytes::copy_from_slice(body.as_bytes())).ok()
}

fn check(request: &Request<Bytes>, response: &http::Response<Bytes>) {
    let code = response.status();
    assert!(!code.is_server_error() || is_answered_so(response), "{request:?}: {response:?}");
    let is_json = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|media_type| media_type.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return;
    }
    let body: Value = serde_json::from_slice(response.body()).expect("a JSON answer is JSON");
    if code.is_client_error() {
        assert_eq!((&body["kind"], &body["status"]), (&"Status".into(), &"Failure".into()), "{request:?}");
        assert_eq!(body["code"], code.as_u16(), "{request:?}: {body}");
    }
}

/// Returns whether a 5xx answer has a message, as those of the real server do. Such a status is no failure of the model.
fn is_answered_so(response: &http::Response<Bytes>) -> bool {
    serde_json::from_slice::<Value>(response.body())
        .is_ok_and(|body| body["message"].as_str().is_some_and(|message| !message.is_empty()))
}

fn is_closed(server: &mut ApiServer, id: WatchId, now: Timestamp) -> bool {
    loop {
        let poll = server.poll_watch(id, now);
        for event in &poll.events {
            let line: Value = serde_json::from_slice(&event.encode()).expect("an event is a line of JSON");
            assert_eq!(line["type"], event.kind);
        }
        if poll.closed || !poll.more {
            return poll.closed;
        }
    }
}
