//! A watch that is open while clients send requests.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail, ensure};
use futures::StreamExt as _;
use serde_json::Value;

use super::client::Clock;
use super::history::{LAST, Start, Stored, Watch, WatchEvent};
use super::maps::{Maps, named, selector, version};

/// The kind of a watch.
#[derive(Debug, Clone)]
pub(super) struct WatchPlan {
    /// What distinguishes it from the other watches of a history.
    pub(super) label: String,
    pub(super) start: Start,
    /// The selected names; all if it is `None`.
    pub(super) names: Option<BTreeSet<String>>,
    /// After how many events the client ends the watch and resumes it at the last version; never if it is `None`.
    pub(super) resume_after: Option<usize>,
}

/// Watches until the event of the last object.
pub(super) async fn follow(maps: Maps, clock: Clock, plan: WatchPlan) -> anyhow::Result<Watch> {
    let WatchPlan { label, start, names, resume_after } = plan;
    let selected = names.as_ref().map(|names| selector(names.iter().map(String::as_str))).unwrap_or_default();
    let mut events = Vec::new();
    // The version to resume at; none before the initial state is complete.
    let mut reached = match start {
        Start::After(version) => Some(version),
        Start::Initial => None,
    };
    let invoked = clock.tick();
    let mut has_last = false;
    loop {
        let from = match reached {
            Some(version) => format!("resourceVersion={version}"),
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let mut lines = maps.watch(&format!("{from}{selected}")).await?;
        let mut delivered = 0;
        while let Some(line) = lines.next().await {
            let event = event(&line?)?;
            match &event {
                WatchEvent::Bookmark { version, ends_initial } if *ends_initial || reached.is_some() => {
                    reached = Some(*version);
                }
                WatchEvent::Bookmark { .. } => {}
                WatchEvent::Added(name, stored)
                | WatchEvent::Modified(name, stored)
                | WatchEvent::Deleted(name, stored) => {
                    has_last |= name == LAST;
                    reached = reached.map(|_| stored.version);
                }
            }
            events.push(event);
            delivered += 1;
            if has_last && reached.is_some() {
                return Ok(Watch { label, start, invoked, names, events });
            }
            if reached.is_some() && resume_after.is_some_and(|most| delivered >= most) {
                break;
            }
        }
        ensure!(reached.is_some(), "watch {label} ended before its initial state was complete: {events:?}");
    }
}

fn event(line: &str) -> anyhow::Result<WatchEvent> {
    let event: Value = serde_json::from_str(line).context("an event that is no JSON")?;
    let object = &event["object"];
    let kind: fn(String, Stored) -> WatchEvent = match event["type"].as_str() {
        Some("ADDED") => WatchEvent::Added,
        Some("MODIFIED") => WatchEvent::Modified,
        Some("DELETED") => WatchEvent::Deleted,
        Some("BOOKMARK") => {
            let ends_initial = object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
            return Ok(WatchEvent::Bookmark { version: version(object)?, ends_initial });
        }
        _ => bail!("a watch has ended with {event}"),
    };
    let (name, stored) = named(object)?;
    Ok(kind(name, stored))
}
