//! Finds the cluster and makes the client that everything goes through.

use std::path::Path;
use std::time::Duration;

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
    match (kubeconfig, context) {
        (Some(path), _) => {
            let file = Kubeconfig::read_from(path).map_err(|error| unreadable(&error))?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| unreadable(&error))
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|error| unreadable(&error)),
        (None, None) => Config::infer().await.map_err(|error| unreadable(&error)),
    }
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
    Client::try_from(tuned(config)).map_err(|error| Error::Client(one_line(&error)))
}

fn unreadable(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Configuration(one_line(error))
}

/// The first line says what is wrong; parsers add lines that quote the file, which holds credentials.
fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    failure::describe(error).lines().next().unwrap_or_default().to_owned()
}
