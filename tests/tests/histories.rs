//! Tests that the histories of concurrent clients are those of a correct API server: of the embedded one and of a real one. Planted
//! faults show that each check finds what it is for, and generated histories that no check finds anything else.

#[path = "histories/faults.rs"]
mod faults;
#[path = "histories/generated.rs"]
mod generated;
#[path = "histories/reference.rs"]
mod reference;
#[path = "histories/script.rs"]
mod script;

use std::collections::BTreeSet;

use anyhow::ensure;
use http::{Method, Request};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use lockstep_apiserver::host::{Host, Options};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::histories::{Check, Figures, Plan, check, record};
use tokio::task::spawn_blocking;
use tower::util::MapRequestLayer;

/// The number of histories of each server; ten times as many in the tier `nightly`.
const HISTORIES: u64 = 5;

/// The number of requests of each of the four clients in a history.
const REQUESTS: usize = 60;

/// Records histories, and checks each.
#[expect(clippy::print_stdout, reason = "the figures belong to the output of the test")]
async fn histories_are_correct(server: &str, client: Client) -> anyhow::Result<()> {
    let is_nightly = std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly");
    let histories = if is_nightly { 10 * HISTORIES } else { HISTORIES };
    let (mut figures, mut expected) = (Figures::default(), 0);
    for seed in 0..histories {
        let plan = Plan { seed, namespace: format!("history-{seed}"), requests: REQUESTS };
        let history = record(client.clone(), &plan).await?;
        let violations: Vec<String> = check(&history).iter().map(ToString::to_string).collect();
        ensure!(violations.is_empty(), "seed {seed} on {server}:\n{}", violations.join("\n"));
        figures.add(&history);
        expected += plan.calls();
    }
    println!("{server}: {figures}");
    ensure!(figures.requests == expected, "{} requests instead of {expected}", figures.requests);
    ensure!(figures.overlapping > 0, "no requests overlap");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_of_the_embedded_api_server_are_correct() -> anyhow::Result<()> {
    let host = Host::bind("127.0.0.1:0".parse()?, Options::default()).await?;
    let client = Client::try_from(Config::new(host.url().parse()?))?;
    histories_are_correct("the embedded API server", client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_of_a_real_api_server_are_correct() -> anyhow::Result<()> {
    let plane = spawn_blocking(ControlPlane::shared).await?;
    histories_are_correct("a real API server", plane.client().await?).await
}

/// Returns the checks that fail if requests are changed before they arrive, so that the server does something else.
async fn failed_checks(change: fn(Request<Body>) -> Request<Body>) -> anyhow::Result<BTreeSet<Check>> {
    let host = Host::bind("127.0.0.1:0".parse()?, Options::default()).await?;
    let builder = ClientBuilder::try_from(Config::new(host.url().parse()?))?;
    let client = builder.with_layer(&MapRequestLayer::new(change)).build();
    let plan = Plan { seed: 0, namespace: "faulty".to_owned(), requests: REQUESTS };
    let history = record(client, &plan).await?;
    Ok(check(&history).into_iter().map(|violation| violation.check).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ignores_preconditions_is_found() -> anyhow::Result<()> {
    let failed = failed_checks(|request| {
        let is_deletion = request.method() == Method::DELETE;
        request.map(|body| if is_deletion { Body::from(b"{}".to_vec()) } else { body })
    });
    let failed = failed.await?;
    ensure!(failed.contains(&Check::Linearizability), "{failed:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_resumes_watches_at_another_version_is_found() -> anyhow::Result<()> {
    let failed = failed_checks(|mut request| {
        let uri = request.uri().to_string().replace("&resourceVersion=", "&ignored=");
        *request.uri_mut() = uri.parse().expect("it is a URI");
        request
    });
    let failed = failed.await?;
    ensure!(failed.contains(&Check::WatchDuplicates), "{failed:?}");
    Ok(())
}
