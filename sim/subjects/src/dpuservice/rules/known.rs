//! The status of a service repeats what DPUClusters and Applications report, as soon as the process knows that.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_dpuservice::names::{self, condition};
use lockstep_engine::action::{Action, KubeRequest, Subresource};
use lockstep_engine::machine::Event;
use lockstep_engine::object::{Kind, Name, ObjectRef, generation, is_deleting, metadata};
use lockstep_sim::cluster::What;
use lockstep_sim::conditions;
use lockstep_sim::invariant::Moment;
use serde_json::{Value, json};

use self::member::Member;
use super::super::{identity, setup};
use super::rollout::known_state;
use crate::passes::{Pass, first, successful};

mod halts;
mod member;

/// With this many clusters a message says something about each.
const NAMED: usize = 10;
/// From best to worst.
const SYNC: [&str; 3] = ["Synced", "OutOfSync", "Unknown"];
/// From best to worst.
const HEALTH: [&str; 6] = ["Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown"];

pub(super) fn the_status_repeats_the_reports(moment: &Moment<'_>) -> Result<(), String> {
    let passes = successful(moment).filter(|pass| has_written(moment, pass));
    first(passes.filter_map(|pass| {
        let members = members(moment, &pass)?;
        let wrong = Wrong { pass: &pass, members: &members };
        let status = &pass.stored["status"];
        wrong
            .reports(status)
            .or_else(|| wrong.rollout(&status["rollout"]))
            .or_else(|| wrong.conditions())
            .or_else(|| halts::wrong_halt(moment, &pass, &members))
    }))
}

/// Returns whether a pass over a service ends with the answer to the write of its status.
fn has_written(moment: &Moment<'_>, pass: &Pass<'_>) -> bool {
    let What::Stepped { event: Event::Finished { id, outcome: Ok(_) }, .. } = &moment.entry.what else {
        return false;
    };
    // The next pass over the service may begin, and end, in the same step.
    pass.object.kind == names::service()
        && pass.began < moment.entry.at
        && pass.state.open.get(&id.0).is_some_and(|request| match &request.action {
            Action::Kube(KubeRequest::Patch { target, subresource: Some(Subresource::Status), .. }) => {
                target == pass.object
            }
            _ => false,
        })
}

/// Returns the clusters of a service by their title; none unless the process has known the present state of all DPUClusters and
/// Applications since before the pass.
fn members<'a>(moment: &Moment<'_>, pass: &Pass<'a>) -> Option<BTreeMap<String, Member<'a>>> {
    let can_watch = setup::watched().iter().all(|kind| pass.is_watched(kind));
    if !can_watch || generation(pass.observed) != generation(pass.stored) {
        return None;
    }
    let clusters = known(moment, pass, &names::dpu_cluster())?;
    let mut applications = known(moment, pass, &names::application())?;
    // If there are several for a cluster, the oldest stays, and the others are removed.
    applications.sort_by_key(|it| (is_deleting(it), metadata(it, "creationTimestamp"), metadata(it, "name")));
    let service = Name::of(pass.stored);
    let mut members = BTreeMap::new();
    for cluster in clusters.iter().filter(|it| !is_deleting(it)) {
        let name = Name::of(cluster);
        let title = identity::title(&name, clusters.iter().copied());
        let of = Some((service.clone(), name));
        let application = applications.iter().find(|it| identity::of_application(it) == of).copied();
        members.insert(title, Member { cluster, application });
    }
    Some(members)
}

/// Returns all objects of a kind; none unless the process has known their present state since before a pass.
fn known<'a>(moment: &Moment<'_>, pass: &Pass<'a>, kind: &Kind) -> Option<Vec<&'a Value>> {
    let (state, existing) = (pass.state, moment.server.objects(kind));
    let observed: Vec<_> = state.observed.iter().filter(|(target, _)| *target.kind == *kind).collect();
    let changes = state.previous.iter().filter(|(target, _)| *target.kind == *kind);
    let is_settled = changes.map(|(_, (until, _))| until).all(|until| *until < pass.began)
        && observed.len() == existing.len();
    let is_current = |(target, _): &(&ObjectRef, &Arc<Value>)| {
        let is_old = state.generations.get(target).is_some_and(|(_, at)| *at < pass.began);
        is_old && known_state(moment, state, target).is_some()
    };
    (is_settled && observed.iter().all(is_current))
        .then(|| observed.into_iter().map(|(_, it)| &**it).collect())
}

/// Finds wrong statements in the status that a pass has left.
struct Wrong<'a> {
    pass: &'a Pass<'a>,
    members: &'a BTreeMap<String, Member<'a>>,
}

impl Wrong<'_> {
    fn differs(&self, what: &str, said: &Value, wanted: &Value) -> Option<String> {
        (said != wanted)
            .then(|| format!("the {what} of {} is {said}, and should be {wanted}", self.pass.object))
    }

    /// Returns a map with an entry for each cluster that has one.
    fn each<T: Into<Value>>(&self, value: impl Fn(&Member<'_>) -> Option<T>) -> Value {
        let entries =
            self.members.iter().filter_map(|(title, member)| Some((title.clone(), value(member)?.into())));
        Value::Object(entries.collect())
    }

    /// Compares the maps with an entry for each cluster.
    fn reports(&self, status: &Value) -> Option<String> {
        for (field, pointer) in [("sync", "/status/sync"), ("health", "/status/health")] {
            let wanted = self.each(|member| member.report(pointer).map(|it| it["status"].clone()));
            let said = entries(&status[field], |it| it["status"].clone());
            if let Some(wrong) = self.differs(field, &said, &wanted) {
                return Some(wrong);
            }
        }
        for field in ["resources", "history"] {
            let count =
                |list: &Value| list.as_array().map(Vec::len).filter(|count| *count > 0 && *count <= 10);
            let wanted = self.each(|member| count(member.report(&format!("/status/{field}"))?));
            let said = entries(&status[field], |it| count(it).into());
            let is_small = wanted.as_object().is_some_and(|it| it.len() == self.members.len());
            if let Some(wrong) = self.differs(field, &said, &wanted).filter(|_| is_small) {
                return Some(wrong);
            }
        }
        None
    }

    /// Compares the summary of all clusters.
    fn rollout(&self, rollout: &Value) -> Option<String> {
        let worst = |order: &[&str], pointer: &str, missing: &str| {
            let ranks = self.members.values().map(|member| {
                let unknown = if member.application.is_some() { "Unknown" } else { missing };
                let status = member.report(pointer).and_then(Value::as_str).unwrap_or(unknown);
                order.iter().position(|known| *known == status).unwrap_or(order.len() - 1)
            });
            ranks.max().map(|rank| json!(order[rank])).unwrap_or_default()
        };
        let stale = self.each(|member| {
            member.report("/status/sync").filter(|_| !member.is_ready())?;
            let ready = conditions::find(member.cluster, "Ready").filter(|ready| ready["status"] != "True");
            let mut all = member.cluster["status"]["conditions"].as_array().into_iter().flatten();
            let cause = ready.or_else(|| all.find(|it| it["status"] == "False"));
            let since = cause
                .map_or(&member.cluster["metadata"]["creationTimestamp"], |it| &it["lastTransitionTime"]);
            Some(since.clone())
        });
        let stale = if stale == json!({}) { Value::Null } else { stale };
        self.differs("rollout.sync", &rollout["sync"], &worst(&SYNC, "/status/sync/status", "OutOfSync"))
            .or_else(|| {
                self.differs(
                    "rollout.health",
                    &rollout["health"],
                    &worst(&HEALTH, "/status/health/status", "Missing"),
                )
            })
            .or_else(|| self.differs("rollout.staleSince", &rollout["staleSince"], &stale))
            .or_else(|| {
                let all = format!("{}/{}", self.well()?, self.members.len());
                self.differs("rollout.clusters", &rollout["clusters"], &json!(all))
            })
    }

    /// Returns how many Applications are well on clusters that are ready; none if that is a matter of details.
    fn well(&self) -> Option<usize> {
        let well: Option<Vec<bool>> = self.members.values().map(Member::is_well).collect();
        Some(well?.into_iter().filter(|is_well| *is_well).count())
    }

    /// Compares the conditions about DPUClusters and Applications.
    fn conditions(&self) -> Option<String> {
        let all = self.members.len();
        let unready: Vec<&String> =
            self.members.iter().filter(|(_, member)| !member.is_ready()).map(|(title, _)| title).collect();
        let (reason, words) = match (all, unready.len()) {
            (0, _) => ("NoDPUClusters", "there is no DPUCluster yet".to_owned()),
            (1, 0) => ("Success", "the DPUCluster is ready".to_owned()),
            (all, 0) => ("Success", format!("all {all} DPUClusters are ready")),
            (all, unready) => ("NotReady", format!("{unready} of {all} DPUClusters are not ready: ")),
        };
        self.says(condition::DPU_CLUSTERS_READY, reason, &words, &unready).or_else(|| {
            let well = self.well().filter(|_| unready.is_empty())?;
            let (is_well, words) = match all - well {
                0 => (true, format!("{all} Applications are synced and healthy")),
                _ => (false, format!("{well} of {all} Applications are synced and healthy; not: ")),
            };
            let of_them = || self.members.iter().filter(|(_, member)| member.is_well() != Some(true));
            let titles: Vec<&String> = of_them().map(|(title, _)| title).collect();
            let found = self.pass.condition(condition::APPLICATIONS_READY)?;
            let failures: Vec<Option<bool>> = of_them().map(|(_, member)| member.has_failed()).collect();
            let reason = if is_well {
                "Success"
            } else if failures.contains(&Some(true)) {
                "Failure"
            } else if failures.contains(&None) {
                found["reason"].as_str().unwrap_or_default()
            } else {
                "Pending"
            };
            self.says(condition::APPLICATIONS_READY, reason, &words, &titles).or_else(|| {
                let message = found["message"].as_str().unwrap_or_default();
                let all_words = of_them().flat_map(|(_, member)| member.words());
                let mut omitted = all_words.filter(|words| titles.len() <= NAMED && !message.contains(words));
                omitted
                    .next()
                    .map(|words| format!("{} should say {words:?}, and says {found}", self.pass.object))
            })
        })
    }

    /// Checks that a condition has this reason, and a message that begins with these words and names these clusters.
    fn says(&self, name: &str, reason: &str, words: &str, titles: &[&String]) -> Option<String> {
        let found = self.pass.condition(name)?;
        let message = found["message"].as_str().unwrap_or_default();
        let is_so = found["status"] == if reason == "Success" { "True" } else { "False" }
            && found["reason"] == reason
            && message.starts_with(words)
            && titles.iter().all(|title| message.contains(title.as_str()));
        (!is_so)
            .then(|| format!("{} should say {reason}: {words}{titles:?}, and says {found}", self.pass.object))
    }
}

/// Returns a map of a status with another value for each entry.
fn entries(map: &Value, value: impl Fn(&Value) -> Value) -> Value {
    let entries = map.as_object().into_iter().flatten();
    Value::Object(entries.map(|(title, it)| (title.clone(), value(it))).collect())
}
