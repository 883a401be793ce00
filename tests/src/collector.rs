//! An OpenTelemetry collector that accepts OTLP over HTTP, in this process.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;

/// Text attributes by their keys.
pub type Attributes = BTreeMap<String, String>;

/// A collector that runs as long as the runtime.
#[derive(Debug, Clone)]
pub struct Collector {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    refuses: Arc<AtomicBool>,
}

/// A request that was accepted.
#[derive(Debug, Clone)]
struct Seen {
    headers: HeaderMap,
    body: Vec<u8>,
    request: ExportTraceServiceRequest,
}

impl Collector {
    /// Starts a collector.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let collector =
            Self { address: listener.local_addr()?, seen: Arc::default(), refuses: Arc::default() };
        let serving = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                let answer = service_fn(move |request| serving.clone().answer(request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        Ok(collector)
    }

    /// Returns its URL for all signals.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets whether it rejects all requests from now on.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Returns all spans that it accepted.
    pub fn spans(&self) -> Vec<Span> {
        let resources = self.seen().into_iter().flat_map(|seen| seen.request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// Returns the resource attributes of each request.
    pub fn resources(&self) -> Vec<Attributes> {
        let resources = self.seen().into_iter().flat_map(|seen| seen.request.resource_spans);
        resources.filter_map(|spans| Some(attributes(&spans.resource?.attributes))).collect()
    }

    /// Returns the values of a header, one for each request that had it.
    pub fn header(&self, name: &str) -> Vec<String> {
        let text = |seen: Seen| Some(seen.headers.get(name)?.to_str().ok()?.to_owned());
        self.seen().into_iter().filter_map(text).collect()
    }

    /// Returns whether any body contains a text.
    pub fn holds(&self, text: &str) -> bool {
        self.seen().iter().any(|seen| seen.body.windows(text.len()).any(|bytes| bytes == text.as_bytes()))
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let mut response = Response::new(Full::default());
        *response.status_mut() = match self.take(request).await {
            Ok(_) if self.refuses.load(Ordering::SeqCst) => StatusCode::SERVICE_UNAVAILABLE,
            Ok(seen) => {
                self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
                StatusCode::OK
            }
            Err(_) => StatusCode::BAD_REQUEST,
        };
        Ok(response)
    }

    async fn take(&self, request: Request<Incoming>) -> anyhow::Result<Seen> {
        let (head, body) = request.into_parts();
        ensure!(head.method == Method::POST && head.uri.path() == "/v1/traces", "{head:?}");
        ensure!(head.headers.get(CONTENT_TYPE).is_some_and(|is| is == "application/x-protobuf"), "{head:?}");
        let mut body = body.collect().await?.to_bytes().to_vec();
        if head.headers.get(CONTENT_ENCODING).is_some_and(|is| is == "gzip") {
            let mut plain = Vec::new();
            GzDecoder::new(&*body).read_to_end(&mut plain)?;
            body = plain;
        }
        let request = ExportTraceServiceRequest::decode(&*body)?;
        Ok(Seen { headers: head.headers, body, request })
    }
}

/// Returns the attributes with text values.
pub fn attributes(attributes: &[KeyValue]) -> Attributes {
    let texts = attributes.iter().filter_map(|attribute| match attribute.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some((attribute.key.clone(), text.clone())),
        _ => None,
    });
    texts.collect()
}

/// Returns the ids of a span, in the format of `traceparent`.
pub fn traceparent(span: &Span) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}
