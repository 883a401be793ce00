//! The changes of objects, from a watch of their metadata.

use std::collections::BTreeMap;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::mpsc::{Sender, UnboundedSender};
use tracing::debug;

use super::line::{Line, Tone};

/// Follows one kind. Drops `listed` once all existing objects are known.
pub(super) async fn follow(
    client: Client,
    resource: ApiResource,
    lines: UnboundedSender<Line>,
    listed: Sender<()>,
) {
    let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client, &resource);
    let stream = watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(stream);
    let mut listed = Some(listed);
    let mut known = BTreeMap::new();
    while let Some(event) = stream.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                debug!(kind = resource.kind, "live view: {error}");
                if is_refused(&error) {
                    return;
                }
                // The watch is retried; changes of this kind are shown once it works.
                continue;
            }
        };
        let line = match event {
            Event::Init => None,
            Event::InitApply(object) => {
                known.insert(object.metadata.uid, object.metadata.managed_fields.unwrap_or_default());
                None
            }
            Event::InitDone => {
                drop(listed.take());
                None
            }
            Event::Apply(object) => {
                let fields = object.metadata.managed_fields.clone().unwrap_or_default();
                let before = known.insert(object.metadata.uid.clone(), fields);
                let (what, tone) = applied(&object.metadata, before.as_deref());
                Some(about(&resource, &object.metadata, what, tone))
            }
            Event::Delete(object) => {
                known.remove(&object.metadata.uid);
                Some(about(&resource, &object.metadata, "deleted".to_owned(), Tone::Gone))
            }
        };
        if let Some(line) = line
            && lines.send(line).is_err()
        {
            return;
        }
    }
}

fn about(resource: &ApiResource, metadata: &ObjectMeta, what: String, tone: Tone) -> Line {
    let name = metadata.name.as_deref().unwrap_or_default();
    Line::now(&resource.kind, metadata.namespace.as_deref(), name, what, tone)
}

/// Returns whether the kind can't be watched at all.
fn is_refused(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 405)
}

/// Describes the change of an object. `before` has its previous managed fields; `None` for a new object.
fn applied(metadata: &ObjectMeta, before: Option<&[ManagedFieldsEntry]>) -> (String, Tone) {
    if metadata.deletion_timestamp.is_some() {
        let held_by = metadata.finalizers.as_deref().unwrap_or_default();
        let what = if held_by.is_empty() {
            "is being deleted".to_owned()
        } else {
            format!("is being deleted; waits for {}", held_by.join(", "))
        };
        return (what, Tone::Gone);
    }
    let verb = if before.is_some() { "updated" } else { "created" };
    let what = match writer(metadata.managed_fields.as_deref().unwrap_or_default(), before) {
        Some((manager, Some("status"))) => format!("status {verb} by {manager}"),
        Some((manager, _)) => format!("{verb} by {manager}"),
        None => verb.to_owned(),
    };
    (what, Tone::Plain)
}

/// Returns the writer and the subresource: the manager of the new entry. `None` if that is not certain.
fn writer<'a>(
    entries: &'a [ManagedFieldsEntry],
    before: Option<&[ManagedFieldsEntry]>,
) -> Option<(&'a str, Option<&'a str>)> {
    let mut new = entries.iter().filter(|entry| before.is_none_or(|before| !before.contains(entry)));
    let single = new.next().filter(|_| new.next().is_none())?;
    Some((single.manager.as_deref()?, single.subresource.as_deref()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(manager: &str, field: &str, subresource: Option<&str>) -> Value {
        json!({"manager": manager, "fieldsV1": {field: {}}, "subresource": subresource})
    }

    fn metadata(fields: Value) -> ObjectMeta {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn the_writer_is_named_where_it_is_certain() {
        let one = metadata(json!({"managedFields": [entry("a", "f:x", None)]}));
        assert_eq!(applied(&one, None).0, "created by a");
        let before = one.managed_fields.unwrap();
        let two = json!({"managedFields": [entry("a", "f:x", None), entry("b", "f:y", Some("status"))]});
        assert_eq!(applied(&metadata(two.clone()), Some(&before)).0, "status updated by b");
        assert_eq!(applied(&metadata(two), None).0, "created");
        let other = json!({"managedFields": [entry("a", "f:z", None)]});
        assert_eq!(applied(&metadata(other), Some(&before)).0, "updated by a");
    }

    #[test]
    fn a_deletion_shows_the_remaining_finalizers() {
        let held = json!({"deletionTimestamp": "2024-05-06T07:08:09Z", "finalizers": ["x/y"]});
        let expected = ("is being deleted; waits for x/y".to_owned(), Tone::Gone);
        assert_eq!(applied(&metadata(held), None), expected);
    }
}
