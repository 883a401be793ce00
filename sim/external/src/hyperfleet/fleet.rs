//! The resources of the API, and the changes by users and adapters.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::dialect::{Dialect, Release};
use super::ids::Ids;
use super::report;
use super::resource::{Kind, Labels, Resource, Status, Written};
use super::rows::Collection;

/// The API with its resources. A clone shares them until they change.
#[derive(Debug, Clone)]
pub struct HyperFleet {
    pub(super) dialect: Dialect,
    pub(super) release: Release,
    pub(super) knows_pages: bool,
    pub(super) largest_page: usize,
    clusters: Collection,
    nodepools: Collection,
    ids: Ids,
}

impl HyperFleet {
    /// Returns an API without resources. The ids follow from the seed.
    pub fn new(dialect: Dialect, seed: u64) -> Self {
        let (clusters, nodepools) = (Collection::default(), Collection::default());
        let (knows_pages, largest_page) = (true, usize::MAX);
        let release = Release::V0_3_1;
        Self { dialect, release, knows_pages, largest_page, clusters, nodepools, ids: Ids::new(seed) }
    }

    /// Selects the release that it models from now on.
    pub fn release(&mut self, release: Release) {
        self.release = release;
    }

    /// Limits the number of items of a page from now on, whatever size is requested.
    pub fn limit_pages(&mut self, items: usize) {
        self.largest_page = items;
    }

    /// Answers every list as one page from now on, whatever page is requested: the specification of the documented dialect has no
    /// pages.
    pub fn forget_pages(&mut self) {
        self.knows_pages = false;
    }

    /// Creates a cluster and returns its id.
    pub fn create(&mut self, name: &str, labels: impl Into<Arc<Labels>>, now: Timestamp) -> String {
        self.create_resource(Kind::Cluster, name, None, labels.into(), now)
    }

    /// Creates a node pool of a cluster and returns its id.
    pub fn create_node_pool(
        &mut self,
        owner: &str,
        name: &str,
        labels: impl Into<Arc<Labels>>,
        now: Timestamp,
    ) -> String {
        self.create_resource(Kind::NodePool, name, Some(owner.to_owned()), labels.into(), now)
    }

    /// Creates many clusters with labels that follow from their number.
    pub fn populate(&mut self, count: usize, labels: impl Fn(usize) -> Arc<Labels>, now: Timestamp) {
        for number in 0..count {
            self.create(&format!("cluster-{number}"), labels(number), now);
        }
    }

    fn create_resource(
        &mut self,
        kind: Kind,
        name: &str,
        owner: Option<String>,
        labels: Arc<Labels>,
        now: Timestamp,
    ) -> String {
        let id = self.ids.next(now);
        let status = match self.dialect {
            Dialect::Documented => {
                Status::Phase { phase: report::PROVISIONING.to_owned(), last_transition: now }
            }
            Dialect::Released => Status::Conditions(report::unreported(now)),
        };
        self.insert(Resource {
            kind,
            id: id.clone(),
            name: name.to_owned(),
            owner,
            generation: 1,
            labels,
            spec: Arc::new(json!({})),
            created: now,
            updated: now,
            deleted: None,
            status,
            written: Written::default(),
        });
        id
    }

    /// Inserts a resource as it is, and replaces the one with its id.
    pub fn insert(&mut self, resource: Resource) {
        self.collection(resource.kind).put(resource);
    }

    /// Changes the labels of a resource; false if no resource has the id.
    pub fn set_labels(&mut self, id: &str, labels: impl Into<Arc<Labels>>, now: Timestamp) -> bool {
        self.change(id, |resource| (resource.labels, resource.updated) = (labels.into(), now))
    }

    /// Changes the specification, which starts a new generation; false if no resource has the id.
    pub fn set_spec(&mut self, id: &str, spec: serde_json::Value, now: Timestamp) -> bool {
        self.change(id, |resource| {
            (resource.spec, resource.updated) = (Arc::new(spec), now);
            resource.generation += 1;
            report::outdate(resource, now);
        })
    }

    /// Reports the same state for all adapters on the resource's generation; false if no resource has the id.
    pub fn report(&mut self, id: &str, ready: bool, now: Timestamp) -> bool {
        self.change(id, |resource| report::report_all(resource, ready, now))
    }

    /// Requests the deletion, as users do; false if no resource has the id. The released API lists the resource until it is
    /// [removed](Self::remove); the documented one has no such state, and removes it.
    pub fn delete(&mut self, id: &str, now: Timestamp) -> bool {
        match self.dialect {
            Dialect::Documented => self.remove(id),
            Dialect::Released => {
                self.change(id, |resource| resource.deleted = resource.deleted.or(Some(now)))
            }
        }
    }

    /// Removes a resource; false if no resource has the id.
    pub fn remove(&mut self, id: &str) -> bool {
        let Some(kind) = self.get(id).map(|resource| resource.kind) else { return false };
        self.collection(kind).remove(id);
        true
    }

    /// Returns a resource by its id.
    pub fn get(&self, id: &str) -> Option<&Resource> {
        self.clusters.rows().get(id).or_else(|| self.nodepools.rows().get(id)).map(AsRef::as_ref)
    }

    /// Returns all resources of a kind, by id.
    pub fn resources(&self, kind: Kind) -> impl ExactSizeIterator<Item = &Resource> {
        let collection = match kind {
            Kind::Cluster => &self.clusters,
            Kind::NodePool => &self.nodepools,
        };
        collection.rows().all().iter().map(AsRef::as_ref)
    }

    /// Changes a resource; false if no resource has the id.
    pub(super) fn change(&mut self, id: &str, change: impl FnOnce(&mut Resource)) -> bool {
        let Some(mut resource) = self.get(id).cloned() else { return false };
        change(&mut resource);
        self.insert(resource);
        true
    }

    /// Returns the resources of a kind, with the cached results of searches.
    pub(super) fn collection(&mut self, kind: Kind) -> &mut Collection {
        match kind {
            Kind::Cluster => &mut self.clusters,
            Kind::NodePool => &mut self.nodepools,
        }
    }
}
