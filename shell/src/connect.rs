//! Finds the cluster and makes the client that everything goes through.

mod client;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::failure;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent. Watches are silent for up to 295 s (kube's watcher ends them then), so that only
/// dead connections meet this.
const SILENCE: Duration = Duration::from_secs(310);

/// Why there is no cluster to work with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration could not be found or read.
    #[error("no cluster to connect to: {0}")]
    Configuration(String),
    /// The client could not be made from the configuration.
    #[error("cannot use the cluster's configuration: {0}")]
    Client(String),
}

/// Reads the configuration: the file and context, if given; else the current kubeconfig; else the account of the pod.
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

/// Through which proxy a cluster is reached, where kube has found one. That of a kubeconfig counts as it is; that of the
/// environment only for HTTPS to other machines that `NO_PROXY` does not name. kube looks there for the proxy itself.
fn proxy_for(cluster: &Uri, proxy: Uri, variable: impl Fn(&str) -> String) -> Option<Uri> {
    let is_proxy = |name| variable(name).parse::<Uri>().is_ok_and(|found| found == proxy);
    if ["HTTPS_PROXY", "https_proxy"].into_iter().any(is_proxy) {
        let is_https = cluster.scheme() == Some(&Scheme::HTTPS);
        let is_named = ["NO_PROXY", "no_proxy"].into_iter().any(|name| is_exempt(cluster, &variable(name)));
        if !is_https || is_local(cluster) || is_named {
            return None;
        }
    }
    // Others take one without a scheme as well.
    if proxy.scheme().is_some() { Some(proxy) } else { format!("http://{proxy}").parse().ok() }
}

/// Whether a URL leads back to this machine.
fn is_local(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Whether a list such as `example.com,10.0.0.0/8` exempts a URL from proxies.
fn is_exempt(url: &Uri, list: &str) -> bool {
    let proxy = Matcher::builder().all("http://proxy").no(list).build();
    proxy.intercept(url).is_none()
}

/// Sets what the shell relies on in every client: requests are not repeated by it, as when to try again is for machines to
/// decide, and a connection that is dead is noticed.
#[must_use]
pub fn tuned(mut config: Config) -> Config {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    config
}

/// Makes the client.
pub fn client(config: Config) -> Result<Client, Error> {
    client::client(tuned(config)).map_err(|error| Error::Client(failure::describe(&error)))
}

/// How long the question for the account may take.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// The name by which the cluster knows us; none, if it does not say: Kubernetes before 1.28 does not know the question.
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
