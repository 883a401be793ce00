//! The paths of a custom resource in its OpenAPI document: operations, parameters and bodies.

use serde_json::{Map, Value, json};

use crate::server::registry::Resource;

/// The name prefix of the schemas that all documents share.
pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

pub(super) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

const LIST: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
const GET: [&str; 1] = ["resourceVersion"];
const WRITE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
const PATCH: [&str; 4] = ["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE: [&str; 5] = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];

const PLAIN: [&str; 2] = ["application/json", "application/yaml"];
const PATCHES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];

/// A resource as its document describes it.
pub(super) struct Described<'a> {
    pub(super) resource: &'a Resource,
    /// The name of its schema.
    pub(super) schema: &'a str,
    /// Group, version and kind.
    pub(super) kind: &'a Value,
    /// Whether it has `/status` and `/scale`.
    pub(super) subresources: [(&'static str, bool); 2],
}

impl Described<'_> {
    /// Adds the paths below that of the group version.
    pub(super) fn add_paths(&self, paths: &mut Map<String, Value>, root: &str) {
        let plural = &self.resource.plural;
        let (list, own) = (format!("{}List", self.schema), self.schema);
        let namespace = if self.resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("/{root}{namespace}/{plural}");
        if self.resource.namespaced {
            let mut everywhere = json!({"get": self.operation("list", &[], None, &list)});
            everywhere["parameters"] =
                parameters(&LIST, "query").chain(parameters(&["pretty"], "query")).collect();
            paths.insert(format!("/{root}/{plural}"), everywhere);
        }
        let mut all = json!({
            "get": self.operation("list", &LIST, None, &list),
            "post": self.operation("post", &WRITE, Some((&PLAIN, own)), own),
            "delete": self.operation("deletecollection", &LIST, None, &meta("Status")),
        });
        all["parameters"] = self.common(false);
        paths.insert(collection.clone(), all);
        let mut one = self.object(own);
        let options = meta("DeleteOptions");
        one["delete"] = self.operation("delete", &DELETE, Some((&PLAIN, &options)), &meta("Status"));
        paths.insert(format!("{collection}/{{name}}"), one);
        for (name, _) in self.subresources.iter().filter(|(_, there)| *there) {
            let shown = if *name == "scale" { SCALE } else { own };
            paths.insert(format!("{collection}/{{name}}/{name}"), self.object(shown));
        }
    }

    fn object(&self, shown: &str) -> Value {
        json!({
            "get": self.operation("get", &GET, None, shown),
            "put": self.operation("put", &WRITE, Some((&PLAIN, shown)), shown),
            "patch": self.operation("patch", &PATCH, Some((&PATCHES, &meta("Patch"))), shown),
            "parameters": self.common(true),
        })
    }

    /// Returns the parameters of every operation on a path.
    fn common(&self, named: bool) -> Value {
        let name = parameters(if named { &["name"] } else { &[] }, "path");
        let namespace = parameters(if self.resource.namespaced { &["namespace"] } else { &[] }, "path");
        name.chain(namespace).chain(parameters(&["pretty"], "query")).collect()
    }

    fn operation(
        &self,
        action: &str,
        query: &[&'static str],
        body: Option<(&[&str], &str)>,
        shown: &str,
    ) -> Value {
        let mut operation = json!({
            "responses": {"200": {"description": "OK", "content": content(&PLAIN, shown)}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.kind,
        });
        if !query.is_empty() {
            operation["parameters"] = parameters(query, "query").collect();
        }
        if let Some((types, schema)) = body {
            operation["requestBody"] = json!({"content": content(types, schema)});
        }
        operation
    }
}

fn meta(name: &str) -> String {
    format!("{META}{name}")
}

fn content(types: &[&str], schema: &str) -> Value {
    let schema = json!({"schema": {"$ref": format!("#/components/schemas/{schema}")}});
    types.iter().map(|media_type| ((*media_type).to_owned(), schema.clone())).collect::<Map<_, _>>().into()
}

fn parameters<'a>(names: &'a [&'static str], place: &'a str) -> impl Iterator<Item = Value> + 'a {
    names.iter().map(move |name| {
        let kind = match *name {
            "allowWatchBookmarks"
            | "force"
            | "ignoreStoreReadErrorWithClusterBreakingPotential"
            | "orphanDependents"
            | "sendInitialEvents"
            | "watch" => "boolean",
            "gracePeriodSeconds" | "limit" | "timeoutSeconds" => "integer",
            _ => "string",
        };
        let mut parameter = json!({"name": name, "in": place, "schema": {"type": kind, "uniqueItems": true}});
        if place == "path" {
            parameter["required"] = true.into();
        }
        parameter
    })
}
