//! Reads from a cluster, for commands that only show something.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Config};
use lockstep_cli::controllers;
use lockstep_engine::action::{Action, Answer as _, Failure, KubeRequest, Scope, Success};
use lockstep_engine::object::{Kind, ObjectRef};
use lockstep_runtime::connect;
use lockstep_runtime::execute::Executor;
use lockstep_runtime::failure::{describe, masked};
use serde_json::Value;

/// How long an answer may take: a user waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);

// The choice of the cluster. A doc comment would become the help text of these commands.
#[derive(Debug, clap::Args)]
pub(super) struct ClusterArgs {
    /// The kubeconfig to use
    #[arg(long, value_name = "FILE", env = "LOCKSTEP_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME", env = "LOCKSTEP_CONTEXT")]
    context: Option<String>,
}

impl ClusterArgs {
    /// Reads the configuration of the cluster.
    pub(super) async fn config(&self) -> Result<Config, connect::Error> {
        connect::configuration(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }
}

/// A cluster that is only read.
pub(super) struct Cluster {
    pub(super) client: Client,
    /// The URL, without passwords.
    pub(super) url: String,
    /// The namespace of the context or of the pod.
    pub(super) namespace: String,
    executor: Executor,
}

/// Returns a client for a command that ends soon: nothing counts its requests.
pub(super) fn client(config: Config) -> Result<Client, connect::Error> {
    Client::try_from(connect::tuned(config)).map_err(|error| connect::Error::Client(describe(&error)))
}

impl Cluster {
    pub(super) fn new(config: Config) -> Result<Self, connect::Error> {
        let (url, namespace) = (masked(&config.cluster_url.to_string()), config.default_namespace.clone());
        let client = client(config)?;
        let executor = Executor::new(client.clone(), "cli").answered_within(TIMEOUT);
        Ok(Self { client, url, namespace, executor })
    }

    /// Executes an action that reads.
    pub(super) async fn execute(&self, action: &Action) -> Result<Success, Failure> {
        self.executor.execute(action).await
    }

    /// Reads an object; `None` if it does not exist.
    pub(super) async fn get(&self, target: ObjectRef) -> Result<Option<Arc<Value>>, Failure> {
        self.execute(&Action::Kube(KubeRequest::Get { target, metadata_only: false })).await.found()
    }

    /// Lists the objects of a kind, in one namespace or in all.
    pub(super) async fn list(
        &self,
        kind: &Arc<Kind>,
        namespace: Option<&str>,
    ) -> Result<Vec<Arc<Value>>, Failure> {
        let scope = Scope { namespace: namespace.map(str::to_owned), ..Scope::default() };
        self.execute(&Action::Kube(KubeRequest::List { kind: Arc::clone(kind), scope })).await.objects()
    }

    /// Returns whether the cluster serves a kind.
    pub(super) async fn serves(&self, kind: &Arc<Kind>) -> Result<bool, Failure> {
        Ok(controllers::missing(&self.executor, &[Arc::clone(kind)]).await?.is_empty())
    }
}
