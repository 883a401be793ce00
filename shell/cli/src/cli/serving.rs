//! Common code of the commands that run until a signal: they serve metrics, probes and the live page.

use anyhow::{Context as _, bail};
use axum::Router;
use lockstep_runtime::address::Address;
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::{serve, shutdown};
use tokio::net::TcpListener;
use tracing::{info, warn};

use super::page::Page;
use super::signal::Signals;

/// The addresses that a program listens on. They are taken before anything is changed, such as the file of a recording: an address
/// that is in use ends the program.
pub(super) struct Listeners {
    metrics: Option<TcpListener>,
    probes: Option<TcpListener>,
    page: Option<TcpListener>,
}

impl Listeners {
    /// Starts to listen.
    pub(super) async fn bind(
        metrics_bind_address: &Address,
        health_probe_bind_address: &Address,
        status_bind_address: &Address,
    ) -> anyhow::Result<Self> {
        let metrics = bind("metrics", "--metrics-bind-address", metrics_bind_address).await?;
        let probes = bind("probes", "--health-probe-bind-address", health_probe_bind_address).await?;
        let page = bind("the live page", "--status-bind-address", status_bind_address).await?;
        if let Some(listener) = &page
            && !listener.local_addr()?.ip().is_loopback()
        {
            warn!(
                "anyone who can reach the live page can read it: the names, conditions and messages of all objects"
            );
        }
        Ok(Self { metrics, probes, page })
    }
}

/// Controllers with the servers of their metrics, probes and live page.
pub(super) struct Serving {
    manager: Manager,
    routes: Vec<(Option<TcpListener>, Router)>,
}

impl Serving {
    /// Returns the controllers of a manager with what is served about them.
    pub(super) fn new(
        manager: Manager,
        metrics: Metrics,
        clock: Clock,
        page: Option<Page>,
        listeners: Listeners,
    ) -> Self {
        let probes = serve::probe_routes(manager.health(), clock);
        let mut routes =
            vec![(listeners.metrics, serve::metrics_routes(metrics)), (listeners.probes, probes)];
        routes.extend(page.map(|page| (listeners.page, page.routes())));
        Self { manager, routes }
    }

    /// Runs the controllers until a signal, and then until the requests in flight have ended.
    pub(super) async fn run(self, signals: &mut Signals) -> anyhow::Result<()> {
        let (stop_serving, serving_stop) = shutdown::channel();
        for (listener, routes) in self.routes {
            if let Some(listener) = listener {
                tokio::spawn(serve::serve(listener, routes, serving_stop.clone()));
            }
        }
        let result = until_signalled(self.manager, signals).await;
        stop_serving.pull();
        result
    }
}

async fn bind(what: &str, flag: &str, address: &Address) -> anyhow::Result<Option<TcpListener>> {
    let listener = address
        .bind()
        .await
        .with_context(|| format!("cannot serve {what} at {address} ({flag} chooses another)"))?;
    if let Some(listener) = &listener {
        info!(address = %listener.local_addr()?, "serving {what}");
    }
    Ok(listener)
}

async fn until_signalled(manager: Manager, signals: &mut Signals) -> anyhow::Result<()> {
    let (stop, stopping) = shutdown::channel();
    let running = manager.run(stopping);
    tokio::pin!(running);
    tokio::select! {
        biased;
        ended = &mut running => return Ok(ended?),
        () = signals.next() => {}
    }
    info!("shutting down");
    stop.pull();
    tokio::select! {
        biased;
        ended = &mut running => Ok(ended?),
        () = signals.interrupted() => bail!("interrupted before the writes in flight had ended"),
    }
}
