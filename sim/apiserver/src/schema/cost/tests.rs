//! Tests of the estimate. The expected costs are those of a real server.

use serde_json::{Value, json};

use super::path::Path;
use super::{Declaration, estimate};
use crate::schema::Schema;
use crate::schema::typing::{Variables, check_rule};

/// Returns the cost of a rule, with the fields that a schema declares.
fn cost(properties: &Value, rule: &str) -> u64 {
    let schema = json!({"type": "object", "properties": properties});
    let schema = schema.as_object().unwrap();
    let variables = Variables::of(schema, false, false).unwrap();
    estimate(&check_rule(rule, &variables).unwrap(), Declaration::new(schema, false))
}

fn fields() -> Value {
    let text = |max: u32| json!({"type": "string", "maxLength": max});
    json!({
        "n": {"type": "integer"}, "s": text(10), "t": text(100), "free": {"type": "string"},
        "one": {"type": "string", "enum": ["a", "three"]}, "when": {"type": "string", "format": "date-time"},
        "bytes": {"type": "string", "format": "byte", "maxLength": 10},
        "any": {"x-kubernetes-int-or-string": true, "maxLength": 5},
        "list": {"type": "array", "maxItems": 10, "items": text(10)},
        "long": {"type": "array", "items": {"type": "integer"}},
        "map": {"type": "object", "maxProperties": 10, "additionalProperties": text(10)},
        "pairs": {"type": "array", "maxItems": 100, "items": {"type": "object", "properties": {
            "name": text(1000), "tags": {"type": "array", "maxItems": 10, "items": text(10)},
        }}},
    })
}

#[test]
fn costs_depend_on_the_limits_of_the_schema() {
    let cases = [
        ("true", 0),
        ("self.n > 1", 3),
        ("self.s == 'abc'", 3),
        ("self.s == self.t", 8),
        ("self.s.contains(self.t)", 164),
        ("self.t.matches('^[a-z]+$')", 84),
        ("self.one.contains(self.t)", 44),
        ("self.free.contains('a')", 314_575),
        ("self.when > timestamp('2020-01-01T00:00:00Z')", 4),
        ("self.bytes == b'abc'", 3),
        ("self.any == 'abc'", 3),
        ("string(self.any).contains('a')", 6),
        ("has(self.s) && (self.n > 1 || self.s < self.t)", 12),
        ("self.n > 1 ? self.s == 'a' : self.t == self.t", 47),
        ("self.list.all(x, x.contains('a'))", 83),
        ("self.list.exists(x, x == self.t)", 113),
        ("self.list.exists_one(x, x == self.t)", 94),
        ("self.list.filter(x, x != '').size() > 1", 155),
        ("self.list.all(i, x, i > 1 && x == self.t)", 123),
        ("self.long.sum() in self.long", 3_145_730),
        ("self.map.all(k, self.map[k].contains(k))", 83),
        ("self.map.exists(k, v, v == k)", 63),
        ("self.pairs.all(p, p.tags.all(t, t == p.name))", 4_000_603),
        ("self.pairs.all(p, p.tags.all(t, t == ''))", 4_603),
        ("self.t.split(',').all(x, x == 'a')", 1_683),
        ("self.s.replace('', self.t).contains('a')", 1_656),
        ("sets.contains(self.list, self.list) && self.list.distinct().sort()[0] == 'a'", 21_330),
        ("quantity(self.s) == quantity(self.t)", 49),
        ("url(self.s) != url(self.t)", 52),
        ("cidr(self.t).containsIP(self.t) && ip(self.s).family() == 4", 96),
        ("!format.dns1123Label().validate(self.t).hasValue()", 1_285),
    ];
    for (rule, expected) in cases {
        assert_eq!(cost(&fields(), rule), expected, "{rule}");
    }
}

#[test]
fn a_later_path_may_replace_a_step_of_an_earlier_one() {
    let tags = Path::variable().join("pairs").join("@items").join("tags");
    let inner = tags.join("@items");
    assert_eq!(tags.steps(), ["self", "pairs", "@items", "tags"]);
    let pair = Path::variable().join("pairs").join("@items");
    let (tags, name) = (pair.join("tags"), pair.join("name"));
    assert_eq!(tags.steps(), name.steps());
    assert_eq!(inner.steps(), ["self", "pairs", "@items", "tags", "@items"]);
    // So the inner loop has as many steps as a name has characters.
    let each = cost(&fields(), "self.pairs.all(p, p.tags.all(t, t == ''))");
    assert!(cost(&fields(), "self.pairs.all(p, p.tags.all(t, t == p.name))") > 100 * each);
}

/// Returns the causes of a schema with these fields, without the beginning of their fields.
fn causes(properties: &Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": properties});
    let causes = Schema::from_crd(&schema).err().unwrap_or_default();
    causes.iter().map(|cause| cause.to_string().replace("openAPIV3Schema.properties", "")).collect()
}

const ADVICE: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
                      strings are declared)";

#[test]
fn a_rule_has_a_limit() {
    let list = |max: u32| {
        json!({"list": {"type": "array", "maxItems": max, "items": {"type": "integer"}, "x-kubernetes-validations": [
            {"rule": "self.all(x, x > 2)"},
        ]}})
    };
    // Each item costs 5 units.
    assert_eq!(causes(&list(1_999_999)), Vec::<String>::new());
    let expected = |factor: &str| {
        format!(
            "[list].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of {factor} {ADVICE}"
        )
    };
    assert_eq!(causes(&list(2_000_001)), [expected("1.000001x")]);
    assert_eq!(causes(&list(19_000_000)), [expected("9.5x")]);
}

#[test]
fn a_rule_about_items_counts_for_each_of_them() {
    let text = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]+$')"}]});
    let list = json!({"list": {"type": "array", "items": text}});
    assert!(causes(&list)[0].contains("estimated rule cost exceeds budget by factor of more than 100x"));
    let mut limited = list.clone();
    limited["list"]["items"]["maxLength"] = 10.into();
    limited["list"]["maxItems"] = 10.into();
    assert_eq!(causes(&limited), Vec::<String>::new());
}

#[test]
fn all_rules_of_a_schema_have_a_limit_and_four_are_named() {
    let rules: Vec<Value> = (0..12).map(|n| json!({"rule": format!("self.all(x, x > {n})")})).collect();
    let list = json!({"list": {"type": "array", "maxItems": 1_800_000, "items": {"type": "integer"},
        "x-kubernetes-validations": rules}});
    let named = (0..4).map(|index| {
        format!(
            "[list].x-kubernetes-validations[{index}].rule: Forbidden: contributed to estimated rule cost total exceeding cost \
             limit for entire OpenAPIv3 schema"
        )
    });
    let total = format!(
        "openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds \
         budget by factor of 1.080000x {ADVICE}"
    );
    assert_eq!(causes(&list), named.chain([total]).collect::<Vec<_>>());
}
