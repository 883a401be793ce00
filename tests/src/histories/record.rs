//! Records a history of a server.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use tokio::task::{JoinHandle, JoinSet};

use super::client::{Client, Clock};
use super::history::{Answer, Call, Data, History, LAST, Request, Start, Watch};
use super::maps::Maps;
use super::watcher::{WatchPlan, follow};
use super::workload::{NAMES, Workload};
use crate::ground::PATIENCE;

/// The number of clients.
const CLIENTS: usize = 4;

/// The number of events after which some watches are resumed.
const RESUME_AFTER: usize = 7;

/// The size of a history.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed of the requests.
    pub seed: u64,
    /// The namespace, which must not exist.
    pub namespace: String,
    /// The number of requests of each client.
    pub requests: usize,
}

impl Plan {
    /// Returns the number of calls in the history: those of the clients, and the creation of the last object.
    pub fn calls(&self) -> usize {
        CLIENTS * self.requests + 1
    }
}

/// Records a history.
///
/// # Errors
/// If the server gives an answer that such requests must not have, such as 500, or a watch does not report the last object.
pub async fn record(client: kube::Client, plan: &Plan) -> anyhow::Result<History> {
    let maps = Maps::create(client, &plan.namespace).await?;
    let clock = Clock::default();
    let Answer::List { revision: start, .. } = maps.send(&Request::List).await? else {
        bail!("a list was answered with another object")
    };
    let open = |plan: WatchPlan| tokio::spawn(follow(maps.clone(), clock.clone(), plan));
    let mut watches: Vec<JoinHandle<_>> = from_the_start(start).into_iter().map(open).collect();
    let mut running = JoinSet::new();
    for index in 0..CLIENTS {
        let workload = Workload::new(plan.seed, index);
        let client = Client { index, maps: maps.clone(), clock: clock.clone(), workload, calls: Vec::new() };
        running.spawn(run(client, start, plan.requests));
    }
    let mut calls = Vec::new();
    while let Some(ended) = running.join_next().await {
        let (of_client, watch) = ended??;
        calls.extend(of_client);
        watches.push(watch);
    }
    calls.push(create_last(&maps, &clock).await?);
    calls.sort_by_key(|call| call.invoked);
    let mut complete = Vec::new();
    for watch in watches {
        let ended = tokio::time::timeout(PATIENCE, watch).await;
        complete.push(ended.context("a watch has not reported the last object")???);
    }
    complete.sort_by(|one, other| one.label.cmp(&other.label));
    Ok(History { start, calls, watches: complete })
}

/// Returns the watches that begin before the first request.
fn from_the_start(version: u64) -> Vec<WatchPlan> {
    let start = Start::After(version);
    let names = BTreeSet::from([NAMES[0].to_owned(), LAST.to_owned()]);
    let plan = WatchPlan { label: "all".to_owned(), start, names: None, resume_after: None };
    vec![
        WatchPlan { label: "resumed".to_owned(), resume_after: Some(RESUME_AFTER), ..plan.clone() },
        WatchPlan { label: "selected".to_owned(), names: Some(names), ..plan.clone() },
        plan,
    ]
}

/// Sends the requests of a client, which opens a watch after the first half.
async fn run(
    mut client: Client,
    start: u64,
    requests: usize,
) -> anyhow::Result<(Vec<Call>, JoinHandle<anyhow::Result<Watch>>)> {
    client.send(requests / 2).await?;
    let index = client.index;
    let is_initial = index.is_multiple_of(2);
    let after_list = Start::After(client.last_list().unwrap_or(start));
    let watch = WatchPlan {
        label: format!("of client {index}"),
        start: if is_initial { Start::Initial } else { after_list },
        names: None,
        resume_after: (index >= CLIENTS / 2).then_some(RESUME_AFTER),
    };
    let watch = tokio::spawn(follow(client.maps.clone(), client.clock.clone(), watch));
    client.send(requests - requests / 2).await?;
    Ok((client.calls, watch))
}

async fn create_last(maps: &Maps, clock: &Clock) -> anyhow::Result<Call> {
    let data = Data::from([("v".to_owned(), LAST.to_owned())]);
    let request = Request::Create { name: LAST.to_owned(), data };
    let invoked = clock.tick();
    let answer = maps.send(&request).await?;
    Ok(Call { client: CLIENTS, request, invoked, completed: Some((clock.tick(), answer)) })
}
