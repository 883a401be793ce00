//! The fields of a status with an entry for each cluster, in bounded size.

use std::collections::BTreeMap;

use lockstep_crds::dpuservice::{DPUServiceStatus, Rollout};
use lockstep_engine::object::Name;

use crate::model::application::App;
use crate::model::report::{HISTORY_MAX, RESOURCES_MAX};
use crate::store::Store;

/// The maximum number of objects in a status, over all clusters: some 250 bytes each, in an object that may have 1.5 MiB.
const RESOURCES_IN_ALL: usize = 2000;
/// The maximum number of deployments in a status, over all clusters.
const HISTORY_IN_ALL: usize = 1000;
/// The maximum size of a status, in bytes: an object may have 1.5 MiB.
const STATUS_MAX_BYTES: usize = 1024 * 1024;

/// Sets Argo CD's reports for each cluster, in bounded size.
pub(super) fn roll_up(status: &mut DPUServiceStatus, store: &Store, apps: &BTreeMap<&Name, Option<&App>>) {
    let resources = RESOURCES_MAX.min(RESOURCES_IN_ALL / apps.len().max(1));
    let history = HISTORY_MAX.min(HISTORY_IN_ALL / apps.len().max(1));
    let before = std::mem::take(status);
    status.observed_generation = before.observed_generation;
    status.conditions = before.conditions;
    for (cluster, app) in apps {
        let Some(report) = app.map(|app| &app.report) else { continue };
        let title = store.title(cluster);
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
    status.rollout = Some(rollout(store, apps));
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
pub(super) fn is_stale(store: &Store, cluster: &Name) -> bool {
    store.clusters.get(cluster).is_some_and(|cluster| !cluster.is_ready())
}

fn rollout(store: &Store, apps: &BTreeMap<&Name, Option<&App>>) -> Rollout {
    let worst = |order: &[&str], of: &dyn Fn(&App) -> Option<String>, missing: &str| {
        let ranks = apps.values().map(|app| {
            let status =
                app.map_or_else(|| missing.to_owned(), |app| of(app).unwrap_or_else(|| "Unknown".to_owned()));
            order.iter().position(|known| *known == status).unwrap_or(order.len() - 1)
        });
        ranks.max().map_or_else(String::new, |rank| order[rank].to_owned())
    };
    let well =
        apps.iter().filter(|(cluster, app)| app.is_some_and(App::is_well) && !is_stale(store, cluster));
    let well = well.count();
    let reported = apps.iter().filter(|(_, app)| app.is_some_and(|app| app.report.sync.is_some()));
    let unready = reported.filter_map(|(name, _)| {
        let cluster = store.clusters.get(name).filter(|cluster| !cluster.is_ready())?;
        Some((store.title(name), cluster.unready_since.clone()))
    });
    Rollout {
        stale_since: unready.collect(),
        sync: worst(&SYNC, &|app| Some(app.report.sync.as_ref()?.status.clone()), "OutOfSync"),
        health: worst(&HEALTH, &|app| Some(app.report.health.as_ref()?.status.clone()), "Missing"),
        clusters: format!("{well}/{}", apps.len()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{Fixture, cluster};
    use crate::names::{CLUSTER, SERVICE};

    /// Returns a status with this many bytes of resources, and as many of history, for one cluster.
    fn status(resources: usize, history: usize) -> DPUServiceStatus {
        let item = |bytes: usize| json!({ "name": "a".repeat(bytes) });
        let mut status = DPUServiceStatus::default();
        status.resources.insert("a".to_owned(), vec![item(resources)]);
        status.history.insert("a".to_owned(), vec![item(history)]);
        status
    }

    #[test]
    fn a_status_that_is_too_large_loses_its_history_first() {
        let kept = |mut status: DPUServiceStatus| {
            shrink(&mut status);
            (!status.resources.is_empty(), !status.history.is_empty())
        };
        assert_eq!(kept(status(1000, 1000)), (true, true));
        assert_eq!(kept(status(1000, STATUS_MAX_BYTES)), (true, false));
        assert_eq!(kept(status(STATUS_MAX_BYTES, 1000)), (false, false));
    }

    /// The number of clusters, and for each the number of its first objects and of its last deployments.
    #[test]
    fn many_clusters_share_the_size_of_a_status() {
        for (clusters, objects, deployments) in
            [(0, 0, 0), (1, 100, 10), (20, 100, 10), (25, 80, 10), (200, 10, 5)]
        {
            let names: Vec<String> = (0..clusters).map(|index| format!("c{index}")).collect();
            let mut fixture = Fixture::default();
            for name in &names {
                fixture.cluster(name, "Ready").app(name, name, |object| {
                    let all = (0..100).map(|index| json!({ "kind": "Pod", "name": format!("p{index}") }));
                    object["status"]["resources"] = all.collect();
                    object["status"]["history"] = (0..20).map(|index| json!({ "id": index })).collect();
                });
            }
            let store = &fixture.store;
            let names: Vec<Name> = names.iter().map(|name| cluster(name)).collect();
            let apps = names.iter().zip(store.applications.iter()).map(|(name, (_, app))| (name, Some(app)));
            let mut status = DPUServiceStatus::default();
            roll_up(&mut status, store, &apps.collect());
            assert_eq!((status.resources.len(), status.history.len()), (clusters, clusters));
            for (name, list) in &status.resources {
                assert_eq!((list.len(), &list[0]["name"]), (objects, &json!("p0")), "{clusters}: {name}");
            }
            for (name, list) in &status.history {
                assert_eq!(
                    (list.len(), &list[deployments - 1]["id"]),
                    (deployments, &json!(19)),
                    "{clusters}: {name}"
                );
            }
        }
    }

    #[test]
    fn the_rollout_has_the_worst_state_of_all_clusters() {
        let app = |sync: &str, health: &str| {
            let annotations = json!({ SERVICE: "team/svc", CLUSTER: "fleet/a" });
            let status = json!({ "sync": { "status": sync }, "health": { "status": health } });
            App::read(&json!({ "metadata": { "annotations": annotations }, "status": status }))
                .expect("an Application")
        };
        let [a, b] = ["a", "b"].map(|name| Name::new("fleet", name));
        let (well, odd) = (app("Synced", "Healthy"), app("OutOfSync", "Strange"));
        let worst = |apps: &[(&Name, Option<&App>)]| {
            let rollout = rollout(&Store::default(), &apps.iter().copied().collect());
            (rollout.sync, rollout.health)
        };
        let said = |sync: &str, health: &str| (sync.to_owned(), health.to_owned());
        assert_eq!(worst(&[]), said("", ""));
        assert_eq!(worst(&[(&a, Some(&well))]), said("Synced", "Healthy"));
        assert_eq!(worst(&[(&a, Some(&well)), (&b, Some(&odd))]), said("OutOfSync", "Unknown"));
        assert_eq!(worst(&[(&a, Some(&well)), (&b, None)]), said("OutOfSync", "Missing"));
    }
}
