use proptest::collection::vec;
use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::{Map, json};

use super::*;

/// Returns the schema of a DPFHCPBridge from its CRD.
fn schema() -> Value {
    let sets = lockstep_crds::all();
    let set = sets.iter().find(|set| set.controller == lockstep_crds::bridge::CONTROLLER).unwrap();
    let definition = serde_json::to_value(&set.crds[0]).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Returns any value that a schema permits, with its defaults. Rules between fields are ignored.
fn admitted(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(words) = schema["enum"].as_array() {
        return prop::sample::select(words.clone()).boxed();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let fields = schema["properties"].as_object().into_iter().flatten();
            let field = |(name, schema): (&String, &Value)| {
                let name = name.clone();
                let wanted = required.iter().any(|required| *required == name);
                let absent = Just(schema.get("default").cloned());
                let present = admitted(schema).prop_map(Some);
                let value = if wanted { present.boxed() } else { prop_oneof![absent, present].boxed() };
                value.prop_map(move |value| value.map(|value| (name.clone(), value))).boxed()
            };
            let fields: Vec<_> = fields.map(field).collect();
            fields
                .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect::<Map<_, _>>()))
                .boxed()
        }
        Some("array") => vec(admitted(&schema["items"]), 0..3).prop_map(Value::from).boxed(),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("integer") => (0..i64::MAX).prop_map(Value::from).boxed(),
        Some("string") if schema["format"] == "date-time" => {
            let second = |second: i64| jiff::Timestamp::from_second(second).unwrap().to_string().into();
            (0..4_000_000_000i64).prop_map(second).boxed()
        }
        Some("string") => {
            let limit = |name: &str| schema[name].as_u64().map(|limit| usize::try_from(limit).unwrap());
            let (least, most) = (limit("minLength").unwrap_or(0), limit("maxLength").unwrap_or(300));
            // A few repetitions are enough where the pattern permits any number.
            let pattern = schema["pattern"].as_str().unwrap_or(r"[a-z0-9.\-]*");
            let pattern = pattern.replace(['^', '$'], "").replace('+', "{1,12}").replace('*', "{0,2}");
            let pattern = pattern.replace("{2,}", "{2,9}");
            let text = string_regex(&pattern).unwrap();
            text.prop_filter("its length", move |text| (least..=most).contains(&text.len()))
                .prop_map(Value::from)
                .boxed()
        }
        other => panic!("{other:?} in {schema}"),
    }
}

fn bridges() -> BoxedStrategy<Value> {
    let schema = schema();
    let (spec, status) = (&schema["properties"]["spec"], &schema["properties"]["status"]);
    let object = |(spec, status, generation, uid, deleted): (Value, Value, i64, String, bool)| {
        let mut metadata = json!({ "namespace": "a", "name": "b", "uid": uid, "generation": generation, "resourceVersion": "7" });
        if deleted {
            metadata["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
        }
        json!({ "metadata": metadata, "spec": spec, "status": status })
    };
    (admitted(spec), admitted(status), 0..i64::MAX, "[a-z0-9-]{1,9}", any::<bool>()).prop_map(object).boxed()
}

/// Returns any JSON, whose objects often have the names of a bridge's fields.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let names = prop::sample::select(vec![
            "metadata",
            "spec",
            "status",
            "name",
            "namespace",
            "conditions",
            "dpuClusterRef",
            "pullSecretRef",
            "metalLBVirtualIP",
            "phase",
            "generation",
            "deletionTimestamp",
        ]);
        let name = prop_oneof![names.prop_map(str::to_owned), ".{0,5}"];
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((name, inner), 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The fields of a spec that are not objects, by their path.
const LEAVES: [&str; 12] = [
    "/dpuClusterRef/name",
    "/dpuClusterRef/namespace",
    "/baseDomain",
    "/ocpReleaseImage",
    "/sshKeySecretRef/name",
    "/pullSecretRef/name",
    "/etcdStorageClass",
    "/controlPlaneAvailabilityPolicy",
    "/infrastructureAvailabilityPolicy",
    "/exposeThroughLoadBalancer",
    "/metalLBVirtualIP",
    "/clusterType",
];

proptest! {
    #[test]
    fn what_the_definition_admits_is_read_as_it_is(object in bridges()) {
        let bridge = Bridge::read(&object);
        prop_assert_eq!(bridge.spec.as_ref().map(|spec| json!(spec)), Ok(object["spec"].clone()));
        prop_assert_eq!(json!(bridge.status), object["status"].clone());
        let reference = &object["spec"]["dpuClusterRef"];
        prop_assert_eq!(json!(bridge.dpu_cluster), json!({ "namespace": reference["namespace"], "name": reference["name"] }));
        prop_assert_eq!(json!(bridge.generation), object["metadata"]["generation"].clone());
        prop_assert_eq!(bridge.deleting, is_deleting(&object));
        prop_assert_eq!(Name::of(&bridge.metadata), Name::new("a", "b"));
    }

    #[test]
    fn what_is_wrong_in_a_spec_is_named(
        object in bridges(), leaf in prop::sample::select(&LEAVES[..]), other in proptest::option::of(anything()),
    ) {
        let mut object = object;
        let (parent, field) = leaf.rsplit_once('/').unwrap();
        let place = object["spec"].pointer_mut(parent).unwrap();
        let before = match &other {
            Some(other) => std::mem::replace(&mut place[field], other.clone()),
            None => place.as_object_mut().unwrap().remove(field).unwrap(),
        };
        match (Bridge::read(&object).spec, other) {
            (Ok(_), None) => {
                let has_default = ["/sshKeySecretRef/name", "/pullSecretRef/name", "/metalLBVirtualIP"];
                prop_assert!(has_default.contains(&leaf), "{} is missing", leaf);
            }
            (Ok(spec), Some(other)) => {
                let read = json!(spec);
                prop_assert_eq!(read.pointer(leaf), Some(&other));
            }
            (Err(problem), None) => {
                let missing = format!("spec{}: missing field `{field}`", parent.replace('/', "."));
                prop_assert_eq!(problem, missing);
            }
            (Err(problem), Some(other)) => {
                let place = format!("spec{}: ", leaf.replace('/', "."));
                prop_assert!(problem.starts_with(&place), "{}", problem);
                let is_of_its_type = (other.is_string(), other.is_boolean()) == (before.is_string(), before.is_boolean());
                prop_assert!(!is_of_its_type, "{} was refused: {}", other, problem);
            }
        }
    }

    #[test]
    fn whatever_there_is_is_a_bridge_or_named(object in anything()) {
        let bridge = Bridge::read(&object);
        if let Err(problem) = &bridge.spec {
            prop_assert!(problem.starts_with("spec"), "{}", problem);
        }
        prop_assert!(!bridge.indexes().is_empty());
        prop_assert!(bridge.is_same(&bridge) && !bridge.is_older(&bridge));
    }
}
