//! All names that the operator writes into the cluster or reads from it.

use std::sync::Arc;

use lockstep_crds::namespaceclass::{GROUP, VERSION};
use lockstep_engine::object::Kind;

/// The label that names the class. On a namespace it requests the class. On a resource it records the class that it comes
/// from.
pub const CLASS_LABEL: &str = "namespaceclass.akuity.io/name";
/// The annotation on every applied resource that identifies the class content that it holds.
pub const CONTENT_ANNOTATION: &str = "namespaceclass.akuity.io/content";
/// The annotation on every applied resource with variables that identifies the values that it holds.
pub const VALUES_ANNOTATION: &str = "namespaceclass.akuity.io/values";
/// The annotation on every adopted resource: the uid of the binding that adopted it.
pub const ADOPTED_ANNOTATION: &str = "namespaceclass.akuity.io/adopted";
/// The annotation of a resource in a class that sets what happens to an adopted object when the class no longer lists it:
/// `Keep` (the default) or `Delete`.
pub const ADOPTION_POLICY_ANNOTATION: &str = "namespaceclass.akuity.io/adoption-policy";
/// The annotation on a namespace that explains why the class of its label is not applied.
pub const PROBLEM_ANNOTATION: &str = "namespaceclass.akuity.io/problem";
/// The annotation on a class that lets held removals happen: `true`.
pub const CONFIRM_REMOVAL_ANNOTATION: &str = "namespaceclass.akuity.io/confirm-removal";
/// The field manager of every apply; the shell derives it from the machine's name.
pub const FIELD_MANAGER: &str = "lockstep-namespaceclass";

/// Gauge: the namespaces whose label names a class that does not exist.
pub const UNRESOLVED_METRIC: &str = "lockstep_namespaceclass_unresolved_namespaces";

/// Condition of a class: whether every one of its resources can be applied. It is Unknown while the operator does not notice
/// changes of classes, namespaces or bindings.
pub const VALID: &str = "Valid";
/// Condition of a binding: whether the namespace holds all resources of its class and none of an earlier one.
pub const READY: &str = "Ready";
/// Condition of a binding: which of its resources existed before they were applied. It is absent if there are none.
pub const OBJECTS_ADOPTED: &str = "ObjectsAdopted";

/// Condition of a class: whether its namespaces stay as they are. It is absent unless the class is paused.
pub const PAUSED: &str = "Paused";
/// Condition of a class: whether every namespace has been brought to its generation. It is absent unless the class limits how
/// many namespaces change at a time.
pub const ROLLED_OUT: &str = "RolledOut";

/// Reasons of conditions, which are the reasons of events as well.
pub mod reason {
    use serde::{Deserialize, Deserializer, de};

    /// A reason: one of those below.
    pub type Reason = &'static str;

    /// All reasons of conditions.
    pub const ALL: [Reason; 22] = [
        ALL_RESOURCES_VALID,
        INVALID_RESOURCES,
        WATCH_FAILED,
        PAUSED,
        ALL_NAMESPACES_CHANGED,
        ROLLING_OUT,
        HALTED,
        RESOURCES_APPLIED,
        APPLYING,
        CLASS_NOT_FOUND,
        NAMESPACE_EXCLUDED,
        UNRESOLVED_VARIABLE,
        OWNERSHIP_CONFLICT,
        FORBIDDEN,
        REJECTED,
        APPLY_FAILED,
        PRUNE_FAILED,
        CONTESTED,
        DRIFTED,
        REMOVAL_HELD,
        WAITING_FOR_DELETION,
        ADOPTED,
    ];

    /// Deserializes a stored reason.
    pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reason, D::Error> {
        let text = String::deserialize(deserializer)?;
        let known = ALL.into_iter().find(|reason| *reason == text);
        known.ok_or_else(|| de::Error::custom(format!("no reason is named {text:?}")))
    }

    /// `Valid` is true: every resource can be applied.
    pub const ALL_RESOURCES_VALID: &str = "AllResourcesValid";
    /// Some resources of the class can't be applied as the class defines them.
    pub const INVALID_RESOURCES: &str = "InvalidResources";
    /// A kind that every decision needs can't be watched any more, so changes of its objects are not noticed.
    pub const WATCH_FAILED: &str = "WatchFailed";
    /// The class is paused. On a binding: its class was paused before the namespace had the resources.
    pub const PAUSED: &str = "Paused";
    /// `RolledOut` is true: every namespace has been brought to the generation of the class, and none is broken by it.
    pub const ALL_NAMESPACES_CHANGED: &str = "AllNamespacesChanged";
    /// Namespaces are being brought to the generation of the class, a few at a time.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// As many namespaces are unready as the class permits, so no further one is changed; or the last ones are broken.
    pub const HALTED: &str = "Halted";
    /// `Ready` is true: the namespace contains the resources of its class.
    pub const RESOURCES_APPLIED: &str = "ResourcesApplied";
    /// Resources are about to be created or removed.
    pub const APPLYING: &str = "Applying";
    /// The class does not exist.
    pub const CLASS_NOT_FOUND: &str = "ClassNotFound";
    /// A variable has no value in the namespace, so resources that contain it are not changed.
    pub const UNRESOLVED_VARIABLE: &str = "UnresolvedVariable";
    /// The API server refuses a binding. Used in an Event only: there is no binding that could have a condition.
    pub const BINDING_REFUSED: &str = "BindingRefused";
    /// The class excludes the namespace. Without a binding, it is used in an Event only.
    pub const NAMESPACE_EXCLUDED: &str = "NamespaceExcluded";
    /// An object of that name belongs to another owner.
    pub const OWNERSHIP_CONFLICT: &str = "OwnershipConflict";
    /// The operator lacks a permission.
    pub const FORBIDDEN: &str = "Forbidden";
    /// The API server refuses a resource.
    pub const REJECTED: &str = "Rejected";
    /// A resource could not be applied, for a reason that may be temporary.
    pub const APPLY_FAILED: &str = "ApplyFailed";
    /// A resource of an earlier class could not be removed, for a reason that may be temporary.
    pub const PRUNE_FAILED: &str = "PruneFailed";
    /// Another client keeps changing or removing what was applied.
    pub const CONTESTED: &str = "Contested";
    /// Another client has changed or removed what was applied, and the class does not have it repaired.
    pub const DRIFTED: &str = "Drifted";
    /// A removal is held until it is confirmed, because it is probably a mistake.
    pub const REMOVAL_HELD: &str = "RemovalHeld";
    /// A resource is being deleted; the binding waits for that.
    pub const WAITING_FOR_DELETION: &str = "WaitingForDeletion";
    /// `ObjectsAdopted` is true: an object that existed before was adopted.
    pub const ADOPTED: &str = "Adopted";
}

/// The kind `Namespace`.
pub fn namespace() -> Arc<Kind> {
    Kind::known("", "v1", "Namespace", "namespaces", false)
}

/// The kind `NamespaceClass`.
pub fn class() -> Arc<Kind> {
    Kind::known(GROUP, VERSION, "NamespaceClass", "namespaceclasses", false)
}

/// The kind `NamespaceClassBinding`.
pub fn binding() -> Arc<Kind> {
    Kind::known(GROUP, VERSION, "NamespaceClassBinding", "namespaceclassbindings", true)
}
