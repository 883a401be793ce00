//! The status of a service: Argo CD's reports for each cluster, and the conditions that summarize them.
//!
//! Source: "Status", "Reconcile the status of the DPUService".

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::dpuservice::{DPUServiceStatus, Rollout};
use lockstep_engine::action::{Class, Failure};
use lockstep_engine::conditions::{self, Finding, Status};
use lockstep_engine::object::Name;
use lockstep_engine::time::Now;

use super::application::{App, of_service};
use super::cluster::GIVES_UP_AFTER;
use super::names::{condition, reason};
use super::report::{HISTORY_MAX, RESOURCES_MAX};
use super::service::{self, Pass};
use super::source::Source;
use super::values::{rounded, values};
use super::world::{Service, World};

/// The maximum number of objects in a status, over all clusters: some 250 bytes each, in an object that may have 1.5 MiB.
const RESOURCES_IN_ALL: usize = 2000;
/// The maximum number of deployments in a status, over all clusters.
const HISTORY_IN_ALL: usize = 1000;
/// The maximum size of a status, in bytes: an object may have 1.5 MiB.
const STATUS_MAX_BYTES: usize = 1024 * 1024;
/// The maximum number of clusters that a message names.
const NAMED_MAX: usize = 10;

/// Returns the desired status, and the conditions that it changes.
pub fn wanted(
    world: &World,
    key: &Name,
    service: &Service,
    pass: &Pass,
    now: Now,
) -> (DPUServiceStatus, Vec<Condition>) {
    let mut status = service.status.clone();
    status.observed_generation = service.generation;
    if let Some(finding) = unreadable(service) {
        let changed = conditions::set(&mut status.conditions, finding, service.generation, now);
        return (status, changed.into_iter().collect());
    }
    let apps = apps(world, key);
    let seen = Seen { world, service, apps: &apps, pass };
    let findings = [seen.clusters(), seen.secrets(), seen.project(), seen.reconciled(), seen.ready()];
    let mut findings: Vec<Finding> = findings.into_iter().map(|finding| judged(world, finding)).collect();
    findings.push(blind(world).unwrap_or_else(|| summary(&findings)));
    let set = |finding| conditions::set(&mut status.conditions, finding, service.generation, now);
    let changed = findings.into_iter().filter_map(set).collect();
    // The last known reports are kept while newer ones can't be known.
    if ROLLOUT.iter().all(|source| !world.refused.contains_key(source)) {
        roll_up(&mut status, world, &apps);
    }
    (status, changed)
}

/// The kinds that Argo CD's reports for each cluster depend on.
const ROLLOUT: [Source; 2] = [Source::Clusters, Source::Applications];

/// Returns the finding, unless a kind that it depends on can't be watched: then it is unknown.
fn judged(world: &World, finding: Finding) -> Finding {
    let sources: &[Source] = match finding.condition {
        condition::DPU_CLUSTERS_READY => &[Source::Clusters],
        condition::APPLICATIONS_READY => &ROLLOUT,
        // While any of them can't be watched, nothing is written.
        _ => &Source::ALL,
    };
    let refused = sources.iter().find_map(|source| Some((*source, world.refused.get(source)?)));
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

/// Returns which kind can't be watched, and why.
fn unwatched(source: Source, failure: &Failure) -> String {
    format!("{}s can't be watched ({})", source.kind().kind, failure.message)
}

/// Returns the status of a service that waits for the removal of its Applications.
pub fn awaiting_applications(
    world: &World,
    service: &Service,
    left: &[(Name, App)],
    failure: Option<&str>,
    now: Now,
) -> (DPUServiceStatus, Vec<Condition>) {
    let complaint = |(name, _): &&(Name, App)| {
        let conditions = &world.applications.get(name)?.report.conditions;
        let error = conditions.iter().find(|condition| condition.type_ == "DeletionError")?;
        // Argo CD keeps this condition after the problem is resolved.
        Some(format!("{} (last error, at {}: {})", name.name, error.last_transition_time, error.message))
    };
    let names = left.iter().map(|entry| complaint(&entry).unwrap_or_else(|| entry.0.name.clone()));
    let awaited = format!("waiting for Argo CD to remove {} Applications: {}", left.len(), list(names));
    let message = match failure {
        Some(failure) if left.is_empty() => format!("Applications can't be removed ({failure})"),
        Some(failure) => format!("Applications can't be removed ({failure}); {awaited}"),
        None => awaited,
    };
    let message = [Some(message), unseen(world)].into_iter().flatten().collect::<Vec<_>>().join("; ");
    going(service, &message, failure.is_some(), now)
}

/// Returns which kind can't be watched during a deletion, and the consequence.
fn unseen(world: &World) -> Option<String> {
    let (source, failure) = world.unwatchable_kind()?;
    if (source, failure.class) != (Source::Clusters, Class::NotFound) {
        return Some(unwatched(source, failure));
    }
    let follows = if world.is_wanted() {
        "as other DPUServices stay, nothing is given up: install the DPUCluster CRD, or delete them as well"
            .to_owned()
    } else {
        let minutes = GIVES_UP_AFTER.as_secs() / 60;
        format!("what Argo CD can't remove from them within {minutes} minutes is given up")
    };
    Some(format!("DPUClusters are not served here, so they count as gone; {follows}"))
}

/// Returns the status of the last service, which waits for the removal of the shared objects.
pub fn awaiting_shared(world: &World, service: &Service, now: Now) -> (DPUServiceStatus, Vec<Condition>) {
    let project = world.project().map(|_| "the AppProject".to_owned());
    let secrets =
        world.told_clusters().map(|cluster| format!("Argo CD's Secret of {}", world.title(cluster)));
    let is_left = |name: &Name| {
        world.secrets.get(name).is_some_and(|secret| secret.cluster.is_some() && !secret.deleting)
            || (*name == super::project::name()
                && world.project().is_some_and(|project| project.is_ours && !project.deleting))
    };
    let awaited =
        format!("waiting for what services have shared to go: {}", list(project.into_iter().chain(secrets)));
    let refused = world.irremovable.iter().filter(|(name, _)| is_left(name));
    let refused = refused.map(|(name, failure)| format!("{name} ({failure})"));
    let refused = list(refused);
    if refused.is_empty() {
        return going(service, &awaited, false, now);
    }
    going(service, &format!("{awaited}; these can't be removed: {refused}"), true, now)
}

fn going(service: &Service, message: &str, failed: bool, now: Now) -> (DPUServiceStatus, Vec<Condition>) {
    let mut status = service.status.clone();
    status.observed_generation = service.generation;
    let reason = if failed { reason::ERROR } else { reason::AWAITING_DELETION };
    let finding = |condition: &'static str| Finding {
        condition,
        status: Status::False,
        reason,
        message: message.to_owned(),
    };
    let findings = [finding(condition::APPLICATIONS_RECONCILED), finding(condition::READY)];
    let set = |finding| conditions::set(&mut status.conditions, finding, service.generation, now);
    let changed = findings.into_iter().filter_map(set).collect();
    (status, changed)
}

/// Returns the finding that a needed kind can't be watched: then nothing is changed, and that is reported.
fn blind(world: &World) -> Option<Finding> {
    let (source, failure) = world.unwatchable_kind()?;
    let message = format!(
        "{}; install what defines them, or grant the permission. Until then everything stays as it is",
        unwatched(source, failure)
    );
    Some(Finding { condition: condition::READY, status: Status::Unknown, reason: reason::ERROR, message })
}

/// Returns the finding that the spec does not match its CRD: it is older than the CRD.
fn unreadable(service: &Service) -> Option<Finding> {
    let problem = service.spec.as_ref().err()?;
    let message = format!("the spec can't be read ({problem}); write it anew as the definition demands");
    Some(Finding {
        condition: condition::READY,
        status: Status::False,
        reason: reason::INVALID_SPEC,
        message,
    })
}

/// Returns the Applications of a service on clusters that stay, by cluster.
fn apps<'a>(world: &'a World, key: &Name) -> BTreeMap<&'a Name, Option<&'a App>> {
    let mut apps: BTreeMap<&Name, Option<&App>> =
        world.staying().map(|(cluster, _)| (cluster, None)).collect();
    for (_, app) in of_service(world, key) {
        if let Some(entry) = apps.get_mut(&app.cluster) {
            let is_first = entry.is_none_or(|other| app.created < other.created);
            if is_first {
                *entry = Some(app);
            }
        }
    }
    apps
}

/// The input of the conditions.
struct Seen<'a> {
    world: &'a World,
    service: &'a Service,
    apps: &'a BTreeMap<&'a Name, Option<&'a App>>,
    pass: &'a Pass,
}

impl Seen<'_> {
    fn clusters(&self) -> Finding {
        let finding = |status, reason, message| Finding {
            condition: condition::DPU_CLUSTERS_READY,
            status,
            reason,
            message,
        };
        let all = self.apps.len();
        let unready: Vec<String> = self
            .world
            .staying()
            .filter(|(_, cluster)| !cluster.is_ready())
            .map(|(name, cluster)| {
                let state =
                    format!("{} ({} since {}", self.world.title(name), cluster.phase, cluster.unready_since);
                match cluster.message.as_str() {
                    "" => format!("{state})"),
                    why => format!("{state}: {why})"),
                }
            })
            .collect();
        if all == 0 {
            let message = "there is no DPUCluster yet".to_owned();
            return finding(Status::False, reason::NO_DPU_CLUSTERS, message);
        }
        if unready.is_empty() {
            return finding(Status::True, reason::SUCCESS, format!("all {all} DPUClusters are ready"));
        }
        let message = format!(
            "{} of {all} DPUClusters are not ready: {}",
            unready.len(),
            list(unready.iter().cloned())
        );
        finding(Status::False, reason::NOT_READY, message)
    }

    fn secrets(&self) -> Finding {
        let finding = |status, reason, message| Finding {
            condition: condition::CLUSTER_SECRETS_RECONCILED,
            status,
            reason,
            message,
        };
        let (mut troubles, mut missing) = (Vec::new(), Vec::new());
        for cluster in self.apps.keys() {
            let title = self.world.title(cluster);
            match self.world.found.get(*cluster).and_then(|found| found.trouble.as_ref()) {
                Some(trouble) if trouble.passes => missing.push(format!("{title} ({})", trouble.words)),
                Some(trouble) => troubles.push(format!("{title}: {}", trouble.words)),
                None if self.world.argo_secret(cluster).is_none() => missing.push(title),
                None => {}
            }
        }
        if troubles.is_empty() && missing.is_empty() {
            let message = format!("Argo CD has the Secrets of {} clusters", self.apps.len());
            return finding(Status::True, reason::SUCCESS, message);
        }
        if troubles.is_empty() {
            let message =
                format!("Argo CD does not have the Secrets of these yet: {}", list(missing.into_iter()));
            return finding(Status::False, reason::PENDING, message);
        }
        let message =
            format!("{} of {} clusters: {}", troubles.len(), self.apps.len(), list(troubles.iter().cloned()));
        finding(Status::False, reason::ERROR, message)
    }

    fn project(&self) -> Finding {
        let finding = |status, reason, message: &str| Finding {
            condition: condition::APP_PROJECT_RECONCILED,
            status,
            reason,
            message: message.to_owned(),
        };
        if let Some(failure) = &self.world.project_failure {
            let message = format!("the AppProject can't be written ({})", failure.message);
            return finding(Status::False, reason::ERROR, &message);
        }
        match self.world.project() {
            None => finding(Status::False, reason::PENDING, "the AppProject does not exist yet"),
            Some(project) if !project.is_ours => {
                let message = format!(
                    "AppProject {} is not the controller's own and is left alone, so that nothing is deployed; it may be removed once no Application names it",
                    super::project::name()
                );
                finding(Status::False, reason::CONFLICT, &message)
            }
            Some(project) if project.deleting => finding(
                Status::False,
                reason::AWAITING_DELETION,
                "the AppProject was deleted; Argo CD keeps it as long as an Application names it, and then it is made anew",
            ),
            Some(project) => {
                let is_barred = |cluster: &Name| {
                    self.world.server(cluster).is_some_and(|server| !project.servers.contains(server))
                };
                let barred = self.apps.keys().filter(|cluster| is_barred(cluster));
                let barred = list(barred.map(|cluster| self.world.title(cluster)));
                if barred.is_empty() {
                    let message = "the AppProject permits every cluster that can be reached";
                    return finding(Status::True, reason::SUCCESS, message);
                }
                let message = format!("the AppProject does not permit these yet: {barred}");
                finding(Status::False, reason::PENDING, &message)
            }
        }
    }

    fn reconciled(&self) -> Finding {
        let finding = |status, reason, message| Finding {
            condition: condition::APPLICATIONS_RECONCILED,
            status,
            reason,
            message,
        };
        let failures: Vec<String> = self
            .pass
            .refusals()
            .map(|(cluster, failure)| format!("{} ({})", self.world.title(cluster), failure.message))
            .collect();
        if !failures.is_empty() {
            let message = format!(
                "{} Applications can't be written: {}",
                failures.len(),
                list(failures.iter().cloned())
            );
            return finding(Status::False, reason::ERROR, message);
        }
        let waiting: Vec<String> =
            self.apps.iter().filter_map(|(cluster, app)| self.waits(cluster, *app)).collect();
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
            list(waiting.iter().cloned())
        );
        finding(Status::False, reason::PENDING, message)
    }

    /// Returns why the Application of a cluster is not in its desired state.
    fn waits(&self, cluster: &Name, app: Option<&App>) -> Option<String> {
        let title = self.world.title(cluster);
        match (app, service::server(self.world, cluster, app)) {
            (Some(app), _) if app.deleting => {
                Some(format!("{title} (its Application is being deleted, and made anew when it is gone)"))
            }
            (_, None) => Some(format!("{title} (waiting for a kubeconfig that can be used)")),
            (_, Some(server)) if !service::is_prepared(self.world, cluster, server) => {
                Some(format!("{title} (waiting for its Secret and the AppProject)"))
            }
            (app, Some(_)) => match self.pass.transient_failure(cluster) {
                Some(failure) => Some(format!("{title} (not written yet: {})", failure.message)),
                None => app.is_none().then(|| format!("{title} (no Application yet)")),
            },
        }
    }

    fn ready(&self) -> Finding {
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
            let stale = self.apps.iter().filter(|(cluster, _)| is_stale(self.world, cluster));
            let stale = list(stale.map(|(cluster, _)| self.world.title(cluster)));
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
            let words = match app {
                None => "no Application".to_owned(),
                Some(app) if app.deleting => "being deleted".to_owned(),
                Some(app) if !app.is_current() => "Argo CD has not looked at the change yet".to_owned(),
                Some(app) => app.words(),
            };
            (self.world.title(cluster), words)
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

/// Returns the summary: success, or the most important condition that does not hold.
fn summary(findings: &[Finding]) -> Finding {
    // A deleted project is effective until Argo CD removes its finalizer. Then it is re-created.
    let is_harmless = |finding: &Finding| {
        finding.condition == condition::APP_PROJECT_RECONCILED && finding.reason == reason::AWAITING_DELETION
    };
    let unmet = findings.iter().filter(|finding| finding.status != Status::True && !is_harmless(finding));
    // Argo CD's own report is the most useful one if Argo CD can reach the cluster.
    let worst = unmet.min_by_key(|finding| match finding.reason {
        reason::CONFLICT | reason::ERROR => 0,
        reason::FAILURE => 1,
        reason::NO_DPU_CLUSTERS | reason::NOT_READY => 2,
        reason::AWAITING_DELETION => 3,
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

/// Sets Argo CD's reports for each cluster, in bounded size.
fn roll_up(status: &mut DPUServiceStatus, world: &World, apps: &BTreeMap<&Name, Option<&App>>) {
    let resources = RESOURCES_MAX.min(RESOURCES_IN_ALL / apps.len().max(1));
    let history = HISTORY_MAX.min(HISTORY_IN_ALL / apps.len().max(1));
    let before = std::mem::take(status);
    status.observed_generation = before.observed_generation;
    status.conditions = before.conditions;
    for (cluster, app) in apps {
        let Some(report) = app.map(|app| &app.report) else { continue };
        let title = world.title(cluster);
        let few = |list: &[serde_json::Value], most: usize| -> Option<Vec<serde_json::Value>> {
            Some(list[list.len().saturating_sub(most)..].to_vec()).filter(|list| !list.is_empty())
        };
        let first: Vec<_> = report.resources.iter().take(resources).cloned().collect();
        enter(&mut status.resources, &title, Some(first).filter(|list| !list.is_empty()));
        enter(&mut status.sync, &title, report.sync.clone());
        enter(&mut status.health, &title, report.health.clone());
        enter(&mut status.history, &title, few(&report.history, history));
        let conditions = Some(report.conditions.clone()).filter(|conditions| !conditions.is_empty());
        enter(&mut status.application_conditions, &title, conditions);
        enter(&mut status.reconciled_at, &title, report.reconciled_at.clone());
        enter(&mut status.operation_state, &title, report.operation_state.clone());
        enter(&mut status.source_type, &title, report.source_type.clone());
        enter(&mut status.summary, &title, report.summary.clone());
    }
    status.rollout = Some(rollout(world, apps));
    shrink(status);
}

/// Removes the least important values, until the API server can store the rest.
fn shrink(status: &mut DPUServiceStatus) {
    let steps: [fn(&mut DPUServiceStatus); 5] = [
        |status| status.history.clear(),
        |status| status.resources.clear(),
        |status| status.summary.clear(),
        |status| status.operation_state.clear(),
        |status| status.application_conditions.clear(),
    ];
    for step in steps {
        if serde_json::to_string(status).map_or(0, |text| text.len()) <= STATUS_MAX_BYTES {
            return;
        }
        step(status);
    }
}

fn enter<T>(map: &mut BTreeMap<String, T>, title: &str, value: Option<T>) {
    if let Some(value) = value {
        map.insert(title.to_owned(), value);
    }
}

/// From best to worst.
const SYNC: [&str; 3] = ["Synced", "OutOfSync", "Unknown"];
/// From best to worst.
const HEALTH: [&str; 6] = ["Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown"];

/// Returns whether Argo CD's report about a cluster may be stale: it repeats the last one while the cluster does not answer.
fn is_stale(world: &World, cluster: &Name) -> bool {
    world.clusters.get(cluster).is_some_and(|cluster| !cluster.is_ready())
}

fn rollout(world: &World, apps: &BTreeMap<&Name, Option<&App>>) -> Rollout {
    let worst = |order: &[&str], of: &dyn Fn(&App) -> Option<String>, missing: &str| {
        let ranks = apps.values().map(|app| {
            let status =
                app.map_or_else(|| missing.to_owned(), |app| of(app).unwrap_or_else(|| "Unknown".to_owned()));
            order.iter().position(|known| *known == status).unwrap_or(order.len() - 1)
        });
        ranks.max().map_or_else(String::new, |rank| order[rank].to_owned())
    };
    let well =
        apps.iter().filter(|(cluster, app)| app.is_some_and(App::is_well) && !is_stale(world, cluster));
    let well = well.count();
    let reported = apps.iter().filter(|(_, app)| app.is_some_and(|app| app.report.sync.is_some()));
    let unready = reported.filter_map(|(name, _)| {
        let cluster = world.clusters.get(name).filter(|cluster| !cluster.is_ready())?;
        Some((world.title(name), cluster.unready_since.clone()))
    });
    Rollout {
        stale_since: unready.collect(),
        sync: worst(&SYNC, &|app| Some(app.report.sync.as_ref()?.status.clone()), "OutOfSync"),
        health: worst(&HEALTH, &|app| Some(app.report.health.as_ref()?.status.clone()), "Missing"),
        clusters: format!("{well}/{}", apps.len()),
    }
}

/// Returns clusters with their messages. Clusters with the same message are grouped.
fn grouped(clusters: impl Iterator<Item = (String, String)>) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (title, words) in clusters {
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, titles)) => titles.push(title),
            None => groups.push((words, vec![title])),
        }
    }
    list(groups.into_iter().map(|(words, mut titles)| {
        let more = titles.len().saturating_sub(NAMED_MAX);
        titles.truncate(NAMED_MAX);
        if more > 0 {
            titles.push(format!("{more} more"));
        }
        format!("{} ({words})", titles.join(", "))
    }))
}

/// Returns the first few items as text, with the number of the others.
fn list(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    let more = items.len().saturating_sub(NAMED_MAX);
    items.truncate(NAMED_MAX);
    if more > 0 {
        items.push(format!("and {more} more"));
    }
    items.join("; ")
}
