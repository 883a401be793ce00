//! Collects the combinations of a run from its journal.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::machine::Event;
use lockstep_engine::object::metadata;

use super::combination::{Combination, Reached, View};
use crate::cluster::{Carried, Entry, FaultVerdict, What};
use crate::history::History;

/// Upper bound on the time of a request or an answer in transit without a fault.
const ORDINARY: Duration = Duration::from_millis(15);

/// The combinations of a run so far, and its requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    reached: Reached,
    /// By process and id.
    in_flight: BTreeMap<(usize, u64), InFlight>,
}

/// A request in flight.
#[derive(Debug)]
struct InFlight {
    controller: &'static str,
    request: String,
    view: View,
    sent: Duration,
    carried: Option<Duration>,
    /// A fault of this request itself.
    fault: Option<&'static str>,
    /// The first fault or operation that occurred meanwhile.
    meanwhile: Option<&'static str>,
}

impl Collector {
    /// Adds a journal entry, which the history must have.
    pub(crate) fn absorb(&mut self, entry: &Entry, history: &History, server: &ApiServer) {
        match &entry.what {
            What::Stepped { process, event, step, .. } => {
                if let Event::Finished { id, outcome } = event {
                    let answer = outcome.as_ref().map_or_else(|failure| failure.class.name(), |_| "ok");
                    self.end(*process, id.0, answer, entry.at);
                }
                let controller = history.controller(*process).unwrap_or("-");
                for request in &step.requests {
                    let action = &request.action;
                    // The process itself answers these at once.
                    if matches!(action, Action::Watch(_)) {
                        continue;
                    }
                    let in_flight = InFlight {
                        controller,
                        request: name(action),
                        view: view(*process, action, history, server),
                        sent: entry.at,
                        carried: None,
                        fault: None,
                        meanwhile: None,
                    };
                    self.in_flight.insert((*process, request.id.0), in_flight);
                }
            }
            What::Carried(carried) => self.carried(carried, entry.at),
            What::Died { process } => {
                let lost = self.in_flight.range((*process, 0)..=(*process, u64::MAX));
                let lost: Vec<u64> = lost.map(|((_, id), _)| *id).collect();
                for id in lost {
                    self.end(*process, id, "-", entry.at);
                }
            }
            What::Started { .. } | What::Changed(_) => {}
        }
    }

    /// Notes a fault or an operation that concerns the requests in flight of one controller, or of all.
    pub(crate) fn meet(&mut self, what: &'static str, controller: Option<&str>) {
        for request in self.in_flight.values_mut() {
            if controller.is_none_or(|controller| controller == request.controller) {
                request.meanwhile.get_or_insert(what);
            }
        }
    }

    /// Returns how often each combination was reached.
    pub(crate) fn finish(self) -> Reached {
        self.reached
    }

    fn carried(&mut self, carried: &Carried, at: Duration) {
        let Some(request) = self.in_flight.get_mut(&(carried.process, carried.id.0)) else { return };
        let is_slow = at.saturating_sub(request.sent) > ORDINARY;
        request.carried = Some(at);
        request.fault = match &carried.fate {
            FaultVerdict::Failed(failure) => Some(failure.class.name()),
            FaultVerdict::AnswerLost => Some("answer_lost"),
            FaultVerdict::CrashedBefore => Some("crash_before"),
            FaultVerdict::CrashedAfter => Some("crash_after"),
            FaultVerdict::Served => is_slow.then_some("slow_request"),
        };
    }

    fn end(&mut self, process: usize, id: u64, answer: &'static str, at: Duration) {
        let Some(request) = self.in_flight.remove(&(process, id)) else { return };
        let is_slow = request.carried.is_some_and(|carried| at.saturating_sub(carried) > ORDINARY);
        let met = request.fault.or(request.meanwhile).unwrap_or(if is_slow { "slow_answer" } else { "-" });
        let InFlight { controller, request, view, .. } = request;
        let combination = Combination { controller, request, view, answer, met };
        *self.reached.entry(combination).or_default() += 1;
    }
}

/// Returns the action with the kind of object that it concerns.
fn name(action: &Action) -> String {
    let kind = match action {
        Action::Kube(KubeRequest::List { kind, .. }) => Some(&kind.kind),
        action => action.target().map(|target| &target.kind.kind),
    };
    kind.map_or_else(|| action.name().to_owned(), |kind| format!("{} {kind}", action.name()))
}

fn view(process: usize, action: &Action, history: &History, server: &ApiServer) -> View {
    let Some(target) = action.target() else { return View::None };
    let seen = history.process(process).and_then(|state| state.observed.get(target));
    match (seen, server.object(target)) {
        (Some(seen), Some(stored)) => {
            let is_same = metadata(seen, "resourceVersion") == metadata(stored, "resourceVersion");
            if is_same { View::Current } else { View::Behind }
        }
        (Some(_), None) => View::Behind,
        (None, Some(_)) => View::Unseen,
        (None, None) => View::Absent,
    }
}
