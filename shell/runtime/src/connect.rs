//! Finds the cluster and builds the client for all requests.

mod client;
mod counted;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::failure;
use crate::metrics::Metrics;

/// The timeout for a new connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent. Watches are silent for up to 295 s (kube's watcher ends them then), so the timeout
/// affects only dead connections.
const SILENCE: Duration = Duration::from_secs(310);

/// The reason why the cluster can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration could not be found or parsed.
    #[error("no cluster to connect to: {0}")]
    Configuration(String),
    /// The client could not be built from the configuration.
    #[error("cannot use the cluster's configuration: {0}")]
    Client(String),
}

/// Reads the configuration: the file and context, if given; otherwise the current kubeconfig; otherwise the account of the pod.
pub async fn configuration(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, Error> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match (kubeconfig, context) {
        (Some(path), _) => {
            let file = Kubeconfig::read_from(path).map_err(|error| unreadable(&error))?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| unreadable(&error))
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|error| unreadable(&error)),
        (None, None) => Config::infer().await.map_err(|error| unreadable(&error)),
    }?;
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    config.proxy_url = config.proxy_url.and_then(|proxy| proxy_for(&config.cluster_url, proxy, variable));
    Ok(config)
}

/// Returns the proxy for a cluster, if kube has found one. The proxy of a kubeconfig is used unchanged. The proxy of the
/// environment is used only for HTTPS to other hosts that `NO_PROXY` does not name; kube does not check that.
fn proxy_for(cluster: &Uri, proxy: Uri, variable: impl Fn(&str) -> String) -> Option<Uri> {
    let is_proxy = |name| variable(name).parse::<Uri>().is_ok_and(|found| found == proxy);
    if ["HTTPS_PROXY", "https_proxy"].into_iter().any(is_proxy) {
        let is_https = cluster.scheme() == Some(&Scheme::HTTPS);
        let is_named = ["NO_PROXY", "no_proxy"].into_iter().any(|name| is_exempt(cluster, &variable(name)));
        if !is_https || is_local(cluster) || is_named {
            return None;
        }
    }
    // Other programs accept a proxy without a scheme as well.
    if proxy.scheme().is_some() { Some(proxy) } else { format!("http://{proxy}").parse().ok() }
}

/// Returns whether a URL leads to this host.
fn is_local(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Returns whether a list such as `example.com,10.0.0.0/8` exempts a URL from proxies.
fn is_exempt(url: &Uri, list: &str) -> bool {
    let proxy = Matcher::builder().all("http://proxy").no(list).build();
    proxy.intercept(url).is_none()
}

/// Sets what the shell requires of every client. The client does not retry requests, because the machines decide when to retry,
/// and it detects dead connections.
#[must_use]
pub fn tuned(mut config: Config) -> Config {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    config
}

/// Builds the client. The metrics count its requests.
pub fn client(config: Config, metrics: &Metrics) -> Result<Client, Error> {
    client::client(tuned(config), metrics.clone()).map_err(|error| Error::Client(failure::describe(&error)))
}

/// The timeout for the query of the account.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the user name of this client in the cluster; `None` if the cluster does not report it: Kubernetes before 1.28 does
/// not support the query.
pub async fn account(client: &Client) -> Option<String> {
    let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(review.as_bytes().to_vec())
        .ok()?;
    let answer = tokio::time::timeout(ACCOUNT_TIMEOUT, client.request::<serde_json::Value>(request));
    let review = answer.await.ok()?.ok()?;
    review.pointer("/status/userInfo/username")?.as_str().map(str::to_owned)
}

fn unreadable(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Configuration(failure::describe(error))
}

#[cfg(test)]
mod tests;
