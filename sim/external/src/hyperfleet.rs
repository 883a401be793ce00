//! The HyperFleet API as a pure state machine.
//!
//! [`HyperFleet::handle`] takes a request and the time and answers it immediately. Models of users and adapters call
//! [`HyperFleet::create`], [`HyperFleet::report`] and similar functions, or post reports as adapters do. [`damage`] corrupts
//! answers, and [`host`] serves them over HTTP.
//!
//! ```text
//!   http::Request ─► request ─► filter (search, selector) ─► rows ─► order ─► respond ─► http::Response
//!                       │                                     ▲
//!                       └───────────► report ─────────────────┘
//! ```
//!
//! The model covers the known answers of release 0.3.1, and the known differences of 0.3.0 ([`Release`]). Not modelled:
//! authentication (but see the host), `fields`, and writes other than reports.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::json;

use self::ids::Ids;
pub use self::report::ADAPTERS;
pub use self::resource::{Condition, Kind, Labels, Resource, State, Status};
use self::rows::Collection;

pub mod damage;
mod filter;
pub mod host;
mod ids;
mod order;
mod report;
mod request;
mod resource;
mod respond;
mod rows;
mod search;
#[cfg(test)]
mod tests;

/// The path of the API.
pub const API: &str = "/api/hyperfleet/v1";

/// The dialect of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The dialect of the Sentinel's specification: `?labels=<selector>` answers all resources, with `status.phase`; in pages, if
    /// the request has page parameters.
    Documented,
    /// The dialect of release 0.3.1: `?search=`, pages of at most 100, conditions.
    Released,
}

/// A release of the API with the dialect [`Dialect::Released`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Orders by `orderBy` and ignores `order`. A search has no `in`, and no label keys with dots, slashes or capitals. Pages
    /// have any size.
    V0_3_0,
    /// Orders by `order`; a search has at most 4,096 bytes, a page at most 100 items.
    V0_3_1,
}

/// The API with its resources. A clone shares them until they change.
#[derive(Debug, Clone)]
pub struct HyperFleet {
    dialect: Dialect,
    release: Release,
    knows_pages: bool,
    largest_page: usize,
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

    /// Answers a request.
    pub fn handle(&mut self, request: &http::Request<Bytes>, now: Timestamp) -> http::Response<Bytes> {
        request::answer(self, request, now).unwrap_or_else(respond::Problem::into_response)
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

    fn change(&mut self, id: &str, change: impl FnOnce(&mut Resource)) -> bool {
        let Some(mut resource) = self.get(id).cloned() else { return false };
        change(&mut resource);
        self.insert(resource);
        true
    }

    fn collection(&mut self, kind: Kind) -> &mut Collection {
        match kind {
            Kind::Cluster => &mut self.clusters,
            Kind::NodePool => &mut self.nodepools,
        }
    }
}
