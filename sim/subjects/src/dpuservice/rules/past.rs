//! The past states of an object.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::object::{ObjectRef, is_deleting};
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use super::super::setup;

/// Upper bound on the age of what a process knows: a watch may be late by two minutes, a pause may take one minute and a request
/// half a minute; and a little more.
pub(super) const STALE: Duration = Duration::from_mins(5);

/// Upper bound on the time in transit of any request, and a little more.
pub(super) const REQUEST: Duration = Duration::from_secs(40);

/// The external systems, as authors of changes.
pub(super) const EXTERNAL: [&str; 3] = ["argocd", "dpf", "dpu-cluster"];

/// Returns whether an object is absent or being deleted.
pub(super) fn is_leaving(object: Option<&Arc<Value>>) -> bool {
    object.is_none_or(|object| is_deleting(object))
}

/// Returns whether an object was absent or being deleted at a time that a process may still see as current.
pub(super) fn was_leaving(moment: &Moment<'_>, target: &ObjectRef) -> bool {
    let since = moment.entry.at.saturating_sub(STALE);
    let versions = moment.history.versions(target);
    let ends = versions.iter().skip(1).map(|next| next.at).chain([moment.entry.at]);
    let mut recent = versions.iter().zip(ends).filter(|(_, end)| *end >= since);
    let is_new = !setup::is_prepared(target) && versions.first().is_none_or(|first| first.at >= since);
    is_new
        || is_leaving(moment.server.object(target))
        || recent.any(|(version, _)| is_leaving(version.object.as_ref()))
}

/// Returns the states of objects that the process which makes a change had received when it may have requested the change.
pub(super) fn seen<'a>(
    moment: &Moment<'a>,
    is_meant: impl Fn(&ObjectRef) -> bool + Copy,
) -> impl Iterator<Item = &'a Arc<Value>> {
    let at = moment.entry.at;
    let process = moment.entry.by_process().map(|(process, _)| process);
    let states = process.into_iter().flat_map(move |process| moment.history.states_of_sender(process, at));
    states.flat_map(move |state| {
        let observed = state.observed.iter().filter(move |(target, _)| is_meant(target));
        let replaced = state.replaced.iter().filter(move |(target, _)| is_meant(target));
        let recent = replaced.flat_map(|(_, states)| states).filter(move |(until, _)| *until + REQUEST > at);
        observed.map(|(_, state)| state).chain(recent.map(|(_, state)| state))
    })
}

/// Returns the age of an object that was created in this run.
pub(super) fn age(moment: &Moment<'_>, target: &ObjectRef) -> Duration {
    lasts(moment, target, |_| true)
}

/// Returns for how long an object has matched.
pub(super) fn lasts(moment: &Moment<'_>, target: &ObjectRef, is_so: impl Fn(&Value) -> bool) -> Duration {
    let versions = moment.history.versions(target).iter().rev();
    let since = versions.take_while(|version| version.object.as_deref().is_some_and(&is_so)).last();
    moment.entry.at.saturating_sub(since.map_or(Duration::ZERO, |version| version.at))
}
