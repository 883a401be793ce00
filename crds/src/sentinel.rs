//! `hyperfleet.redhat.com/v1alpha1`: the resources that one Sentinel polls, and where it publishes.
//!
//! Source: HyperFleet Sentinel, "SentinelConfig CRD". Beyond it: `hyperfleetAPI.dialect`, `hyperfleetAPI.headers`,
//! `broker.urlSecretRef`, `broker.exchangeType`, `messageDecision`, `messageData`, other resource types, the validation rules and the
//! status.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// The controller's name.
pub const CONTROLLER: &str = "sentinel";
/// The API group.
pub const GROUP: &str = "hyperfleet.redhat.com";
/// The API version.
pub const VERSION: &str = "v1alpha1";

/// The resources that one Sentinel polls, its backoffs, and its broker.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hyperfleet.redhat.com",
    version = "v1alpha1",
    kind = "SentinelConfig",
    plural = "sentinelconfigs",
    shortname = "sc",
    category = "lockstep",
    namespaced,
    status = "SentinelConfigStatus",
    doc = "SentinelConfig configures the resources that one HyperFleet Sentinel polls, the backoff between events of a resource, and where it publishes reconcile events.",
    printcolumn = r#"{"name":"Type","type":"string","jsonPath":".spec.resourceType"}"#,
    printcolumn = r#"{"name":"Broker","type":"string","jsonPath":".spec.broker.type"}"#,
    printcolumn = r#"{"name":"Interval","type":"string","jsonPath":".spec.pollInterval"}"#,
    printcolumn = r#"{"name":"Resources","type":"integer","jsonPath":".status.lastCycle.resources"}"#,
    printcolumn = r#"{"name":"Publishing","type":"string","jsonPath":".status.conditions[?(@.type==\"Publishing\")].status"}"#,
    printcolumn = r#"{"name":"Message","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type==\"Publishing\")].message"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct SentinelConfigSpec {
    /// The HyperFleet resource type to poll: clusters, nodepools, or the plural of any other kind that the API serves.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z]([a-z0-9-]*[a-z0-9])?$"))]
    pub resource_type: String,
    /// The minimum time between the last status report of a resource that is not Ready and an event for it, such as 10s.
    #[serde(default = "backoff_not_ready")]
    #[schemars(schema_with = "schema::duration")]
    pub backoff_not_ready: String,
    /// The minimum time between the last status report of a Ready resource and an event for it, such as 30m.
    #[serde(default = "backoff_ready")]
    #[schemars(schema_with = "schema::duration")]
    pub backoff_ready: String,
    /// Selects the resources of this shard by label. If it is empty, all resources belong to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_selector: Option<ShardSelector>,
    /// The HyperFleet API.
    #[serde(rename = "hyperfleetAPI")]
    pub hyperfleet_api: HyperFleetApi,
    /// The message broker.
    pub broker: Broker,
    /// The delay between the end of a poll and the start of the next, such as 5s.
    #[serde(default = "poll_interval")]
    #[schemars(schema_with = "schema::duration")]
    pub poll_interval: String,
    /// When a resource gets an event, as expressions in CEL. Without it, and for resources on which an expression fails,
    /// backoffNotReady and backoffReady decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_decision: Option<MessageDecision>,
    /// Further fields of the data of each event: their names, and their values as expressions in CEL over resource, now and reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "message_data")]
    pub message_data: BTreeMap<String, String>,
}

/// Expressions in CEL that decide when a resource gets an event, as in the released Sentinel. They read resource, now and
/// condition(type).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageDecision {
    /// Named values, computed in this order. Each may use those before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub params: Vec<Param>,
    /// Whether the resource gets an event now: a bool.
    #[schemars(length(min = 1, max = 1024))]
    pub result: String,
}

/// A named value of a decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Param {
    /// The name of the variable.
    #[schemars(length(max = 63), regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// The expression.
    #[schemars(length(min = 1, max = 1024))]
    pub expr: String,
}

/// The fields of an event's data that the Sentinel sets itself. Source: HyperFleet Sentinel, "CloudEvent Format"; the last five are
/// those that released adapters read.
pub const RESERVED_DATA: [&str; 8] =
    ["resourceType", "resourceId", "reason", "id", "kind", "href", "generation", "owner_references"];

/// A label selector: all of its terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardSelector {
    /// Labels and the values that they must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub match_labels: BTreeMap<String, String>,
    /// Further terms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub match_expressions: Vec<MatchExpression>,
}

/// One term of a selector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.key) && self.key != ''",
        "message": "key is missing: name the label",
    },
    {
        "rule": "has(self.operator) && self.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']",
        "message": "operator must be In, NotIn, Exists or DoesNotExist",
    },
    {
        "rule": "!has(self.operator) || !(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
        "message": "In and NotIn need values",
    },
    {
        "rule": "!has(self.operator) || !(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",
        "message": "Exists and DoesNotExist take no values",
    },
]))]
pub struct MatchExpression {
    /// The label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 317))]
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16))]
    pub operator: String,
    /// The values of In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub values: Vec<String>,
}

/// The URL of the HyperFleet API, and how to query it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HyperFleetApi {
    /// The base URL, without /api/hyperfleet/v1.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [{
        "rule": "self.startsWith('http://') || self.startsWith('https://')",
        "message": "must be an http:// or https:// URL",
    }]))]
    pub url: String,
    /// The timeout of a request, such as 10s.
    #[serde(default = "timeout")]
    #[schemars(schema_with = "schema::duration")]
    pub timeout: String,
    /// The dialect of the API: labels (a labels parameter; status.phase and status.lastTransitionTime) or search (a search
    /// parameter; status.conditions), as released from 0.3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "dialect")]
    pub dialect: Option<String>,
    /// Further headers of each request, such as those by which an API distinguishes tenants. Do not put credentials here, because
    /// all readers of this object see them. The token is in a file (`HYPERFLEET_API_TOKEN_FILE`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "headers")]
    pub headers: BTreeMap<String, String>,
}

/// The broker for events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.type != 'gcp-pubsub' || (has(self.projectID) && self.projectID != '')",
        "message": "projectID is required for the type gcp-pubsub",
    },
    {
        "rule": "self.type != 'rabbitmq' || (has(self.url) && self.url != '') != has(self.urlSecretRef)",
        "message": "the type rabbitmq needs either url or urlSecretRef, and not both",
    },
]))]
pub struct Broker {
    /// The type of the broker.
    #[schemars(extend("enum" = ["gcp-pubsub", "rabbitmq"]))]
    pub r#type: String,
    /// The topic (for gcp-pubsub), or the exchange (for rabbitmq) if exchange is omitted.
    #[schemars(length(min = 1, max = 255))]
    pub topic: String,
    /// The project's id (required for gcp-pubsub).
    #[serde(default, rename = "projectID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub project_id: Option<String>,
    /// The broker's URL (for rabbitmq), such as `amqp://rabbitmq:5672/`. Put credentials into urlSecretRef instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub url: Option<String>,
    /// The key of a Secret in the same namespace that holds the broker's URL with its credentials (for rabbitmq).
    #[serde(default, rename = "urlSecretRef", skip_serializing_if = "Option::is_none")]
    pub url_secret_ref: Option<SecretKeyRef>,
    /// The exchange (for rabbitmq). Defaults to topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub exchange: Option<String>,
    /// The type of the exchange (for rabbitmq): fanout, the default, or topic, which the chart of released adapters declares. Events
    /// go to a topic exchange without a routing key.
    #[serde(default, rename = "exchangeType", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "exchange_type")]
    pub exchange_type: Option<String>,
}

/// A key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// The Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// The observed state of the Sentinel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SentinelConfigStatus {
    /// The generation of the spec that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// `Ready`, and the conditions that it summarises: `ConfigValid`, `FleetReachable`, `BrokerConnected`, `Publishing`.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The last complete cycle. Updated at most once a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_cycle: Option<LastCycle>,
}

/// One cycle: a visit to every resource of the shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastCycle {
    /// Resources of the shard.
    pub resources: u64,
    /// Events that the broker confirmed.
    pub published: u64,
    /// Ready resources with a backoff that had not expired.
    pub skipped_ready: u64,
    /// Other resources with a backoff that had not expired.
    pub skipped_not_ready: u64,
    /// Events that were abandoned after several attempts.
    pub failed: u64,
    /// Resources that could not be parsed.
    pub malformed: u64,
}

fn backoff_not_ready() -> String {
    "10s".to_owned()
}

fn backoff_ready() -> String {
    "30m".to_owned()
}

fn poll_interval() -> String {
    "5s".to_owned()
}

fn timeout() -> String {
    "10s".to_owned()
}

/// Without a default in the schema: brokers of the other type have no exchange.
fn exchange_type(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": ["fanout", "topic"] })
}

/// Which names are refused: `core/sentinel/src/config.rs`.
fn headers(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "type": "string", "maxLength": 1024, "pattern": "^[ -~]*$" },
        "x-kubernetes-validations": [
            {
                "rule": "self.all(name, size(name) <= 64 && name.matches('^[A-Za-z0-9-]+$'))",
                "message": "names of headers have at most 64 letters, digits and hyphens",
            },
            {
                "rule": "self.all(name, !(name.lowerAscii() in ['accept', 'authorization', 'connection', 'content-length', 'host', 'transfer-encoding']))",
                "message": "accept, authorization, connection, content-length, host and transfer-encoding are set by the Sentinel; a token goes into the file that HYPERFLEET_API_TOKEN_FILE names",
            },
        ],
    })
}

/// Which expressions are refused: `core/sentinel/src/rules.rs`.
fn message_data(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let reserved = RESERVED_DATA.map(|name| format!("'{name}'")).join(", ");
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": { "type": "string", "minLength": 1, "maxLength": 1024 },
        "x-kubernetes-validations": [
            {
                "rule": "self.all(name, size(name) <= 63 && name.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",
                "message": "names of fields have at most 63 letters, digits and underscores",
            },
            {
                "rule": format!("self.all(name, !(name in [{reserved}]))"),
                "message": format!("{} are set by the Sentinel", RESERVED_DATA.join(", ")),
            },
        ],
    })
}

fn dialect(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": ["labels", "search"], "default": "labels" })
}
