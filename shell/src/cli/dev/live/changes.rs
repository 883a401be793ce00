//! What happens to objects, read from a watch of their metadata.

use std::collections::BTreeSet;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::mpsc::{Sender, UnboundedSender};

use super::line::{Line, Tone};

/// Follows one kind. Lets go of `listed` once everything that existed before is known.
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
    let mut known = BTreeSet::new();
    while let Some(event) = stream.next().await {
        // A failed watch is tried again; the view has nothing to say about it.
        let Ok(event) = event else { continue };
        let line = match event {
            Event::Init => None,
            Event::InitApply(object) => {
                known.insert(object.metadata.uid);
                None
            }
            Event::InitDone => {
                drop(listed.take());
                None
            }
            Event::Apply(object) => {
                let is_new = known.insert(object.metadata.uid.clone());
                let (what, tone) = applied(&object.metadata, is_new);
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

fn applied(metadata: &ObjectMeta, is_new: bool) -> (String, Tone) {
    if metadata.deletion_timestamp.is_some() {
        let held_by = metadata.finalizers.as_deref().unwrap_or_default();
        let what = if held_by.is_empty() {
            "is being deleted".to_owned()
        } else {
            format!("is being deleted; waits for {}", held_by.join(", "))
        };
        return (what, Tone::Gone);
    }
    let verb = if is_new { "created" } else { "updated" };
    let what = match last_writer(metadata.managed_fields.as_deref().unwrap_or_default()) {
        Some((manager, Some("status"))) if !is_new => format!("status updated by {manager}"),
        Some((manager, _)) => format!("{verb} by {manager}"),
        None => verb.to_owned(),
    };
    (what, Tone::Plain)
}

/// Who wrote last, and to which subresource; none if several wrote within the second that times are told in.
fn last_writer(entries: &[ManagedFieldsEntry]) -> Option<(&str, Option<&str>)> {
    let last = entries.iter().max_by_key(|entry| entry.time.as_ref())?;
    let mut same_second = entries.iter().filter(|entry| entry.time == last.time);
    let single = same_second.next().filter(|_| same_second.next().is_none())?;
    Some((single.manager.as_deref()?, single.subresource.as_deref()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(manager: &str, second: &str, subresource: Option<&str>) -> Value {
        let time = format!("2024-05-06T07:08:{second}Z");
        json!({"manager": manager, "time": time, "subresource": subresource})
    }

    fn metadata(fields: Value) -> ObjectMeta {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn the_last_writer_is_named_where_it_is_certain() {
        let one = metadata(json!({"managedFields": [entry("a", "01", None)]}));
        assert_eq!(applied(&one, true).0, "created by a");
        let status = json!({"managedFields": [entry("a", "01", None), entry("b", "02", Some("status"))]});
        assert_eq!(applied(&metadata(status), false).0, "status updated by b");
        let tie = json!({"managedFields": [entry("a", "01", None), entry("b", "01", None)]});
        assert_eq!(applied(&metadata(tie), false).0, "updated");
    }

    #[test]
    fn a_deletion_tells_what_it_waits_for() {
        let held = json!({"deletionTimestamp": "2024-05-06T07:08:09Z", "finalizers": ["x/y"]});
        let expected = ("is being deleted; waits for x/y".to_owned(), Tone::Gone);
        assert_eq!(applied(&metadata(held), false), expected);
    }
}
