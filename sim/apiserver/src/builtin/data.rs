//! The checked-in data: discovery and OpenAPI documents of the real server.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::resource::Resource;
use super::types;

const DISCOVERY: &str = include_str!("../../schemas/discovery.json");
const OPEN_API: &str = include_str!("../../schemas/openapi.json");
const COLUMNS: &str = include_str!("../../schemas/columns.json");

/// Subresources that are views of the whole object; the others (logs, exec, tokens) need a node or a signer.
const SUBRESOURCES: [&str; 6] = ["status", "scale", "finalize", "ephemeralcontainers", "resize", "eviction"];

/// One column of a server-side table: name, type, format, description, priority.
pub type Column = (&'static str, &'static str, &'static str, &'static str, i64);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: &'static str,
    singular_name: &'static str,
    namespaced: bool,
    kind: &'static str,
    #[serde(default)]
    short_names: Vec<&'static str>,
    #[serde(default)]
    categories: Vec<&'static str>,
}

#[derive(Deserialize)]
struct OpenApi {
    schemas: Map<String, Value>,
    documents: BTreeMap<String, Document>,
    shared: Vec<Value>,
}

#[derive(Deserialize)]
struct Document {
    openapi: String,
    info: Value,
    paths: Value,
    schemas: Vec<String>,
    own: Map<String, Value>,
}

/// Returns the resources of every group version, in the order of discovery.
pub(super) fn resources() -> &'static [Resource] {
    static RESOURCES: OnceLock<Vec<Resource>> = OnceLock::new();
    RESOURCES.get_or_init(|| {
        let mut documents: BTreeMap<&str, Vec<ApiResource>> =
            serde_json::from_str(DISCOVERY).expect("the checked-in discovery documents are well-formed");
        let order = DISCOVERY_ORDER.into_iter();
        order
            .flat_map(|path| group_version_resources(path, &documents.remove(path).unwrap_or_default()))
            .collect()
    })
}

/// Group versions by priority, as the aggregated discovery of the real server lists them.
const DISCOVERY_ORDER: [&str; 17] = [
    "api/v1",
    "apis/apps/v1",
    "apis/events.k8s.io/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/autoscaling/v2",
    "apis/autoscaling/v1",
    "apis/batch/v1",
    "apis/networking.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/storage.k8s.io/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/coordination.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
];

fn group_version_resources(path: &'static str, listed: &[ApiResource]) -> Vec<Resource> {
    let (group, version) = match path.split('/').collect::<Vec<_>>()[..] {
        [_, group, version] => (group, version),
        _ => ("", "v1"),
    };
    let subresources_of = |plural: &str| -> Vec<&'static str> {
        let names = listed.iter().filter_map(|entry| entry.name.split_once('/'));
        names
            .filter(|(of, name)| *of == plural && SUBRESOURCES.contains(name))
            .map(|(_, name)| name)
            .collect()
    };
    let whole = listed.iter().filter(|entry| !entry.name.contains('/'));
    whole
        .map(|entry| Resource {
            group,
            version,
            kind: entry.kind,
            plural: entry.name,
            singular: entry.singular_name,
            short_names: entry.short_names.clone().leak(),
            categories: entry.categories.clone().leak(),
            namespaced: entry.namespaced,
            subresources: subresources_of(entry.name).leak(),
        })
        .collect()
}

/// Returns the entries of one group version's `APIResourceList`, including subresources, verbs and storage hashes.
pub(super) fn api_resources(path: &str) -> Option<Vec<Value>> {
    static DOCUMENTS: OnceLock<BTreeMap<&str, Vec<Value>>> = OnceLock::new();
    let documents = DOCUMENTS.get_or_init(|| {
        serde_json::from_str(DISCOVERY).expect("the checked-in discovery documents are well-formed")
    });
    documents.get(path).cloned()
}

fn open_api_data() -> &'static OpenApi {
    static DATA: OnceLock<OpenApi> = OnceLock::new();
    DATA.get_or_init(|| serde_json::from_str(OPEN_API).expect("the checked-in OpenAPI data is well-formed"))
}

/// Returns the schemas of all documents.
pub(super) fn components() -> &'static Map<String, Value> {
    static COMPONENTS: OnceLock<Map<String, Value>> = OnceLock::new();
    COMPONENTS.get_or_init(|| {
        let mut components = open_api_data().schemas.clone();
        // The required fields of built-in kinds are not used, but the fields that their structs always have, even if null.
        for (name, schema) in &mut components {
            if let Some(held) = types::held_if_null(name) {
                schema["required"] = held.into();
            }
        }
        components
    })
}

/// Returns one group version's whole document.
pub(super) fn open_api(path: &str) -> Option<Value> {
    let data = open_api_data();
    let document = data.documents.get(path)?;
    let mut schemas = document.own.clone();
    for name in &document.schemas {
        schemas.insert(name.clone(), data.schemas.get(name)?.clone());
    }
    Some(json!({
        "openapi": document.openapi,
        "info": document.info,
        "paths": unshare(&document.paths, &data.shared),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        },
    }))
}

/// Replaces references by the shared subtrees.
fn unshare(value: &Value, shared: &[Value]) -> Value {
    match value {
        Value::Object(fields) => {
            let reference =
                fields.get("$").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
            match reference.and_then(|index| shared.get(index)) {
                Some(part) => unshare(part, shared),
                None => fields.iter().map(|(name, child)| (name.clone(), unshare(child, shared))).collect(),
            }
        }
        Value::Array(items) => items.iter().map(|item| unshare(item, shared)).collect(),
        _ => value.clone(),
    }
}

/// Returns the columns of a resource's table.
pub(super) fn columns(resource: &Resource) -> Vec<Column> {
    static TABLES: OnceLock<BTreeMap<String, Vec<Column>>> = OnceLock::new();
    let tables = TABLES.get_or_init(|| {
        type Text = (String, String, String, String, i64);
        let tables: BTreeMap<String, Vec<Text>> =
            serde_json::from_str(COLUMNS).expect("the checked-in columns are well-formed");
        // Read once and kept for the lifetime of the process.
        let keep = |text: String| -> &'static str { text.leak() };
        let column = |(name, kind, format, description, priority)| {
            (keep(name), keep(kind), keep(format), keep(description), priority)
        };
        tables.into_iter().map(|(path, columns)| (path, columns.into_iter().map(column).collect())).collect()
    });
    let Resource { group, version, plural, .. } = resource;
    let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
    tables.get(&format!("{path}/{plural}")).cloned().unwrap_or_default()
}
