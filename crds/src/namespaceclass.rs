//! `namespaceclass.akuity.io/v1alpha1`: classes of namespaces, and the binding of a namespace to its class.
//!
//! Source: NamespaceClass operator, "Define a NamespaceClass", "Update an Existing NamespaceClass", "Status Tracking".

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// The controller's name, as in `--controllers`.
pub const CONTROLLER: &str = "namespaceclass";
/// The API group.
pub const GROUP: &str = "namespaceclass.akuity.io";
/// The API version.
pub const VERSION: &str = "v1alpha1";

/// The resources that every namespace of this class contains.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "namespaceclass.akuity.io",
    version = "v1alpha1",
    kind = "NamespaceClass",
    plural = "namespaceclasses",
    shortname = "nsclass",
    category = "lockstep",
    status = "NamespaceClassStatus",
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name must be at most 63 characters long: the value of a label has at most 63"),
    doc = "NamespaceClass is a set of resources that every namespace labelled namespaceclass.akuity.io/name=<class> contains.",
    printcolumn = r#"{"name":"Resources","type":"integer","jsonPath":".status.resourceCount"}"#,
    printcolumn = r#"{"name":"Valid","type":"string","jsonPath":".status.conditions[?(@.type==\"Valid\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Valid\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    attr = r#"x_kube(crates(kube_core = "::kube_core"))"#,
    crates(kube = "::kube_derive", kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceClassSpec {
    /// Complete objects of namespaced kinds. Each needs apiVersion, kind and metadata.name. metadata.namespace must be empty,
    /// because every object is created in each namespace of the class.
    #[serde(default)]
    #[schemars(schema_with = "schema::embedded_resources")]
    pub resources: Vec<Value>,
    /// Texts that differ between the namespaces of the class. ${name} in a string value of a resource is replaced by the value of the
    /// variable in the namespace; $${ is the text ${ itself. Keys, apiVersion, kind, metadata.name and the data of Secrets can't
    /// contain variables. Without variables, resources are applied as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub variables: Vec<Variable>,
    /// If true, the operator applies, repairs and removes nothing in the namespaces of the class. Removing the label of a
    /// namespace, or deleting the class, still removes the resources.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// How a change of the class reaches its namespaces. If it is absent, all of them change at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// The reaction to changes of applied resources by other clients. Repair, the default, reverts them. Report keeps them until
    /// the class changes: the binding is not Ready with reason Drifted, and names the fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DriftPolicy")]
    pub drift: Option<DriftPolicy>,
    /// Namespaces that never get the class, even with its label: names, or patterns such as kube-*, in which an asterisk matches
    /// any text. A namespace of the class that is added here loses its resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "namespace_patterns")]
    pub excluded_namespaces: Vec<String>,
    /// Holds removals that are probably a mistake: of the class from many namespaces, and of all resources from the class. If it is
    /// absent, nothing is held. The annotation namespaceclass.akuity.io/confirm-removal: "true" of the class lets them happen.
    /// While the class has it, nothing is held, so remove it afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal_guard: Option<RemovalGuard>,
}

/// A text that differs between the namespaces of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    /// The name, as in ${name}.
    #[schemars(length(max = 63), regex(pattern = r"^[a-z][A-Za-z0-9]*$"))]
    pub name: String,
    /// The value, as an expression in a part of CEL: texts in quotes, namespaceObject.metadata.name,
    /// namespaceObject.metadata.labels["key"] and namespaceObject.metadata.annotations["key"], joined by +. A default is written as
    /// ("key" in namespaceObject.metadata.labels ? namespaceObject.metadata.labels["key"] : "default"), with the parentheses.
    #[expect(clippy::doc_link_with_quotes, reason = "keys have quotes in CEL")]
    #[schemars(length(max = 1024), extend("x-kubernetes-validations" = [{
        "rule": expression_rule(),
        "message": "must consist of texts (\"...\" without backslashes), namespaceObject.metadata.name, \
            namespaceObject.metadata.labels[\"key\"], namespaceObject.metadata.annotations[\"key\"] and (\"key\" in \
            namespaceObject.metadata.labels ? ... : ...), joined by +",
    }]))]
    pub expression: String,
}

/// Returns the regular expression that matches a `+` followed by the expression of a variable. With the `+` in front, all operands
/// look alike.
pub fn expression_pattern() -> String {
    let text = r#"("[^"\\[:cntrl:]]*"|'[^'\\[:cntrl:]]*')"#;
    let key = r#"("[-A-Za-z0-9._/]+"|'[-A-Za-z0-9._/]+')"#;
    let map = "(labels|annotations)";
    let operand = format!(r"({text}|namespaceObject\.metadata\.(name|{map}\[{key}\]))");
    let choice = format!(r"\( *{key} +in +namespaceObject\.metadata\.{map} *\? *{operand} *: *{operand} *\)");
    format!(r"^( *\+ *({operand}|{choice}))+ *$")
}

fn expression_rule() -> String {
    let pattern = expression_pattern().replace('\\', r"\\").replace('\'', r"\'");
    format!("('+' + self).matches('{pattern}')")
}

/// The removals that are held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovalGuard {
    /// The percentage of the namespaces of the class that may lose it at the same time; one always may. If more have lost its label
    /// or were excluded, all of them keep their resources.
    #[schemars(range(min = 1, max = 100))]
    pub max_percent: i32,
    /// The minutes for which a namespace that has lost the label keeps its resources in any case. Namespaces that lose it within this
    /// time are counted together.
    #[schemars(range(min = 1, max = 1440))]
    pub window_minutes: i32,
}

/// The reaction to changes of applied resources by other clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftPolicy {
    /// They are reverted.
    Repair,
    /// They are reported and kept.
    Report,
}

fn namespace_patterns(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": { "type": "string", "minLength": 1, "maxLength": 63, "pattern": r"^[-a-z0-9*]+$" },
        "x-kubernetes-list-type": "set",
    })
}

fn namespace_names(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": {
            "type": "string",
            "maxLength": 63,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
                "message": "must be the name of a namespace",
            }],
        },
        "x-kubernetes-list-type": "set",
    })
}

/// How a change of the class reaches its namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The number of namespaces of the class that may be unready or in change at the same time. At this number, no ready
    /// namespace is changed. A change that breaks namespaces therefore stops after this number.
    #[schemars(range(min = 1))]
    pub max_unavailable: i32,
    /// Names of namespaces that get a change first. No other ready namespace is changed until each of them that has the class is
    /// ready with the change, and while none of them has the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "namespace_names")]
    pub canaries: Vec<String>,
}

/// The observed state of a class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceClassStatus {
    /// The generation of the class that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// The number of resources of the class that can be applied.
    #[serde(default)]
    pub resource_count: i64,
    /// `Valid`: whether every resource of the class can be applied. `Paused`: whether the class is paused. `RolledOut`: whether
    /// every namespace of the class has been brought to this generation, if the class limits that.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// The class of one namespace, named like it and owned by it.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "namespaceclass.akuity.io",
    version = "v1alpha1",
    kind = "NamespaceClassBinding",
    plural = "namespaceclassbindings",
    shortname = "nsbinding",
    category = "lockstep",
    namespaced,
    status = "NamespaceClassBindingStatus",
    doc = "NamespaceClassBinding ties a namespace to its class and lists what was applied. The operator creates one for each labelled namespace; users do not create them.",
    printcolumn = r#"{"name":"Class","type":"string","jsonPath":".spec.className"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Message","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceClassBindingSpec {
    /// The name of the class.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub class_name: String,
}

/// What was applied to a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceClassBindingStatus {
    /// The generation of the binding that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// The class that is applied.
    #[serde(default)]
    pub observed_class_name: String,
    /// The UID of that class. It differs from that of an earlier class with the same name.
    #[serde(default)]
    pub observed_class_uid: String,
    /// The generation of the class that is applied.
    #[serde(default)]
    pub observed_class_generation: i64,
    /// Every resource that was applied, until its deletion is confirmed.
    #[serde(default)]
    #[schemars(schema_with = "applied_resources")]
    pub applied_resources: Vec<AppliedResource>,
    /// Every resource that may be created and is not known to exist: the API server has refused it, or has not answered.
    #[serde(default)]
    #[schemars(schema_with = "applied_resources")]
    pub pending_resources: Vec<AppliedResource>,
    /// `Ready`: whether the namespace contains all resources of its class, and none of an earlier one.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl NamespaceClassBindingStatus {
    /// All that may exist because of this binding.
    pub fn remembered(&self) -> impl Iterator<Item = &AppliedResource> {
        self.applied_resources.iter().chain(&self.pending_resources)
    }
}

/// One resource in the namespace of the binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedResource {
    /// Such as `v1` or `apps/v1`.
    pub api_version: String,
    /// Such as `ConfigMap`.
    pub kind: String,
    /// The resource's name.
    pub name: String,
}

fn applied_resources(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let resource = generator.subschema_for::<AppliedResource>();
    schemars::json_schema!({ "type": "array", "items": resource, "x-kubernetes-list-type": "atomic" })
}
