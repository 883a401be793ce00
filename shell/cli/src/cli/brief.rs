//! Formats recorded steps, each in one line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lockstep_engine::action::{
    Action, ActionId, BrokerRequest, Fetch, KubeRequest, Outcome, ResolveImage, Success, WatchCommand,
};
use lockstep_engine::machine::Event;
use lockstep_engine::object::{Kind, metadata};
use lockstep_engine::recording::RecordedStep;
use lockstep_runtime::failure::masked;
use serde_json::Value;

/// The maximum number of requests of a step in a line.
const NAMED_MAX: usize = 4;

/// Stores the requests, to describe their answers.
#[derive(Debug, Default)]
pub(super) struct Brief {
    asked: BTreeMap<ActionId, String>,
}

impl Brief {
    /// Returns the line of a step: its number, the time since the start, its event, and its requests.
    pub(super) fn line(&mut self, taken: &RecordedStep) -> String {
        let elapsed = taken.now.monotonic.elapsed();
        let mut line = format!(
            "{:>7} {:>7}.{:03}s  {}",
            taken.number,
            elapsed.as_secs(),
            elapsed.subsec_millis(),
            self.event(&taken.event)
        );
        let requests = &taken.gave.requests;
        for (place, request) in requests.iter().enumerate() {
            let brief = action(&request.action);
            if place < NAMED_MAX {
                let before = if place == 0 { "  =>  " } else { ", " };
                let _infallible = write!(line, "{before}{brief}");
            }
            self.asked.insert(request.id, brief);
        }
        if requests.len() > NAMED_MAX {
            let _infallible = write!(line, " and {} more", requests.len() - NAMED_MAX);
        }
        // Control characters in the file must not break the line.
        line.replace(char::is_control, " ")
    }

    fn event(&mut self, event: &Event) -> String {
        match event {
            Event::Finished { id, outcome } => {
                let asked = self.asked.remove(id).unwrap_or_else(|| format!("request {}", id.0));
                answer(&asked, outcome)
            }
            other => described(other),
        }
    }
}

/// Describes an event without the request that it may answer.
pub(super) fn described(event: &Event) -> String {
    match event {
        Event::Started => "started".to_owned(),
        Event::LeadershipChanged { leading: true } => "leads".to_owned(),
        Event::LeadershipChanged { leading: false } => "leads no longer".to_owned(),
        Event::ListStarted { kind } => format!("list of {kind} begins"),
        Event::ListCompleted { kind } => format!("list of {kind} is complete"),
        Event::Applied { kind, object } => format!("saw {}", name(kind, object)),
        Event::Deleted { kind, object } => format!("saw {} go", name(kind, object)),
        Event::WatchFailed { kind, failure } => format!("watch of {kind} failed: {failure}"),
        Event::Finished { id, outcome } => answer(&format!("request {}", id.0), outcome),
        Event::TimerFired => "woke".to_owned(),
    }
}

fn name(kind: &Kind, object: &Value) -> String {
    match metadata(object, "namespace") {
        "" => format!("{kind} {}", metadata(object, "name")),
        namespace => format!("{kind} {namespace}/{}", metadata(object, "name")),
    }
}

/// Describes an action.
pub(super) fn action(action: &Action) -> String {
    let name = action.name();
    match action {
        Action::Watch(WatchCommand::Start { kind, .. } | WatchCommand::Stop { kind })
        | Action::Kube(KubeRequest::List { kind, .. }) => {
            format!("{name} {kind}")
        }
        Action::Kube(KubeRequest::Discover { api_version }) => format!("{name} {api_version}"),
        Action::Kube(request) => {
            request.target().map_or_else(|| name.to_owned(), |target| format!("{name} {target}"))
        }
        // A user can write a password into the URL of the HyperFleet API.
        Action::Http(Fetch { url, .. }) => format!("{name} {}", masked(url)),
        Action::Registry(ResolveImage { image, .. }) => format!("{name} {image}"),
        Action::Broker(BrokerRequest::Connect { broker }) => format!("{name} {}", broker.name()),
        // The live page does not keep the events of a request.
        Action::Broker(BrokerRequest::Publish { broker, events }) if events.is_empty() => {
            format!("{name} to {}", broker.name())
        }
        Action::Broker(BrokerRequest::Publish { broker, events }) => {
            format!("{name} {} to {}", events.len(), broker.name())
        }
    }
}

/// Describes the answer of a request.
pub(super) fn answer(asked: &str, outcome: &Outcome) -> String {
    let ended = failure(outcome).unwrap_or_else(|| "ok".to_owned());
    format!("{asked}: {ended}")
}

/// Returns what failed of a request: all of it, the document, or some of the events.
pub(super) fn failure(outcome: &Outcome) -> Option<String> {
    match outcome {
        Err(failure) => Some(failure.to_string()),
        Ok(Success::Oversized { why, .. }) => Some(why.clone()),
        Ok(Success::Published(results)) => {
            let failure = results.iter().find_map(|result| result.as_ref().err())?;
            Some(format!("events were not confirmed: {failure}"))
        }
        Ok(_) => None,
    }
}
