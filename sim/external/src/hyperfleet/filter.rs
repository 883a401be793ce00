//! Selects the resources of a request.

use lockstep_apiserver::server::selector;

use super::resource::Resource;
use super::search::Search;

/// The requirements for a listed resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Filter {
    /// The cluster to which it must belong, if any.
    pub(super) owner: Option<String>,
    pub(super) query: Query,
}

/// The query of the client, in the language of the dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Query {
    Selector(selector::Labels),
    Search(Search),
}

impl Default for Query {
    fn default() -> Self {
        Self::Search(Search::default())
    }
}

impl Filter {
    /// Returns whether it accepts everything.
    pub(super) fn is_open(&self) -> bool {
        self.owner.is_none()
            && match &self.query {
                Query::Selector(labels) => labels.is_empty(),
                Query::Search(search) => search.is_open(),
            }
    }

    pub(super) fn matches(&self, resource: &Resource) -> bool {
        if self.owner.is_some() && self.owner != resource.owner {
            return false;
        }
        match &self.query {
            Query::Selector(labels) => labels.select(|key| resource.labels.get(key).map(String::as_str)),
            Query::Search(search) => search.matches(resource),
        }
    }
}
