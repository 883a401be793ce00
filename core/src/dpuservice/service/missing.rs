//! The writes that a service lacks, as far as is known.

use std::collections::BTreeMap;

use lockstep_crds::dpuservice::DPUServiceSpec;

use super::{Doubt, Pass, Task, What, is_prepared, server};
use crate::dpuservice::application::{self, App, Place, next_removal, of_service, termination};
use crate::dpuservice::world::World;
use crate::engine::action::Action;
use crate::object::Name;
use crate::time::Now;

/// The Applications of a service by cluster, those first that stay.
fn by_cluster<'a>(world: &'a World, key: &Name) -> BTreeMap<&'a Name, Vec<(&'a Name, &'a App)>> {
    let mut by_cluster: BTreeMap<&Name, Vec<(&Name, &App)>> = BTreeMap::new();
    for (name, app) in of_service(world, key) {
        by_cluster.entry(&app.cluster).or_default().push((name, app));
    }
    for apps in by_cluster.values_mut() {
        apps.sort_by_key(|(name, app)| (app.deleting, &app.created, *name));
    }
    by_cluster
}

/// What is to be asked before Applications are removed.
pub(super) fn doubts(world: &World, key: &Name) -> Vec<Doubt> {
    let doubt = |(cluster, apps): (&Name, Vec<(&Name, &App)>)| {
        let staying = apps.iter().filter(|(_, app)| !app.deleting).count();
        match (world.stays(cluster).is_some(), staying) {
            (_, 0) | (true, 1) => None,
            (false, _) => Some(Doubt::Cluster(cluster.clone())),
            (true, _) => apps.first().map(|(name, _)| Doubt::First(cluster.clone(), (*name).clone())),
        }
    };
    let by_cluster = by_cluster(world, key);
    let is_missing = |cluster: &Name| {
        !by_cluster.contains_key(cluster)
            && server(world, cluster, None).is_some_and(|server| is_prepared(world, cluster, server))
    };
    let service = world.staying().any(|(cluster, _)| is_missing(cluster)).then_some(Doubt::Service);
    service.into_iter().chain(by_cluster.into_iter().filter_map(doubt)).collect()
}

/// The writes that are missing: what clusters lack, and what is there without a cluster.
pub(super) fn missing(world: &World, key: &Name, spec: &DPUServiceSpec, pass: &Pass) -> Vec<(Task, Action)> {
    let by_cluster = by_cluster(world, key);
    let mut missing = Vec::new();
    for (cluster, apps) in &by_cluster {
        let going = apps.iter().filter(|(_, app)| app.deleting);
        missing.extend(going.filter_map(|(name, app)| remove(cluster, name, app, What::Terminate)));
        let kept = match (pass.gone.contains(*cluster), pass.doubled.contains(*cluster)) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => continue,
        };
        let superfluous = apps.iter().skip(kept).filter(|(_, app)| !app.deleting);
        missing.extend(superfluous.filter_map(|(name, app)| remove(cluster, name, app, What::Remove)));
    }
    for (cluster, _) in world.staying() {
        let existing = by_cluster.get(cluster).and_then(|apps| apps.first()).copied();
        if existing.is_some_and(|(_, app)| app.deleting) {
            continue;
        }
        let Some(server) = server(world, cluster, existing.map(|(_, app)| app)) else { continue };
        if !is_prepared(world, cluster, server) {
            continue;
        }
        let (place, what, application) = if let Some((name, app)) = existing {
            (Place::Existing(name, app), What::Apply, name.clone())
        } else if let Some(name) = application::free_name(world, key, cluster).filter(|_| pass.is_there) {
            (Place::New(name.clone()), What::Create, name)
        } else {
            continue;
        };
        if let Some(write) = application::write(key, spec, cluster, server, place) {
            missing.push((task(cluster, &application, what), write));
        }
    }
    missing
}

/// The ends of syncs that have held up a change for too long. What is about to be written again is not what they are compared with.
pub(super) fn ends<'a>(
    world: &'a World,
    key: &Name,
    missing: &[(Task, Action)],
    now: Now,
) -> Vec<(Task, Action)> {
    let is_settled =
        |(name, _): &(&Name, &'a App)| missing.iter().all(|(task, _)| task.application != **name);
    let overdue = world.overdue(key, now).filter(is_settled);
    let ends = overdue.map(|(name, app)| (task(&app.cluster, name, What::Terminate), termination(name, app)));
    ends.collect()
}

fn remove(cluster: &Name, name: &Name, app: &App, what: What) -> Option<(Task, Action)> {
    Some((task(cluster, name, what), next_removal(name, app)?))
}

fn task(cluster: &Name, application: &Name, what: What) -> Task {
    Task { cluster: cluster.clone(), application: application.clone(), what }
}
