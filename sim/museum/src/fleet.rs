//! Creates a Worker for each App and each registered cluster, and deletes the Workers of clusters that are no longer registered.

use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest, Scope};
use lockstep_engine::machine::Event;
use lockstep_engine::object::{Kind, Name, ObjectRef, is_deleting, label, metadata, precondition};
use lockstep_engine::scheduler::Verdict;
use lockstep_engine::write;
use serde_json::{Value, json};

use crate::controller::{Cause, Controller, Seen, Watch};
use crate::kinds::{PAGE, app, app_of, belongs_to, creation, of, secret, worker};
use crate::pass::{Pass, Stop, objects};

pub mod exhibits;
mod simulation;

/// The namespace of the Secrets that register clusters.
pub const CLUSTERS: &str = "clusters";
/// The label of these Secrets, and of Workers with the name of their cluster.
pub const CLUSTER: &str = "museum.example.com/cluster";

/// How many times a key may fail, for the bug that gives up. A run is too short for the number of a project.
const ATTEMPTS: u64 = 4;

/// The bugs that can be planted.
#[expect(missing_docs, reason = "the exhibits describe them")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    EnqueuesFirstApp,
    GeneratesNames,
    GivesUpAfterFailures,
    GivesUpFailedWatch,
    IgnoresDeletedWorkers,
    MissesDeletionsOfLists,
    NeedsClusterToDelete,
    NeverPrunes,
    PrunesFirstPage,
    PurgesDuplicates,
    SwallowsFailedWrites,
    TakesFailedListForEmpty,
}

/// The controller, with or without a bug.
#[derive(Debug, Clone, Copy)]
pub struct Fleet(pub Option<Bug>);

fn cluster(worker: &Value) -> &str {
    label(worker, CLUSTER).unwrap_or_default()
}

impl Fleet {
    fn has(self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }

    /// Returns the names of the registered clusters.
    fn clusters(self, pass: &mut Pass<'_>) -> Result<Vec<String>, Stop> {
        let scope = Scope { selector: CLUSTER.to_owned(), ..Scope::default() };
        let listed = objects(pass.send(Action::Kube(KubeRequest::List { kind: secret(), scope }))?);
        let listed =
            if self.has(Bug::TakesFailedListForEmpty) { listed.unwrap_or_default() } else { listed? };
        Ok(listed.iter().map(|cluster| metadata(cluster, "name").to_owned()).collect())
    }

    fn prune(
        self,
        workers: &[Arc<Value>],
        clusters: &[String],
        app: Option<&Value>,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let page = if self.has(Bug::PrunesFirstPage) { PAGE } else { usize::MAX };
        for found in workers.iter().take(page).filter(|found| !is_deleting(found)) {
            let is_owned = app.is_some_and(|app| belongs_to(found, app));
            let is_registered = clusters.iter().any(|name| name == cluster(found));
            if is_owned && (is_registered || self.has(Bug::NeverPrunes)) {
                continue;
            }
            if self.has(Bug::NeedsClusterToDelete) && !is_registered {
                return Err(Stop::Failed(Verdict::because("the cluster is not registered")));
            }
            pass.write(write::delete(Name::of(found).object(&worker()), found))?;
        }
        Ok(())
    }

    /// Returns the Workers of an App for one cluster, as far as the controller knows.
    fn known(self, workers: &[Arc<Value>], app: &Value, name: &str, pass: &Pass<'_>) -> Vec<Arc<Value>> {
        let from_cache = matches!(self.0, Some(Bug::GeneratesNames | Bug::PurgesDuplicates));
        let mut known = if from_cache { pass.all_cached(&worker()) } else { workers.to_vec() };
        known.retain(|found| belongs_to(found, app) && cluster(found) == name);
        known
    }

    fn ensure(
        self,
        key: &Name,
        app: &Value,
        name: &str,
        known: &[Arc<Value>],
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let Some(found) = known.first() else {
            let mut more = json!({ "spec": { "text": app["spec"]["text"] } });
            more["metadata"]["labels"] = json!({ CLUSTER: name });
            let mut target =
                ObjectRef::namespaced(&worker(), &key.namespace, &format!("{}-{name}", key.name));
            if matches!(self.0, Some(Bug::GeneratesNames | Bug::PurgesDuplicates)) {
                more["metadata"]["generateName"] = json!(format!("{}-", target.name));
                target.name.clear();
            }
            return self.write(creation(&target, app, &key.name, more), pass);
        };
        if self.has(Bug::PurgesDuplicates) && known.len() > 1 {
            return pass.write(write::delete(Name::of(found).object(&worker()), found));
        }
        if found["spec"]["text"] == app["spec"]["text"] {
            return Ok(());
        }
        let patch = json!({ "metadata": precondition(found), "spec": { "text": app["spec"]["text"] } });
        let target = Name::of(found).object(&worker());
        let patch = Action::Kube(KubeRequest::Patch { target, subresource: None, patch: Arc::new(patch) });
        self.write(patch, pass)
    }

    fn write(self, action: Action, pass: &mut Pass<'_>) -> Result<(), Stop> {
        if self.has(Bug::SwallowsFailedWrites) { pass.send(action).map(|_| ()) } else { pass.write(action) }
    }
}

impl Controller for Fleet {
    const NAME: &'static str = "fleet";

    fn watches(&self) -> Vec<Arc<Kind>> {
        vec![app(), worker(), secret()]
    }

    fn keys(&self, seen: &Seen<'_>) -> Vec<Name> {
        match &*seen.kind.kind {
            "App" => vec![Name::of(seen.object)],
            "Worker" if self.has(Bug::IgnoresDeletedWorkers) && matches!(seen.cause, Cause::Deleted) => {
                Vec::new()
            }
            "Worker" => app_of(seen.object).into_iter().collect(),
            _ => {
                let limit = if self.has(Bug::EnqueuesFirstApp) { 1 } else { usize::MAX };
                seen.others(&app()).map(|app| Name::of(app)).take(limit).collect()
            }
        }
    }

    fn ignores(&self, event: &Event, watch: Watch) -> bool {
        let ends_later_list = matches!(event, Event::ListCompleted { .. }) && watch.lists > 1;
        self.has(Bug::GivesUpFailedWatch) && watch.failures > 0
            || self.has(Bug::MissesDeletionsOfLists) && ends_later_list
    }

    fn attempts(&self) -> u64 {
        if self.has(Bug::GivesUpAfterFailures) { ATTEMPTS } else { u64::MAX }
    }

    fn reconcile(&self, key: &Name, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        // Workers are read first: whatever decides about their deletion is not older than they are.
        let mut workers = pass.list(&worker(), of(key))?;
        workers.retain(|found| metadata(found, "namespace") == key.namespace);
        let clusters = self.clusters(pass)?;
        let app = pass.get(&key.object(&app()))?.filter(|app| !is_deleting(app));
        self.prune(&workers, &clusters, app.as_deref(), pass)?;
        if let Some(app) = app {
            for name in &clusters {
                let known = self.known(&workers, &app, name, pass);
                self.ensure(key, &app, name, &known, pass)?;
            }
        }
        Ok(Verdict::Converged)
    }
}
