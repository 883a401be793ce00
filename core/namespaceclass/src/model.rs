//! Classes, namespaces, bindings and resources, trimmed to the fields that decisions need.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::namespaceclass::{NamespaceClassBindingStatus, NamespaceClassStatus};
use lockstep_engine::cache::Cached;
use lockstep_engine::conditions::Status;
use lockstep_engine::object::{
    ResourceVersion, Uid, annotation, controller_uid, generation, is_deleting, label,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::drift;
use super::expression::NamespaceMetadata;
use super::names::{
    self, ADOPTED_ANNOTATION, CLASS_LABEL, CONFIRM_REMOVAL_ANNOTATION, CONTENT_ANNOTATION,
    PROBLEM_ANNOTATION, READY, VALUES_ANNOTATION, reason,
};
use super::resolved_class::{ClassResource, Content};
use super::variables::Variables;

/// The resolved resources of a class.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resolved {
    /// The class's uid.
    pub uid: Uid,
    /// The class's generation.
    pub generation: i64,
    /// Its resources.
    pub content: Arc<Content>,
}

impl Resolved {
    /// Returns whether these are the resources of this class, at the same generation.
    pub fn is_of(&self, class: &Value) -> bool {
        Uid::of(class) == self.uid && generation(class) == self.generation
    }

    /// Returns the resources in a namespace.
    #[must_use]
    pub fn in_namespace(&self, name: &str, namespace: &Namespace) -> Self {
        let content = self.content.in_namespace(name, &namespace.metadata);
        Self { uid: self.uid.clone(), generation: self.generation, content }
    }
}

/// A namespace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Namespace {
    /// Its uid.
    pub uid: Uid,
    /// The class that its label names.
    pub class: Option<String>,
    /// Whether it is being deleted: then it is not changed.
    pub terminating: bool,
    /// The problem that its annotation reports.
    pub problem: Option<String>,
    /// What the variables of its class read. Which labels and annotations these are is not known yet when it is read.
    pub metadata: NamespaceMetadata,
    resource_version: ResourceVersion,
}

impl Namespace {
    /// Reads a namespace or its metadata.
    pub fn read(object: &Value) -> Self {
        Self {
            uid: Uid::of(object),
            class: label(object, CLASS_LABEL).filter(|class| !class.is_empty()).map(str::to_owned),
            terminating: is_deleting(object),
            problem: annotation(object, PROBLEM_ANNOTATION).map(str::to_owned),
            metadata: NamespaceMetadata::read(object),
            resource_version: ResourceVersion::of(object),
        }
    }

    /// Returns whether all fields are equal on which decisions about any class depend. Other clients may change its labels and
    /// annotations often. If another client removes our annotation, the next resync restores it.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, &self.class, self.terminating) == (&other.uid, &other.class, other.terminating)
    }
}

impl Cached for Namespace {
    type Index = String;

    fn resource_version(&self) -> ResourceVersion {
        self.resource_version
    }

    fn indexes(&self) -> Vec<String> {
        self.class.clone().into_iter().collect()
    }
}

/// A class.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Class {
    /// Its uid.
    pub uid: Uid,
    /// Its generation.
    pub generation: i64,
    /// Its status as last seen.
    pub status: NamespaceClassStatus,
    object: Arc<Value>,
}

impl Class {
    /// Reads a class.
    pub fn read(object: &Arc<Value>) -> Self {
        Self {
            uid: Uid::of(object),
            generation: generation(object),
            status: serde_json::from_value(object["status"].clone()).unwrap_or_default(),
            object: Arc::clone(object),
        }
    }

    /// Returns whether it differs at most in its status. The operator's own status write must not enqueue the class, or two
    /// writers that disagree would enqueue each other without end.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, self.generation, self.confirms_removal())
            == (&other.uid, other.generation, other.confirms_removal())
    }

    /// `spec.removalGuard`, unless the class confirms removals: the percentage of its namespaces that may lose it at a time, and the
    /// time within which they are counted together.
    pub fn removal_guard(&self) -> Option<(usize, Duration)> {
        let guard = self.object["spec"].get("removalGuard").filter(|_| !self.confirms_removal())?;
        let minutes = guard["windowMinutes"].as_u64()?;
        Some((usize::try_from(guard["maxPercent"].as_u64()?).ok()?, Duration::from_mins(minutes)))
    }

    /// Returns whether it lets held removals happen.
    pub fn confirms_removal(&self) -> bool {
        annotation(&self.object, CONFIRM_REMOVAL_ANNOTATION) == Some("true")
    }

    /// Returns whether it has a `spec.removalGuard` that holds nothing, because the class confirms removals.
    pub fn is_guard_confirmed(&self) -> bool {
        self.confirms_removal() && self.object["spec"]["removalGuard"].is_object()
    }

    /// `spec.resources`.
    pub fn resources(&self) -> &[Value] {
        self.object["spec"]["resources"].as_array().map_or(&[], Vec::as_slice)
    }

    /// `spec.variables`.
    pub fn variables(&self) -> Variables {
        Variables::read(&self.object["spec"]["variables"])
    }

    /// `spec.paused`: whether its namespaces stay as they are.
    pub fn is_paused(&self) -> bool {
        self.object["spec"]["paused"] == true
    }

    /// `spec.drift`: whether drift is reported and not repaired.
    pub fn reports_drift(&self) -> bool {
        self.object["spec"]["drift"] == "Report"
    }

    /// `spec.excludedNamespaces`: whether a namespace never gets it.
    pub fn excludes(&self, namespace: &str) -> bool {
        let patterns = self.object["spec"]["excludedNamespaces"].as_array();
        let mut patterns = patterns.into_iter().flatten().filter_map(Value::as_str);
        patterns.any(|pattern| matches(pattern, namespace))
    }

    /// `spec.rollout.maxUnavailable`: how many of its namespaces may be unready or in change at a time.
    pub fn max_unavailable(&self) -> Option<usize> {
        let limit = self.object["spec"]["rollout"]["maxUnavailable"].as_u64()?;
        usize::try_from(limit).ok()
    }

    /// `spec.rollout.canaries`: the namespaces that get a change first.
    pub fn canaries(&self) -> impl Iterator<Item = &str> {
        let names = self.object["spec"]["rollout"]["canaries"].as_array();
        names.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the resource version, as a precondition for writing the status.
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion::of(&self.object)
    }
}

impl Cached for Class {
    type Index = ();

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::of(&self.object)
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}

/// A binding.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Binding {
    /// Its uid.
    pub uid: Uid,
    /// Its generation.
    pub generation: i64,
    /// Its resource version, as a precondition.
    pub version: ResourceVersion,
    /// The class that it requests.
    pub class: String,
    /// The uid of the namespace that controls it.
    pub controller: Option<Uid>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its status as last seen.
    pub status: NamespaceClassBindingStatus,
}

impl Binding {
    /// Returns whether it differs at most in its status, as with [`Class::is_same`].
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, self.generation, self.deleting, &self.controller)
            == (&other.uid, other.generation, other.deleting, &other.controller)
    }

    /// Reads a binding.
    pub fn read(object: &Value) -> Self {
        Self {
            uid: Uid::of(object),
            generation: generation(object),
            version: ResourceVersion::of(object),
            class: object["spec"]["className"].as_str().unwrap_or_default().to_owned(),
            controller: controller_uid(object).map(Uid::from),
            deleting: is_deleting(object),
            status: serde_json::from_value(object["status"].clone()).unwrap_or_default(),
        }
    }

    /// Returns whether a namespace controls it. Then the label of the namespace decides about it.
    pub fn is_controlled_by(&self, namespace: &Namespace) -> bool {
        self.controller.as_ref() == Some(&namespace.uid)
    }

    /// Returns whether it reports that its class excludes the namespace. Then it has no part in a rollout of the class.
    fn is_excluded(&self) -> bool {
        self.ready().is_some_and(|ready| ready.reason == reason::NAMESPACE_EXCLUDED)
    }

    /// Returns whether the status is the result of a pass over the current class.
    pub fn has_applied(&self, resolved: &Resolved) -> bool {
        let status = &self.status;
        (&self.class, resolved.uid.as_str(), resolved.generation)
            == (&status.observed_class_name, &status.observed_class_uid, status.observed_class_generation)
    }

    /// Returns whether the namespace is ready with the present generation of this class.
    pub fn is_ready_with(&self, class: &Class) -> bool {
        self.is_available() && self.has_observed(class)
    }

    /// Returns whether the namespace has been brought to the present generation of this class.
    pub fn has_observed(&self, class: &Class) -> bool {
        let status = &self.status;
        let observed = (status.observed_class_uid.as_str(), status.observed_class_generation);
        observed == (class.uid.as_str(), class.generation)
    }

    /// Returns the condition `Ready`.
    pub fn ready(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == READY)
    }

    /// Returns whether the namespace is not ready, and not because it is being changed, or because another client has changed what
    /// was applied.
    fn is_broken(&self) -> bool {
        let others = [reason::APPLYING, reason::DRIFTED, reason::CONTESTED];
        !self.is_available() && self.ready().is_none_or(|ready| !others.contains(&ready.reason.as_str()))
    }

    /// Returns whether the namespace is ready with its class, at whatever generation.
    pub fn is_available(&self) -> bool {
        self.status.observed_class_name == self.class
            && self.ready().is_some_and(|ready| ready.status == Status::True.as_str())
    }
}

/// Returns whether a text matches a pattern, in which an asterisk is any text. Each part is looked for once, so that no pattern
/// takes long.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let mut parts = middle.split('*').filter(|part| !part.is_empty());
    let left = text.strip_prefix(start);
    let left = parts.try_fold(left, |left, part| left?.split_once(part).map(|(_, after)| Some(after)));
    left.flatten().is_some_and(|left| left.ends_with(end))
}

/// What bindings are found by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BindingIndex {
    /// The class that they request.
    Class(String),
    /// The class that they request and are not ready with.
    Unavailable(String),
    /// The class that they request and were brought to, at whatever generation.
    Held(String),
    /// The same, by the uid and the generation of the class.
    Applied(Uid, i64),
    /// The same, if they are not ready with it because it could not be applied.
    Broken(Uid, i64),
}

impl Cached for Binding {
    type Index = BindingIndex;

    fn resource_version(&self) -> ResourceVersion {
        self.version
    }

    fn indexes(&self) -> Vec<BindingIndex> {
        let mut indexes = vec![BindingIndex::Class(self.class.clone())];
        // A binding that is being deleted is no longer worked on.
        if self.deleting || self.is_excluded() {
            return indexes;
        }
        if !self.is_available() {
            indexes.push(BindingIndex::Unavailable(self.class.clone()));
        }
        let status = &self.status;
        if status.observed_class_name == self.class {
            indexes.push(BindingIndex::Held(self.class.clone()));
            let (uid, generation) = (status.observed_class_uid.as_str(), status.observed_class_generation);
            indexes.push(BindingIndex::Applied(uid.into(), generation));
            if self.is_broken() {
                indexes.push(BindingIndex::Broken(uid.into(), generation));
            }
        }
        indexes
    }
}

/// The maximum number of fields that a message names for a resource.
const FIELDS_NAMED: usize = 5;

/// The metadata of a resource in a namespace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resource {
    /// Its uid.
    pub uid: Uid,
    /// Its resource version, as a precondition.
    pub version: ResourceVersion,
    /// The uid of its controller.
    pub controller: Option<Uid>,
    /// The uids of all bindings that own it.
    pub bindings: Vec<Uid>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The value of its content annotation.
    #[serde(rename = "namespaceclass.akuity.io/content")]
    content: Option<String>,
    /// The value of its values annotation.
    values: Option<String>,
    /// The uid of the binding that adopted it, if it existed before.
    adopted: Option<String>,
    /// Our entry in its managed fields, as JSON. Equal texts of all namespaces share one allocation.
    fields: Option<Arc<str>>,
    /// Whether `fields` is the server's answer to our apply of `content`.
    pub(super) accepted: bool,
}

impl Resource {
    /// Reads the metadata of a resource; `fields` is our entry in its managed fields.
    pub fn read(object: &Value, fields: Option<Arc<str>>) -> Self {
        let owners = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
        let binding = names::binding();
        let bindings = owners
            .iter()
            .filter(|owner| owner["kind"] == binding.kind && owner["apiVersion"] == binding.api_version())
            .filter_map(|owner| owner["uid"].as_str().map(Uid::from));
        Self {
            uid: Uid::of(object),
            version: ResourceVersion::of(object),
            controller: controller_uid(object).map(Uid::from),
            bindings: bindings.collect(),
            deleting: is_deleting(object),
            content: annotation(object, CONTENT_ANNOTATION).map(str::to_owned),
            values: annotation(object, VALUES_ANNOTATION).map(str::to_owned),
            adopted: annotation(object, ADOPTED_ANNOTATION).map(str::to_owned),
            fields,
            accepted: false,
        }
    }

    /// Returns whether we ever applied it. A copy that another client made of it has our label and our owner, but not this.
    pub fn is_applied(&self) -> bool {
        self.fields.is_some()
    }

    /// Returns whether it existed before this binding adopted it.
    pub fn is_adopted_by(&self, binding: &Binding) -> bool {
        self.adopted.as_deref() == Some(binding.uid.as_str())
    }

    /// Returns whether we created it, as far as its metadata shows: only we have an entry like ours in the managed fields.
    pub fn is_created(&self) -> bool {
        self.is_applied() && self.content.is_some() && self.adopted.is_none()
    }

    /// Returns whether all fields that decisions depend on are equal. The status of a `ResourceQuota` changes with every pod:
    /// that must not enqueue a waiting key.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (
            &self.uid,
            &self.controller,
            &self.bindings,
            self.deleting,
            &self.content,
            &self.values,
            &self.adopted,
            &self.fields,
        ) == (
            &other.uid,
            &other.controller,
            &other.bindings,
            other.deleting,
            &other.content,
            &other.values,
            &other.adopted,
            &other.fields,
        )
    }

    /// Returns whether our fields are the same in both.
    pub(super) fn has_fields_of(&self, other: &Self) -> bool {
        (&self.uid, &self.content, &self.values, &self.fields)
            == (&other.uid, &other.content, &other.values, &other.fields)
    }

    /// Returns whether the content of the entry is the last that was applied to it.
    pub fn was_applied(&self, entry: &ClassResource) -> bool {
        self.content.as_deref() == Some(&entry.content) && self.values == entry.values
    }

    /// Returns whether we applied something else to it last: an entry of another class, or this one with other values of its variables.
    /// If another client has changed an annotation that says so, we no longer own it.
    pub fn is_of_another_apply(&self, entry: &ClassResource) -> bool {
        let fields: Option<Value> =
            self.fields.as_deref().and_then(|fields| serde_json::from_str(fields).ok());
        let is_owned = |annotation: &str| {
            let annotations = fields.as_ref().map(|fields| &fields["f:metadata"]["f:annotations"]);
            annotations.is_some_and(|annotations| annotations.get(format!("f:{annotation}")).is_some())
        };
        (self.values != entry.values && is_owned(VALUES_ANNOTATION))
            || (self.content.as_deref() != Some(&entry.content) && is_owned(CONTENT_ANNOTATION))
    }

    /// Returns how it differs from what the apply of the entry left.
    pub fn difference(&self, entry: &ClassResource) -> String {
        let fields = self.fields.as_deref().and_then(|fields| serde_json::from_str(fields).ok());
        let lost = drift::lost(&fields.unwrap_or(Value::Null), entry.template());
        match lost.len() {
            0 => "it lost its owner".to_owned(),
            all @ ..=FIELDS_NAMED => format!("it differs in {}", lost[..all].join(", ")),
            all => format!("it differs in {all} fields, such as {}", lost[..FIELDS_NAMED].join(", ")),
        }
    }

    /// Returns whether it still is as the apply of the entry left it.
    pub fn is_intact(&self, entry: &ClassResource) -> bool {
        let Some(fields) = &self.fields else { return false };
        self.was_applied(entry)
            && (self.accepted
                || serde_json::from_str(fields).is_ok_and(|fields| drift::covers(&fields, entry.template())))
    }
}

impl Cached for Resource {
    type Index = ();

    fn resource_version(&self) -> ResourceVersion {
        self.version
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
