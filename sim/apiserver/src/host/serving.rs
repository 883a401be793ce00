//! The listening task of a host, until it is stopped or dropped.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::connections::{self, Body};
use super::listener::Listener;
use super::stop::Stop;

/// A running listener; dropping it ends it abruptly.
#[derive(Debug)]
pub struct Serving {
    addr: SocketAddr,
    stop: Arc<Stop>,
    accept: JoinHandle<()>,
}

impl Serving {
    /// Answers the requests on the connections of the listener, on the current tokio runtime, until the stop signal.
    pub fn start<F>(
        listener: impl Listener,
        stop: Arc<Stop>,
        answer: impl Fn(http::Request<Bytes>) -> F + Send + Sync + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = http::Response<Body>> + Send + 'static,
    {
        let addr = listener.local_addr()?;
        let accept = tokio::spawn(connections::serve(listener, Arc::clone(&stop), answer));
        Ok(Self { addr, stop, accept })
    }

    /// Returns the address on which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Finishes the requests, then closes the connections.
    pub async fn shutdown(mut self) {
        self.stop.pull();
        // The task ends by the signal; a panic in it has no effect any more.
        let _ended = (&mut self.accept).await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.pull();
        self.accept.abort();
    }
}
