//! The missing writes of a service, according to the cache.

use lockstep_crds::dpuservice::DPUServiceSpec;
use lockstep_engine::action::Action;
use lockstep_engine::object::Name;
use lockstep_engine::time::Now;

use super::pass::{Doubt, Pass, Task, What};
use crate::desired::application::{Place, free_name, write};
use crate::desired::removal::{next_removal, termination};
use crate::destination::{is_prepared, server};
use crate::model::application::App;
use crate::rollout::withheld;
use crate::store::Store;

/// Returns the states that the server must confirm before Applications are created or removed.
pub(super) fn doubts(store: &Store, key: &Name) -> Vec<Doubt> {
    let is_paused = store.is_paused(key);
    let doubt = |(cluster, apps): (&Name, Vec<(&Name, &App)>)| {
        let staying = apps.iter().filter(|(_, app)| !app.deleting).count();
        match (store.stays(cluster).is_some(), staying) {
            (_, 0) | (true, 1) => None,
            (true, _) if is_paused => None,
            (false, _) => Some(Doubt::Cluster(cluster.clone())),
            (true, _) => apps.first().map(|(name, _)| Doubt::First(cluster.clone(), (*name).clone())),
        }
    };
    let by_cluster = store.by_cluster(key);
    let is_missing = |cluster: &Name| {
        !is_paused
            && !by_cluster.contains_key(cluster)
            && server(store, cluster, None).is_some_and(|server| is_prepared(store, cluster, server))
    };
    let service = store.staying().any(|(cluster, _)| is_missing(cluster)).then_some(Doubt::Service);
    service.into_iter().chain(by_cluster.into_iter().filter_map(doubt)).collect()
}

/// Returns the missing writes: Applications that clusters lack, and Applications to remove.
pub(super) fn missing(store: &Store, key: &Name, spec: &DPUServiceSpec, pass: &Pass) -> Vec<(Task, Action)> {
    let by_cluster = store.by_cluster(key);
    let mut missing = Vec::new();
    for (cluster, apps) in &by_cluster {
        let going = apps.iter().filter(|(_, app)| app.deleting);
        missing.extend(going.filter_map(|(name, app)| remove(cluster, name, app, What::Terminate)));
        let kept = match (pass.gone.contains(*cluster), pass.doubled.contains(*cluster)) {
            (true, _) => 0,
            // The service may have been paused after the server confirmed that the cluster has several.
            (false, true) if !spec.paused => 1,
            (false, _) => continue,
        };
        let superfluous = apps.iter().skip(kept).filter(|(_, app)| !app.deleting);
        missing.extend(superfluous.filter_map(|(name, app)| remove(cluster, name, app, What::Remove)));
    }
    let withheld = withheld(store, key, spec, &pass.failures);
    for (cluster, _) in store.staying().filter(|(cluster, _)| !withheld.contains_key(cluster)) {
        let existing = by_cluster.get(cluster).and_then(|apps| apps.first()).copied();
        if existing.is_some_and(|(_, app)| app.deleting) {
            continue;
        }
        let Some(server) = server(store, cluster, existing.map(|(_, app)| app)) else { continue };
        if !is_prepared(store, cluster, server) {
            continue;
        }
        let (place, what, application) = if let Some((name, app)) = existing {
            (Place::Existing(name, app), What::Apply, name.clone())
        } else if let Some(name) = free_name(store, key, cluster).filter(|_| pass.is_there) {
            (Place::New(name.clone()), What::Create, name)
        } else {
            continue;
        };
        if let Some(action) = write(store, key, spec, cluster, server, place) {
            missing.push((task(cluster, &application, what), action));
        }
    }
    missing
}

/// Returns the writes that end syncs which have delayed a change for too long. It skips Applications that are about to be
/// written again, because their syncs are compared with an outdated source.
pub(super) fn ends<'a>(
    store: &'a Store,
    key: &Name,
    missing: &[(Task, Action)],
    now: Now,
) -> Vec<(Task, Action)> {
    let is_settled =
        |(name, _): &(&Name, &'a App)| missing.iter().all(|(task, _)| task.application != **name);
    let overdue = store.overdue(key, now).filter(is_settled).filter(|_| !store.is_paused(key));
    let ends = overdue.map(|(name, app)| (task(&app.cluster, name, What::Terminate), termination(name, app)));
    ends.collect()
}

fn remove(cluster: &Name, name: &Name, app: &App, what: What) -> Option<(Task, Action)> {
    Some((task(cluster, name, what), next_removal(name, app)?))
}

fn task(cluster: &Name, application: &Name, what: What) -> Task {
    Task { cluster: cluster.clone(), application: application.clone(), what }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{self, Fixture};
    use crate::store::tests::{at, outdated};

    /// A cluster, c1, has no Application, and one, c2, has two of them.
    fn service(is_paused: bool) -> (Name, Fixture) {
        let (key, mut fixture) = (fixture::service(), Fixture::default());
        fixture.service(json!({ "paused": is_paused }));
        fixture.project(&["https://c1", "https://c2"], |_| ());
        for cluster in ["c1", "c2"] {
            fixture.cluster(cluster, "Ready").secret(cluster, |_| ());
        }
        fixture.app("a", "c2", |_| ()).app("b", "c2", outdated("2026-01-01T00:00:00Z"));
        (key, fixture)
    }

    #[test]
    fn a_paused_service_asks_for_nothing_and_ends_no_sync() {
        for is_paused in [false, true] {
            let (key, mut fixture) = service(is_paused);
            fixture.store.note_held_up(&key, at(0));
            let doubts = doubts(&fixture.store, &key);
            let ends = ends(&fixture.store, &key, &[], at(600));
            if is_paused {
                assert!(doubts.is_empty() && ends.is_empty(), "{doubts:?} {ends:?}");
            } else {
                assert!(matches!(&doubts[..], [Doubt::Service, Doubt::First(cluster, first)]
                    if cluster.name == "c2" && first.name == "a"));
                assert_eq!(ends.len(), 1);
            }
        }
    }

    /// The pause arrives after the server has confirmed the second Application.
    #[test]
    fn a_paused_service_removes_no_second_application() {
        for is_paused in [false, true] {
            let (key, fixture) = service(is_paused);
            let spec = fixture.spec();
            let confirmed = Pass { doubled: [fixture::cluster("c2")].into(), ..Pass::default() };
            let missing = missing(&fixture.store, &key, spec, &confirmed);
            let removed = missing.iter().filter(|(task, _)| task.what == What::Remove);
            assert_eq!(removed.count(), usize::from(!is_paused), "{missing:?}");
        }
    }
}
