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
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{self, Edit, Fixture};
    use crate::names::{APPLIED, CLUSTER, SERVICE};

    const SINCE: &str = "2026-01-01T00:00:00Z";

    fn cluster(index: usize) -> Name {
        Name::new("fleet", &format!("c{index}"))
    }

    /// Returns an Application for each letter: `n` is new and healthy, `p` is new and in progress, `f` is new and has failed, `c` is new
    /// and can't be compared; `o` is old and healthy, `x` is old and has failed, `u` is old and can't be compared, `d` is old on a
    /// cluster that is not ready, `r` is old and healthy, and its write was refused.
    fn apps(states: &str) -> Vec<(App, Name)> {
        let app = |(index, state): (usize, char)| {
            let health = match state {
                'p' => "Progressing",
                'f' | 'x' => "Degraded",
                _ => "Healthy",
            };
            let sync = if "cu".contains(state) { "Unknown" } else { "Synced" };
            let owner = cluster(index);
            let annotations = json!({ SERVICE: "team/svc", CLUSTER: owner.to_string(), APPLIED: "1" });
            let health = json!({ "status": health, "lastTransitionTime": SINCE });
            let status = json!({ "sync": { "status": sync }, "health": health });
            let object =
                json!({ "metadata": { "name": owner.name, "annotations": annotations }, "status": status });
            (App::read(&object).expect("an Application of a service"), owner)
        };
        states.chars().enumerate().map(app).collect()
    }

    fn progress<'a>(limit: usize, canaries: &[usize], states: &str, apps: &'a [(App, Name)]) -> Progress<'a> {
        let member = |((app, cluster), state): (&'a (App, Name), char)| Member {
            cluster,
            app,
            is_changed: "npfc".contains(state),
            is_up: state != 'd',
            is_free: app.is_broken(),
        };
        let members = apps.iter().zip(states.chars()).map(member).collect();
        let canaries = canaries.iter().map(|index| cluster(*index)).collect();
        let refused = apps.iter().zip(states.chars()).filter(|(_, state)| *state == 'r');
        let refused = refused.map(|((_, cluster), _)| cluster.clone()).collect();
        Progress { limit, canaries, members, without: Vec::new(), refused }
    }

    #[test]
    fn a_rollout_changes_some_clusters_and_withholds_the_others() {
        // What each cluster waits for: `T` its turn, `C` the canaries, `L` all others. The last column says whether the rollout is halted.
        for (limit, canaries, states, waits, is_halted) in [
            (1, &[][..], "ooo", ".TT", false),
            (2, &[], "ooo", "..T", false),
            (1, &[], "noo", "..T", false),
            (1, &[], "poo", ".TT", false),
            (1, &[], "foo", ".TT", true),
            (2, &[], "foo", "..T", false),
            (1, &[], "xoo", ".TT", true),
            (1, &[], "nnn", "...", false),
            (1, &[], "fff", "...", false),
            // What can't be compared may work. It is changed first, and counts only after that.
            (1, &[], "uuu", ".TT", false),
            (1, &[], "ouu", "T.T", false),
            (2, &[], "uou", ".T.", false),
            (1, &[], "cuu", ".TT", false),
            (1, &[], "xuu", ".TT", true),
            (1, &[], "nud", "..L", false),
            (1, &[1], "uuo", "C.C", false),
            // Clusters that are not ready come last, and only if the others have shown that the change is good.
            (1, &[], "nnd", "...", false),
            (1, &[], "nod", "..L", false),
            (1, &[], "npd", "..L", false),
            (1, &[], "dd", ".L", false),
            (2, &[], "ddd", "..L", false),
            (1, &[1], "ooo", "C.C", false),
            (2, &[1], "opo", "C.C", false),
            (2, &[1], "ofo", "C.C", true),
            (2, &[1], "odo", "CLC", true),
            (1, &[1], "ono", "..T", false),
            (1, &[7], "oo", "CC", true),
            (2, &[0, 1], "noo", "..C", false),
            // What can't be written keeps no place from the others.
            (1, &[], "roo", "T.T", false),
            (1, &[], "rpo", "T.T", false),
            (1, &[], "rn", "..", false),
            (1, &[0], "roo", ".CC", false),
        ] {
            let apps = apps(states);
            let progress = progress(limit, canaries, states, &apps);
            let withheld = progress.withheld();
            let letter = |(_, cluster): &(App, Name)| match withheld.get(cluster) {
                None => '.',
                Some(&TURN) => 'T',
                Some(&CANARIES) => 'C',
                Some(&LAST) => 'L',
                Some(other) => panic!("{other}"),
            };
            let halt = progress.halt(|members| members.count().to_string());
            let seen: (String, bool) = (apps.iter().map(letter).collect(), halt.is_some());
            assert_eq!(
                seen,
                (waits.to_owned(), is_halted),
                "{states}, canaries {canaries:?}, at most {limit}"
            );
        }
    }

    #[test]
    fn only_a_change_is_in_progress_since_a_time() {
        let of = |state: &str| {
            let apps = apps(if state == "old" { "p" } else { state });
            let mut progress = progress(1, &[], state, &apps);
            progress.members[0].is_changed &= state != "old";
            progress.members[0].progressing_since().map(str::to_owned)
        };
        assert_eq!(of("p").as_deref(), Some(SINCE));
        assert_eq!((of("n"), of("f"), of("old")), (None, None, None));
    }

    #[test]
    fn a_rollout_has_ended_when_every_cluster_has_an_application() {
        for (with_app, expected) in [
            (&[][..], "at most 1 at a time; without an Application: c1, c2, c3"),
            (&["c1", "c3"], "at most 1 at a time; without an Application: c2"),
            (&["c1", "c2", "c3"], "every cluster has been brought to generation 0"),
        ] {
            let mut fixture = Fixture::default();
            fixture.service(json!({ "rollout": { "maxUnavailable": 1 } }));
            let servers = ["c1", "c2", "c3"].map(|name| format!("https://{name}"));
            fixture.project(&servers.each_ref().map(|server| &**server), |_| ());
            for name in ["c1", "c2", "c3"] {
                fixture.cluster(name, "Ready").secret(name, |_| ());
                if with_app.contains(&name) {
                    fixture.app(name, name, |_| ());
                }
            }
            let (store, key) = (&fixture.store, fixture::service());
            let service = store.services.get(&key).expect("a service");
            let found = rolled_out(store, &key, service, &Failures::new()).expect("a limit");
            assert!(found.message.ends_with(expected), "{}", found.message);
            let reason = if with_app.len() == 3 { reason::ALL_CLUSTERS_CHANGED } else { reason::ROLLING_OUT };
            assert_eq!(found.reason, reason);
        }
    }

    /// At the old server Argo CD can't repair or change anything.
    #[test]
    fn only_broken_and_moved_applications_are_changed_whatever_the_limit() {
        let mut fixture = Fixture::default();
        fixture.service(json!({ "rollout": { "maxUnavailable": 1 } }));
        let moved = |object: &mut Value| {
            object["spec"]["destination"]["server"] = json!("https://old");
            object["metadata"]["annotations"][APPLIED] = json!("of the old server");
        };
        let is_old =
            |object: &mut Value| object["metadata"]["annotations"][APPLIED] = json!("of the old spec");
        let is_new = |object: &mut Value| {
            object["metadata"]["annotations"][APPLIED] = json!("");
        };
        let is_ill = |object: &mut Value| {
            is_old(object);
            object["status"]["health"]["status"] = json!("Degraded");
        };
        // A failed sync of the spec, and one of single objects.
        let has_failed = |object: &mut Value| {
            is_old(object);
            object["status"]["sync"]["status"] = json!("OutOfSync");
            object["status"]["operationState"] = json!({ "phase": "Failed" });
        };
        let repair_failed = |object: &mut Value| {
            has_failed(object);
            object["status"]["operationState"]["operation"] =
                json!({ "sync": { "resources": [{ "name": "a" }] } });
        };
        let is_unknown = |object: &mut Value| {
            is_old(object);
            object["status"]["sync"]["status"] = json!("Unknown");
        };
        let has_no_health = |object: &mut Value| {
            is_unknown(object);
            object["status"]["health"]["status"] = json!("Unknown");
        };
        let is_not_reported = |object: &mut Value| {
            is_old(object);
            object["status"] = Value::Null;
        };
        let names = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "d1", "d2"];
        let servers = names.map(|name| format!("https://{name}"));
        fixture.project(&servers.each_ref().map(|server| &**server), |_| ());
        let changes: [(&str, Edit<'_>, &str); 11] = [
            ("c1", &is_old, "Ready"),
            ("c2", &moved, "Ready"),
            ("c3", &is_new, "Ready"),
            ("c4", &is_ill, "Ready"),
            ("c5", &is_old, "NotReady"),
            ("c6", &|_| (), "Ready"),
            ("c7", &has_failed, "Ready"),
            ("c8", &repair_failed, "Ready"),
            ("c9", &is_unknown, "Ready"),
            ("d1", &has_no_health, "Ready"),
            ("d2", &is_not_reported, "Ready"),
        ];
        for (name, change, phase) in changes {
            fixture.cluster(name, phase).secret(name, |_| ()).app(name, name, |object| change(object));
        }
        let withheld = withheld(&fixture.store, &fixture::service(), fixture.spec(), &Failures::new());
        let withheld: Vec<_> = withheld.into_iter().map(|(name, why)| (name.name.as_str(), why)).collect();
        let expected = [("c1", TURN), ("c5", LAST), ("c8", TURN), ("c9", TURN), ("d1", TURN), ("d2", TURN)];
        assert_eq!(withheld, expected);
    }
}
