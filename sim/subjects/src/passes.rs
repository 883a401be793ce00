//! The successful passes of a step, for invariants about the status that a pass leaves.

use std::time::Duration;

use lockstep_engine::machine::{Event, Note, ReconcileResult};
use lockstep_engine::object::{Kind, ObjectRef, generation, is_deleting, metadata};
use lockstep_sim::cluster::{Author, What};
use lockstep_sim::conditions;
use lockstep_sim::history::ProcessState;
use lockstep_sim::invariant::{Invariant, Moment};
use serde_json::Value;

/// A successful pass over an object that is not being deleted.
pub(crate) struct Pass<'a> {
    pub(crate) object: &'a ObjectRef,
    pub(crate) state: &'a ProcessState,
    pub(crate) began: Duration,
    /// The delay after which it is repeated, if it requested one.
    pub(crate) requeued: Option<Duration>,
    /// The kind that was listed by the event that ended the pass.
    listed: Option<&'a Kind>,
    /// The kind whose watch failed in the event that ended the pass.
    failed: Option<&'a Kind>,
    /// The object as the process received it.
    pub(crate) observed: &'a Value,
    /// The object as it is on the server.
    pub(crate) stored: &'a Value,
}

impl Pass<'_> {
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Value> {
        conditions::all(self.stored)
    }

    pub(crate) fn condition(&self, name: &str) -> Option<&Value> {
        conditions::find(self.stored, name)
    }

    /// Returns whether the process has known since before the pass that it can't watch a kind.
    pub(crate) fn is_refused(&self, kind: &Kind) -> bool {
        let mut refused = self.state.refused.iter();
        refused.any(|(refused, since)| **refused == *kind && *since < self.began) && self.listed != Some(kind)
    }

    /// Returns whether the process has had a list of a kind since before the pass, and its watch was not refused since.
    pub(crate) fn is_watched(&self, kind: &Kind) -> bool {
        let is_listed = self.state.listed.get(kind).is_some_and(|listed| *listed < self.began);
        is_listed && !self.state.refused.contains_key(kind) && self.failed != Some(kind)
    }

    /// Returns the first condition, or the status itself, that is of an earlier generation than the one that was known when the
    /// pass began. The conditions to check are those that match.
    pub(crate) fn frozen(&self, is_checked: impl Fn(&str) -> bool) -> Option<String> {
        let (known, since) = self.state.generations.get(self.object)?;
        let lags = |place: &Value| place["observedGeneration"].as_i64().unwrap_or(0) < *known;
        let name = |place: &Value| place["type"].as_str().unwrap_or("the status").to_owned();
        let conditions = self.conditions().filter(|condition| is_checked(&name(condition)));
        let frozen = std::iter::once(&self.stored["status"]).chain(conditions).find(|place| lags(place))?;
        (*since <= self.began)
            .then(|| format!("{} of {} is of an earlier generation than {known}", name(frozen), self.object))
    }
}

/// Returns the successful passes of this step.
pub(crate) fn successful<'a>(moment: &'a Moment<'_>) -> impl Iterator<Item = Pass<'a>> {
    let (process, notes, event) = match &moment.entry.what {
        What::Stepped { process, step, event, .. } => (*process, step.notes.as_slice(), Some(event)),
        _ => (0, &[][..], None),
    };
    notes.iter().filter_map(move |note| {
        let Note::Reconciled { object, result, took, .. } = note else { return None };
        let requeued = match result {
            ReconcileResult::Converged => None,
            ReconcileResult::Requeued { after } => Some(*after),
            ReconcileResult::Failed { .. } | ReconcileResult::Abandoned => return None,
        };
        let state = moment.history.process(process)?;
        let (observed, stored) = (state.observed.get(object)?, moment.server.object(object)?);
        // A pass that ends because the object was removed has evaluated nothing.
        let is_lost = event.is_some_and(|event| state.loses(object, event));
        let stays = metadata(observed, "uid") == metadata(stored, "uid") && !is_deleting(stored) && !is_lost;
        // What another leader wrote is corrected once it is seen.
        let is_unseen = metadata(observed, "resourceVersion") != metadata(stored, "resourceVersion");
        let writer = moment.history.versions(object).last().map(|version| version.by);
        let is_overwritten = is_unseen && matches!(writer, Some(Author::Process(other)) if other != process);
        let began = moment.entry.at.saturating_sub(*took);
        // It may have begun with an object that was deleted and created again since.
        let mut formers = state.replaced.get(object).into_iter().flatten().chain(state.previous.get(object));
        let is_replaced = formers
            .any(|(until, former)| *until >= began && metadata(former, "uid") != metadata(stored, "uid"));
        let (listed, failed) = match event {
            Some(Event::ListCompleted { kind }) => (Some(&**kind), None),
            Some(Event::WatchFailed { kind, .. }) => (None, Some(&**kind)),
            _ => (None, None),
        };
        (stays && !is_overwritten && !is_replaced).then_some(Pass {
            object,
            state,
            began,
            requeued,
            listed,
            failed,
            observed,
            stored,
        })
    })
}

/// Returns the invariant that pauses are reported, from the check of a controller.
pub(crate) const fn pauses(holds: fn(&Moment<'_>) -> Result<(), String>) -> Invariant {
    Invariant {
        name: "pauses_are_reported",
        sentence: "At the end of a pass that succeeds, an object has the condition Paused exactly if its spec says so.",
        holds,
    }
}

/// Checks that the objects of a kind have the condition `Paused` exactly if their spec says so.
pub(crate) fn are_paused_as_said(moment: &Moment<'_>, kind: &Kind) -> Result<(), String> {
    first(successful(moment).filter(|pass| *pass.object.kind == *kind).filter_map(|pass| {
        let of_status = [&pass.stored["status"]].into_iter();
        let mut observed =
            of_status.chain(pass.conditions()).filter_map(|it| it["observedGeneration"].as_i64());
        let now = generation(pass.stored);
        // The process may have read a later generation than it was sent, while it can't watch the kind.
        let is_current = generation(pass.observed) == now && observed.any(|observed| observed == now);
        let is_paused = pass.observed["spec"]["paused"] == true;
        let found = pass.condition("Paused");
        (is_current && found.is_some() != is_paused)
            .then(|| format!("spec.paused of {} is {is_paused}, and its condition is {found:?}", pass.object))
    }))
}

/// Returns the result of an invariant from its violations.
pub(crate) fn first(mut wrong: impl Iterator<Item = String>) -> Result<(), String> {
    wrong.next().map_or(Ok(()), Err)
}
