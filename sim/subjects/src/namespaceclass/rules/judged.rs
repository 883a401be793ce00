//! The status of a binding follows its class, even if some kinds can't be watched.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::object::{Kind, ObjectRef, generation, is_deleting, metadata};
use lockstep_namespaceclass::names;
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use super::rollout::known_class;
use crate::namespaceclass::desired::{has_observed, is_available, is_paused, wanted};
use crate::passes::{Pass, first, successful};

/// The longest delay of a watch event, and the time in which a class is validated.
const FOLLOWED: Duration = Duration::from_mins(3);
/// A watch that has worked must be refused three times in a row before that is reported. Each may be late by two minutes.
const REPORTED: Duration = Duration::from_mins(7);

/// A successful pass over the binding of a namespace, with its class, in a process that can't watch some kind of the class.
struct Blind<'a> {
    pass: Pass<'a>,
    class: &'a Value,
    /// The kinds that the class needs and that the process can't watch.
    refused: Vec<Arc<Kind>>,
}

/// Returns the class of a binding, if the process has known both for long enough, and the class is not paused.
pub(super) fn settled_class<'a>(moment: &'a Moment<'_>, pass: &Pass<'_>) -> Option<&'a Value> {
    let namespace = pass.object.namespace.as_deref()?;
    let class = known_class(moment, pass.state, pass.stored)?;
    let name = ObjectRef::cluster(&names::class(), metadata(class, "name"));
    let (_, since) = pass.state.generations.get(&name)?;
    let (_, bound) = pass.state.generations.get(pass.object)?;
    let validated = pass.state.ended.get(&("class".to_owned(), name))?;
    let home = pass.state.observed.get(&ObjectRef::cluster(&names::namespace(), namespace))?;
    let is_known = *since + FOLLOWED <= pass.began
        && since < validated
        && *bound <= pass.began
        && generation(pass.observed) == generation(pass.stored);
    (is_known && !is_paused(class) && !is_deleting(home)).then_some(class)
}

/// Returns the passes that have to leave a status of the present generation of the class.
fn blind<'a>(moment: &'a Moment<'_>) -> impl Iterator<Item = Blind<'a>> {
    let is_blind = |pass: &Pass<'_>| pass.object.kind == names::binding() && !pass.state.refused.is_empty();
    successful(moment).filter(is_blind).filter_map(move |pass| {
        let namespace = pass.object.namespace.as_deref()?;
        let class = settled_class(moment, &pass)?;
        let is_limited = class["spec"]["rollout"].is_object() || class["spec"]["removalGuard"].is_object();
        let kinds: Vec<Arc<Kind>> = wanted(class, namespace).into_keys().map(|object| object.kind).collect();
        let is_settled = kinds.iter().all(|kind| pass.is_refused(kind) || pass.is_watched(kind));
        let refused: Vec<_> = kinds.into_iter().filter(|kind| pass.is_refused(kind)).collect();
        (is_settled && !is_limited && !refused.is_empty()).then_some(Blind { pass, class, refused })
    })
}

pub(super) fn no_binding_freezes(moment: &Moment<'_>) -> Result<(), String> {
    first(blind(moment).filter_map(|Blind { pass, class, .. }| {
        let is_current = has_observed(pass.stored, class);
        let generation = &class["metadata"]["generation"];
        (!is_current).then(|| format!("the status of {} is not of generation {generation}", pass.object))
    }))
}

pub(super) fn an_unwatchable_kind_is_reported(moment: &Moment<'_>) -> Result<(), String> {
    first(blind(moment).filter_map(|Blind { pass, refused, .. }| {
        let is_old = |kind: &&Arc<Kind>| {
            pass.state.refused.get(*kind).is_some_and(|since| *since + REPORTED <= pass.began)
        };
        let kind = refused.iter().find(is_old).filter(|_| is_available(pass.stored))?;
        Some(format!("{} is Ready, and {} can't be watched", pass.object, kind.kind))
    }))
}
