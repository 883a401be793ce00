//! The explanation by a running process, through the API of its live page.

use anyhow::{Context as _, bail};
use lockstep_engine::object::ObjectRef;

use super::explanation::Explanation;

/// Asks the process at a URL.
pub(super) async fn explain(url: &str, object: &ObjectRef) -> anyhow::Result<Explanation> {
    let address = url
        .parse()
        .with_context(|| format!("{url:?} is not a URL; write one such as http://127.0.0.1:8082"))?;
    let client = kube::Client::try_from(kube::Config::new(address))?;
    let ObjectRef { kind, namespace, name } = object;
    let namespace = namespace.as_deref().unwrap_or_default();
    // Names of objects need no escapes in a query.
    let path = format!("/api/explanation?kind={kind}&namespace={namespace}&name={name}");
    let request =
        http::Request::get(path).body(Vec::new()).with_context(|| format!("{object} has no valid name"))?;
    let answer = client.request_text(request).await.with_context(|| {
        format!("cannot read from {url}; start the process with --status-bind-address and use the address of its page")
    })?;
    let explanation: Option<Explanation> = serde_json::from_str(&answer)
        .with_context(|| format!("{url} is not a live page of this version of lockstep"))?;
    let Some(explanation) = explanation else {
        bail!("{object} does not occur in the process at {url}; lockstep get shows which objects exist");
    };
    Ok(explanation)
}
