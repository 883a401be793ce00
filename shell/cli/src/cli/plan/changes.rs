//! The planned changes, as writes.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use lockstep_engine::action::{Action, Answer as _, KubeRequest, Outcome, Success};
use lockstep_engine::object::{Kind, ObjectRef, Uid, metadata, text};
use serde_json::{Map, Value};

use super::reader::Reader;

/// The field manager of the planned changes, which is that of `kubectl apply --server-side`.
pub(super) const FIELD_MANAGER: &str = "kubectl";
/// The manager of objects that `kubectl apply` without `--server-side` has written.
const CLIENT_SIDE_APPLY: &str = "kubectl-client-side-apply";
/// Fields that the API server sets.
const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"];

/// The planned writes, and what the cluster has of their objects.
pub(super) struct Changes {
    pub(super) writes: Vec<KubeRequest>,
    pub(super) reads: Vec<(Action, Outcome)>,
}

impl Changes {
    /// Finds the kinds of the objects and the objects themselves.
    pub(super) async fn find(
        reader: &mut Reader,
        objects: Vec<Value>,
        namespace: &str,
        delete: bool,
    ) -> anyhow::Result<Self> {
        let mut changes = Self { writes: Vec::new(), reads: Vec::new() };
        for object in objects {
            let kind = kind(reader, &object).await?;
            let target = target(&kind, &object, namespace);
            let get = Action::Kube(KubeRequest::Get { target: target.clone(), metadata_only: false });
            let live = reader.read(&get).await?.found()?;
            let live = live.map(|live| Arc::new(migrated(Value::clone(&live))));
            changes.writes.push(if delete {
                let live = live.as_ref().ok_or_else(|| anyhow!("{target} does not exist"))?;
                let uid = Uid::of(live);
                KubeRequest::Delete { target, uid, resource_version: None }
            } else {
                KubeRequest::Apply { manifest: Arc::new(manifest(object, &target)), target }
            });
            if let Some(live) = live {
                changes.reads.push((get, Ok(Success::Object(live))));
            }
        }
        Ok(changes)
    }
}

async fn kind(reader: &mut Reader, object: &Value) -> anyhow::Result<Arc<Kind>> {
    let [api_version, kind] = ["/apiVersion", "/kind"].map(|field| text(object, field).unwrap_or_default());
    let discover = KubeRequest::Discover { api_version: api_version.to_owned() };
    let served = reader.read(&Action::Kube(discover)).await?;
    let kinds = match served {
        Ok(Success::Kinds(kinds)) => kinds,
        _ => Vec::new(),
    };
    let found = kinds.into_iter().find(|served| served.kind == kind);
    found.with_context(|| format!("the cluster does not serve the kind {kind} of {api_version}"))
}

fn target(kind: &Arc<Kind>, object: &Value, default: &str) -> ObjectRef {
    let name = metadata(object, "name");
    match (kind.namespaced, metadata(object, "namespace")) {
        (false, _) => ObjectRef::cluster(kind, name),
        (true, "") => ObjectRef::namespaced(kind, default, name),
        (true, namespace) => ObjectRef::namespaced(kind, namespace, name),
    }
}

/// Returns the manifest of an apply: the object without what the API server sets.
fn manifest(mut object: Value, target: &ObjectRef) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| !SYSTEM_FIELDS.contains(&field.as_str()));
        if let Some(namespace) = &target.namespace {
            metadata.insert("namespace".to_owned(), namespace.as_str().into());
        }
    }
    object
}

/// Gives the fields of client-side apply to server-side apply, as `kubectl apply --server-side` does. Otherwise a field that the
/// file no longer has would remain.
fn migrated(mut live: Value) -> Value {
    let entries = live.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    let Some(entries) = entries else { return live };
    let is_of = |entry: &Value, manager: &str, operation: &str| {
        entry["manager"] == manager && entry["operation"] == operation && entry["subresource"].is_null()
    };
    let Some(old) = entries.iter().position(|entry| is_of(entry, CLIENT_SIDE_APPLY, "Update")) else {
        return live;
    };
    let mut old = entries.remove(old);
    if let Some(entry) = entries.iter_mut().find(|entry| is_of(entry, FIELD_MANAGER, "Apply")) {
        if let (Some(to), Some(from)) = (entry["fieldsV1"].as_object_mut(), old["fieldsV1"].as_object()) {
            unite(to, from);
        }
    } else {
        old["manager"] = FIELD_MANAGER.into();
        old["operation"] = "Apply".into();
        entries.insert(0, old);
    }
    live
}

/// Adds the fields of one set to another.
fn unite(to: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (field, below) in from {
        match (to.get_mut(field), below) {
            (Some(Value::Object(to)), Value::Object(from)) => unite(to, from),
            (Some(_), _) => {}
            (None, below) => {
                to.insert(field.clone(), below.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsV1": fields})
    }

    #[test]
    fn fields_of_client_side_apply_belong_to_server_side_apply() {
        let client = entry(CLIENT_SIDE_APPLY, "Update", &json!({"f:spec": {"f:a": {}}}));
        let server = entry("kubectl", "Apply", &json!({"f:spec": {"f:b": {}}}));
        let other = entry("other", "Update", &json!({"f:spec": {"f:c": {}}}));
        let after = |entries: &[&Value]| {
            migrated(json!({"metadata": {"managedFields": entries}}))["metadata"]["managedFields"].take()
        };
        let renamed = entry("kubectl", "Apply", &json!({"f:spec": {"f:a": {}}}));
        assert_eq!(after(&[&client, &other]), json!([renamed, other]));
        let united = entry("kubectl", "Apply", &json!({"f:spec": {"f:a": {}, "f:b": {}}}));
        assert_eq!(after(&[&server, &client]), json!([united]));
        assert_eq!(after(&[&other]), json!([other]));
    }

    #[test]
    fn an_object_as_the_server_shows_it_can_be_applied() {
        let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        let object = json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}},
            "data": {},
            "status": {},
        });
        let target = target(&kind, &object, "shop");
        assert_eq!(target, ObjectRef::namespaced(&kind, "shop", "a"));
        let metadata = json!({"name": "a", "namespace": "shop", "labels": {"a": "b"}});
        assert_eq!(manifest(object, &target), json!({"metadata": metadata, "data": {}}));
    }
}
