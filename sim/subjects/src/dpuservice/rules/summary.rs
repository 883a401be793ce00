//! `Ready` repeats the worst of the other conditions.

use lockstep_dpuservice::names::{self, condition};
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use crate::passes::{Pass, first, successful};

pub(super) fn ready_repeats_the_worst(moment: &Moment<'_>) -> Result<(), String> {
    first(successful(moment).filter(|pass| pass.object.kind == names::service()).filter_map(|pass| {
        let ready = pass.condition(condition::READY)?;
        let unmet: Vec<&Value> = pass.conditions().filter(|it| is_unmet(it)).collect();
        // What cannot be known, or is the reason for that, is reported in another way.
        let is_known = ready["status"] != "Unknown" && ready["reason"] != "InvalidSpec";
        (is_known && !repeats(ready, &unmet)).then(|| wrong(&pass, ready, &unmet))
    }))
}

fn wrong(pass: &Pass<'_>, ready: &Value, unmet: &[&Value]) -> String {
    format!("{} says {ready}, and these of its conditions are not True: {unmet:?}", pass.object)
}

/// Returns whether a condition counts that is not True. A deleted AppProject is effective until Argo CD has removed it.
fn is_unmet(it: &Value) -> bool {
    let others = [condition::READY, condition::PAUSED, condition::ROLLED_OUT];
    let is_other = others.iter().any(|other| it["type"] == **other);
    let is_harmless = it["type"] == condition::APP_PROJECT_RECONCILED && it["reason"] == "AwaitingDeletion";
    it["status"] != "True" && !is_other && !is_harmless
}

/// Returns whether `Ready` repeats one of the conditions that are not True, and an error or a failure if there is one.
fn repeats(ready: &Value, unmet: &[&Value]) -> bool {
    let is_repeated = |it: &&Value| {
        let reason = if it["reason"] == "NoDPUClusters" {
            "Pending"
        } else {
            it["reason"].as_str().unwrap_or_default()
        };
        let message = format!(
            "{}: {}",
            it["type"].as_str().unwrap_or_default(),
            it["message"].as_str().unwrap_or_default()
        );
        ready["status"] == "False" && ready["reason"] == reason && ready["message"] == message
    };
    let are_among =
        |reasons: &[&str]| unmet.iter().any(|it| reasons.iter().any(|reason| it["reason"] == **reason));
    let is_one_of = |reasons: &[&str]| reasons.iter().any(|reason| ready["reason"] == **reason);
    let (errors, failures) = (["Error", "Conflict"], ["Failure"]);
    let is_worst = match (are_among(&errors), are_among(&failures)) {
        (true, _) => is_one_of(&errors),
        (false, true) => is_one_of(&failures),
        (false, false) => true,
    };
    if unmet.is_empty() { ready["status"] == "True" } else { is_worst && unmet.iter().any(is_repeated) }
}
