use serde_json::{Value, json};

use crate::schema::Schema;

fn spec(property: &Value) -> Schema {
    Schema::from_crd(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"x": property}}}}))
    .unwrap()
}

/// Returns the causes for a value of `spec.x`, as `reason field: message`.
fn causes(property: &Value, value: &Value) -> Vec<String> {
    let object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}, "spec": {"x": value}});
    spec(property)
        .validate(&object, None)
        .into_iter()
        .map(|cause| format!("{} {}: {}", cause.reason, cause.field, cause.message))
        .collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn each_keyword_has_its_message() {
    let cases = [
        (
            json!({"type": "integer"}),
            json!("a"),
            r#"FieldValueTypeInvalid spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "string"}),
            json!(1),
            r#"FieldValueTypeInvalid spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "object"}),
            json!(null),
            r#"FieldValueTypeInvalid spec.x: Invalid value: "null": spec.x in body must be of type object: "null""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            r#"FieldValueTypeInvalid spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("now"),
            r#"FieldValueTypeInvalid spec.x: Invalid value: "now": spec.x in body must be of type date-time: "now""#,
        ),
        (
            json!({"type": "object", "required": ["y"]}),
            json!({}),
            "FieldValueRequired spec.x.y: Required value",
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            r#"FieldValueNotSupported spec.x: Unsupported value: "c": supported values: "a", "b""#,
        ),
        (
            json!({"type": "string", "maxLength": 2}),
            json!("abc"),
            "FieldValueTooLong spec.x: Too long: may not be more than 2 bytes",
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("a"),
            r#"FieldValueInvalid spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long"#,
        ),
        (
            json!({"type": "string", "pattern": "^a$"}),
            json!("b"),
            r#"FieldValueInvalid spec.x: Invalid value: "b": spec.x in body should match '^a$'"#,
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "FieldValueInvalid spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "maximum": 1, "exclusiveMaximum": true}),
            json!(1),
            "FieldValueInvalid spec.x: Invalid value: 1: spec.x in body should be less than 1",
        ),
        (
            json!({"type": "integer", "multipleOf": 5}),
            json!(7),
            "FieldValueInvalid spec.x: Invalid value: 7: spec.x in body should be a multiple of 5",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!([]),
            "FieldValueInvalid spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            "FieldValueTooMany spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "a"]),
            r#"FieldValueDuplicate spec.x[1]: Duplicate value: "a""#,
        ),
        (
            json!({"type": "array", "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            json!([{"k": "a"}, {"k": "a"}]),
            r#"FieldValueDuplicate spec.x[1]: Duplicate value: {"k":"a"}"#,
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1}),
            json!({"a": "1", "b": "2"}),
            "FieldValueTooMany spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"a": 1}),
            r#"FieldValueTypeInvalid spec.x.a: Invalid value: "integer": spec.x.a in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a", 1]),
            r#"FieldValueTypeInvalid spec.x[1]: Invalid value: "integer": spec.x[1] in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"kind": "A"}),
            "FieldValueRequired spec.x.apiVersion: Required value",
        ),
    ];
    for (property, value, expected) in cases {
        assert_eq!(causes(&property, &value), [expected], "{property}");
    }
}

#[test]
fn alternatives_name_no_field() {
    let any = json!({"type": "string", "anyOf": [{"pattern": "a"}, {"pattern": "b"}]});
    let text =
        r#"FieldValueInvalid <nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#;
    assert!(causes(&any, &json!("c")).contains(&text.to_owned()));
    assert!(causes(&any, &json!("a")).is_empty());
    let one = json!({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "."}]});
    let text = r#"FieldValueInvalid <nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#;
    assert_eq!(causes(&one, &json!("a")), [text]);
}

#[test]
fn what_was_wrong_and_stays_is_let_pass() {
    let schema = spec(&json!({"type": "string", "maxLength": 1}));
    let old = json!({"metadata": {"name": "a"}, "spec": {"x": "long"}});
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(schema.validate(&new, Some(&old)), []);
    new["spec"]["x"] = json!("other");
    assert_eq!(schema.validate(&new, Some(&old)).len(), 1);
}

#[test]
fn status_is_judged_from_its_own_root() {
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["y"]},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}}}}))
    .unwrap();
    let old = json!({"metadata": {}, "spec": {}});
    let new = json!({"metadata": {}, "spec": {}, "status": {"n": "a"}});
    let causes = schema.validate_status(&new, &old);
    assert_eq!(causes.len(), 1);
    assert_eq!(
        causes[0].to_string(),
        r#"status.n: Invalid value: "string": n in body must be of type integer: "string""#
    );
}

#[test]
fn defaults_and_pruning() {
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {"spec": {"type": "object", "default": {},
        "properties": {
            "a": {"type": "string", "default": "x"}, "n": {"type": "string", "nullable": true, "default": "y"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"known": {"type": "object", "properties": {"k": {"type": "string"}}}}},
            "object": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}
        }}}}))
    .unwrap();
    let mut object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a", "odd": 1}, "top": 1,
        "spec": {"a": null, "n": null, "drop": 1, "list": [{"p": null}, {"q": 1}],
            "free": {"any": 1, "known": {"k": "v", "u": 1}},
            "object": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "y", "odd": 1}, "any": {"extra": 1}}}});
    let unknown = schema.prune(&mut object);
    assert_eq!(
        unknown,
        [
            "metadata.odd",
            "spec.drop",
            "spec.free.known.u",
            "spec.list[1].q",
            "top",
            "spec.object.metadata.odd"
        ]
    );
    schema.drop_nulls(&mut object);
    schema.apply_defaults(&mut object);
    let expected = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"},
        "spec": {"a": "x", "n": null, "list": [{"p": "TCP"}, {"p": "TCP"}], "free": {"any": 1, "known": {"k": "v"}},
            "object": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "y"}, "any": {"extra": 1}}}});
    assert_eq!(object, expected);
    let mut bare = json!({"metadata": {}});
    schema.apply_defaults(&mut bare);
    assert_eq!(bare["spec"], json!({"a": "x", "n": "y"}));
}
