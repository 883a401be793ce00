//! The connections of a host and the requests on them, independent of the service.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::listener::Listener;
use super::stop::Stop;
use crate::server::BODY_MAX_BYTES;

/// Timeout for connections to finish when the host shuts down.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// The body of an answer.
pub type Body = BoxBody<Bytes, Infallible>;

/// Serves the connections of the listener until the stop signal.
///
/// All connections belong to this one task, so that on drop they end in the order in which they began. (A dropped runtime ends
/// its tasks in an arbitrary order, and a simulated crash would differ from run to run.)
pub async fn serve<F>(
    mut listener: impl Listener,
    stop: Arc<Stop>,
    answer: impl Fn(http::Request<Bytes>) -> F,
) where
    F: Future<Output = http::Response<Body>>,
{
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = stop.pulled() => break,
            accepted = listener.accept() => {
                // A failed accept means that a client disconnected or that file descriptors are exhausted; both are temporary.
                match accepted {
                    Ok(stream) => {
                        // A panic ends its own connection only.
                        let connection = connection(stream, &stop, &answer);
                        connections.push(AssertUnwindSafe(connection).catch_unwind());
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
            Some(_) = connections.next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let drain = async { while connections.next().await.is_some() {} };
    // Connections that have not finished by then are dropped.
    let _in_time = tokio::time::timeout(SHUTDOWN_GRACE, drain).await;
}

async fn connection<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    stop: &Stop,
    answer: impl Fn(http::Request<Bytes>) -> F,
) where
    F: Future<Output = http::Response<Body>>,
{
    let service = service_fn(|request| {
        let answer = &answer;
        async move { Ok::<_, hyper::Error>(answer(whole(request).await?).await) }
    });
    // Without an idle timeout: a request that arrived at the same moment would be lost. Clients close connections that they no
    // longer use.
    let connection = http1::Builder::new()
        // A request that arrived completely is executed, even if its sender has disconnected.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // An error ends the connection, which the client notices by itself.
    tokio::select! {
        biased;
        _ended = connection.as_mut() => return,
        () = stop.pulled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _closed = connection.await;
}

/// Reads the request with its body.
async fn whole(request: http::Request<Incoming>) -> Result<http::Request<Bytes>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_MAX_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => match error.downcast::<hyper::Error>() {
            Ok(error) => return Err(*error),
            // Longer than the limit of servers: pass on a body that is too long, without the real one in memory.
            Err(_) => Bytes::from(vec![0; BODY_MAX_BYTES + 1]),
        },
    };
    Ok(http::Request::from_parts(head, body))
}
