//! Installs the CRDs and the examples in the API server of `lockstep dev`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kube::Client;
use lockstep_cli::controllers;
use lockstep_crds::CrdSet;
use lockstep_engine::action::{Action, KubeRequest, Success};
use lockstep_engine::object::{Kind, ObjectRef, metadata};
use lockstep_engine::yaml;
use lockstep_runtime::execute::Executor;
use serde_json::Value;

/// The examples, classes first.
const EXAMPLES: [&str; 3] = [
    include_str!("../../../../../deploy/examples/namespaceclass/restricted.yaml"),
    include_str!("../../../../../deploy/examples/namespaceclass/web.yaml"),
    include_str!("../../../../../deploy/examples/namespaceclass/namespaces.yaml"),
];

/// The interval and the maximum number of checks for the kinds of new CRDs.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOOKS: u32 = 500;

/// Installs the CRDs and waits until their kinds are served.
pub(super) async fn install(client: &Client, sets: &[CrdSet]) -> anyhow::Result<()> {
    let executor = Executor::new(client.clone(), "dev");
    for crd in sets.iter().flat_map(|set| &set.crds) {
        apply(&executor, serde_json::to_value(crd)?).await?;
    }
    let kinds = controllers::kinds(sets);
    for _ in 0..LOOKS {
        if controllers::missing(&executor, &kinds).await?.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bail!("the API server does not serve the kinds that were installed")
}

/// Applies these objects, and the examples of these controllers.
pub(super) async fn apply_examples(
    client: Client,
    sets: &[CrdSet],
    objects: Vec<Value>,
) -> anyhow::Result<()> {
    let executor = Executor::new(client, "dev");
    for object in objects {
        apply(&executor, object).await?;
    }
    if sets.iter().all(|set| set.controller != lockstep_crds::namespaceclass::CONTROLLER) {
        return Ok(());
    }
    for text in EXAMPLES {
        for object in yaml::read_all(text)? {
            apply(&executor, object).await?;
        }
    }
    Ok(())
}

async fn apply(executor: &Executor, manifest: Value) -> anyhow::Result<()> {
    let text = |field: &str| manifest[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let served = executor.execute(&Action::Kube(KubeRequest::Discover { api_version })).await?;
    let Success::Kinds(served) = served else { bail!("discovery gave no kinds") };
    let found: Option<Arc<Kind>> = served.into_iter().find(|served| served.kind == kind);
    let found = found.with_context(|| format!("the API server serves no {kind}"))?;
    let namespace = Some(metadata(&manifest, "namespace")).filter(|namespace| !namespace.is_empty());
    let target = ObjectRef {
        kind: found,
        namespace: namespace.map(str::to_owned),
        name: metadata(&manifest, "name").to_owned(),
    };
    let shown = target.to_string();
    let applied =
        executor.execute(&Action::Kube(KubeRequest::Apply { target, manifest: Arc::new(manifest) })).await;
    applied.map(|_| ()).with_context(|| format!("cannot apply {shown}"))
}
