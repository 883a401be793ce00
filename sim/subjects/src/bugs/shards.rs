//! Mistakes that a Sentinel could make with the selector and the expressions of its configuration, and with a second replica.

use std::sync::Arc;

use lockstep_engine::action::{Action, BrokerRequest, Outcome, Request};
use lockstep_engine::machine::{Event, Note, Step};
use lockstep_sentinel::metrics;
use lockstep_sim::bugs::{Bug, Flaw, plant};
use serde_json::Value;

const fn bug(
    name: &'static str,
    sentence: &'static str,
    plant: fn(Box<dyn lockstep_engine::machine::Machine>) -> Box<dyn lockstep_engine::machine::Machine>,
) -> Bug {
    Bug { name, sentence, controller: lockstep_crds::sentinel::CONTROLLER, plant, garble: None }
}

pub(super) const BUGS: &[Bug] = &[
    bug(
        "keeps_former_expressions",
        "After a change of the expressions, those of the generation before decide.",
        plant::<KeepsFormerExpressions>,
    ),
    bug(
        "failed_expressions_are_due",
        "A resource for which an expression fails is due at every poll.",
        plant::<FailedExpressionsAreDue>,
    ),
    bug(
        "failed_expressions_are_skipped",
        "A resource for which an expression fails gets no event.",
        plant::<FailedExpressionsAreSkipped>,
    ),
    bug(
        "failed_expressions_are_not_counted",
        "Failed expressions are not counted.",
        plant::<FailedExpressionsAreNotCounted>,
    ),
    bug(
        "polls_as_a_standby",
        "A replica polls and publishes while another one holds the Lease.",
        plant::<PollsAsAStandby>,
    ),
    bug(
        "loses_additional_fields",
        "Events have only the fields of the specification.",
        plant::<LosesAdditionalFields>,
    ),
    bug(
        "selectors_are_not_validated",
        "An invalid selector counts as valid, and selects nothing.",
        plant::<SelectorsAreNotValidated>,
    ),
];

/// Changes the specification of a configuration that the machine sees.
fn specification(mut event: Event, change: impl FnOnce(&mut Value)) -> Event {
    if let Event::Applied { kind, object } = &mut event
        && kind.kind == "SentinelConfig"
    {
        change(&mut Arc::make_mut(object)["spec"]);
    }
    event
}

#[derive(Default)]
struct KeepsFormerExpressions {
    former: Option<[Value; 2]>,
    latest: Option<[Value; 2]>,
}

impl Flaw for KeepsFormerExpressions {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(specification(event, |spec| {
            let seen = ["messageDecision", "messageData"].map(|field| spec[field].clone());
            if self.latest.as_ref() != Some(&seen) {
                self.former = self.latest.replace(seen);
            }
            if let Some([decision, data]) = &self.former {
                spec["messageDecision"] = decision.clone();
                spec["messageData"] =
                    if data.is_null() { Value::Object(serde_json::Map::new()) } else { data.clone() };
            }
        }))
    }
}

/// Without its backoffs, the table decides in one way about all resources for which an expression fails.
fn back_off(event: Event, backoff: &str) -> Event {
    specification(event, |spec| {
        if spec["messageDecision"].is_object() {
            (spec["backoffReady"], spec["backoffNotReady"]) = (backoff.into(), backoff.into());
        }
    })
}

#[derive(Default)]
struct FailedExpressionsAreDue;

impl Flaw for FailedExpressionsAreDue {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(back_off(event, "1ms"))
    }
}

#[derive(Default)]
struct FailedExpressionsAreSkipped;

impl Flaw for FailedExpressionsAreSkipped {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(back_off(event, "9000h"))
    }
}

#[derive(Default)]
struct FailedExpressionsAreNotCounted;

impl Flaw for FailedExpressionsAreNotCounted {
    fn step(&mut self, step: &mut Step) {
        let is_count = |note: &Note| matches!(note, Note::Measured(measure) if measure.metric == metrics::EXPRESSION_ERRORS);
        step.notes.retain(|note| !is_count(note));
    }
}

#[derive(Default)]
struct PollsAsAStandby;

impl Flaw for PollsAsAStandby {
    fn event(&mut self, event: Event) -> Option<Event> {
        match event {
            // The first event of the watch takes the place of the Lease.
            Event::ListStarted { .. } | Event::LeadershipChanged { .. } => {
                Some(Event::LeadershipChanged { leading: true })
            }
            event => Some(event),
        }
    }
}

#[derive(Default)]
struct LosesAdditionalFields;

impl Flaw for LosesAdditionalFields {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Broker(BrokerRequest::Publish { events, .. }) = &mut request.action {
            let mut sent = events.to_vec();
            for event in &mut sent {
                if let Some(data) = event.data.as_object_mut() {
                    data.retain(|field, _| lockstep_crds::sentinel::RESERVED_DATA.contains(&field.as_str()));
                }
            }
            *events = sent.into();
        }
        None
    }
}

/// The machine sees a selector that no resource matches.
#[derive(Default)]
struct SelectorsAreNotValidated;

impl Flaw for SelectorsAreNotValidated {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(specification(event, |spec| {
            let labels = spec.pointer_mut("/shardSelector/matchLabels").and_then(Value::as_object_mut);
            for (_, value) in labels.into_iter().flatten() {
                if value.as_str().is_some_and(|value| value.contains(' ')) {
                    *value = "nowhere".into();
                }
            }
        }))
    }
}
