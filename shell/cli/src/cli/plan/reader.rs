//! Reads the cluster, and never writes to it.

use anyhow::{anyhow, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use lockstep_engine::action::{Action, KubeRequest, Outcome};
use lockstep_runtime::execute::Executor;

/// Maximum number of requests at a time.
const CONCURRENCY: usize = 16;

pub(super) struct Reader {
    executor: Executor,
    requests: usize,
}

impl Reader {
    pub(super) fn new(executor: Executor) -> Self {
        Self { executor, requests: 0 }
    }

    /// Returns the number of requests so far.
    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    /// Executes one read. That an object or a kind does not exist is an answer. Other failures of Kubernetes are errors.
    pub(super) async fn read(&mut self, action: &Action) -> anyhow::Result<Outcome> {
        self.requests += 1;
        execute(&self.executor, action).await
    }

    /// Executes reads, several at a time.
    pub(super) async fn read_all(&mut self, actions: Vec<Action>) -> anyhow::Result<Vec<(Action, Outcome)>> {
        self.requests += actions.len();
        let executor = &self.executor;
        let answers = stream::iter(actions).map(|action| async move {
            let outcome = execute(executor, &action).await?;
            anyhow::Ok((action, outcome))
        });
        answers.buffered(CONCURRENCY).try_collect().await
    }
}

async fn execute(executor: &Executor, action: &Action) -> anyhow::Result<Outcome> {
    ensure!(!action.is_write(), "a plan must not write, but {} was requested", action.name());
    let outcome = executor.execute(action).await;
    match (&outcome, action) {
        // The controller handles the failures of a registry.
        (_, Action::Registry(_)) => Ok(outcome),
        (Err(failure), _) if !failure.is_absence() => {
            Err(anyhow!("{} failed ({failure}); the plan needs this read", shown(action)))
        }
        _ => Ok(outcome),
    }
}

fn shown(action: &Action) -> String {
    match action {
        Action::Kube(KubeRequest::Get { target, .. }) => format!("get {target}"),
        Action::Kube(KubeRequest::List { kind, .. }) => format!("list {kind}"),
        Action::Kube(KubeRequest::Discover { api_version }) => format!("discovery of {api_version}"),
        action => action.name().to_owned(),
    }
}
