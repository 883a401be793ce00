//! How a change of a DPUService reaches its clusters.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// How a change of the service reaches its clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// The clusters that may be unready or in change at the same time: a number, or a percentage of the clusters, which is rounded
    /// down, but at least 1. At this number, no ready cluster is changed. A version that breaks clusters therefore stops after this
    /// number. Clusters that were not ready before the change do not count, and are changed last.
    #[schemars(schema_with = "clusters")]
    pub max_unavailable: IntOrString,
    /// The DPUClusters that get a change first, as namespace/name. No other ready cluster is changed until each of them that has the
    /// service is ready with the change, and while none of them has the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "canaries")]
    pub canaries: Vec<String>,
}

impl RolloutStrategy {
    /// Returns the number of these clusters that may be unready at the same time.
    pub fn limit(&self, clusters: usize) -> usize {
        let limit = match &self.max_unavailable {
            IntOrString::Int(limit) => usize::try_from(*limit).unwrap_or(0),
            IntOrString::String(percent) => {
                let percent: usize = percent.trim_end_matches('%').parse().unwrap_or(0);
                clusters * percent.min(100) / 100
            }
        };
        limit.max(1)
    }
}

fn clusters(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 16,
        "x-kubernetes-validations": [{
            "rule": "self == string(self) ? self.matches('^0*([1-9][0-9]?|100)%$') : self >= 1 && self <= 2147483647",
            "message": "must be a number of clusters of at least 1, or a percentage from 1% to 100%, such as 10%",
        }],
    })
}

fn canaries(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": {
            "type": "string",
            "maxLength": 317,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",
                "message": "must be the namespace and the name of a DPUCluster, such as dpf/dpu-01",
            }],
        },
        "x-kubernetes-list-type": "set",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_down_but_to_no_less_than_one_cluster() {
        let limit = |max_unavailable, clusters| {
            RolloutStrategy { max_unavailable, canaries: Vec::new() }.limit(clusters)
        };
        let percent = |percent: &str| IntOrString::String(percent.to_owned());
        assert_eq!(limit(IntOrString::Int(3), 10), 3);
        assert_eq!(limit(percent("30%"), 10), 3);
        assert_eq!(limit(percent("29%"), 10), 2);
        assert_eq!(limit(percent("10%"), 4), 1);
        assert_eq!(limit(percent("100%"), 4), 4);
        assert_eq!(limit(percent("50%"), 0), 1);
    }
}
