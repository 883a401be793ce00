//! Which syncs of Argo CD the controller may end.

use std::time::Duration;

use lockstep_dpuservice::names;
use lockstep_engine::action::{Request, Success};
use lockstep_engine::machine::{Event, Note};
use lockstep_engine::object::{is_deleting, metadata};
use lockstep_external::argocd::repeated;
use lockstep_sim::cluster::{Author, Change, What};
use lockstep_sim::history::reference;
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use super::past::lasts;

/// How long a sync may continue after the wanted source has changed.
const GRACE: Duration = Duration::from_mins(5);

pub(super) fn only_blocking_syncs_are_terminated(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old: Some(old), new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let is_ended = !is_terminating(old) && is_terminating(new);
    if object.kind != names::application() || !is_ended || is_deleting(new) {
        return Ok(());
    }
    let held_up = lasts(moment, object, |application| is_terminating(application) || is_held_up(application));
    // Nothing runs between two attempts, so nothing can be stopped in the middle.
    let is_idle = old["status"]["operationState"]["finishedAt"].is_string();
    if is_held_up(old) && (is_idle || held_up >= GRACE) {
        return Ok(());
    }
    Err(format!("the sync of {object} was ended, which had held up a change for {held_up:?}"))
}

pub(super) fn a_terminated_sync_is_an_event(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, event, step, .. } = &moment.entry.what else { return Ok(()) };
    let Event::Finished { id, outcome: Ok(Success::Object(answer)) } = event else { return Ok(()) };
    let Some(state) = moment.history.process(*process).filter(|state| state.leading) else { return Ok(()) };
    // A pass continues when all of its requests are answered.
    let is_other = |(other, request): (&u64, &Request)| {
        *other != id.0 && request.action.target().is_some_and(|target| target.kind == names::application())
    };
    if answer["kind"] != "Application" || is_deleting(answer) || state.open.iter().any(is_other) {
        return Ok(());
    }
    let application = reference(&names::application(), answer);
    let versions = moment.history.versions(&application);
    let is_answer =
        |object: &Value| metadata(object, "resourceVersion") == metadata(answer, "resourceVersion");
    let at = versions.iter().position(|version| version.object.as_deref().is_some_and(is_answer));
    let Some([before, after]) = at.and_then(|at| versions.get(at.checked_sub(1)?..=at)) else {
        return Ok(());
    };
    let is_ended = !before.object.as_deref().is_some_and(is_terminating) && is_terminating(answer);
    let is_announced = || {
        step.notes
            .iter()
            .any(|note| matches!(note, Note::EventAnnounced { reason, .. } if reason == "SyncTerminated"))
    };
    if after.by != Author::Process(*process) || !is_ended || is_announced() {
        return Ok(());
    }
    Err(format!("the sync of {application} was terminated, and no Event says so"))
}

fn is_terminating(application: &Value) -> bool {
    application["status"]["operationState"]["phase"] == "Terminating"
}

/// Returns whether a sync is running for another source than the wanted one.
fn is_held_up(application: &Value) -> bool {
    let state = &application["status"]["operationState"];
    let (begun_with, wanted) = (&state["syncResult"]["source"], repeated(&application["spec"]["source"]));
    let differs =
        ["targetRevision", "chart", "repoURL"].iter().any(|field| begun_with[*field] != wanted[*field])
            || begun_with["helm"]["valuesObject"] != wanted["helm"]["valuesObject"];
    state["phase"] == "Running" && differs
}
