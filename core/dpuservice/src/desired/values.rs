//! The values of a chart.
//!
//! `spec.serviceDaemonSet` is merged into `spec.values.serviceDaemonSet`, field by field. If both set a field, the former
//! wins; lists are replaced as a whole. Fields that it omits add nothing. `spec.serviceID` becomes the value `serviceID` and
//! the label `service-ID`. Everything else comes from `spec.values`.
//!
//! Source: "Reconcile the ArgoCD `Applications`", and the contract with charts in "API".

use lockstep_crds::dpuservice::DPUServiceSpec;
use serde_json::{Map, Value, json};

/// The label by which the chart marks objects of a service function chain.
const SERVICE_ID_LABEL: &str = "service-ID";

/// Returns the values of a service.
pub fn values(spec: &DPUServiceSpec) -> Map<String, Value> {
    let mut values = spec.values.clone().unwrap_or_default();
    let mut daemon_set = json!(spec.service_daemon_set.clone().unwrap_or_default());
    if let Some(id) = &spec.service_id {
        merge(&mut daemon_set, json!({ "labels": { SERVICE_ID_LABEL: id } }));
        values.insert("serviceID".to_owned(), json!(id));
    }
    // It is always set, because an apply can't remove the last value.
    merge(values.entry("serviceDaemonSet").or_insert_with(|| json!({})), daemon_set);
    values
}

/// The largest integer up to which 64-bit floats hold every integer.
const EXACT_MAX: u64 = 1 << 53;

/// Returns the paths of all integers that a chart gets rounded: Argo CD parses numbers as 64-bit floats.
pub fn rounded(values: &Map<String, Value>) -> Vec<String> {
    let mut paths = Vec::new();
    for (field, value) in values {
        find_rounded(field, value, &mut paths);
    }
    paths
}

fn find_rounded(path: &str, value: &Value, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                find_rounded(&format!("{path}.{field}"), value, paths);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                find_rounded(&format!("{path}[{index}]"), value, paths);
            }
        }
        Value::Number(number) => {
            let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            if magnitude.is_some_and(|magnitude| magnitude > EXACT_MAX) {
                paths.push(path.to_owned());
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Merges values into base values, and overrides them.
fn merge(base: &mut Value, wins: Value) {
    match (base, wins) {
        (Value::Object(base), Value::Object(wins)) => {
            for (field, value) in wins {
                match base.get_mut(&field) {
                    Some(existing) => merge(existing, value),
                    None => {
                        base.insert(field, value);
                    }
                }
            }
        }
        (base, wins) => *base = wins,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(spec: Value) -> Value {
        let mut spec = spec;
        spec["source"] = json!({ "repoURL": "https://charts.example.com", "version": "1.0.0", "chart": "c" });
        values(&serde_json::from_value(spec).unwrap()).into()
    }

    #[test]
    fn what_is_typed_wins_field_by_field() {
        let values = of(json!({
            "values": {
                "a": 1,
                "serviceID": "other",
                "serviceDaemonSet": {
                    "labels": { "a": "base", "b": "base" },
                    "annotations": "no table",
                    "nodeSelector": { "matchExpressions": [{ "key": "x", "operator": "Exists" }] },
                    "own": [1, 2],
                    "nothing": null,
                },
            },
            "serviceID": "chain",
            "serviceDaemonSet": {
                "labels": { "a": "typed", "service-ID": "typed" },
                "annotations": { "c": "typed" },
                "nodeSelector": { "matchExpressions": [{ "key": "y", "operator": "Exists" }] },
                "resources": { "limits": { "cpu": 1, "memory": "1Gi" } },
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "10%" } },
            },
        }));
        insta::assert_yaml_snapshot!(values);
    }

    #[test]
    fn what_is_left_out_adds_nothing() {
        assert_eq!(of(json!({})), json!({ "serviceDaemonSet": {} }));
        assert_eq!(of(json!({ "values": { "a": null } })), json!({ "a": null, "serviceDaemonSet": {} }));
        assert_eq!(
            of(json!({ "values": { "serviceDaemonSet": 1 }, "serviceDaemonSet": {} })),
            json!({ "serviceDaemonSet": {} })
        );
    }

    #[test]
    fn integers_beyond_2_53_are_rounded() {
        let exact = 9_007_199_254_740_992_i64;
        let spec = json!({
            "values": {
                "exact": [exact, -exact, 0, "9007199254740993", 1e300, 0.1, null, true],
                "a": { "b": [1, { "c": exact + 1 }] },
                "negative": -exact - 1,
                "serviceDaemonSet": { "resources": { "limits": { "x": u64::MAX } } },
            },
        });
        let Value::Object(values) = of(spec) else { panic!("values are an object") };
        let mut found = rounded(&values);
        found.sort();
        assert_eq!(found, ["a.b[1].c", "negative", "serviceDaemonSet.resources.limits.x"]);
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            "[a-c]".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let fields = proptest::collection::btree_map("[a-c]", inner.clone(), 0..3);
            prop_oneof![
                proptest::collection::vec(inner, 0..3).prop_map(Value::from),
                fields.prop_map(|fields| fields.into_iter().collect::<Value>()),
            ]
        })
    }

    fn check(base: Option<&Value>, wins: &Value, merged: &Value) -> bool {
        match (base, wins) {
            (Some(Value::Object(base)), Value::Object(wins)) => {
                base.iter().all(|(field, value)| wins.contains_key(field) || merged[field] == *value)
                    && wins.iter().all(|(field, value)| check(base.get(field), value, &merged[field]))
            }
            (_, wins) => merged == wins,
        }
    }

    proptest! {
        /// The result has all of the overriding values, and everything else of the base.
        #[test]
        fn a_merge_loses_nothing(base in tree(), wins in tree()) {
            let mut merged = base.clone();
            merge(&mut merged, wins.clone());
            prop_assert!(check(Some(&base), &wins, &merged));
        }
    }
}
