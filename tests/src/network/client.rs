//! The kube client on the simulated network: built as `kube` does, but with simulated TCP.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::{HeaderValue, Uri, header};
use http_body_util::BodyExt as _;
use hyper::rt::{Executor, Read, ReadBufCursor, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use lockstep_runtime::connect;
use tokio::sync::mpsc::{self, UnboundedSender};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};
use turmoil::net::TcpStream;

use super::server::{HOST, PORT};

/// Returns a client of the simulated server with this user agent.
pub fn client(agent: &str) -> anyhow::Result<Client> {
    client_in(&OneTask::begin(), agent)
}

/// Returns the same, for a process with more than one client.
pub fn client_in(task: &OneTask, agent: &str) -> anyhow::Result<Client> {
    let mut config = connect::tuned(Config::new(format!("http://{HOST}:{PORT}").parse()?));
    config.headers.push((header::USER_AGENT, HeaderValue::from_str(agent)?));
    let mut connector = TimeoutConnector::new(Connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let mut builder = legacy::Builder::new(task.clone());
    // Without this timer, the real clock would decide when idle connections expire.
    builder.pool_timer(TokioTimer::new());
    let http: legacy::Client<_, Body> = builder.build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http)
        .map_response(|response| response.map(|body| body.map_err(BoxError::from)));
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs all connections of a process in one task, so that a crash ends them in the order in which they were opened. A runtime
/// that is dropped ends its tasks by their ids, which continue to count from run to run.
#[derive(Clone)]
pub struct OneTask(UnboundedSender<Work>);

impl OneTask {
    /// Starts the task, without any connection yet.
    pub fn begin() -> Self {
        let (sender, mut begun) = mpsc::unbounded_channel::<Work>();
        tokio::spawn(async move {
            let mut running = FuturesUnordered::new();
            loop {
                tokio::select! {
                    biased;
                    Some(work) = begun.recv() => running.push(work),
                    Some(()) = running.next(), if !running.is_empty() => {}
                    else => return,
                }
            }
        });
        Self(sender)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for OneTask {
    fn execute(&self, work: F) {
        // An error means that the host has crashed, so the work ends too.
        let _ = self.0.send(Box::pin(work));
    }
}

/// Connects over turmoil's TCP.
#[derive(Debug, Clone, Copy)]
struct Connector;

impl Service<Uri> for Connector {
    type Response = Wire;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Wire>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().to_owned();
            let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(PORT))).await?;
            Ok(Wire(TokioIo::new(stream)))
        })
    }
}

/// A connection of the simulated network, with the traits that hyper requires.
struct Wire(TokioIo<TcpStream>);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
