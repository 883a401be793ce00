//! What a list or watch selects, and the resource version at which it starts.

use serde_json::Value;

use super::request::Request;
use super::scope::Scope;
use super::selector::{Fields, Labels};
use super::status::{Status, quote};
use super::store::{Prefix, key};
use super::{events, fields};

/// The selection of a list or watch.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) prefix: Prefix,
    pub(super) labels: Labels,
    pub(super) fields: Fields,
}

impl Selection {
    pub(super) fn parse(scope: &Scope, request: &Request<'_>) -> Result<Self, Status> {
        for number in ["limit", "timeoutSeconds"] {
            request.query.number(number)?;
        }
        let labels = Labels::parse(request.query.text("labelSelector"))?;
        let selected = Fields::parse(request.query.text("fieldSelector"))?;
        fields::check(scope, &selected)?;
        let name = selected.exact_name().filter(|name| !name.is_empty());
        let prefix = match name {
            Some(name) if !scope.namespace.is_empty() || !scope.resource.namespaced => {
                Prefix::object(key(&scope.namespace, name))
            }
            _ => Prefix::namespace(&scope.namespace),
        };
        // Objects with two representations are stored in the first.
        let is_second_face = scope.resource.is_second_face();
        let fields = if is_second_face { selected.renamed(events::stored_field) } else { selected };
        Ok(Self { prefix, labels, fields })
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    /// Returns whether every object under the prefix matches.
    pub(super) fn is_plain(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// Parses a resource version; none if it is unset.
pub(super) fn parse_version(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let text = quote(text);
        format!("resourceVersion: Invalid value: {text}: strconv.ParseUint: parsing {text}: invalid syntax")
    })
}
