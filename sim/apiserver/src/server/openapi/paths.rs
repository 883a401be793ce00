//! The paths of a custom resource in its OpenAPI document: operations, parameters and bodies.

use serde_json::{Map, Value, json};

use crate::server::registry::Resource;

/// The name prefix of the schemas that all documents share.
pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The extension of schemas that lists the fields by which objects can be selected.
pub(super) const SELECTABLE: &str = "x-kubernetes-selectable-fields";

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

/// The end of the name of the operation that lists the objects of all namespaces.
const EVERYWHERE: &str = "ForAllNamespaces";

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
            let mut everywhere = json!({"get": self.operation("list", EVERYWHERE, &[], None, &list)});
            everywhere["parameters"] =
                parameters(&LIST, "query").chain(parameters(&["pretty"], "query")).collect();
            paths.insert(format!("/{root}/{plural}"), everywhere);
        }
        let mut all = json!({
            "get": self.operation("list", "", &LIST, None, &list),
            "post": self.operation("post", "", &WRITE, Some((&PLAIN, own)), own),
            "delete": self.operation("deletecollection", "", &LIST, None, &meta("Status")),
        });
        all["parameters"] = self.common(false);
        paths.insert(collection.clone(), all);
        let mut one = self.object("", own);
        let options = meta("DeleteOptions");
        one["delete"] = self.operation("delete", "", &DELETE, Some((&PLAIN, &options)), &meta("Status"));
        paths.insert(format!("{collection}/{{name}}"), one);
        for (name, _) in self.subresources.iter().filter(|(_, there)| *there) {
            let (title, shown) = if *name == "scale" { ("Scale", SCALE) } else { ("Status", own) };
            paths.insert(format!("{collection}/{{name}}/{name}"), self.object(title, shown));
        }
    }

    fn object(&self, subresource: &str, shown: &str) -> Value {
        json!({
            "get": self.operation("get", subresource, &GET, None, shown),
            "put": self.operation("put", subresource, &WRITE, Some((&PLAIN, shown)), shown),
            "patch": self.operation("patch", subresource, &PATCH, Some((&PATCHES, &meta("Patch"))), shown),
            "parameters": self.common(true),
        })
    }

    /// Returns the parameters of every operation on a path.
    fn common(&self, named: bool) -> Value {
        let name = parameters(if named { &["name"] } else { &[] }, "path");
        let namespace = parameters(if self.resource.namespaced { &["namespace"] } else { &[] }, "path");
        name.chain(namespace).chain(parameters(&["pretty"], "query")).collect()
    }

    /// Returns the name that generators of clients use, such as `readExampleComV1NamespacedWidgetStatus`.
    fn operation_id(&self, action: &str, suffix: &str) -> String {
        let (verb, collection) = match action {
            "get" => ("read", ""),
            "post" => ("create", ""),
            "put" => ("replace", ""),
            "deletecollection" => ("delete", "collection"),
            verb => (verb, ""),
        };
        let namespaced = if self.resource.namespaced && suffix != EVERYWHERE { "Namespaced" } else { "" };
        let kind = &self.resource.kind;
        let object = in_one_word(&format!("{collection}{namespaced}{kind}{suffix}"), true);
        let [group, version] = self.group_version(true);
        format!("{verb}{group}{version}{object}")
    }

    /// Returns the name under which generators of clients put an operation.
    fn tag(&self) -> String {
        self.group_version(false).join("_")
    }

    fn group_version(&self, capital: bool) -> [String; 2] {
        let [group, version] = ["group", "version"].map(|key| self.kind[key].as_str().unwrap_or_default());
        [group.strip_suffix(".k8s.io").unwrap_or(group), version].map(|name| in_one_word(name, capital))
    }

    fn operation(
        &self,
        action: &str,
        suffix: &str,
        query: &[&'static str],
        body: Option<(&[&str], &str)>,
        shown: &str,
    ) -> Value {
        let mut operation = json!({
            "operationId": self.operation_id(action, suffix),
            "tags": [self.tag()],
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

/// Returns the words of a name in one word: the first letter of each is upper-case, that of the first word only if `capital`.
fn in_one_word(name: &str, mut capital: bool) -> String {
    let mut word = String::new();
    for (index, letter) in name.char_indices() {
        if letter.is_ascii_alphabetic() || letter == '_' || (index > 0 && letter.is_ascii_digit()) {
            word.push(if capital { letter.to_ascii_uppercase() } else { letter });
            capital = false;
        } else {
            capital = true;
        }
    }
    word
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
