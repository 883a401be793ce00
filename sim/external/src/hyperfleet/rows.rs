//! The resources of one kind, and the cached results of searches.

use std::collections::VecDeque;
use std::sync::Arc;

use super::filter::Filter;
use super::resource::Resource;

/// Number of cached results. A read of all pages of a search needs one.
const VIEWS: usize = 8;

/// Resources by id, each once. A vector and not a map: pages and totals are found by position.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows(Vec<Arc<Resource>>);

impl Rows {
    fn position(&self, id: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|row| row.id.as_str().cmp(id))
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Resource>> {
        self.position(id).ok().map(|at| &self.0[at])
    }

    fn put(&mut self, resource: &Arc<Resource>) {
        match self.position(&resource.id) {
            Ok(at) => self.0[at] = Arc::clone(resource),
            Err(at) => self.0.insert(at, Arc::clone(resource)),
        }
    }

    fn remove(&mut self, id: &str) {
        if let Ok(at) = self.position(id) {
            self.0.remove(at);
        }
    }

    /// Returns all of them, by id.
    pub(super) fn all(&self) -> &[Arc<Resource>] {
        &self.0
    }

    /// Returns those with greater ids.
    pub(super) fn after(&self, id: Option<&str>) -> &[Arc<Resource>] {
        let from = id.map_or(0, |id| self.position(id).map_or_else(|at| at, |at| at + 1));
        &self.0[from..]
    }
}

/// The resources of one kind. Cached results of searches are kept up to date, so no page costs a scan.
#[derive(Debug, Clone, Default)]
pub(super) struct Collection {
    rows: Rows,
    views: VecDeque<(Filter, Rows)>,
}

impl Collection {
    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    pub(super) fn put(&mut self, resource: Resource) {
        let resource = Arc::new(resource);
        for (filter, rows) in &mut self.views {
            if filter.matches(&resource) {
                rows.put(&resource);
            } else {
                rows.remove(&resource.id);
            }
        }
        self.rows.put(&resource);
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.rows.remove(id);
        for (_, rows) in &mut self.views {
            rows.remove(id);
        }
    }

    /// Returns the resources that the filter accepts.
    pub(super) fn view(&mut self, filter: Filter) -> &Rows {
        if filter.is_open() {
            return &self.rows;
        }
        let at = self.views.iter().position(|(known, _)| *known == filter).unwrap_or_else(|| {
            let found = self.rows.0.iter().filter(|row| filter.matches(row)).cloned().collect();
            if self.views.len() == VIEWS {
                self.views.pop_front();
            }
            self.views.push_back((filter, Rows(found)));
            self.views.len() - 1
        });
        &self.views[at].1
    }
}
