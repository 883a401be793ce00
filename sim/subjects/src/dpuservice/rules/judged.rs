//! Every pass reports all that can be known, even if some kinds can't be watched.

use std::sync::Arc;
use std::time::Duration;

use lockstep_dpuservice::names::{self, condition};
use lockstep_engine::object::Kind;
use lockstep_sim::cluster::Change;
use lockstep_sim::invariant::Moment;

use super::super::setup;
use super::past::REQUEST;
use crate::passes::{Pass, first, successful};

/// A status in which no condition changes is written at most this often.
const SETTLES: Duration = Duration::from_secs(5);

/// Returns the successful passes over services, in processes that can't watch some kind.
fn blind<'a>(moment: &'a Moment<'_>) -> impl Iterator<Item = Pass<'a>> {
    successful(moment).filter(|pass| {
        pass.object.kind == names::service() && setup::watched().iter().any(|kind| pass.is_refused(kind))
    })
}

pub(super) fn no_condition_freezes(moment: &Moment<'_>) -> Result<(), String> {
    let passes = blind(moment).filter(|pass| pass.requeued.is_none_or(|after| after > SETTLES));
    first(passes.filter_map(|pass| {
        // A rollout neither begins nor ends while the service is paused.
        let is_paused = pass.observed["spec"]["paused"] == true;
        pass.frozen(|name| !(is_paused && name == condition::ROLLED_OUT))
    }))
}

/// Returns the conditions that depend on nothing but these kinds, as far as they are not about writes. While any kind can't be
/// watched, nothing is written.
fn dependencies() -> [(&'static str, Vec<Arc<Kind>>); 6] {
    let (clusters, applications) = (names::dpu_cluster(), names::application());
    [
        (condition::DPU_CLUSTERS_READY, vec![Arc::clone(&clusters)]),
        (condition::APPLICATIONS_READY, vec![clusters, applications]),
        (condition::CLUSTER_SECRETS_RECONCILED, setup::watched().to_vec()),
        (condition::APP_PROJECT_RECONCILED, setup::watched().to_vec()),
        (condition::APPLICATIONS_RECONCILED, setup::watched().to_vec()),
        (condition::READY, setup::watched().to_vec()),
    ]
}

pub(super) fn only_what_cannot_be_watched_is_unknown(moment: &Moment<'_>) -> Result<(), String> {
    first(blind(moment).flat_map(|pass| {
        let wrong = dependencies().into_iter().filter_map(move |(name, kinds)| {
            let is_unknown = pass.condition(name)?["status"] == "Unknown";
            let is_refused = kinds.iter().any(|kind| pass.is_refused(kind));
            let is_watched = kinds.iter().all(|kind| pass.is_watched(kind));
            match (is_unknown, is_refused, is_watched) {
                (false, true, _) => Some(format!("{name} of {} is known, and can't be", pass.object)),
                (true, _, true) => Some(format!("{name} of {} is Unknown, and could be", pass.object)),
                _ => None,
            }
        });
        wrong.collect::<Vec<_>>()
    }))
}

pub(super) fn the_last_reports_are_kept(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, Change { object, old: Some(old), new: Some(new), .. })) = moment.entry.by_process()
    else {
        return Ok(());
    };
    let Some(state) = moment.history.process(process).filter(|_| object.kind == names::service()) else {
        return Ok(());
    };
    // The status may have been written before the process knew that.
    let is_refused =
        |kind: Arc<Kind>| state.refused.get(&kind).is_some_and(|since| *since + REQUEST < moment.entry.at);
    let is_blind = [names::dpu_cluster(), names::application()].into_iter().any(is_refused);
    let fields = ["rollout", "sync", "health", "resources", "history"];
    let mut lost = fields.into_iter().filter(|field| old["status"][field] != new["status"][field]);
    match lost.next().filter(|_| is_blind) {
        Some(field) => Err(format!("{field} of {object} is {}, which can't be known", new["status"][field])),
        None => Ok(()),
    }
}
