//! The differences between a recorded run and its counterfactual.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_engine::action::{Action, KubeRequest, Subresource};
use lockstep_engine::machine::{Event, Note};
use lockstep_engine::object::{Name, ObjectRef};
use lockstep_engine::recording::RecordedStep;
use lockstep_engine::recording::what_if::{ComparedStep, Remainder, Requested};
use lockstep_engine::write::merged;
use serde_json::{Map, Value};

/// Both runs.
pub(super) struct Comparison {
    pub(super) steps: Vec<ComparedStep>,
    pub(super) rest: Remainder,
}

/// The status of an object in both runs.
pub(super) struct StatusDifference {
    pub(super) object: ObjectRef,
    pub(super) conditions: Vec<ConditionDifference>,
    /// Other fields with different values.
    pub(super) fields: Vec<String>,
}

/// A condition in both runs: status, reason and message, in one text. `None` if the run did not
/// request it.
pub(super) struct ConditionDifference {
    pub(super) condition: String,
    pub(super) recorded: Option<String>,
    pub(super) what_if: Option<String>,
}

impl Comparison {
    /// Returns the first step with a difference.
    pub(super) fn first(&self) -> Option<&ComparedStep> {
        self.steps.iter().find(|step| !step.is_same())
    }

    pub(super) fn recorded(&self) -> impl Iterator<Item = &RecordedStep> {
        self.steps.iter().map(|step| &step.recorded)
    }

    pub(super) fn what_if(&self) -> impl Iterator<Item = &RecordedStep> {
        self.steps.iter().flat_map(|step| &step.what_if)
    }

    /// Returns the Events that only the first of these runs announces.
    pub(super) fn only_announced<'a>(
        steps: impl Iterator<Item = &'a RecordedStep>,
        others: impl Iterator<Item = &'a RecordedStep>,
    ) -> Vec<(&'a RecordedStep, String)> {
        let mut known: Vec<String> = others.flat_map(announced).map(|(_, text)| text).collect();
        let unknown = |(_, text): &(&RecordedStep, String)| {
            let place = known.iter().position(|other| other == text);
            place.map(|place| known.remove(place)).is_none()
        };
        steps.flat_map(announced).filter(unknown).collect()
    }

    /// Returns the statuses that the runs requested last and that differ, apart from times of transitions.
    pub(super) fn statuses(&self) -> Vec<StatusDifference> {
        let [recorded, what_if] = [statuses(self.recorded()), statuses(self.what_if())];
        let objects: BTreeSet<&ObjectRef> = recorded.keys().chain(what_if.keys()).collect();
        let differences = objects.into_iter().map(|object| {
            let [recorded, what_if] = [&recorded, &what_if].map(|statuses| statuses.get(object));
            difference(object, recorded, what_if)
        });
        differences.filter(|it| !it.conditions.is_empty() || !it.fields.is_empty()).collect()
    }
}

/// Returns whether a request writes a Kubernetes Event. Its name is random, and no reconcile waits for it.
pub(super) fn writes_event(requested: &Requested) -> bool {
    requested.request.action.target().is_some_and(|target| target.kind.kind == "Event")
}

fn announced(step: &RecordedStep) -> impl Iterator<Item = (&RecordedStep, String)> {
    step.gave.notes.iter().filter_map(move |note| match note {
        Note::EventAnnounced { object, reason, note, .. } => {
            Some((step, format!("{object}: {reason}: {note}")))
        }
        _ => None,
    })
}

/// Returns the status that a run requested last for each object: its patch, merged into the status that the run knew.
fn statuses<'a>(steps: impl Iterator<Item = &'a RecordedStep>) -> BTreeMap<ObjectRef, Value> {
    let (mut known, mut requested) = (BTreeMap::new(), BTreeMap::new());
    for step in steps {
        if let Event::Applied { kind, object } = &step.event {
            known.insert(Name::of(object).object(kind), object["status"].clone());
        }
        for request in &step.gave.requests {
            if let Action::Kube(KubeRequest::Patch {
                target,
                subresource: Some(Subresource::Status),
                patch,
            }) = &request.action
            {
                let status = merged(known.get(target).unwrap_or(&Value::Null), &patch["status"]);
                known.insert(target.clone(), status.clone());
                requested.insert(target.clone(), status);
            }
        }
    }
    requested
}

fn difference(object: &ObjectRef, recorded: Option<&Value>, what_if: Option<&Value>) -> StatusDifference {
    let fields = [recorded, what_if].map(|status| status.and_then(Value::as_object));
    let names: BTreeSet<&String> = fields.iter().flatten().flat_map(|fields| fields.keys()).collect();
    let value = |fields: Option<&Map<String, Value>>, name: &str| {
        fields.and_then(|fields| fields.get(name)).map(without_times)
    };
    let differs = |name: &&String| value(fields[0], name) != value(fields[1], name);
    let names = names.into_iter().filter(|name| *name != "conditions").filter(differs);
    let [before, after] = [recorded, what_if].map(conditions);
    let kinds: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = kinds.into_iter().filter(|kind| before.get(*kind) != after.get(*kind));
    let conditions = changed.map(|kind| ConditionDifference {
        condition: kind.clone(),
        recorded: before.get(kind).cloned(),
        what_if: after.get(kind).cloned(),
    });
    StatusDifference {
        object: object.clone(),
        conditions: conditions.collect(),
        fields: names.cloned().collect(),
    }
}

/// Returns the conditions of a status by type, each with its status, reason and message.
fn conditions(status: Option<&Value>) -> BTreeMap<String, String> {
    let conditions = status.and_then(|status| status["conditions"].as_array()).into_iter().flatten();
    let read = conditions.map(|condition| {
        let [kind, status, reason, message] = ["type", "status", "reason", "message"]
            .map(|field| condition[field].as_str().unwrap_or_default());
        (kind.to_owned(), format!("{status} {reason}: {message}"))
    });
    read.collect()
}

/// Returns a value without the times of transitions, which follow from the time of the write.
fn without_times(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(field, _)| *field != "lastTransitionTime");
            kept.map(|(field, value)| (field.clone(), without_times(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_times).collect(),
        other => other.clone(),
    }
}
