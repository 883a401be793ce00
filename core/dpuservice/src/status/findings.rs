//! The conditions of a service, except their summary.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_engine::action::Failure;
use lockstep_engine::conditions::{Finding, Status};
use lockstep_engine::object::Name;
use lockstep_engine::repair_backoff;

use super::clusters::is_stale;
use super::text::{ClusterMessage, grouped, list, state};
use crate::desired::values::{rounded, values};
use crate::destination;
use crate::model::application::App;
use crate::model::project;
use crate::model::service::Service;
use crate::names::{condition, reason};
use crate::rollout::Withheld;
use crate::store::Store;
use crate::store::repairs::DIFFERS;

/// The input of the conditions.
pub(super) struct Seen<'a> {
    pub(super) store: &'a Store,
    pub(super) service: &'a Service,
    pub(super) apps: &'a BTreeMap<&'a Name, Option<&'a App>>,
    /// The failures of writes, by cluster.
    pub(super) failures: &'a BTreeMap<Name, Failure>,
    /// The clusters with an Application that differs although it was applied.
    pub(super) contested: &'a BTreeSet<Name>,
    /// The clusters with an Application that was repaired several times in a row.
    pub(super) fought_over: BTreeSet<&'a Name>,
    /// The clusters with an Application that is not written now.
    pub(super) withheld: Withheld<'a>,
}

impl Seen<'_> {
    pub(super) fn clusters(&self) -> Finding {
        let finding = |status, reason, message| Finding {
            condition: condition::DPU_CLUSTERS_READY,
            status,
            reason,
            message,
        };
        let all = self.apps.len();
        let unready: Vec<ClusterMessage> = self
            .store
            .staying()
            .filter(|(_, cluster)| !cluster.is_ready())
            .map(|(name, cluster)| {
                let why = match cluster.message.as_str() {
                    "" => String::new(),
                    why => format!(": {why}"),
                };
                let message = format!("{} since {}{why}", cluster.phase, cluster.unready_since);
                // Clusters that one cause affects rarely become unready in the same second.
                let cause = format!("{}{why}", cluster.phase);
                ClusterMessage::new(self.store, name, message).with_cause(self.store, name, &cause)
            })
            .collect();
        if all == 0 {
            let message = "there is no DPUCluster yet".to_owned();
            return finding(Status::False, reason::NO_DPU_CLUSTERS, message);
        }
        if unready.is_empty() {
            let message = match all {
                1 => "the DPUCluster is ready".to_owned(),
                all => format!("all {all} DPUClusters are ready"),
            };
            return finding(Status::True, reason::SUCCESS, message);
        }
        let message =
            format!("{} of {all} DPUClusters are not ready: {}", unready.len(), grouped(unready.into_iter()));
        finding(Status::False, reason::NOT_READY, message)
    }

    pub(super) fn secrets(&self) -> Finding {
        let finding = |status, reason, message| Finding {
            condition: condition::CLUSTER_SECRETS_RECONCILED,
            status,
            reason,
            message,
        };
        let (mut problems, mut missing) = (Vec::new(), Vec::new());
        for cluster in self.apps.keys() {
            let entry = |message: &str| ClusterMessage::new(self.store, cluster, message.to_owned());
            match self.store.found.get(*cluster).and_then(|found| found.problem.as_ref()) {
                Some(problem) if problem.passes => missing.push(entry(&problem.message)),
                Some(problem) => problems.push(entry(&problem.message)),
                None if self.store.argo_secret(cluster).is_none() => missing.push(entry("")),
                None => {}
            }
        }
        if problems.is_empty() && missing.is_empty() {
            let message = format!("Argo CD has the Secrets of {} clusters", self.apps.len());
            return finding(Status::True, reason::SUCCESS, message);
        }
        if problems.is_empty() {
            let message =
                format!("Argo CD does not have the Secrets of these yet: {}", grouped(missing.into_iter()));
            return finding(Status::False, reason::PENDING, message);
        }
        let message =
            format!("{} of {} clusters: {}", problems.len(), self.apps.len(), grouped(problems.into_iter()));
        finding(Status::False, reason::ERROR, message)
    }

    pub(super) fn project(&self) -> Finding {
        let finding = |status, reason, message: &str| Finding {
            condition: condition::APP_PROJECT_RECONCILED,
            status,
            reason,
            message: message.to_owned(),
        };
        if let Some(failure) = &self.store.project_failure {
            let message = format!("the AppProject can't be written ({})", failure.message);
            return finding(Status::False, reason::ERROR, &message);
        }
        if let Some(problem) = &self.store.project_problem {
            let reason = if problem.passes { reason::PENDING } else { reason::ERROR };
            return finding(Status::False, reason, &format!("the AppProject: {}", problem.message));
        }
        match self.store.project() {
            None => finding(Status::False, reason::PENDING, "the AppProject does not exist yet"),
            Some(project) if !project.is_ours => {
                let message = format!(
                    "AppProject {} is not the controller's own and is left alone, so that nothing is deployed; it may be removed once no Application names it",
                    project::name()
                );
                finding(Status::False, reason::CONFLICT, &message)
            }
            Some(project) if project.deleting => finding(
                Status::False,
                reason::DELETION_PENDING,
                "the AppProject was deleted; Argo CD keeps it as long as an Application names it, then the controller creates it again",
            ),
            Some(project) => {
                let is_barred = |cluster: &Name| {
                    self.store.server(cluster).is_some_and(|server| !project.servers.contains(server))
                };
                let barred = self.apps.keys().filter(|cluster| is_barred(cluster));
                let barred = list(barred.map(|cluster| self.store.title(cluster)));
                if barred.is_empty() {
                    let message = "the AppProject permits every cluster that can be reached";
                    return finding(Status::True, reason::SUCCESS, message);
                }
                let message = format!("the AppProject does not permit these yet: {barred}");
                finding(Status::False, reason::PENDING, &message)
            }
        }
    }

    pub(super) fn reconciled(&self) -> Finding {
        let finding = |status, reason, message| Finding {
            condition: condition::APPLICATIONS_RECONCILED,
            status,
            reason,
            message,
        };
        let refusals = self.failures.iter().filter(|(_, failure)| !failure.passes());
        let failures: Vec<ClusterMessage> = refusals
            .map(|(cluster, failure)| ClusterMessage::new(self.store, cluster, failure.message.clone()))
            .collect();
        let fought_over: Vec<ClusterMessage> = self
            .fought_over
            .iter()
            .filter(|cluster| self.apps.contains_key(*cluster))
            .map(|cluster| ClusterMessage::new(self.store, cluster, repair_backoff::contested("it")))
            .collect();
        let problems = [("can't be written", failures), ("do not stay as the spec says", fought_over)];
        let problems = problems.into_iter().filter(|(_, clusters)| !clusters.is_empty());
        let problems: Vec<String> = problems
            .map(|(what, clusters)| {
                format!("{} Applications {what}: {}", clusters.len(), grouped(clusters.into_iter()))
            })
            .collect();
        if !problems.is_empty() {
            return finding(Status::False, reason::ERROR, problems.join("; "));
        }
        let waiting: Vec<ClusterMessage> = self
            .apps
            .iter()
            .filter_map(|(cluster, app)| {
                Some(ClusterMessage::new(self.store, cluster, self.waits(cluster, *app)?))
            })
            .collect();
        if waiting.is_empty() {
            let message = format!("{} Applications are as the spec says", self.apps.len());
            let rounded = self.service.spec.as_ref().map(|spec| rounded(&values(spec))).unwrap_or_default();
            if rounded.is_empty() {
                return finding(Status::True, reason::SUCCESS, message);
            }
            let message = format!(
                "{message}, but Argo CD rounds integers beyond 2^53 before the chart gets them; write these values in quotes: {}",
                list(rounded.into_iter())
            );
            return finding(Status::True, reason::VALUES_ROUNDED, message);
        }
        let message = format!(
            "{} of {} Applications: {}",
            waiting.len(),
            self.apps.len(),
            grouped(waiting.into_iter())
        );
        let reason = if self.service.is_paused() { reason::PAUSED } else { reason::PENDING };
        finding(Status::False, reason, message)
    }

    /// Returns why the Application of a cluster is not in its desired state.
    fn waits(&self, cluster: &Name, app: Option<&App>) -> Option<String> {
        match (app, destination::server(self.store, cluster, app)) {
            (Some(app), _) if app.deleting => {
                Some("its Application is being deleted, and will be created again".to_owned())
            }
            (_, None) => Some("waiting for a kubeconfig that can be used".to_owned()),
            (_, Some(server)) if !destination::is_prepared(self.store, cluster, server) => {
                Some("waiting for its Secret and the AppProject".to_owned())
            }
            (app, Some(_)) => match self.failures.get(cluster).filter(|failure| failure.passes()) {
                Some(failure) => Some(format!("not written yet: {}", failure.message)),
                None => match self.withheld.get(cluster) {
                    Some(why) => Some(why.to_string()),
                    None if app.is_none() => Some("no Application yet".to_owned()),
                    None => self.contested.contains(cluster).then(|| DIFFERS.to_owned()),
                },
            },
        }
    }

    pub(super) fn ready(&self) -> Finding {
        let finding = |status, reason, message| Finding {
            condition: condition::APPLICATIONS_READY,
            status,
            reason,
            message,
        };
        let unready: Vec<(&Name, Option<&App>)> = self
            .apps
            .iter()
            .filter(|(_, app)| !app.is_some_and(App::is_well))
            .map(|(cluster, app)| (*cluster, *app))
            .collect();
        if unready.is_empty() {
            let message = format!("{} Applications are synced and healthy", self.apps.len());
            let stale = self.apps.iter().filter(|(cluster, _)| is_stale(self.store, cluster));
            let stale = list(stale.map(|(cluster, _)| self.store.title(cluster)));
            let message = match &*stale {
                "" => message,
                stale => format!(
                    "{message}, as Argo CD saw them last; not ready, so that this may be stale: {stale}"
                ),
            };
            return finding(Status::True, reason::SUCCESS, message);
        }
        let has_failed = unready.iter().any(|(_, app)| app.is_some_and(App::has_failed));
        let names = unready.iter().map(|(cluster, app)| {
            let message = match app {
                None => "no Application".to_owned(),
                Some(app) if app.deleting => "being deleted".to_owned(),
                Some(app) if !app.is_current() => "Argo CD has not looked at the change yet".to_owned(),
                Some(app) => state(app, self.service.is_paused()),
            };
            ClusterMessage::new(self.store, cluster, message)
        });
        let message = format!(
            "{} of {} Applications are synced and healthy; not: {}",
            self.apps.len() - unready.len(),
            self.apps.len(),
            grouped(names)
        );
        finding(Status::False, if has_failed { reason::FAILURE } else { reason::PENDING }, message)
    }
}
