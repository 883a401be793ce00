use serde_json::{Value, json};

use crate::schema::Schema;

fn schema(rules: &Value) -> Schema {
    Schema::from_crd(&json!({"type": "object", "properties": {"spec": {
    "type": "object", "x-kubernetes-validations": rules, "properties": {
        "replicas": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string"},
        "a-b": {"type": "string"}, "since": {"type": "string", "format": "date-time"},
        "items": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string", "maxLength": 9,
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "v is immutable"}]}}}}
    }}}}))
    .unwrap()
}

fn causes(rules: &Value, spec: &Value, old: Option<&Value>) -> Vec<String> {
    let object = |spec: &Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let old = old.map(object);
    let causes = schema(rules).validate(&object(spec), old.as_ref());
    causes.iter().map(|cause| format!("{} {cause}", cause.reason)).collect()
}

#[test]
fn messages_come_from_expression_text_or_rule() {
    let spec = json!({"replicas": 3, "max": 2});
    let cases = [
        (
            json!([{"rule": "self.replicas <= self.max"}]),
            "FieldValueInvalid spec: Invalid value: failed rule: self.replicas <= self.max",
        ),
        (
            json!([{"rule": "self.replicas <= self.max", "message": "too many"}]),
            "FieldValueInvalid spec: Invalid value: too many",
        ),
        (
            json!([{"rule": "self.replicas <= self.max", "message": "m",
            "messageExpression": "self.max > 1 ? 'at most 2' : 'at most 1'", "fieldPath": ".replicas"}]),
            "FieldValueInvalid spec.replicas: Invalid value: at most 2",
        ),
        (
            json!([{"rule": "false", "message": "no", "reason": "FieldValueForbidden"}]),
            "FieldValueForbidden spec: Forbidden: no",
        ),
        (
            json!([{"rule": "false", "message": "no", "reason": "FieldValueRequired"}]),
            "FieldValueRequired spec: Required value: no",
        ),
        (
            json!([{"rule": "self.name == 'x'", "message": "m"}]),
            r#"FieldValueInvalid spec: Invalid value: "object": no such key: name evaluating rule: m"#,
        ),
    ];
    for (rules, expected) in cases {
        assert_eq!(causes(&rules, &spec, None), [expected], "{rules}");
    }
}

#[test]
fn rules_see_names_dates_and_optional_fields() {
    let rules = json!([
        {"rule": "!has(self.name) || self.a__dash__b == 'x'"},
        {"rule": "!has(self.since) || self.since < timestamp('2026-01-01T00:00:00Z')"}
    ]);
    assert!(
        causes(&rules, &json!({"name": "n", "a-b": "x", "since": "2025-01-01T00:00:00Z"}), None).is_empty()
    );
    assert_eq!(causes(&rules, &json!({"name": "n", "a-b": "y"}), None).len(), 1);
}

#[test]
fn transition_rules_need_an_old_value() {
    let rules = json!([{"rule": "self.replicas >= oldSelf.replicas", "message": "no shrinking"}]);
    assert!(causes(&rules, &json!({"replicas": 1}), None).is_empty());
    let old = json!({"replicas": 2});
    assert_eq!(causes(&rules, &json!({"replicas": 1}), Some(&old)).len(), 1);
    let optional = json!([{"rule": "oldSelf.hasValue() || self.replicas == 0", "optionalOldSelf": true}]);
    assert_eq!(causes(&optional, &json!({"replicas": 1}), None).len(), 1);
    assert!(causes(&optional, &json!({"replicas": 1}), Some(&old)).is_empty());
}

#[test]
fn a_field_that_is_missing_has_another_value() {
    let rules = json!([{"rule": "self.?name.orValue('none') != 'none' || self.?max.hasValue()", "message": "neither"}]);
    let cases =
        [(json!({}), 1), (json!({"name": "x"}), 0), (json!({"name": "none"}), 1), (json!({"max": 1}), 0)];
    for (spec, expected) in cases {
        assert_eq!(causes(&rules, &spec, None).len(), expected, "{spec}");
    }
}

#[test]
fn an_optional_field_is_mapped() {
    let rules = json!([
        {"rule": "!self.?name.optMap(n, n == 'x').orValue(false)", "message": "mapped"},
        {"rule": "self.?name.optFlatMap(n, n == 'y' ? self.?max : optional.none()).orValue(1) == 1", "message": "flat"},
    ]);
    let cases = [
        (json!({"name": "x"}), vec!["mapped"]),
        (json!({"name": "y", "max": 2}), vec!["flat"]),
        (json!({"name": "y", "max": 1}), vec![]),
    ];
    for (spec, expected) in cases {
        let found = causes(&rules, &spec, None);
        let messages: Vec<&str> = found
            .iter()
            .map(|cause| cause.trim_start_matches("FieldValueInvalid spec: Invalid value: "))
            .collect();
        assert_eq!(messages, expected, "{spec}");
    }
}

#[test]
fn macros_may_have_two_variables() {
    let rules = json!([
        {"rule": "self.list.all(i, x, x.size() == i)", "message": "all"},
        {"rule": "self.list.exists(i, x, i > 0 && x == 'a')", "message": "exists"},
        {"rule": "self.list.existsOne(i, x, x == 'a')", "message": "one"},
        {"rule": "self.list.transformList(i, x, i > 0, x) == ['a']", "message": "list"},
        {"rule": "self.list.transformMap(i, x, x.size())[1] == 1", "message": "map"},
        {"rule": "self.list.transformMapEntry(i, x, {x: i}).size() == self.list.size()", "message": "entries"},
        {"rule": "self.list.all(i, x, self.list.exists(j, y, i != j && y != x))", "message": "nested"},
        {"rule": "self.list.sortBy(x, -x.size())[0] == 'a'", "message": "sorted"},
    ]);
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {"spec": {
        "type": "object", "x-kubernetes-validations": rules,
        "properties": {"list": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}}},
    }}}))
    .unwrap();
    let messages = |list: Value| -> Vec<String> {
        let causes = schema.validate(&json!({"metadata": {"name": "a"}, "spec": {"list": list}}), None);
        causes.iter().map(|cause| cause.message.replace("Invalid value: ", "")).collect()
    };
    assert_eq!(messages(json!(["", "a"])), Vec::<String>::new());
    let expected =
        ["all", "one", "\"object\": insert failed: key a already exists evaluating rule: entries", "nested"];
    assert_eq!(messages(json!(["a", "a"])), expected);
}

#[test]
fn macros_with_two_variables_take_maps() {
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {"spec": {
        "type": "object", "maxProperties": 9, "additionalProperties": {"type": "integer"},
        "x-kubernetes-validations": [
            {"rule": "self.all(k, v, v < 3 || k == 'big')", "message": "values"},
            {"rule": "self.transformMap(k, v, v > 1, v * 2).all(k, w, w == 4)", "message": "doubled"},
            {"rule": "self.transformMapEntry(k, v, {v: k})[1] == 'a'", "message": "inverse"},
        ],
    }}}))
    .unwrap();
    let inserted = "\"object\": insert failed: key 4 already exists evaluating rule: inverse";
    let cases = [
        (json!({"a": 1, "b": 2}), vec![]),
        (json!({"a": 4, "c": 4}), vec!["values", "doubled", inserted]),
        (json!({"big": 5, "a": 1}), vec!["doubled"]),
    ];
    for (spec, expected) in cases {
        let causes = schema.validate(&json!({"metadata": {"name": "a"}, "spec": spec}), None);
        let messages: Vec<_> =
            causes.iter().map(|cause| cause.message.replace("Invalid value: ", "")).collect();
        assert_eq!(messages, expected, "{spec}");
    }
}

#[test]
fn a_field_that_is_null_is_missing() {
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {"spec": {
        "type": "object", "x-kubernetes-validations": [{"rule": "!has(self.note)"}, {"rule": "'a' in self.notes"}],
        "properties": {
            "note": {"type": "string", "nullable": true},
            "notes": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
        },
    }}}))
    .unwrap();
    let spec = json!({"note": null, "notes": {"a": null}});
    assert_eq!(schema.validate(&json!({"metadata": {"name": "a"}, "spec": spec}), None), []);
}

#[test]
fn a_whole_float_is_neither_integer_nor_string() {
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {"spec": {
        "x-kubernetes-int-or-string": true, "x-kubernetes-validations": [{"rule": "string(self) == '1'", "message": "m"}],
    }}}))
    .unwrap();
    let causes = |spec: Value| schema.validate(&json!({"metadata": {"name": "a"}, "spec": spec}), None);
    let messages: Vec<String> = causes(json!(1.0)).iter().map(ToString::to_string).collect();
    let expected = r#"spec: Invalid value: "": invalid data, expected XIntOrString value to be either a string or integer evaluating rule: m"#;
    assert_eq!(messages, [expected]);
    assert_eq!(causes(json!(1)), []);
    assert_eq!(causes(json!("1")), []);
}

#[test]
fn list_items_are_matched_by_key() {
    let old = json!({"items": [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]});
    let swapped = json!({"items": [{"k": "b", "v": "2"}, {"k": "a", "v": "1"}]});
    assert!(causes(&json!([]), &swapped, Some(&old)).is_empty());
    let changed = json!({"items": [{"k": "b", "v": "1"}]});
    let expected = r#"FieldValueInvalid spec.items[0].v: Invalid value: "1": v is immutable"#;
    assert_eq!(causes(&json!([]), &changed, Some(&old)), [expected]);
}

#[test]
fn rules_wait_for_sound_values() {
    let rules = json!([{"rule": "self.replicas > 0"}]);
    let found = causes(&rules, &json!({"replicas": "x"}), None);
    let expected = "FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked because the \
                    object was invalid; correct the existing errors to complete validation";
    assert_eq!(found.last().map(String::as_str), Some(expected));
}

#[test]
fn a_value_that_satisfied_the_rules_is_accepted_again_and_others_are_not() {
    let schema = schema(&json!([{"rule": "self.replicas <= self.max"}, {"rule": "self.max >= oldSelf.max"}]));
    let object = |replicas: i64, max: i64| json!({"spec": {"replicas": replicas, "max": max}});
    let accepts = |new: &Value, old: Option<&Value>| schema.validate(new, old).is_empty();
    for _ in 0..2 {
        assert!(accepts(&object(1, 2), None));
        assert!(accepts(&object(1, 2), Some(&object(1, 1))));
        assert!(!accepts(&object(1, 2), Some(&object(1, 3))), "another old value");
        assert!(!accepts(&object(3, 2), None), "another value");
    }
}
