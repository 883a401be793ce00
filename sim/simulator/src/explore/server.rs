//! The API server of a small world, with the control plane and the systems outside Kubernetes, and the names that it gives.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use lockstep_apiserver::server::{Actors, ApiServer, Response};
use lockstep_engine::object::metadata;
use serde_json::Value;

use super::print::{Names, Print, hash};
use crate::cluster::{Author, Change, ExternalSystems};
use crate::explorable::ExplorableSystems;

/// Maximum number of changes that a stale list is behind.
pub(super) const LAG_MAX: usize = 2;

/// An object that has changed during the run.
#[derive(Debug, Clone, Default)]
struct Known {
    versions: u64,
    creations: u64,
    /// Its state; none if it was removed.
    print: Option<Print>,
}

#[derive(Clone)]
pub(super) struct Server {
    /// Identifies its exact state, by everything that has changed it.
    pub(super) id: u64,
    pub(super) model: ApiServer,
    actors: Actors,
    outside: Option<Box<dyn ExplorableSystems>>,
    /// The state outside Kubernetes.
    outside_print: Print,
    /// The revision at which the run began. Older versions keep their numbers.
    first: u64,
    /// The object and the number of each later version.
    versions: Vec<(u64, u64)>,
    /// The objects that have changed, by name.
    objects: BTreeMap<u64, Known>,
    /// The objects that were created during the run, by uid.
    uids: BTreeMap<Arc<str>, u64>,
    /// The hash of these names.
    pub(super) uids_id: u64,
    /// The latest changes: the object, and its state before. A stale list follows from them.
    latest: VecDeque<(u64, Option<Print>)>,
}

impl Server {
    pub(super) fn new(model: ApiServer, actors: Actors, outside: Option<Box<dyn ExplorableSystems>>) -> Self {
        let mut server = Self {
            id: 0,
            first: model.revision(),
            model,
            actors,
            outside,
            outside_print: Print::default(),
            versions: Vec::new(),
            objects: BTreeMap::new(),
            uids: BTreeMap::new(),
            uids_id: 0,
            latest: VecDeque::new(),
        };
        server.print_outside();
        server
    }

    /// Returns the systems outside Kubernetes.
    pub(super) fn outside(&self) -> Option<&dyn ExternalSystems> {
        self.outside.as_ref().map(|outside| &**outside as &dyn ExternalSystems)
    }

    /// Returns the systems outside Kubernetes, of which the state must be [read](Self::print_outside) again.
    pub(super) fn outside_mut(&mut self) -> Option<&mut dyn ExternalSystems> {
        self.outside.as_mut().map(|outside| &mut **outside as &mut dyn ExternalSystems)
    }

    /// Reads the state outside Kubernetes. Returns whether it has changed.
    pub(super) fn print_outside(&mut self) -> bool {
        let mut text = String::new();
        if let Some(outside) = &self.outside {
            outside.describe(&mut text);
        }
        let print = self.print(&text, &BTreeMap::new());
        let before = std::mem::replace(&mut self.outside_print, print);
        before != self.outside_print
    }

    /// Executes a request and returns the answer with the changes that it made.
    pub(super) fn handle(
        &mut self,
        author: Author,
        request: &http::Request<Bytes>,
        now: Timestamp,
    ) -> (http::Response<Bytes>, Vec<Change>) {
        let before = self.model.revision();
        let response = match self.model.handle(request, now) {
            Response::Complete(response) => response,
            Response::Watch(head, id) => {
                self.model.cancel_watch(id);
                head.map(|()| Bytes::new())
            }
        };
        let mut changes = self.changes(author, before);
        if !changes.is_empty() {
            changes.extend(self.tick(now));
        }
        (response, changes)
    }

    /// Executes the due work of the control plane and returns the changes that it made.
    pub(super) fn tick(&mut self, now: Timestamp) -> Vec<Change> {
        let mut changes = Vec::new();
        loop {
            let before = self.model.revision();
            if !self.actors.tick(&mut self.model, now) {
                return changes;
            }
            changes.extend(self.changes(Author::ControlPlane, before));
        }
    }

    /// Returns when the control plane has work to do.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.actors.next_due()
    }

    fn changes(&mut self, by: Author, before: u64) -> Vec<Change> {
        let changes = self.model.changes_since(before);
        let changes =
            changes.into_iter().map(|it| Change { by, object: it.object, old: it.old, new: it.new });
        let changes: Vec<Change> = changes.collect();
        for change in &changes {
            self.absorb(change);
        }
        changes
    }

    fn absorb(&mut self, change: &Change) {
        let name = hash(&format!("{:?}", change.object));
        let mut known = self.objects.remove(&name).unwrap_or_default();
        let before = match (&change.old, known.print.take()) {
            (Some(old), None) => Some(self.print_object(old)),
            (_, before) => before,
        };
        self.latest.push_back((name, before));
        if self.latest.len() > LAG_MAX {
            self.latest.pop_front();
        }
        known.versions += 1;
        self.versions.push((name, known.versions));
        if let (None, Some(new)) = (&change.old, &change.new) {
            known.creations += 1;
            let named: (Arc<str>, u64) = (metadata(new, "uid").into(), hash(&(name, known.creations)));
            self.uids_id = self.uids_id.wrapping_add(hash(&named));
            self.uids.insert(named.0, named.1);
        }
        known.print = change.new.as_ref().map(|new| self.print_object(new));
        self.objects.insert(name, known);
    }

    fn print_object(&self, object: &Value) -> Print {
        self.print(&format!("{object:?}"), &BTreeMap::new())
    }

    /// Reads the text of a state.
    pub(super) fn print(&self, text: &str, actions: &BTreeMap<u64, u64>) -> Print {
        Print::of(text, &Names { actions, uids: &self.uids })
    }

    /// Returns the fingerprint of a state: a resource version counts by the number of later versions of its object.
    pub(super) fn resolve(&self, print: &Print) -> u64 {
        let age = |version: &u64| {
            let later = version.checked_sub(self.first + 1).and_then(|index| usize::try_from(index).ok());
            match later.and_then(|index| self.versions.get(index)) {
                Some((name, number)) => {
                    (*name, self.objects.get(name).map_or(0, |known| known.versions - number))
                }
                None => (0, *version),
            }
        };
        hash(&(print.text, print.versions.iter().map(age).collect::<Vec<_>>()))
    }

    /// Returns the fingerprint of all objects and of the state outside Kubernetes.
    pub(super) fn fingerprint(&self) -> u64 {
        let state = |known: &Known| known.print.as_ref().map(|print| self.resolve(print));
        let objects: Vec<_> = self.objects.iter().map(|(name, known)| (name, state(known))).collect();
        hash(&(objects, self.resolve(&self.outside_print)))
    }

    /// Returns the fingerprint of the latest changes, from which a stale list follows.
    pub(super) fn latest(&self) -> u64 {
        let state = |before: &Option<Print>| before.as_ref().map(|print| self.resolve(print));
        hash(&self.latest.iter().map(|(name, before)| (name, state(before))).collect::<Vec<_>>())
    }
}
