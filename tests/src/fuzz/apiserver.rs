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
/// What separates two requests.
const BREAK: &[u8] = b"\n---\n";
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
/// The third word is the media type of the body or, without a body, of the answer. With a body, the fourth word is the media
/// type of the answer.
///
/// Returns the number of requests that were sent.
pub fn apiserver(data: &[u8]) -> u64 {
    let (mut server, mut actors) = prepared().clone();
    let (mut now, mut sent) = (Timestamp::UNIX_EPOCH, 0);
    let mut watches = Vec::new();
    for request in blocks(data).filter_map(parse).take(REQUESTS_MAX) {
        now += SignedDuration::from_secs(1);
        sent += 1;
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
    sent
}

/// Returns a server with our kinds, and actors that know it.
fn prepared() -> &'static (ApiServer, Actors) {
    static PREPARED: OnceLock<(ApiServer, Actors)> = OnceLock::new();
    PREPARED.get_or_init(|| {
        let (mut server, mut actors) = (ApiServer::new(&Options::default()), Actors::default());
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
        actors.tick(&mut server, Timestamp::UNIX_EPOCH);
        (server, actors)
    })
}

/// Returns the bytes between lines of three dashes. They need not be text, because an object may be in protobuf.
fn blocks(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(data);
    std::iter::from_fn(move || {
        let data = rest?;
        let end = data.windows(BREAK.len()).position(|bytes| bytes == BREAK);
        rest = end.map(|end| &data[end + BREAK.len()..]);
        Some(&data[..end.unwrap_or(data.len())])
    })
}

fn parse(block: &[u8]) -> Option<Request<Bytes>> {
    let end = block.iter().position(|byte| *byte == b'\n').unwrap_or(block.len());
    let (head, body) = (&block[..end], block.get(end + 1..).unwrap_or_default());
    let mut words = std::str::from_utf8(head).ok()?.split_whitespace();
    let method = Method::from_bytes(words.next()?.as_bytes()).ok()?;
    let path = words.next().filter(|path| path.starts_with('/'))?;
    let media_type = words.next().unwrap_or("application/json");
    let header = if body.is_empty() { ACCEPT } else { CONTENT_TYPE };
    let mut request = Request::builder().method(method).uri(path).header(header, media_type);
    if let Some(accepted) = words.next().filter(|_| !body.is_empty()) {
        request = request.header(ACCEPT, accepted);
    }
    request.body(Bytes::copy_from_slice(body)).ok()
}

fn check(request: &Request<Bytes>, response: &http::Response<Bytes>) {
    let code = response.status();
    assert!(!code.is_server_error() || is_known(request, response), "{request:?}: {response:?}");
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

/// Answers with a 5xx code to a mistake of the client.
struct ServerError {
    code: u16,
    /// The beginning of the message.
    message: &'static str,
    /// Returns whether a request can get it.
    fits: fn(&Request<Bytes>) -> bool,
}

const fn known(code: u16, message: &'static str, fits: fn(&Request<Bytes>) -> bool) -> ServerError {
    ServerError { code, message, fits }
}

/// The 5xx answers of the real server to what a client sends: failures inside of it that no code maps to a 4xx. Any other 5xx is a
/// bug of the model.
const SERVER_ERRORS: [ServerError; 23] = [
    // The version in a query is parsed below the validation of the options.
    known(500, "resourceVersion: Invalid value: ", is_read),
    // The server waits for its cache to reach the version, then gives up.
    known(504, "Timeout: Too large resource version: ", is_read),
    // The storage parses the version of an object, and refuses one in a new object.
    known(500, "strconv.ParseUint: parsing ", is_write),
    known(500, "resourceVersion should not be set on objects to be created", is_write),
    // etcd limits a request, and its client a message; the server passes their errors on.
    known(500, "etcdserver: request is too large", is_write),
    known(500, "rpc error: code = ResourceExhausted desc = trying to send message larger than max", is_write),
    // An apply reports the errors of its conversions and of its types without a reason.
    known(500, "failed to convert patch object ", is_apply),
    known(500, "failed to convert new object ", is_apply),
    known(500, "failed to create typed ", is_apply),
    // So does the apply of a scale of a custom resource.
    known(500, "failed to create manager for existing fields: ", is_of_scale),
    known(500, "failed to decode managed fields: ", is_apply),
    // So does the merge of a strategic patch that does not fit the type.
    known(500, "The order in patch list:", is_strategic),
    known(500, "cannot merge lists without merge key", is_strategic),
    known(500, "list element types are not identical", is_strategic),
    known(500, "merging lists cannot yet be specified in the patch", is_strategic),
    known(500, "expected a map[string]interface {}, but received a ", is_strategic),
    known(500, "expected a []interface {}, but received a ", is_strategic),
    known(500, "unable to find api field in struct ", is_strategic),
    known(500, "map: ", is_strategic),
    known(500, "unknown patch type: ", is_strategic),
    // The decoder of custom resources knows no other error for a patch that removes the version.
    known(500, "Internal error occurred: Object 'apiVersion' is missing in ", is_patch),
    // A custom resource need not have the field of its scale.
    known(500, "Internal error occurred: the spec replicas field ", is_of_scale),
    // Not of the real server: the model can't write what is nested more than 127 levels deep as YAML (docs/limits.md).
    known(500, "Internal error occurred: what is nested too deeply can't be written as YAML", is_yaml),
];

fn is_known(request: &Request<Bytes>, response: &http::Response<Bytes>) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(response.body()) else { return false };
    let message = body["message"].as_str().unwrap_or_default();
    SERVER_ERRORS.iter().any(|known| {
        response.status() == known.code && message.starts_with(known.message) && (known.fits)(request)
    })
}

fn is_read(request: &Request<Bytes>) -> bool {
    let has_version = request.uri().query().is_some_and(|query| query.contains("resourceVersion="));
    has_version && (request.method() == Method::GET || request.method() == Method::DELETE)
}

fn is_write(request: &Request<Bytes>) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(request.method())
}

fn is_patch(request: &Request<Bytes>) -> bool {
    request.method() == Method::PATCH
}

fn is_apply(request: &Request<Bytes>) -> bool {
    is_patch(request) && has_type(request, "application/apply-patch+yaml")
}

fn is_strategic(request: &Request<Bytes>) -> bool {
    is_patch(request) && has_type(request, "application/strategic-merge-patch+json")
}

fn is_of_scale(request: &Request<Bytes>) -> bool {
    request.uri().path().ends_with("/scale")
}

fn is_yaml(request: &Request<Bytes>) -> bool {
    request.headers().get(ACCEPT).is_some_and(|accept| accept.as_bytes().ends_with(b"yaml"))
}

fn has_type(request: &Request<Bytes>, media_type: &str) -> bool {
    request
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|given| given.as_bytes().starts_with(media_type.as_bytes()))
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
