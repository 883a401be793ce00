use lockstep_engine::object::Kind;

use super::*;

fn kinds() -> Kinds {
    let mut kinds = Kinds::default();
    kinds.learn(
        "v1",
        vec![
            Kind::known("", "v1", "ConfigMap", "configmaps", true),
            Kind::known("", "v1", "ServiceAccount", "serviceaccounts", true),
            Kind::known("", "v1", "Namespace", "namespaces", false),
        ],
    );
    kinds.learn(
        "namespaceclass.akuity.io/v1alpha1",
        vec![Kind::known(GROUP, "v1alpha1", "NamespaceClass", "namespaceclasses", false)],
    );
    kinds
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

fn content(resources: &[Value]) -> Content {
    resolve("web", resources, Variables::default(), &kinds())
}

#[test]
fn every_mistake_is_named_with_its_index_and_remedy_and_the_rest_applies() {
    let resources = [
        config_map("good"),
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "other" } }),
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" } }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "a-" } }),
        config_map("good"),
        json!({ "kind": "ConfigMap" }),
        json!("no object"),
        json!({ "apiVersion": "namespaceclass.akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": { "name": "x" } }),
    ];
    let content = content(&resources);
    let valid: Vec<usize> = content.entries.iter().map(|entry| entry.index).collect();
    assert_eq!(valid, [0]);
    let problems: Vec<String> = content
        .problems
        .iter()
        .map(|problem| format!("[{}] {} (may pass: {})", problem.index, problem.message, problem.may_pass))
        .collect();
    insta::assert_snapshot!(problems.join("\n"));
}

#[test]
fn the_template_holds_what_users_may_say_and_our_marks() {
    let mut resource = config_map("a");
    resource["metadata"]["uid"] = json!("stolen");
    resource["metadata"]["ownerReferences"] = json!([{ "uid": "x" }]);
    resource["metadata"]["labels"] = json!({ "app": "web" });
    resource["status"] = json!({ "claimed": true });
    let content = content(&[resource]);
    insta::assert_json_snapshot!(content.entries[0].template());
}

/// What is applied of a Secret, except the fields that identify it.
fn template_of_secret(fields: &Value) -> Value {
    let mut secret = fields.clone();
    (secret["apiVersion"], secret["kind"]) = (json!("v1"), json!("Secret"));
    let mut template = template("web", &secret);
    let others = template.as_object_mut().expect("an object");
    others.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata"));
    template
}

#[test]
fn texts_of_a_secret_are_applied_as_the_data_that_they_become() {
    let both =
        json!({ "stringData": { "pin": "4711", "key": "new" }, "data": { "key": "b2xk", "other": "eA==" } });
    let data = json!({ "data": { "pin": "NDcxMQ==", "key": "bmV3", "other": "eA==" } });
    assert_eq!(template_of_secret(&both), data);
    let alone = json!({ "stringData": { "empty": "" }, "data": null, "type": "Opaque" });
    assert_eq!(template_of_secret(&alone), json!({ "data": { "empty": "" }, "type": "Opaque" }));
}

#[test]
fn what_is_no_text_of_a_secret_is_left_for_the_server_to_refuse() {
    let mixed = json!({ "stringData": { "pin": 4711, "key": "new" }, "data": { "pin": "eA==" } });
    let left = json!({ "stringData": { "pin": 4711 }, "data": { "pin": "eA==", "key": "bmV3" } });
    assert_eq!(template_of_secret(&mixed), left);
    for odd in [
        json!({ "stringData": ["new"] }),
        json!({ "stringData": null }),
        json!({ "stringData": { "key": "new" }, "data": "none" }),
    ] {
        assert_eq!(template_of_secret(&odd), odd);
    }
}

#[test]
fn only_secrets_of_the_core_group_have_texts() {
    for (api_version, kind) in [("example.com/v1", "Secret"), ("v1", "ConfigMap")] {
        let other = json!({ "apiVersion": api_version, "kind": kind, "stringData": { "a": "b" } });
        assert_eq!(template("web", &other)["stringData"], other["stringData"]);
    }
}

#[test]
fn only_api_versions_are_discovered() {
    let of = |api_version: &str| {
        let widget = json!({ "apiVersion": api_version, "kind": "Widget", "metadata": { "name": "a" } });
        undiscovered(&[widget], &kinds(), |_| true).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(of("example.com/v1"), ["example.com/v1"]);
    for odd in ["", "/", "example.com/", "/v1", "example.com/v1/widgets"] {
        assert!(of(odd).is_empty(), "{odd}");
    }
}

#[test]
fn the_content_mark_changes_with_the_content_and_the_class_only() {
    let mark = |class: &str, resource: Value| {
        resolve(class, &[resource], Variables::default(), &kinds()).entries[0].content.clone()
    };
    let mut other = config_map("a");
    other["data"]["a"] = json!("2");
    assert_eq!(mark("web", config_map("a")), mark("web", config_map("a")));
    assert_ne!(mark("web", config_map("a")), mark("web", other));
    assert_ne!(mark("web", config_map("a")), mark("batch", config_map("a")));
}

#[test]
fn an_entry_that_has_only_moved_is_kept() {
    let other = |field: &str, value: Value| {
        let mut other = config_map("a");
        other[field] = value;
        other
    };
    let keeps = |resources: &[Value]| {
        let mut entry = Arc::clone(&content(&[config_map("a")]).entries[0]);
        content(resources).keeps(&mut entry).then_some(entry.index)
    };
    assert_eq!(keeps(&[config_map("b"), config_map("a")]), Some(1));
    assert_eq!(keeps(&[config_map("b")]), None, "it has another name");
    assert_eq!(keeps(&[other("data", json!({ "a": "2" }))]), None, "it has other content");
    assert_eq!(keeps(&[other("kind", json!("ServiceAccount"))]), None, "it has another kind");
}

#[test]
fn a_digest_does_not_depend_on_the_order_of_fields() {
    let one: Value = serde_json::from_str(r#"{"a":{"x":1,"y":[2]},"b":null}"#).expect("JSON");
    let two: Value = serde_json::from_str(r#"{"b":null,"a":{"y":[2],"x":1}}"#).expect("JSON");
    assert_eq!(digest(&one), digest(&two));
    assert_ne!(digest(&json!({ "a": "b" })), digest(&json!(["a", "b"])));
}

proptest::proptest! {
    #[test]
    fn any_resources_are_judged_without_panic_and_none_is_lost(
        texts in proptest::collection::vec("[ -~]{0,40}", 0..8)
    ) {
        let resources: Vec<Value> = texts
            .iter()
            .map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!({ "kind": text, "apiVersion": "v1" })))
            .collect();
        let content = content(&resources);
        proptest::prop_assert_eq!(content.entries.len() + content.problems.len(), resources.len());
    }
}
