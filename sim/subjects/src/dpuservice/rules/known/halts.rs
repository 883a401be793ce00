//! The condition `RolledOut` says rightly whether a rollout goes on.

use std::collections::BTreeMap;

use lockstep_dpuservice::names::{condition, reason};
use lockstep_engine::object::{Name, is_deleting};
use lockstep_sim::conditions;
use lockstep_sim::invariant::Moment;
use serde_json::{Value, json};

use super::super::super::desired::wrong_values;
use super::super::super::setup::connected_server;
use super::super::rollout::limit;
use super::member::Member;
use crate::passes::Pass;

/// The version that users write into an Application.
const THEIRS: &str = "9.9.9";

/// Returns what is wrong with the condition that a pass has left. Details of the access to clusters are not compared.
pub(super) fn wrong_halt(
    moment: &Moment<'_>,
    pass: &Pass<'_>,
    members: &BTreeMap<String, Member<'_>>,
) -> Option<String> {
    let service = pass.stored;
    let found = pass.condition(condition::ROLLED_OUT)?;
    let access = [condition::CLUSTER_SECRETS_RECONCILED, condition::APP_PROJECT_RECONCILED];
    if service["spec"]["paused"] == true || !access.iter().all(|it| conditions::is(service, it, "True")) {
        return None;
    }
    let limit = limit(service, members.len() as u64)?;
    let canaries = service["spec"]["rollout"]["canaries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let staying: Vec<(&Member<'_>, &Value)> = members
        .values()
        .filter_map(|member| Some((member, member.application?)))
        .filter(|(_, application)| !is_deleting(application))
        .collect();
    let is_canary = |(member, _): &&(&Member<'_>, &Value)| {
        canaries.contains(&json!(Name::of(member.cluster).to_string()))
    };
    let may_have_failed =
        |(member, _): &&(&Member<'_>, &Value)| !member.is_ready() || member.has_failed() != Some(false);
    let suspects = staying.iter().filter(may_have_failed).count() as u64;
    let has_failed = |(member, application): &&(&Member<'_>, &Value)| {
        let is_failure = member.has_failed() == Some(true) && member.is_compared();
        let is_bad = !member.is_ready() || (is_failure && member.is_well() == Some(false));
        is_bad && has_spec(service, application)
    };
    let waits = |(member, application): &&(&Member<'_>, &Value)| {
        is_outdated(service, application)
            && member.is_well() == Some(true)
            && connected_server(moment.server, member.cluster)
                .is_some_and(|server| application["spec"]["destination"]["server"] == server)
    };
    let message = found["message"].as_str().unwrap_or_default();
    let why = match found["reason"].as_str()? {
        reason::ALL_CLUSTERS_CHANGED => {
            let left = staying.iter().find(|(_, application)| is_outdated(service, application));
            let left = left.map(|(member, _)| format!("{} has another version", Name::of(member.cluster)));
            let mut without = members.values().filter(|member| member.application.is_none());
            left.or_else(|| Some(format!("{} has no Application", Name::of(without.next()?.cluster))))
        }
        reason::HALTED if message.contains("spec.rollout.maxUnavailable") => {
            (suspects < limit).then(|| format!("only {suspects} of at most {limit} clusters may have failed"))
        }
        reason::HALTED if message.contains("none of the clusters") => {
            let canary = staying.iter().find(is_canary);
            canary.map(|(member, _)| format!("{} is a canary", Name::of(member.cluster)))
        }
        reason::HALTED => {
            let mut failed = staying.iter().filter(is_canary).filter(may_have_failed);
            failed.next().is_none().then(|| "no canary has failed".to_owned())
        }
        reason::ROLLING_OUT if canaries.is_empty() => {
            let failed = staying.iter().filter(has_failed).count() as u64;
            let waiting = staying.iter().find(waits).filter(|_| failed >= limit);
            waiting.map(|(member, _)| {
                format!("{failed} clusters have failed, and {} waits for them", Name::of(member.cluster))
            })
        }
        _ => None,
    };
    why.map(|why| format!("{}: {why}, and {found}", pass.object))
}

/// Returns whether an Application has what the spec of its service sets.
fn has_spec(service: &Value, application: &Value) -> bool {
    let (wanted, source) = (&service["spec"]["source"], &application["spec"]["source"]);
    let fields = [("version", "targetRevision"), ("chart", "chart"), ("repoURL", "repoURL")];
    fields.iter().all(|(of_service, it)| wanted[*of_service] == source[*it])
        && wrong_values(service, &source["helm"]["valuesObject"]).is_none()
}

/// Returns whether an Application has another version, which its controller wrote.
fn is_outdated(service: &Value, application: &Value) -> bool {
    let version = &application["spec"]["source"]["targetRevision"];
    *version != service["spec"]["source"]["version"] && *version != THEIRS
}
