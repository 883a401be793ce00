//! The reconcile that made a decision: its beginning, and the answers that it got.
//!
//! A reconcile requests actions, and continues in the step with the last of their answers. So each answer leads to the step of
//! its request, and from there to the previous answer, back to the first step of the reconcile. That step may answer another
//! reconcile, which made room for this one. The length of a reconcile, which is recorded at its end, shows this.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_engine::action::{Action, ActionId};
use lockstep_engine::machine::{Event, Note};
use lockstep_engine::object::ObjectRef;

use super::history::{End, History, watched};

/// A reconcile.
pub(super) struct Pass {
    /// Its first step; `None` if it began before the recording.
    pub(super) begin: Option<usize>,
    /// Its requests that were answered before the decision, by the step of the answer.
    pub(super) answers: Vec<(usize, ActionId)>,
    /// The watch events since the previous reconcile of the object began, before this one began.
    pub(super) changes: Vec<usize>,
}

impl Pass {
    /// Returns the reconcile that reported a decision on the object in a step.
    pub(super) fn of(history: &History, object: &ObjectRef, decided: usize) -> Self {
        let of_object = move || history.ends().filter(move |(ended, _)| *ended == object).map(|(_, end)| end);
        let began = of_object().find(|end| end.step >= decided).map(|end| end.began);
        let others = history.ends().filter(|(ended, _)| *ended != object);
        let others: BTreeSet<Duration> = others.map(|(_, end)| end.began).collect();
        let (mut begin, mut answers) = (decided, BTreeSet::new());
        let mut is_known = true;
        while let Event::Finished { id, .. } = &history.steps[begin].event {
            if begin != decided && is_first(history, begin, began) {
                break;
            }
            let Some(from) = history.requested(*id) else {
                is_known = false;
                break;
            };
            let until = history.elapsed(begin);
            answers.insert((begin, *id));
            // If another reconcile began in the same step, it is not known which of the other requests belong to it.
            if !others.contains(&history.elapsed(from)) {
                answers.extend(batch(history, from).filter(|(step, _)| history.elapsed(*step) <= until));
            }
            begin = from;
        }
        let answers = answers.into_iter().filter(|(_, id)| !is_status_of(history.action(*id), object));
        let previous = of_object().take_while(|end| end.step <= begin).last();
        Self {
            begin: is_known.then_some(begin),
            answers: answers.collect(),
            changes: previous.map_or_else(Vec::new, |end| changes(history, &end, begin)),
        }
    }
}

/// Returns whether a reconcile that began at this time has its first step here, although the step answers another one.
fn is_first(history: &History, step: usize, began: Option<Duration>) -> bool {
    let notes = &history.steps[step].gave.notes;
    notes.iter().any(|note| matches!(note, Note::Reconciled { .. }))
        && began.is_none_or(|began| history.elapsed(step) <= began)
}

/// Returns the answered requests of a step. No reconcile waits for the writes of Events and for watches.
fn batch(history: &History, step: usize) -> impl Iterator<Item = (usize, ActionId)> {
    let requests = history.steps[step].gave.requests.iter().filter(|request| match &request.action {
        Action::Watch(_) => false,
        action => action.target().is_none_or(|target| target.kind.kind != "Event"),
    });
    requests.filter_map(|request| Some((history.answered(request.id)?, request.id)))
}

/// Returns whether an action writes the object itself, which is how the decision is written.
fn is_status_of(action: Option<&Action>, object: &ObjectRef) -> bool {
    action.is_some_and(|action| action.is_write() && action.target() == Some(object))
}

/// Returns the watch events from the beginning of the previous reconcile to the beginning of this one.
fn changes(history: &History, previous: &End<'_>, begin: usize) -> Vec<usize> {
    let steps = (0..begin).filter(|step| history.elapsed(*step) >= previous.began);
    steps.filter(|step| watched(&history.steps[*step].event).is_some()).collect()
}
