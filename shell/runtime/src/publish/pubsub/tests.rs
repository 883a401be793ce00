use crate::publish::connection::Connection as _;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use crate::publish::message::example;

type Body = BoxBody<Bytes, Infallible>;

/// `google.pubsub.v1.PublishRequest`
#[derive(Clone, PartialEq, prost::Message)]
struct PublishRequest {
    #[prost(string, tag = "1")]
    topic: String,
    #[prost(message, repeated, tag = "2")]
    messages: Vec<PubsubMessage>,
}

/// `google.pubsub.v1.PubsubMessage`, only the fields that publishers set
#[derive(Clone, PartialEq, prost::Message)]
struct PubsubMessage {
    #[prost(bytes = "bytes", tag = "1")]
    data: Bytes,
    #[prost(btree_map = "string, string", tag = "2")]
    attributes: BTreeMap<String, String>,
}

/// `google.pubsub.v1.PublishResponse`
#[derive(Clone, PartialEq, prost::Message)]
struct PublishResponse {
    #[prost(string, repeated, tag = "1")]
    message_ids: Vec<String>,
}

/// A service with four topics: `events`, `unseen` (permits only to publish), `closed` (permits not even that) and `expired`
/// (rejects all credentials).
#[derive(Clone, Default)]
struct Service {
    published: Arc<Mutex<Vec<PublishRequest>>>,
}

impl Service {
    /// Starts to listen, and returns the address.
    async fn start(&self) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                let answer = service_fn(move |request| service.clone().answer(request));
                tokio::spawn(async move {
                    // gRPC uses HTTP/2, which begins with these bytes; the REST client does not use it.
                    let mut start = [0; 3];
                    stream.peek(&mut start).await.unwrap();
                    let stream = TokioIo::new(stream);
                    if &start == b"PRI" {
                        http2::Builder::new(TokioExecutor::new()).serve_connection(stream, answer).await
                    } else {
                        http1::Builder::new().serve_connection(stream, answer).await
                    }
                });
            }
        });
        address
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Ok(match path.strip_prefix("/v1/") {
            Some(topic) => see(topic),
            None if path == "/google.pubsub.v1.Publisher/Publish" => self.publish(&body),
            None => panic!("{path}"),
        })
    }

    /// Answers the gRPC method: a flag and the length precede each message, and a status follows the last.
    fn publish(&self, body: &Bytes) -> Response<Body> {
        let request = PublishRequest::decode(&body[5..]).unwrap();
        let (code, answer) = if request.topic.ends_with("/closed") {
            (Code::PermissionDenied, PublishResponse::default())
        } else if request.topic.ends_with("/expired") {
            (Code::Unauthenticated, PublishResponse::default())
        } else {
            let message_ids = (0..request.messages.len()).map(|n| n.to_string()).collect();
            self.published.lock().unwrap().push(request);
            (Code::Ok, PublishResponse { message_ids })
        };
        let answer = answer.encode_to_vec();
        let length = u32::try_from(answer.len()).unwrap().to_be_bytes();
        let data = Bytes::from([&[0], length.as_slice(), &answer].concat());
        let status = HeaderMap::from_iter([("grpc-status".parse().unwrap(), (code as i32).into())]);
        let frames = [Ok(Frame::data(data)), Ok(Frame::trailers(status))];
        let head = Response::builder().header("content-type", "application/grpc");
        head.body(StreamBody::new(stream::iter(frames)).boxed()).unwrap()
    }
}

/// Answers the REST method that reads a topic.
fn see(topic: &str) -> Response<Body> {
    let (code, answer) = match topic.rsplit('/').next() {
        Some("events" | "expired") => (200, json!({ "name": topic })),
        Some("unseen" | "closed") => {
            (403, json!({ "error": { "code": 403, "message": "no", "status": "PERMISSION_DENIED" } }))
        }
        _ => (404, json!({ "error": { "code": 404, "message": "none", "status": "NOT_FOUND" } })),
    };
    let head = Response::builder().status(code).header("content-type", "application/json");
    head.body(Full::new(Bytes::from(answer.to_string())).boxed()).unwrap()
}

async fn connect(host: &str, topic: &str) -> Result<Connection, Failure> {
    let topic = Topic(format!("projects/fleet/topics/{topic}"));
    let publisher = Connection::reach(&topic, Some(host)).await?;
    Ok(Connection { topic, publisher, is_lost: AtomicBool::new(false) })
}

async fn publish(connection: &Connection, events: &[CloudEvent]) -> Vec<Result<(), Failure>> {
    connection.publish(events).await.into_iter().map(|answer| answer.result).collect()
}

#[tokio::test]
async fn a_message_holds_the_whole_event_and_its_attributes() {
    let service = Service::default();
    let connection = connect(&service.start().await, "events").await.unwrap();
    assert_eq!(publish(&connection, &[example()]).await, [Ok(())]);
    let published = service.published.lock().unwrap().clone();
    assert_eq!(published.len(), 1);
    assert_eq!(published[0].topic, "projects/fleet/topics/events");
    let [message] = published[0].messages.as_slice() else { panic!("{published:?}") };
    insta::assert_json_snapshot!("attributes", message.attributes);
    insta::assert_snapshot!("data", std::str::from_utf8(&message.data).unwrap());
}

#[tokio::test]
async fn every_event_has_its_result() {
    let service = Service::default();
    let connection = connect(&service.start().await, "unseen").await.unwrap();
    let mut events = vec![example(); 250];
    events[100].source = String::new();
    let results = publish(&connection, &events).await;
    assert_eq!(results.len(), 250);
    for (index, result) in results.into_iter().enumerate() {
        assert_eq!(
            result.map_err(|failure| failure.class),
            if index == 100 { Err(ErrorKind::Invalid) } else { Ok(()) }
        );
    }
    let published = service.published.lock().unwrap();
    assert_eq!(published.iter().map(|request| request.messages.len()).sum::<usize>(), 249);
    // The batches have up to 100 messages.
    assert!((3..=5).contains(&published.len()), "{} requests", published.len());
}

#[tokio::test]
async fn refusals_are_reported() {
    let host = Service::default().start().await;
    let failure = connect(&host, "none").await.err().unwrap();
    assert_eq!(failure.class, ErrorKind::NotFound);
    assert!(failure.message.starts_with("Pub/Sub, projects/fleet/topics/none: "), "{failure}");
    assert!(failure.message.contains("create the topic"), "{failure}");

    let connection = connect(&host, "closed").await.unwrap();
    let failure = publish(&connection, &[example()]).await.remove(0).unwrap_err();
    assert_eq!(failure.class, ErrorKind::Forbidden);
    assert!(failure.message.contains("roles/pubsub.publisher"), "{failure}");

    // A new connection would read the credentials again, but have the same permissions.
    assert!(connection.is_open());
    let connection = connect(&host, "expired").await.unwrap();
    let failure = publish(&connection, &[example()]).await.remove(0).unwrap_err();
    assert_eq!(failure.class, ErrorKind::Forbidden);
    assert!(failure.message.contains("check the credentials"), "{failure}");
    assert!(!connection.is_open());

    let failure = connect("127.0.0.1:1", "events").await.err().unwrap();
    assert_eq!(failure.class, ErrorKind::Unavailable, "{failure}");
}

/// Tests against Google's emulator, if one runs.
#[tokio::test]
async fn the_emulator_takes_events() {
    let Ok(host) = std::env::var(EMULATOR) else {
        // Not the macro: its output is captured for tests that pass.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {EMULATOR} names no emulator of Pub/Sub to publish to");
        return;
    };
    let credentials = anonymous::Builder::new().build();
    let admin = TopicAdmin::builder().with_endpoint(format!("http://{host}")).with_credentials(credentials);
    let topic = format!("events-{}", std::process::id());
    let admin = admin.build().await.unwrap();
    admin.create_topic().set_name(format!("projects/fleet/topics/{topic}")).send().await.unwrap();
    let connection = Connection::open("fleet", &topic).await.unwrap();
    assert!(publish(&connection, &vec![example(); 250]).await.iter().all(Result::is_ok));
    assert_eq!(Connection::open("fleet", "none").await.err().unwrap().class, ErrorKind::NotFound);
}
