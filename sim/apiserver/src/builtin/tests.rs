use serde_json::{Value, json};

use super::*;

fn resource(group: &str, plural: &str) -> &'static Resource {
    resources().iter().find(|r| r.group == group && r.plural == plural).expect("a known resource")
}

#[test]
fn discovery_lists_what_kubernetes_brings() {
    let deployments = resource("apps", "deployments");
    assert_eq!(deployments.kind, "Deployment");
    assert_eq!(deployments.short_names, ["deploy"]);
    assert_eq!(deployments.categories, ["all"]);
    assert_eq!(deployments.subresources, ["scale", "status"]);
    assert!(resources().iter().all(|r| types::of_resource(r).is_some()), "every kind has a type");
}

#[test]
fn documents_hold_schemas_and_paths() {
    let document = open_api("apis/apps/v1").expect("a served group version");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let parameters = patch["parameters"].as_array().expect("parameters");
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    assert_eq!(document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"]["type"], "object");
    assert!(open_api("apis/example.com/v1").is_none());
}

#[test]
fn normalising_writes_what_go_writes() {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {}, "creationTimestamp": null},
        "data": {}, "binaryData": null, "unknown": 1,
    });
    assert_eq!(normalise(resource("", "configmaps"), &mut object, Source::Document).unwrap(), ["unknown"]);
    assert_eq!(object, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));

    let mut object = json!({
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"containers": [{
            "name": "a", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}, "surplus": {},
        }], "volumes": [{"name": "v", "emptyDir": {}}]}}},
    });
    assert_eq!(
        normalise(resource("apps", "deployments"), &mut object, Source::Document).unwrap(),
        ["spec.template.spec.containers[0].surplus"]
    );
    assert_eq!(
        object,
        json!({
            "metadata": {"name": "a"},
            "spec": {"selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {
                "containers": [{"name": "a", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            }}},
            "status": {},
        })
    );
}

#[test]
fn reading_errors_name_field_and_type() {
    let deployments = resource("apps", "deployments");
    let error =
        |mut object: Value| normalise(deployments, &mut object, Source::Document).err().unwrap_or_default();
    assert_eq!(
        error(json!({"spec": {"replicas": "two"}})),
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct \
         field DeploymentSpec.spec.replicas of type int32"
    );
    assert_eq!(
        error(json!({"spec": {"template": {"spec": {"containers": [{"imagePullPolicy": 1}]}}}})),
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal number into Go struct \
         field Container.spec.template.spec.containers.imagePullPolicy of type v1.PullPolicy"
    );
    assert!(
        error(
            json!({"spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}}})
        )
        .ends_with(
            "cannot be handled as a Deployment: quantities must match the regular expression \
                        '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    );
    assert!(
        error(json!({"metadata": {"labels": ["a"]}}))
            .ends_with("json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string")
    );
}

#[test]
fn untyped_objects_are_read_by_other_rules() {
    let deployments = resource("apps", "deployments");
    let read = |spec: Value| {
        let mut object = json!({"spec": spec});
        let error = normalise(deployments, &mut object, Source::Untyped).err();
        (error.unwrap_or_default(), object["spec"].clone())
    };
    let (error, spec) = read(json!({"replicas": 4.0, "strategy": {"rollingUpdate": {"maxSurge": 2.0}}}));
    assert_eq!((error.as_str(), &spec["replicas"]), ("", &json!(4)));
    assert_eq!(spec["strategy"]["rollingUpdate"]["maxSurge"], json!(2));
    assert_eq!(read(json!({"replicas": 99_999_999_999_i64})).1["replicas"], json!(1_215_752_191));
    assert!(read(json!({"replicas": 1.5})).0.ends_with(": cannot convert float64 to int32"));
    assert!(read(json!({"paused": "x"})).0.ends_with(": unrecognized type: bool"));
    assert!(read(json!({"selector": []})).0.ends_with(": cannot restore struct from: slice"));
    assert!(
        read(json!({"template": {"metadata": {"labels": 4}}})).0.ends_with(": cannot restore map from int64")
    );
    let refused = read(json!({"template": {"metadata": {"creationTimestamp": 4}}})).0;
    assert!(refused.ends_with(": json: cannot unmarshal number into Go value of type string"), "{refused}");
}

/// The recorded answers of a real server to sequences of requests, without what differs from run to run.
mod golden {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    /// Adds what the apiserver module does around the functions of this module.
    fn system_fields(object: &mut Value, reply: &Value, namespaced: bool) {
        let metadata = object["metadata"].as_object_mut().expect("an object has metadata");
        for field in ["uid", "creationTimestamp"] {
            if let Some(value) = reply.pointer(&format!("/metadata/{field}")) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        if namespaced {
            metadata.insert("namespace".to_owned(), "golden".into());
        }
        metadata.remove("resourceVersion");
    }

    /// Returns the result of our pipeline for a request: the object, or the error in the form of the recorded answers.
    fn answer(resource: &Resource, step: &Value, stored: Option<&Value>) -> (Value, Vec<String>) {
        let mut object = step["body"].clone();
        let unknown = match normalise(resource, &mut object, Source::Document) {
            Ok(unknown) => unknown,
            Err(message) => return (json!({"reason": "BadRequest", "message": message}), Vec::new()),
        };
        apply_defaults(resource, &mut object);
        let known = stored.unwrap_or(&step["reply"]);
        let subresource = step["subresource"].as_str();
        system_fields(&mut object, known, resource.namespaced);
        if resource.kind == "Service"
            && subresource.is_none()
            && let Err(cause) = services::Allocations::default().allocate(&mut object, stored)
        {
            return (refusal(vec![cause]), Vec::new());
        }
        match stored {
            Some(old) => {
                let now = "2026-01-01T00:00:00Z".parse().expect("a time");
                prepare_update(resource, subresource, &mut object, old, now);
            }
            None => prepare_create(resource, &mut object),
        }
        if tracks_generation(resource) {
            let old = stored.and_then(|old| old["metadata"]["generation"].as_i64()).unwrap_or(0);
            let changed =
                stored.is_none_or(|old| subresource.is_none() && generation_changes(resource, old, &object));
            object["metadata"]["generation"] = (old + i64::from(changed)).into();
        }
        let mut causes = validate(resource, subresource, &object, stored);
        for value in object["metadata"]["labels"].as_object().into_iter().flat_map(|labels| labels.values()) {
            let value = value.as_str().expect("a label is text");
            let path = field::Path::root("metadata").child("labels");
            causes.extend(path.all_invalid(value, names::label_value(value)));
        }
        if stored.is_none()
            && let Some(name) = object["metadata"]["name"].as_str()
        {
            causes.splice(
                0..0,
                field::Path::root("metadata").child("name").all_invalid(name, validate_name(resource, name)),
            );
        }
        if causes.is_empty() {
            return (object, unknown);
        }
        (refusal(causes), Vec::new())
    }

    fn refusal(causes: Vec<Cause>) -> Value {
        let mut causes: Vec<Value> = causes
            .into_iter()
            .map(|cause| json!({"reason": cause.reason, "field": cause.field, "message": cause.message}))
            .collect();
        sort_map_entries(&mut causes);
        json!({"reason": "Invalid", "causes": causes})
    }

    /// Sorts the causes of map entries: the server iterates over maps in a random order. Elsewhere the order of causes is
    /// deterministic.
    fn sort_map_entries(causes: &mut [Value]) {
        let of_map = |cause: &Value| {
            ["hard[", "limits[0].", "data["].iter().any(|map| cause.to_string().contains(map))
        };
        if causes.iter().any(of_map) {
            causes.sort_by_key(Value::to_string);
        }
    }

    /// Returns the recorded answer without the real server's allocations, with causes in a fixed order.
    fn expected(step: &Value) -> Value {
        let mut reply = step["reply"].clone();
        if let Some(causes) = reply.get_mut("causes").and_then(Value::as_array_mut) {
            for cause in causes.iter_mut() {
                // After the first line there is a diff of the server's internal types.
                let message = cause["message"].as_str().expect("a message is text");
                cause["message"] = message.lines().next().unwrap_or_default().into();
            }
            sort_map_entries(causes);
            reply.as_object_mut().expect("a reply is an object").remove("message");
        }
        reply
    }

    /// Removes the allocated addresses and ports, which differ from run to run.
    fn without_allocations(mut object: Value) -> Value {
        if object["kind"] == "Service"
            && let Some(spec) = object["spec"].as_object_mut()
        {
            if spec.get("clusterIP").is_some_and(|ip| ip != "None") {
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
            }
            for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                port.as_object_mut().expect("a port is an object").remove("nodePort");
            }
        }
        object
    }

    /// Lists the paths at which two documents differ.
    fn differences(place: &str, ours: &Value, theirs: &Value, report: &mut String) {
        match (ours, theirs) {
            (Value::Object(left), Value::Object(right)) => {
                let keys: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
                for key in keys {
                    let of =
                        |side: &serde_json::Map<String, Value>| side.get(key).cloned().unwrap_or_default();
                    differences(&format!("{place}/{key}"), &of(left), &of(right), report);
                }
            }
            (Value::Array(left), Value::Array(right)) => {
                for item in left.iter().filter(|item| !right.contains(item)) {
                    writeln!(report, "  only ours   {place}: {item}").expect("a string takes text");
                }
                for item in right.iter().filter(|item| !left.contains(item)) {
                    writeln!(report, "  only theirs {place}: {item}").expect("a string takes text");
                }
            }
            _ if ours != theirs => {
                writeln!(report, "  {place}: ours {ours} theirs {theirs}").expect("a string takes text");
            }
            _ => {}
        }
    }

    /// Compares texts without their order. Unknown fields are in the order of the request's text, which is not kept here.
    fn same_texts(recorded: &Value, ours: &[String]) -> bool {
        let mut recorded: Vec<&str> =
            recorded.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        let mut ours: Vec<&str> = ours.iter().map(String::as_str).collect();
        recorded.sort_unstable();
        ours.sort_unstable();
        recorded == ours
    }

    /// Compares with the row of the real server, except ages.
    fn compare_cells(resource: &Resource, stored: &Value, case: &Value, report: &mut String) {
        let columns = columns(resource);
        let ours = cells(resource, stored, 0);
        let theirs = case["cells"].as_array().expect("cells were recorded");
        assert_eq!((columns.len(), ours.len()), (theirs.len(), theirs.len()), "cells of {}", resource.plural);
        for ((column, ours), theirs) in columns.iter().zip(&ours).zip(theirs) {
            let is_age = ["Age", "Last Seen", "First Seen"].contains(&column.0);
            if !is_age && ours != theirs {
                writeln!(
                    report,
                    "{} {} step: {} is {ours}, theirs {theirs}",
                    resource.plural, case["name"], column.0
                )
                .expect("a string takes text");
            }
        }
    }

    fn compare(path: &Path, report: &mut String) -> usize {
        let text = std::fs::read_to_string(path).expect("the golden file can be read");
        let suite: Value = serde_json::from_str(&text).expect("the golden file is well-formed");
        let of = &suite["resource"];
        let resource = resources()
            .iter()
            .find(|r| r.group == of["group"] && r.plural == of["plural"] && r.version == of["version"])
            .expect("a known resource");
        let mut steps = 0;
        for case in suite["cases"].as_array().expect("cases") {
            let mut stored: Option<Value> = None;
            for (index, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
                steps += 1;
                let (ours, unknown) = answer(resource, step, stored.as_ref());
                let theirs = expected(step);
                let accepted = step["code"].as_i64().is_some_and(|code| code < 300);
                if without_allocations(ours.clone()) != without_allocations(theirs.clone()) {
                    let name = &case["name"];
                    writeln!(report, "{} {name} step {index}", resource.plural).expect("a string takes text");
                    differences("", &without_allocations(ours), &without_allocations(theirs.clone()), report);
                } else if accepted && !same_texts(&step["unknown"], &unknown) {
                    writeln!(
                        report,
                        "{} {}: unknown {unknown:?}, theirs {}",
                        resource.plural, case["name"], step["unknown"]
                    )
                    .expect("a string takes text");
                }
                if accepted {
                    stored = Some(theirs);
                }
            }
            if let Some(stored) = &stored {
                compare_cells(resource, stored, case, report);
            }
        }
        steps
    }

    #[test]
    fn answers_equal_those_of_the_real_server() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/builtin");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .expect("the golden folder is there")
            .map(|entry| entry.expect("the golden folder can be read").path())
            .collect();
        files.sort();
        let mut report = String::new();
        let steps: usize = files.iter().map(|file| compare(file, &mut report)).sum();
        assert!(
            report.is_empty(),
            "{} of {steps} answers differ:\n{report}",
            report.matches(" step ").count()
        );
    }
}
