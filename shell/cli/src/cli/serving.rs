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

/// Controllers with the servers of their metrics and probes.
pub(super) struct Serving {
    manager: Manager,
    routes: Vec<(Option<TcpListener>, Router)>,
}

impl Serving {
    /// Starts to listen for metrics and probes.
    pub(super) async fn bind(
        manager: Manager,
        metrics: Metrics,
        clock: Clock,
        metrics_bind_address: &Address,
        health_probe_bind_address: &Address,
    ) -> anyhow::Result<Self> {
        let metrics = (
            bind("metrics", "--metrics-bind-address", metrics_bind_address).await?,
            serve::metrics_routes(metrics),
        );
        let probes = serve::probe_routes(manager.health(), clock);
        let probes =
            (bind("probes", "--health-probe-bind-address", health_probe_bind_address).await?, probes);
        Ok(Self { manager, routes: vec![metrics, probes] })
    }

    /// Starts to listen for browsers of the live page.
    pub(super) async fn with_page(
        mut self,
        page: Page,
        status_bind_address: &Address,
    ) -> anyhow::Result<Self> {
        let listener = bind("the live page", "--status-bind-address", status_bind_address).await?;
        if let Some(listener) = &listener
            && !listener.local_addr()?.ip().is_loopback()
        {
            warn!(
                "anyone who can reach the live page can read it: the names, conditions and messages of all objects"
            );
        }
        self.routes.push((listener, page.routes()));
        Ok(self)
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
