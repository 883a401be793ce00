//! Resolves the resources of a class: which of them can be applied, and what exactly is applied.
//!
//! Source: NamespaceClass operator, "Define a NamespaceClass"; decisions on malformed classes in `docs/decisions`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_crds::namespaceclass::{AppliedResource, GROUP};
use lockstep_engine::digest::digest;
use lockstep_engine::object::{Kind, Uid, controller_reference, metadata};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::expression::NamespaceMetadata;
use super::kinds::Kinds;
use super::names::{
    self, ADOPTED_ANNOTATION, ADOPTION_POLICY_ANNOTATION, CLASS_LABEL, CONTENT_ANNOTATION, VALUES_ANNOTATION,
};
use super::placeholders;
use super::variables::{Values, Variables};

/// Identifies a resource within a namespace, whatever version of its API is used: group, kind, name.
pub type ResourceId = (String, String, String);

/// One resource of a class that can be applied.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassResource {
    /// Its index in `spec.resources`.
    pub index: usize,
    /// Its kind.
    pub kind: Arc<Kind>,
    /// Its name.
    pub name: String,
    /// Whether an adopted object stays when the class no longer lists it.
    pub keeps_adopted: bool,
    /// Everything that is applied, except the fields that differ between namespaces.
    template: Value,
    /// The value of the content annotation: two entries with equal values have equal content.
    #[serde(rename = "namespaceclass.akuity.io/content")]
    pub content: String,
    /// The variables in the template; `None` if nothing in it has to be replaced any more.
    variables: Option<BTreeSet<String>>,
    /// The value of the values annotation, if placeholders were replaced.
    pub values: Option<String>,
}

impl ClassResource {
    /// Returns the resource in the form that a status lists.
    pub fn applied(&self) -> AppliedResource {
        AppliedResource {
            api_version: self.kind.api_version(),
            kind: self.kind.kind.clone(),
            name: self.name.clone(),
        }
    }

    /// Returns the title of the resource for messages.
    pub fn title(&self) -> String {
        format!("spec.resources[{}]: {} {}", self.index, self.kind.kind, self.name)
    }

    /// Returns the identity of the resource, whatever the version.
    pub fn id(&self) -> ResourceId {
        (self.kind.group.clone(), self.kind.kind.clone(), self.name.clone())
    }

    /// Returns the manifest for a namespace. Its binding, which is named like it and has this uid, becomes the resource's
    /// controller. An object that existed before and is to be kept has no owner, or the garbage collector would remove it
    /// with the binding.
    pub fn manifest(&self, namespace: &str, binding_uid: &Uid, adopted: bool) -> Value {
        let mut manifest = self.template.clone();
        manifest["metadata"]["namespace"] = json!(namespace);
        if adopted {
            manifest["metadata"]["annotations"][ADOPTED_ANNOTATION] = json!(binding_uid);
        }
        if !adopted || !self.keeps_adopted {
            let owner = controller_reference(&names::binding(), namespace, binding_uid);
            manifest["metadata"]["ownerReferences"] = json!([owner]);
        }
        manifest
    }

    /// Returns the resource in a namespace, in which its variables have these values.
    ///
    /// # Errors
    ///
    /// If a variable has no value there.
    fn filled(&self, variables: &BTreeSet<String>, values: &Values<'_>) -> Result<Self, String> {
        let mut used = BTreeMap::new();
        for name in variables {
            match values.get_key_value(name.as_str()) {
                Some((name, Ok(value))) => drop(used.insert(*name, value.as_str())),
                Some((_, Err(reason))) => return Err(format!("{}: {reason}", self.title())),
                None => {}
            }
        }
        // The mark of the content stays that of the class: a recording, which hides Secrets, could not follow another one.
        let values = digest(&json!(used));
        let mut template = placeholders::filled(&self.template, &used);
        template["metadata"]["annotations"][VALUES_ANNOTATION] = json!(values);
        Ok(Self {
            index: self.index,
            kind: Arc::clone(&self.kind),
            name: self.name.clone(),
            keeps_adopted: self.keeps_adopted,
            template,
            content: self.content.clone(),
            variables: None,
            values: Some(values),
        })
    }

    /// Returns the fields of the template, to compare them with the owned fields.
    pub fn template(&self) -> &Value {
        &self.template
    }
}

/// One resource of a class that can't be applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Its index in `spec.resources`.
    pub index: usize,
    /// What is wrong and how to fix it.
    pub message: String,
    /// Whether the kind may appear later without a change of the class.
    pub may_pass: bool,
}

/// The resolved resources of a class.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// The resources that can be applied, in the order of the class.
    pub entries: Vec<Arc<ClassResource>>,
    /// The resources that can't be applied.
    pub problems: Vec<Problem>,
    /// Every resource that the class names, even if it can't be applied: none of these is ever pruned.
    pub named: BTreeSet<ResourceId>,
    /// The resources that can't be applied in one namespace, because it gives a variable no value: what is wrong and how to fix it.
    pub unresolved: Vec<String>,
    /// The variables of the class; empty once they are replaced.
    variables: Variables,
}

impl Content {
    /// Returns whether an entry is still one of these, with the same content, and updates it: its index may have changed. One that
    /// is named, but can't be applied at present, is kept as well: its kind may return, or a variable may get its value again.
    pub fn keeps(&self, entry: &mut Arc<ClassResource>) -> bool {
        // The content includes the kind and the name.
        let is_it =
            |other: &&Arc<ClassResource>| (&other.content, &other.values) == (&entry.content, &entry.values);
        if let Some(kept) = self.entries.iter().find(is_it) {
            *entry = Arc::clone(kept);
            return true;
        }
        let id = entry.id();
        self.named.contains(&id) && !self.entries.iter().any(|other| other.id() == id)
    }

    /// Returns the resources in a namespace. A class without variables has the same ones everywhere, so they are shared.
    pub fn in_namespace(self: &Arc<Self>, namespace: &str, metadata: &NamespaceMetadata) -> Arc<Self> {
        if self.variables.is_empty() {
            return Arc::clone(self);
        }
        let values = self.variables.values(namespace, metadata);
        let (mut entries, mut unresolved) = (Vec::new(), Vec::new());
        for entry in &self.entries {
            let Some(variables) = &entry.variables else {
                entries.push(Arc::clone(entry));
                continue;
            };
            match entry.filled(variables, &values) {
                Ok(filled) => entries.push(Arc::new(filled)),
                Err(reason) => unresolved.push(reason),
            }
        }
        let (problems, named) = (self.problems.clone(), self.named.clone());
        Arc::new(Self { entries, problems, named, unresolved, variables: Variables::default() })
    }

    /// Returns whether a change of a namespace gives a variable another value.
    pub fn read_differently(&self, one: &NamespaceMetadata, other: &NamespaceMetadata) -> bool {
        self.variables.read_differently(one, other)
    }
}

/// Returns the API versions that must be discovered before [`resolve`] can decide: those of kinds that are not known, or that can't
/// be used as they are known, although that may change.
pub fn undiscovered(
    resources: &[Value],
    kinds: &Kinds,
    is_current: impl Fn(&Arc<Kind>) -> bool,
) -> BTreeSet<String> {
    let named = resources.iter().filter_map(|resource| {
        let (api_version, kind) = (resource["apiVersion"].as_str()?, resource["kind"].as_str()?);
        let found = kinds.find(api_version, kind);
        let is_known =
            found.is_some_and(|found| !may_change(&found) || (found.namespaced && is_current(&found)));
        (is_api_version(api_version) && !is_known).then(|| api_version.to_owned())
    });
    named.collect()
}

/// Validates every resource of a class.
pub fn resolve(class: &str, resources: &[Value], variables: Variables, kinds: &Kinds) -> Content {
    let mut content = Content { variables, ..Content::default() };
    let mut first: BTreeMap<ResourceId, usize> = BTreeMap::new();
    for (index, resource) in resources.iter().enumerate() {
        if let Some(id) = named(resource) {
            content.named.insert(id);
        }
        match judge(class, index, resource, &content.variables, kinds, &first) {
            Ok(entry) => {
                first.insert(entry.id(), index);
                content.entries.push(Arc::new(entry));
            }
            Err(problem) => content.problems.push(problem),
        }
    }
    content
}

fn named(resource: &Value) -> Option<ResourceId> {
    let (api_version, kind) = (resource["apiVersion"].as_str()?, resource["kind"].as_str()?);
    Some((
        group_of(api_version).to_owned(),
        kind.to_owned(),
        resource["metadata"]["name"].as_str()?.to_owned(),
    ))
}

/// Returns whether this can be discovered: a version, or a group and a version.
fn is_api_version(text: &str) -> bool {
    let mut parts = text.split('/');
    let first = parts.next().is_some_and(|part| !part.is_empty());
    first && parts.next().is_none_or(|part| !part.is_empty()) && parts.next().is_none()
}

/// Returns the identity of an applied resource, whatever the version.
pub fn id_of(resource: &AppliedResource) -> ResourceId {
    let group = group_of(&resource.api_version).to_owned();
    (group, resource.kind.clone(), resource.name.clone())
}

/// Returns the group of an API version: `apps` of `apps/v1`, an empty string of `v1`.
fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn judge(
    class: &str,
    index: usize,
    resource: &Value,
    variables: &Variables,
    kinds: &Kinds,
    first: &BTreeMap<ResourceId, usize>,
) -> Result<ClassResource, Problem> {
    let problem = |message: String| Problem { index, message, may_pass: false };
    let (Some(api_version), Some(kind)) = (text(&resource["apiVersion"]), text(&resource["kind"])) else {
        return Err(problem("has no apiVersion or no kind; write both".to_owned()));
    };
    let metadata = &resource["metadata"];
    let Some(name) = text(&metadata["name"]) else {
        return Err(problem(format!("{kind} has no name; set metadata.name (generateName can't be used)")));
    };
    if let Some(namespace) = text(&metadata["namespace"]) {
        return Err(problem(format!(
            "{kind} {name} names the namespace {namespace}; remove metadata.namespace, because each resource is \
             created in every namespace of the class"
        )));
    }
    let policy = &metadata["annotations"][ADOPTION_POLICY_ANNOTATION];
    let keeps_adopted = match policy.as_str() {
        Some("Delete") => false,
        Some("Keep") => true,
        None if policy.is_null() => true,
        _ => {
            return Err(problem(format!(
                "{kind} {name}: the annotation {ADOPTION_POLICY_ANNOTATION} is {policy}; write Keep or Delete"
            )));
        }
    };
    if !variables.is_empty() && [api_version, kind, name].into_iter().any(placeholders::is_in) {
        return Err(problem(format!(
            "{kind} {name}: apiVersion, kind and metadata.name can't contain variables, because all namespaces of the class \
             have the same objects; write them without variables"
        )));
    }
    if !is_api_version(api_version) {
        return Err(problem(format!(
            "{kind} {name}: {api_version:?} is no apiVersion; write a version, or group/version"
        )));
    }
    let Some(found) = kinds.find(api_version, kind) else {
        if let Some(failure) = kinds.failure(api_version) {
            let message = format!(
                "{kind} {name}: the API server could not be asked for the kinds of {api_version} ({failure}); it is \
                 asked again"
            );
            return Err(Problem { index, message, may_pass: true });
        }
        let message = format!(
            "{kind} {name}: the cluster serves no kind {kind} in {api_version}; correct it, or install the CRD that \
             defines it"
        );
        return Err(Problem { index, message, may_pass: true });
    };
    if is_own(&found) {
        return Err(problem(format!("{kind} {name} belongs to this operator itself; remove it")));
    }
    if !found.namespaced {
        let message = format!(
            "{kind} {name} is cluster-scoped; a class holds only namespaced kinds: remove it and create it once, \
             outside of the class"
        );
        return Err(Problem { index, message, may_pass: may_change(&found) });
    }
    let used = if variables.is_empty() { Ok(None) } else { placeholders::used(resource, variables) };
    let used = used.map_err(|mistake| problem(format!("{kind} {name}: {mistake}")))?;
    let entry = entry(class, index, resource, found, name);
    let entry = ClassResource { keeps_adopted, variables: used, ..entry };
    if let Some(earlier) = first.get(&entry.id()) {
        return Err(problem(format!(
            "{kind} {name} is a duplicate of spec.resources[{earlier}]; remove one of them"
        )));
    }
    Ok(entry)
}

/// Returns whether the kind may be gone later, or have another scope: that of a CRD, which is removed and created again. The groups of
/// CRDs contain a dot. The kinds of other groups, such as that of a ConfigMap, never change.
fn may_change(kind: &Kind) -> bool {
    kind.group.contains('.')
}

fn is_own(kind: &Kind) -> bool {
    kind.group == GROUP
}

/// Returns whether a class may contain the kind. Any client may have written the list of applied resources in a status. It
/// must not start a watch that replaces one of the operator's own.
pub fn may_be_held(kind: &Kind) -> bool {
    kind.namespaced && !is_own(kind)
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// The metadata fields that users may set for an object in a class. The server or the operator sets the others.
const METADATA: [&str; 4] = ["name", "labels", "annotations", "finalizers"];

/// Returns the content marks of all resources of a class, even of those that can't be applied; none if the object is no
/// class.
pub fn marks(object: &Value) -> Vec<String> {
    if object["kind"] != names::class().kind {
        return Vec::new();
    }
    let resources = object["spec"]["resources"].as_array().into_iter().flatten();
    resources.map(|resource| digest(&template(metadata(object, "name"), resource))).collect()
}

fn entry(class: &str, index: usize, resource: &Value, kind: Arc<Kind>, name: &str) -> ClassResource {
    let mut template = template(class, resource);
    let content = digest(&template);
    template["metadata"]["annotations"][CONTENT_ANNOTATION] = json!(content);
    let name = name.to_owned();
    ClassResource { index, kind, name, keeps_adopted: true, template, content, variables: None, values: None }
}

/// Returns everything that is applied of a resource, except the content mark and the fields that differ between namespaces.
fn template(class: &str, resource: &Value) -> Value {
    let mut fields: Map<String, Value> = resource.as_object().cloned().unwrap_or_default();
    fields.remove("status");
    let mut metadata = Map::new();
    for field in METADATA {
        if let Some(value) = resource["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    for field in ["labels", "annotations"] {
        if !metadata.get(field).is_some_and(Value::is_object) {
            metadata.insert(field.to_owned(), json!({}));
        }
    }
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove(ADOPTED_ANNOTATION);
        annotations.remove(VALUES_ANNOTATION);
    }
    metadata["labels"][CLASS_LABEL] = json!(class);
    fields.insert("metadata".to_owned(), Value::Object(metadata));
    if placeholders::is_secret(resource) {
        encode_texts(&mut fields);
    }
    Value::Object(fields)
}

/// Moves `stringData` of a Secret into `data`, as the API server does. An applier of `stringData` owns a field by that name,
/// which is never stored, and none of the resulting data. A key that is removed from the class would stay, and an edit by
/// another client would not be detected. Values that the server does not accept are left for it to refuse.
fn encode_texts(secret: &mut Map<String, Value>) {
    let Some(Value::Object(texts)) = secret.get("stringData").cloned() else { return };
    let data = secret.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = json!({});
    }
    let Some(data) = data.as_object_mut() else { return };
    let mut refused = Map::new();
    for (key, text) in texts {
        match text {
            Value::String(text) => data.insert(key, json!(STANDARD.encode(text))),
            other => refused.insert(key, other),
        };
    }
    if refused.is_empty() {
        secret.remove("stringData");
    } else {
        secret.insert("stringData".to_owned(), Value::Object(refused));
    }
}

#[cfg(test)]
mod tests;
