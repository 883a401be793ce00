//! The client as `kube` builds it, with TCP keep-alive probes on silent connections.
//!
//! A watch may be silent for minutes. If the host at its other end loses power, there is no error, and the watch would receive
//! nothing until it is renewed. Probes cost no request.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};
use tower_http::decompression::DecompressionLayer;

use crate::connect::counted::Counting;
use crate::metrics::Metrics;

/// The silence after which a connection is probed, and the interval between probes.
const PROBE_AFTER: Duration = Duration::from_secs(15);

/// The maximum number of probes without an answer.
const PROBES: u32 = 3;

/// Builds the client.
pub(super) fn client(config: Config, metrics: Metrics) -> kube::Result<Client> {
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let counting = Counting { metrics, host };
    // A proxy would answer the probes, even if the server behind it is down.
    if config.proxy_url.is_some() {
        return Ok(ClientBuilder::try_from(config)?.with_layer(&counting).build());
    }
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(probing())?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http: legacy::Client<_, Body> = legacy::Builder::new(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(DecompressionLayer::new().gzip(!config.disable_compression))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace).with_layer(&counting).build())
}

/// Returns a connector for TCP with keep-alive probes.
fn probing() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_keepalive(Some(PROBE_AFTER));
    connector.set_keepalive_interval(Some(PROBE_AFTER));
    connector.set_keepalive_retries(Some(PROBES));
    // The kernel does not probe while it retransmits an unacknowledged request.
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(PROBE_AFTER * (PROBES + 1)));
    connector
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_dead_connection_is_detected_within_a_minute() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let connection = probing().oneshot(url.parse::<http::Uri>().unwrap()).await.unwrap();
        let socket = connection.inner();
        assert!(sockopt::socket_keepalive(socket).unwrap());
        let probes = sockopt::tcp_keepcnt(socket).unwrap();
        let silence =
            sockopt::tcp_keepidle(socket).unwrap() + sockopt::tcp_keepintvl(socket).unwrap() * probes;
        assert_eq!(silence, Duration::from_mins(1));
        #[cfg(target_os = "linux")]
        assert_eq!(sockopt::tcp_user_timeout(socket).unwrap(), 60_000);
    }
}
