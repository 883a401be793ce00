//! The status of a service: Argo CD's reports for each cluster, and the conditions that summarize them.
//!
//! Source: "Status", "Reconcile the status of the DPUService".

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::dpuservice::DPUServiceStatus;
use lockstep_engine::action::Failure;
use lockstep_engine::conditions::{self, Finding, Status};
use lockstep_engine::object::Name;
use lockstep_engine::time::Now;

mod clusters;
pub mod deletion;
mod findings;
mod text;

use findings::Seen;
use text::unwatched;

use crate::model::application::App;
use crate::model::service::{Service, service_ref};
use crate::names::{condition, reason};
use crate::rollout::{paused, rolled_out, withheld};
use crate::source::Source;
use crate::store::Store;

/// Returns the desired status, and the conditions that it changes. The failures are those of writes, by cluster. The contested
/// clusters have an Application that differs although it was applied.
pub fn wanted(
    store: &Store,
    key: &Name,
    service: &Service,
    failures: &BTreeMap<Name, Failure>,
    contested: &BTreeSet<Name>,
    now: Now,
) -> (DPUServiceStatus, Vec<Condition>) {
    let mut status = service.status.clone();
    status.observed_generation = service.generation;
    if let Some(finding) = unreadable(service) {
        let changed = conditions::set(&mut status.conditions, finding, service.generation, now);
        return (status, changed.into_iter().collect());
    }
    let apps = apps(store, key);
    let withheld = service.spec.as_ref().map(|spec| withheld(store, key, spec, failures)).unwrap_or_default();
    let fought_over = store.repairs.contested(&service_ref(key), now).map(|(cluster, _)| cluster).collect();
    let seen = Seen { store, service, apps: &apps, failures, contested, fought_over, withheld };
    let findings = [seen.clusters(), seen.secrets(), seen.project(), seen.reconciled(), seen.ready()];
    let mut findings: Vec<Finding> = findings.into_iter().map(|finding| judged(store, finding)).collect();
    findings.push(blind(store).unwrap_or_else(|| summary(&findings)));
    findings.extend(of_change(&mut status, store, key, service, failures));
    let set = |finding| conditions::set(&mut status.conditions, finding, service.generation, now);
    let changed = findings.into_iter().filter_map(set).collect();
    // The last known reports are kept while newer ones can't be known.
    if ROLLOUT.iter().all(|source| !store.refused.contains_key(source)) {
        clusters::roll_up(&mut status, store, &apps);
    }
    (status, changed)
}

/// Returns the conditions `Paused` and `RolledOut`, and removes those that do not apply. A rollout neither begins nor ends while
/// the service is paused.
fn of_change(
    status: &mut DPUServiceStatus,
    store: &Store,
    key: &Name,
    service: &Service,
    failures: &BTreeMap<Name, Failure>,
) -> Option<Finding> {
    if let Some(paused) = paused(service) {
        return Some(paused);
    }
    status.conditions.retain(|known| known.type_ != condition::PAUSED);
    let rolled_out = rolled_out(store, key, service, failures).map(|finding| judged(store, finding));
    if rolled_out.is_none() {
        status.conditions.retain(|known| known.type_ != condition::ROLLED_OUT);
    }
    rolled_out
}

/// The kinds that Argo CD's reports for each cluster depend on.
const ROLLOUT: [Source; 2] = [Source::Clusters, Source::Applications];

/// Returns the finding, unless a kind that it depends on can't be watched: then it is unknown.
fn judged(store: &Store, finding: Finding) -> Finding {
    let sources: &[Source] = match finding.condition {
        condition::DPU_CLUSTERS_READY => &[Source::Clusters],
        condition::APPLICATIONS_READY => &ROLLOUT,
        // While any of them can't be watched, nothing is written.
        _ => &Source::ALL,
    };
    let refused = sources.iter().find_map(|source| Some((*source, store.refused.get(source)?)));
    match refused {
        None => finding,
        Some((source, failure)) => Finding {
            status: Status::Unknown,
            reason: reason::ERROR,
            message: unwatched(source, failure),
            ..finding
        },
    }
}

/// Returns the finding that a needed kind can't be watched: then nothing is changed, and that is reported.
fn blind(store: &Store) -> Option<Finding> {
    let (source, failure) = store.unwatchable_kind()?;
    let message = format!(
        "{}; install what defines them, or grant the permission. Until then everything stays as it is",
        unwatched(source, failure)
    );
    Some(Finding { condition: condition::READY, status: Status::Unknown, reason: reason::ERROR, message })
}

/// Returns the finding that the spec does not match its CRD: it is older than the CRD.
fn unreadable(service: &Service) -> Option<Finding> {
    let problem = service.spec.as_ref().err()?;
    let message = format!("the spec does not match the CRD ({problem}); correct the spec");
    Some(Finding {
        condition: condition::READY,
        status: Status::False,
        reason: reason::INVALID_SPEC,
        message,
    })
}

/// Returns the Applications of a service on clusters that stay, by cluster. If a cluster has several, it is the one that stays.
fn apps<'a>(store: &'a Store, key: &Name) -> BTreeMap<&'a Name, Option<&'a App>> {
    let by_cluster = store.by_cluster(key);
    let first = |cluster| by_cluster.get(cluster)?.first().map(|(_, app)| *app);
    store.staying().map(|(cluster, _)| (cluster, first(cluster))).collect()
}

/// Returns the summary: success, or the most important condition that does not hold.
fn summary(findings: &[Finding]) -> Finding {
    // A deleted project is effective until Argo CD removes its finalizer. Then it is re-created.
    let is_harmless = |finding: &Finding| {
        finding.condition == condition::APP_PROJECT_RECONCILED && finding.reason == reason::DELETION_PENDING
    };
    let unmet = findings.iter().filter(|finding| finding.status != Status::True && !is_harmless(finding));
    // Argo CD's own report is the most useful one if Argo CD can reach the cluster.
    let worst = unmet.min_by_key(|finding| match finding.reason {
        reason::CONFLICT | reason::ERROR => 0,
        reason::FAILURE => 1,
        reason::NO_DPU_CLUSTERS | reason::NOT_READY => 2,
        reason::DELETION_PENDING => 3,
        _ => 4,
    });
    let (status, reason, message) = match worst {
        None => (Status::True, reason::SUCCESS, "the service runs on every DPUCluster".to_owned()),
        Some(finding) => {
            let reason =
                if finding.reason == reason::NO_DPU_CLUSTERS { reason::PENDING } else { finding.reason };
            (Status::False, reason, format!("{}: {}", finding.condition, finding.message))
        }
    };
    Finding { condition: condition::READY, status, reason, message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{self, Fixture, cluster};

    #[test]
    fn of_several_applications_on_a_cluster_the_status_shows_the_oldest_that_is_not_deleted() {
        let mut fixture = Fixture::default();
        fixture.service(json!({})).cluster("c1", "Ready").cluster("c2", "Ready");
        for (name, second, is_deleted) in [("a", 3, false), ("b", 1, true), ("c", 2, false), ("d", 3, false)]
        {
            fixture.app(name, "c1", |object| {
                if is_deleted {
                    fixture::deleting(object);
                }
                object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{second}Z"));
            });
        }
        let on_no_cluster = fixture.app("e", "c3", |_| ());
        let apps = apps(&on_no_cluster.store, &fixture::service());
        let shown: Vec<_> =
            apps.into_iter().map(|(name, app)| (name, app.map(|app| app.uid.clone()))).collect();
        assert_eq!(shown, [(&cluster("c1"), Some("c".into())), (&cluster("c2"), None)]);
    }

    #[test]
    fn the_most_important_condition_is_the_summary() {
        let finding = |condition, reason| Finding::broken(condition, reason, String::new());
        let all = [
            finding(condition::APPLICATIONS_READY, reason::PENDING),
            finding(condition::APPLICATIONS_RECONCILED, reason::DELETION_PENDING),
            finding(condition::APPLICATIONS_READY, reason::NOT_READY),
            finding(condition::CLUSTER_SECRETS_RECONCILED, reason::FAILURE),
            finding(condition::APPLICATIONS_RECONCILED, reason::ERROR),
        ];
        for count in 1..=all.len() {
            let summary = summary(&all[..count]);
            assert_eq!((summary.status, summary.reason), (Status::False, all[count - 1].reason));
        }
        let leaving = finding(condition::APP_PROJECT_RECONCILED, reason::DELETION_PENDING);
        assert_eq!(
            summary(std::slice::from_ref(&leaving)).status,
            Status::True,
            "the project still permits everything"
        );
        assert_eq!(summary(&[leaving, all[1].clone()]).reason, reason::DELETION_PENDING);
        let none = summary(&[finding(condition::APPLICATIONS_RECONCILED, reason::NO_DPU_CLUSTERS)]);
        assert_eq!((none.status, none.reason), (Status::False, reason::PENDING));
    }
}
