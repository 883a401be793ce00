//! Limits how many clusters of a service change at a time, and keeps a paused service as it is.
//!
//! Everything is derived from the Applications and DPUClusters that exist, so a new leader continues where the previous one
//! stopped. An Application has the change if its source is the one that the spec requires.
//!
//! | a cluster without the change | is changed |
//! | --- | --- |
//! | its Application or the last sync has failed, it was never applied, or it names an old server | at once: it can only get better |
//! | it is ready | while fewer clusters are not ready or in change than `maxUnavailable` permits |
//! | it was not ready before | after all others: it neither counts nor delays them |
//!
//! A cluster with an Application that the server refuses to write does not keep the others waiting: each pass tries it first, and then
//! gives its place to the next.
//!
//! While Argo CD can't compare, it reports Applications as healthy with an unknown sync status. These may work, so the limit holds
//! for them as well. They are changed before those that are synced, and do not count before their change: otherwise, if no
//! Application can be compared, the correction could not begin.
//!
//! A service may name canaries. Until they are ready with the change, no other cluster that had the service before is changed,
//! unless it is changed at once.
//!
//! Source: not in the specification, which changes all clusters at once (decisions 97 and 122).

use std::collections::{BTreeMap, BTreeSet};

use lockstep_crds::dpuservice::DPUServiceSpec;
use lockstep_engine::action::Failure;
use lockstep_engine::conditions::Finding;
use lockstep_engine::object::Name;

use crate::desired::application::manifest;
use crate::destination::{is_prepared, server};
use crate::model::application::App;
use crate::model::cluster::Cluster;
use crate::model::service::Service;
use crate::model::version::is_range;
use crate::names::{condition, reason};
use crate::store::Store;

/// The number of clusters that a message names.
const NAMED: usize = 3;

/// The failures of writes in a pass, by cluster.
type Failures = BTreeMap<Name, Failure>;

/// Why an Application is not written now.
pub type Withheld<'a> = BTreeMap<&'a Name, &'static str>;

const PAUSED: &str = "the service is paused";
const TURN: &str = "waiting for its turn in the rollout";
const CANARIES: &str = "waiting for spec.rollout.canaries";
const LAST: &str = "the cluster is not ready, so it is changed after the others";

/// One cluster that has an Application of a service.
struct Member<'a> {
    cluster: &'a Name,
    app: &'a App,
    /// Whether the Application has the change.
    is_changed: bool,
    /// Whether the cluster is ready and Argo CD has access to it.
    is_up: bool,
    /// Whether the Application is changed whatever the limit.
    is_free: bool,
}

impl<'a> Member<'a> {
    fn read(store: &'a Store, key: &Name, spec: &DPUServiceSpec, app: &'a App) -> Option<Self> {
        let cluster = &app.cluster;
        let server = server(store, cluster, Some(app))?;
        let is_up =
            is_prepared(store, cluster, server) && store.clusters.get(cluster).is_some_and(Cluster::is_ready);
        let is_moved = app.server() != Some(server);
        Some(Self {
            cluster,
            app,
            is_changed: app.was_applied(&manifest(key, spec, cluster, server)),
            is_up,
            is_free: !app.is_whole() || is_moved || (is_up && app.is_broken()),
        })
    }

    fn is_well(&self) -> bool {
        self.is_up && self.app.is_well()
    }

    /// Returns whether it counts as not ready or in change.
    fn counts(&self) -> bool {
        if self.is_changed { !self.is_well() } else { self.is_free }
    }

    /// Returns since when Argo CD reports the change as in progress. Pods that never start are reported in this way without end.
    fn progressing_since(&self) -> Option<&'a str> {
        let health = self.app.report.health.as_ref().filter(|health| health.status == "Progressing")?;
        let is_known = self.is_changed && self.app.is_current() && !health.last_transition_time.is_empty();
        is_known.then_some(&*health.last_transition_time)
    }

    /// Returns whether it is not ready for another reason than that Argo CD is at work on the change.
    fn has_failed(&self) -> bool {
        !self.is_up || (self.app.is_current() && self.app.has_failed())
    }
}

/// The rollout of a service that limits how many clusters change at a time.
struct Progress<'a> {
    limit: usize,
    canaries: BTreeSet<Name>,
    members: Vec<Member<'a>>,
    /// The clusters that have no Application, or one that is being deleted. They delay no other.
    without: Vec<&'a Name>,
    /// The clusters with an Application that the server has just refused to write.
    refused: BTreeSet<Name>,
}

impl<'a> Progress<'a> {
    fn read(store: &'a Store, key: &Name, spec: &DPUServiceSpec, failures: &Failures) -> Option<Self> {
        let rollout = spec.rollout.as_ref()?;
        let limit = rollout.limit(store.staying().count());
        let members = staying_apps(store, key).filter_map(|app| Member::read(store, key, spec, app));
        let members: Vec<Member<'_>> = members.collect();
        let served: BTreeSet<&Name> = members.iter().map(|member| member.cluster).collect();
        let without = store.staying().map(|(cluster, _)| cluster).filter(|cluster| !served.contains(cluster));
        let without = without.collect();
        let canaries = rollout.canaries.iter().filter_map(|canary| canary.split_once('/'));
        let canaries = canaries.map(|(namespace, name)| Name::new(namespace, name)).collect();
        let refused = failures.iter().filter(|(_, failure)| !failure.passes());
        let refused = refused.map(|(cluster, _)| cluster.clone()).collect();
        Some(Self { limit, canaries, members, without, refused })
    }

    fn is_canary(&self, member: &Member<'_>) -> bool {
        self.canaries.contains(member.cluster)
    }

    fn is_refused(&self, member: &Member<'_>) -> bool {
        self.refused.contains(member.cluster)
    }

    /// Returns the canaries that are not ready with the change.
    fn unproven(&self) -> impl Iterator<Item = &Member<'a>> {
        self.members
            .iter()
            .filter(|member| self.is_canary(member) && !(member.is_changed && member.is_well()))
    }

    /// Returns whether no other cluster than canaries may change now.
    fn is_for_canaries(&self) -> bool {
        let has_canary = self.members.iter().any(|member| self.is_canary(member));
        !self.canaries.is_empty() && (!has_canary || self.unproven().next().is_some())
    }

    fn counted(&self) -> impl Iterator<Item = &Member<'a>> {
        self.members.iter().filter(|member| member.counts())
    }

    /// Returns the clusters without the change that are subject to the limit.
    fn rest(&self) -> impl Iterator<Item = &Member<'a>> {
        self.members.iter().filter(|member| !member.is_changed && !member.is_free)
    }

    /// Returns the clusters that are not changed now.
    fn withheld(&self) -> Withheld<'a> {
        let places = self.limit.saturating_sub(self.counted().count());
        let is_for_canaries = self.is_for_canaries();
        let (rest, later): (Vec<&Member<'a>>, Vec<&Member<'a>>) =
            self.rest().partition(|member| self.is_canary(member) || !is_for_canaries);
        let (mut up, mut down): (Vec<&Member<'a>>, Vec<&Member<'a>>) =
            rest.into_iter().partition(|member| member.is_up);
        // Those that are not synced need a correction most. One that can't be written must not keep a place from others.
        up.sort_by_key(|member| (self.is_refused(member), member.is_well()));
        down.sort_by_key(|member| self.is_refused(member));
        let later_up = up.into_iter().skip(places);
        let mut withheld: Withheld<'a> = later_up.map(|member| (member.cluster, TURN)).collect();
        let up: Vec<&Member<'a>> = self.members.iter().filter(|member| member.is_up).collect();
        let is_proven = up.iter().all(|member| member.is_changed && member.is_well());
        let permitted = match (up.is_empty(), is_proven) {
            // No cluster can show whether the change is good.
            (true, _) => places,
            (false, true) => usize::MAX,
            (false, false) => 0,
        };
        withheld.extend(down.into_iter().skip(permitted).map(|member| (member.cluster, LAST)));
        withheld.extend(later.iter().map(|member| (member.cluster, CANARIES)));
        withheld
    }

    /// Returns why no further cluster is changed, if that does not end by itself.
    fn halt(&self, titles: impl Fn(&mut dyn Iterator<Item = &Member<'a>>) -> String) -> Option<String> {
        if self.withheld().is_empty() {
            return None;
        }
        if self.counted().filter(|member| member.has_failed()).count() >= self.limit {
            return Some(format!(
                "as many are not ready as spec.rollout.maxUnavailable permits ({}), such as {}; correct the service, or what \
                 ApplicationsReady reports",
                self.limit,
                titles(&mut self.counted()),
            ));
        }
        if !self.is_for_canaries() {
            return None;
        }
        if !self.members.iter().any(|member| self.is_canary(member)) {
            return Some(
                "none of the clusters in spec.rollout.canaries has the service; correct the list".to_owned(),
            );
        }
        self.unproven().any(Member::has_failed).then(|| {
            format!(
                "these clusters in spec.rollout.canaries are not ready with it: {}; correct the service, or what \
                 ApplicationsReady reports",
                titles(&mut self.unproven()),
            )
        })
    }
}

/// Returns the Applications of a service on clusters that stay, in the order of the clusters. If a cluster has several, it is the
/// one that stays.
fn staying_apps<'a>(store: &'a Store, key: &Name) -> impl Iterator<Item = &'a App> {
    let first = store.by_cluster(key).into_values().filter_map(|apps| apps.first().map(|(_, app)| *app));
    first.filter(|app| !app.deleting && store.stays(&app.cluster).is_some())
}

/// Returns the clusters of a paused service with an Application that is not as the spec requires.
fn held<'a>(store: &'a Store, key: &Name, spec: &DPUServiceSpec) -> Withheld<'a> {
    let apps: BTreeMap<&Name, &App> = staying_apps(store, key).map(|app| (&app.cluster, app)).collect();
    let is_due = |cluster: &Name| {
        let app = apps.get(cluster).copied();
        let server = server(store, cluster, app);
        app.zip(server).is_none_or(|(app, server)| app.differs(&manifest(key, spec, cluster, server)))
    };
    store.staying().filter(|(cluster, _)| is_due(cluster)).map(|(cluster, _)| (cluster, PAUSED)).collect()
}

/// Returns the clusters with an Application that is not written now, and why. The failures are those of writes in this pass.
pub fn withheld<'a>(
    store: &'a Store,
    key: &Name,
    spec: &DPUServiceSpec,
    failures: &Failures,
) -> Withheld<'a> {
    if spec.paused {
        return held(store, key, spec);
    }
    Progress::read(store, key, spec, failures).map(|progress| progress.withheld()).unwrap_or_default()
}

/// Returns the condition `Paused`, if the service is paused.
pub fn paused(service: &Service) -> Option<Finding> {
    let message = "no Application of the service is created, changed or repaired until spec.paused is false";
    service.is_paused().then(|| Finding::valid(condition::PAUSED, reason::PAUSED, message))
}

/// Returns the condition `RolledOut`, if the service limits how many clusters change at a time.
pub fn rolled_out(store: &Store, key: &Name, service: &Service, failures: &Failures) -> Option<Finding> {
    let spec = service.spec.as_ref().ok()?;
    let progress = Progress::read(store, key, spec, failures)?;
    let mut finding = of_progress(store, service.generation, &progress);
    let version = &spec.source.version;
    if is_range(version) {
        // Argo CD resolves it at each refresh, without a write that could wait (decision 40).
        finding.message = format!(
            "{}; version {version} is a range: Argo CD moves every cluster to a newer chart at once, without regard to \
             spec.rollout; name one version",
            finding.message
        );
    }
    Some(finding)
}

fn of_progress(store: &Store, generation: i64, progress: &Progress<'_>) -> Finding {
    let limit = progress.limit;
    let titles = |members: &mut dyn Iterator<Item = &Member<'_>>| {
        let title = |member: &Member<'_>| match member.progressing_since() {
            Some(since) => format!("{} (Progressing since {since})", store.title(member.cluster)),
            None => store.title(member.cluster),
        };
        members.take(NAMED).map(title).collect::<Vec<_>>().join(", ")
    };
    if progress.without.is_empty() && progress.members.iter().all(|member| member.is_changed) {
        let message = format!("every cluster has been brought to generation {generation}");
        return Finding::valid(condition::ROLLED_OUT, reason::ALL_CLUSTERS_CHANGED, message);
    }
    let (reason, message) = if let Some(why) = progress.halt(titles) {
        let message = format!("no further cluster is brought to generation {generation}, because {why}");
        (reason::HALTED, message)
    } else {
        let mut message =
            format!("clusters are being brought to generation {generation}, at most {limit} at a time");
        let unready = titles(&mut progress.counted());
        if !unready.is_empty() {
            message += "; not ready yet: ";
            message += &unready;
        }
        let refused = titles(&mut progress.rest().filter(|member| progress.is_refused(member)));
        if !refused.is_empty() {
            message += "; see ApplicationsReconciled for these, which can't be changed: ";
            message += &refused;
        }
        let without: Vec<String> =
            progress.without.iter().take(NAMED).map(|cluster| store.title(cluster)).collect();
        if !without.is_empty() {
            message += "; without an Application: ";
            message += &without.join(", ");
        }
        (reason::ROLLING_OUT, message)
    };
    Finding::broken(condition::ROLLED_OUT, reason, message)
}

#[cfg(test)]
mod tests;
