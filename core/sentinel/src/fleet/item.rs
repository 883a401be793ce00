//! One item of a page, in either dialect.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::resource::{Dialect, Owner, Resource};
use crate::selector::Selector;

/// The maximum size of the fields of an item that events contain, in bytes: thousands of these are held at a time.
const KEPT_MAX_BYTES: usize = 4 << 10;
/// The maximum size of the fields of an item that expressions read, in bytes.
const DOCUMENT_MAX_BYTES: usize = 16 << 10;

#[derive(Deserialize)]
#[serde(expecting = "a resource")]
struct RawResource {
    id: String,
    kind: Option<String>,
    href: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Owner>,
    created_time: Option<String>,
    status: Option<RawStatus>,
}

#[derive(Default, Deserialize)]
#[serde(expecting = "a status")]
struct RawStatus {
    phase: Option<String>,
    #[serde(rename = "lastTransitionTime")]
    last_transition_time: Option<String>,
    conditions: Option<Vec<RawCondition>>,
}

impl RawStatus {
    /// Detects a wrong dialect. Otherwise no resource would ever be ready or reported on, and each would be due at every
    /// poll.
    fn suits(&self, dialect: Dialect) -> Result<(), &'static str> {
        let is_documented = self.phase.is_some() || self.last_transition_time.is_some();
        match dialect {
            Dialect::Labels if self.conditions.is_some() && !is_documented => Err(
                "its status has conditions and no phase: the API seems to be the released one; set hyperfleetAPI.dialect: search",
            ),
            Dialect::Search if self.phase.is_some() && self.conditions.is_none() => Err(
                "its status has a phase and no conditions: the API seems to be the documented one; set hyperfleetAPI.dialect: labels",
            ),
            _ => Ok(()),
        }
    }
}

#[derive(Deserialize)]
#[serde(expecting = "a condition")]
struct RawCondition {
    r#type: String,
    status: String,
    last_updated_time: Option<String>,
}

/// The condition of the released API that means readiness, and the one before 0.3.
const READY_CONDITIONS: [&str; 2] = ["Reconciled", "Ready"];

/// Parses an item. An error states which field is wrong, if it is only one, and why.
pub(super) fn resource(
    item: &RawValue,
    dialect: Dialect,
    selector: &Selector,
    keeps_documents: bool,
) -> Result<Resource, (Option<&'static str>, String)> {
    let raw: RawResource = serde_json::from_str(item.get()).map_err(|error| (None, problem(&error)))?;
    if raw.id.is_empty() {
        return Err((Some("id"), "its id is empty".to_owned()));
    }
    let status = raw.status.unwrap_or_default();
    status.suits(dialect).map_err(|problem| (Some("status"), problem.to_owned()))?;
    let is_selected = match (dialect, raw.labels) {
        (Dialect::Labels, None) => true,
        (_, labels) => selector.matches(&labels.unwrap_or_default()),
    };
    if !is_selected {
        // What is wrong with it is reported by the shard that it belongs to.
        return Ok(Resource { id: raw.id, ..Resource::default() });
    }
    let (is_ready, field, since) = match dialect {
        Dialect::Labels => (
            status.phase.as_deref() == Some("Ready"),
            "status.lastTransitionTime",
            status.last_transition_time,
        ),
        Dialect::Search => {
            let mut conditions = status.conditions.unwrap_or_default();
            let found = READY_CONDITIONS
                .iter()
                .find_map(|name| conditions.iter().position(|condition| condition.r#type == *name));
            let condition = found.map(|index| conditions.swap_remove(index));
            let is_ready = condition.as_ref().is_some_and(|condition| condition.status == "True");
            let since = condition.and_then(|condition| condition.last_updated_time);
            (is_ready, "last_updated_time of its condition", since)
        }
    };
    let (field, since) = match since {
        Some(since) => (field, Some(since)),
        None => ("created_time", raw.created_time),
    };
    let since = since.map(|since| {
        let problem = |_| (Some(field), format!("{field} is {since:?}, not a time as RFC 3339 has it"));
        since.parse::<Timestamp>().map_err(problem)
    });
    let resource = Resource {
        kind: raw.kind,
        href: raw.href,
        generation: raw.generation,
        is_selected,
        owner_references: raw.owner_references,
        is_ready,
        since: since.transpose()?,
        document: Some(item.get())
            .filter(|text| keeps_documents && text.len() <= DOCUMENT_MAX_BYTES)
            .map(Into::into),
        id: raw.id,
    };
    if resource.kept() > KEPT_MAX_BYTES {
        return Err((None, "its id, kind, href and owner_references are longer than 4 KiB".to_owned()));
    }
    Ok(resource)
}

/// Returns the message without its line and column: they refer to the kept text of the item, which only the Sentinel has.
fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(problem, _)| problem.to_owned())
}

/// Returns the id of an item that can't be parsed, if it has one.
pub(super) fn id(item: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    serde_json::from_str(item.get()).ok().map(|Named { id }| id)
}
