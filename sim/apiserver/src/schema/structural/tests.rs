use serde_json::{Value, json};

use crate::schema::Schema;

/// Returns the causes of a schema with this `spec`.
fn causes(spec: &Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let causes = Schema::from_crd(&schema).err().unwrap_or_default();
    causes.iter().map(|cause| cause.to_string().replace("openAPIV3Schema.properties[spec]", "spec")).collect()
}

#[test]
fn schemas_are_structural() {
    let cases = [
        (
            json!({"properties": {}}),
            "spec.type: Required value: must not be empty for specified object fields",
        ),
        (json!({"type": "array"}), "spec.items: Required value: must be specified"),
        (
            json!({"type": "array", "items": {}}),
            "spec.items.type: Required value: must not be empty for specified array items",
        ),
        (
            json!({"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            r#"spec.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true"#,
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            "spec.anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
            "spec.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            json!({"type": "string", "x-kubernetes-list-type": "set"}),
            r#"spec.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#,
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}),
            "spec.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (
            json!({"type": "integer", "default": "x"}),
            r#"spec.default: Invalid value: "string":  in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            "spec.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}),
            r#"spec.items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within spec"#,
        ),
    ];
    for (spec, expected) in cases {
        let found = causes(&spec);
        assert!(found.iter().any(|cause| cause == expected), "{spec}: {found:?}");
    }
}

#[test]
fn sound_schemas_pass() {
    let sound = [
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": true}),
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "x"}}}),
    ];
    for spec in sound {
        assert_eq!(causes(&spec), Vec::<String>::new(), "{spec}");
    }
    let root = json!({"type": "string", "nullable": true});
    let causes = Schema::from_crd(&root).unwrap_err();
    let texts: Vec<String> = causes.iter().map(ToString::to_string).collect();
    assert!(
        texts
            .contains(&"openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root".to_owned())
    );
    assert!(texts.contains(
        &r#"openAPIV3Schema.type: Invalid value: "string": must be object at the root"#.to_owned()
    ));
}
