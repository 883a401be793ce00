//! The steps of a run, with an index of their requests and objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, ActionId};
use lockstep_engine::machine::{Event, Note, ReconcileResult};
use lockstep_engine::object::{Kind, Name, ObjectRef};
use lockstep_engine::recording::read::{Lines, Unreadable};
use lockstep_engine::recording::{Line, RecordedStep};
use serde_json::Value;

/// Steps of one run. They are identified by their index.
#[derive(Default)]
pub(in crate::cli) struct History {
    pub(super) steps: Vec<Arc<RecordedStep>>,
    /// The states of objects that were watched before the first of these steps.
    earlier: BTreeMap<ObjectRef, Arc<Value>>,
    requests: BTreeMap<ActionId, usize>,
    answers: BTreeMap<ActionId, usize>,
}

/// The end of a reconcile.
pub(super) struct End<'a> {
    pub(super) step: usize,
    pub(super) result: &'a ReconcileResult,
    /// When it began, in the time of the process.
    pub(super) began: Duration,
}

/// The last event about an object.
pub(super) struct Sighting {
    pub(super) object: ObjectRef,
    pub(super) step: usize,
    pub(super) is_deleted: bool,
}

impl History {
    /// Reads the steps of a recording, up to the one with that number.
    pub(super) fn read(lines: Lines<'_>, until: Option<u64>) -> Result<Self, Unreadable> {
        let mut history = Self::default();
        for line in lines {
            let Line::Step(step) = line? else { continue };
            if until.is_some_and(|until| step.number > until) {
                break;
            }
            history.add(Arc::new(step));
        }
        Ok(history)
    }

    /// Returns the history of the last steps of a run. `earlier` is the state of objects before them.
    pub(in crate::cli) fn of(
        steps: impl IntoIterator<Item = Arc<RecordedStep>>,
        earlier: BTreeMap<ObjectRef, Arc<Value>>,
    ) -> Self {
        let mut history = Self { earlier, ..Self::default() };
        steps.into_iter().for_each(|step| history.add(step));
        history
    }

    fn add(&mut self, step: Arc<RecordedStep>) {
        let index = self.steps.len();
        self.requests.extend(step.gave.requests.iter().map(|request| (request.id, index)));
        if let Event::Finished { id, .. } = &step.event {
            self.answers.insert(*id, index);
        }
        self.steps.push(step);
    }

    /// Returns the time of a step since the start of the process.
    pub(super) fn elapsed(&self, step: usize) -> Duration {
        self.steps[step].now.monotonic.elapsed()
    }

    /// Returns the step that requested an action; `None` if that was before the recording.
    pub(super) fn requested(&self, id: ActionId) -> Option<usize> {
        self.requests.get(&id).copied()
    }

    /// Returns the step with the answer of a request.
    pub(super) fn answered(&self, id: ActionId) -> Option<usize> {
        self.answers.get(&id).copied()
    }

    /// Returns an action by its id.
    pub(in crate::cli) fn action(&self, id: ActionId) -> Option<&Action> {
        let requests = &self.steps[self.requested(id)?].gave.requests;
        requests.iter().find(|request| request.id == id).map(|request| &request.action)
    }

    /// Returns the ends of all reconciles, in their order, with their objects.
    pub(super) fn ends(&self) -> impl DoubleEndedIterator<Item = (&ObjectRef, End<'_>)> {
        self.steps.iter().enumerate().flat_map(move |(step, taken)| {
            taken.gave.notes.iter().filter_map(move |note| match note {
                Note::Reconciled { object, result, took, .. } => {
                    let began = self.elapsed(step).saturating_sub(*took);
                    Some((object, End { step, result, began }))
                }
                _ => None,
            })
        })
    }

    /// Returns the last event about each object before a step.
    pub(super) fn sightings(&self, before: usize) -> Vec<Sighting> {
        let mut last: BTreeMap<ObjectRef, (usize, bool)> = BTreeMap::new();
        for (step, taken) in self.steps[..before].iter().enumerate() {
            if let Some((kind, object)) = watched(&taken.event) {
                let is_deleted = matches!(taken.event, Event::Deleted { .. });
                last.insert(Name::of(object).object(kind), (step, is_deleted));
            }
        }
        last.into_iter().map(|(object, (step, is_deleted))| Sighting { object, step, is_deleted }).collect()
    }

    /// Returns the last watched state of an object.
    pub(super) fn last_state(&self, wanted: &ObjectRef) -> Option<&Value> {
        let last = self.steps.iter().rev().find_map(|taken| {
            let (kind, object) = watched(&taken.event)?;
            (**kind == *wanted.kind && Name::of(object).object(kind) == *wanted).then_some(&**object)
        });
        last.or_else(|| self.earlier.get(wanted).map(|object| &**object))
    }

    /// Returns the last steps about an object, the newest first: events of its watch, and requests on it with their answers.
    pub(in crate::cli) fn about<'a>(
        &'a self,
        wanted: &'a ObjectRef,
    ) -> impl Iterator<Item = &'a RecordedStep> {
        let is_target = |action: &Action| action.target() == Some(wanted);
        self.steps.iter().rev().map(|step| &**step).filter(move |step| {
            let is_event = match &step.event {
                Event::Finished { id, .. } => self.action(*id).is_some_and(is_target),
                event => {
                    watched(event).is_some_and(|(kind, object)| Name::of(object).object(kind) == *wanted)
                }
            };
            is_event || step.gave.requests.iter().any(|request| is_target(&request.action))
        })
    }

    /// Returns the names of all objects of a kind.
    pub(super) fn names(&self, wanted: &Kind) -> Vec<String> {
        let seen = self.steps.iter().filter_map(|taken| watched(&taken.event));
        let names =
            seen.filter(|(kind, _)| ***kind == *wanted).map(|(_, object)| Name::of(object).to_string());
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Returns the object of a watch event.
pub(in crate::cli) fn watched(event: &Event) -> Option<(&Arc<Kind>, &Arc<Value>)> {
    match event {
        Event::Applied { kind, object } | Event::Deleted { kind, object } => Some((kind, object)),
        _ => None,
    }
}
