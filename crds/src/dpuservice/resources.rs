//! Resource requests and limits of pods.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::labels;

/// A quantity, but for a sign: what Kubernetes parses.
const QUANTITY: &str = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";
/// The quantities that are compared. Larger and finer ones are left to the API server of the cluster: not everything that
/// compares quantities can compare those.
const COMPARED: &str = r"^[0-9]{1,12}(\.[0-9]{1,3})?(m|k|[MGTPE]|[KMGTPE]i)?$";

/// Resource requests and limits of a pod, by the names of resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [at_most_its_limit(), is_its_limit()]))]
pub struct Resources {
    /// The resources that are reserved for each pod.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub requests: BTreeMap<String, Quantity>,
    /// The most that each pod may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub limits: BTreeMap<String, Quantity>,
}

/// A quantity as it was written: 1, "500m" or "2Gi".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A whole number.
    Number(i64),
    /// Anything else.
    Text(String),
}

fn quantities(_: &mut SchemaGenerator) -> Schema {
    let is_resource = |name: &str| {
        let is_standard =
            format!("{name} in ['cpu', 'memory', 'ephemeral-storage'] || {name}.startsWith('hugepages-')");
        format!("(({is_standard} || {name}.contains('/')) && {})", labels::is_qualified(name))
    };
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "maxLength": 64,
            "x-kubernetes-validations": [{
                "rule": format!("string(self).matches(r'{QUANTITY}')"),
                "message": "must be a quantity of 0 or more, such as 2, 500m or 1Gi",
            }],
        },
        "x-kubernetes-validations": [labels::keys(
            is_resource,
            "a resource is cpu, memory, ephemeral-storage, hugepages-<size>, or bears the name of its vendor, such as nvidia.com/bf_sf",
        )],
    })
}

fn at_most_its_limit() -> Value {
    let exceeds =
        |name: &str| format!("!{} && {name} in self.limits && {}", is_fixed(name), compared(name, "> 0"));
    let message = "what is requested must be at most the limit";
    json!({
        "rule": format!("!has(self.requests) || !has(self.limits) || !self.requests.exists(name, {})", exceeds("name")),
        "message": message,
        "messageExpression": format!("{} + ': {message}'", labels::first("self.requests", exceeds)),
        "fieldPath": ".requests",
    })
}

fn is_its_limit() -> Value {
    let differs = |name: &str| {
        let has_none = format!("!has(self.limits) || !({name} in self.limits)");
        format!("{} && ({has_none} || {})", is_fixed(name), compared(name, "!= 0"))
    };
    let message = "the limit of huge pages and of what vendors offer must be what is requested";
    json!({
        "rule": format!("!has(self.requests) || !self.requests.exists(name, {})", differs("name")),
        "message": message,
        "messageExpression": format!("{} + ': {message}'", labels::first("self.requests", differs)),
        "fieldPath": ".limits",
    })
}

/// Whether a resource can't be overcommitted: those of vendors, and huge pages.
fn is_fixed(name: &str) -> String {
    format!(
        "(({name}.contains('/') && !{name}.contains('kubernetes.io/')) || {name}.startsWith('hugepages-'))"
    )
}

/// Whether request and limit can be compared, and compare like this.
fn compared(name: &str, how: &str) -> String {
    let text = |of: &str| format!("string(self.{of}[{name}])");
    let (request, limit) = (text("requests"), text("limits"));
    let both = format!("{request}.matches(r'{COMPARED}') && {limit}.matches(r'{COMPARED}')");
    format!("({both} && quantity({request}).compareTo(quantity({limit})) {how})")
}
