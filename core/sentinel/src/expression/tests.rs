use jiff::Timestamp;
use lockstep_engine::time::Wall;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::functions::{add_resource, functions};
use super::*;

const VARIABLES: [&str; 2] = [functions::RESOURCE, functions::NOW];

fn compile(source: &str) -> Result<Expression, String> {
    Expression::compile(source, &VARIABLES)
}

fn evaluate(source: &str, resource: &Json) -> Result<Json, String> {
    let functions = functions();
    let mut scope = functions.new_inner_scope();
    add_resource(&mut scope, resource, Wall::from_timestamp("2026-03-06T14:00:00Z".parse().unwrap()));
    let value = compile(source)?.evaluate(&scope)?;
    value::to_json(&value)
}

fn cluster() -> Json {
    json!({
        "id": "cls-1", "generation": 3, "labels": { "region": "eu", "a": "1", "tier": "gold" },
        "spec": { "replicas": [1, 2, 3] },
        "status": { "conditions": [
            { "type": "Reconciled", "status": "True", "observed_generation": 2,
              "last_updated_time": "2026-03-06T13:29:59Z", "reason": null },
            { "type": "Applied", "status": "False" },
        ] },
    })
}

#[test]
fn expressions_of_the_released_sentinel_have_their_meaning() {
    let values = [
        r#"condition("Reconciled").status == "True""#,
        r#"condition("Reconciled").last_updated_time"#,
        r#"condition("Missing").last_updated_time == "" && condition("Missing").observed_generation == 0"#,
        r#"condition("Reconciled").reason + condition("Missing").message"#,
        r#"resource.generation > condition("Reconciled").observed_generation"#,
        r#"now - timestamp(condition("Reconciled").last_updated_time) > duration("30m")"#,
        r#"now - timestamp(condition("Reconciled").last_updated_time) > duration("31m")"#,
        r#"resource.status.conditions.filter(c, c.type == "Applied")[0].status"#,
        r#"resource.status.conditions.exists(c, c.type == "Applied" && c.status != "True")"#,
        r#"has(resource.labels.region) ? resource.labels.region : "none""#,
        r#"resource.labels["tier"].upperAscii()"#,
        r#"{"ids": [resource.id], "odd": resource.spec.replicas.filter(n, n % 2 == 1)}"#,
        r#""tier" in resource.labels && !("zone" in resource.labels)"#,
    ];
    let values = values.map(|source| format!("{source}\n  {:?}", evaluate(source, &cluster())));
    insta::assert_snapshot!(values.join("\n"));
}

#[test]
fn what_can_t_be_compiled_is_refused_with_its_position() {
    let sources = [
        "",
        "resource.id ==",
        "resource.id == ref_time",
        "resource.id ==\n  resource.name && is_ready",
        "resource",
        "size(resource) > 3",
        "resource.id.matches(\"(a|b)*\")",
        "resource.labels.map(l, [l].map(resource, resource.x))[0] == resource",
        "-resource.generation",
        "Cluster{id: 1}",
        "math.greatest(1, 2)",
        "resource.?spec",
        "resource.spec.all(x, y)",
    ];
    let refused = sources.map(|source| format!("{source:?}\n  {}", compile(source).unwrap_err()));
    insta::assert_snapshot!(refused.join("\n"));
    assert!(compile(&format!("\"{}\"", "a".repeat(SOURCE_MAX_BYTES))).is_err());
}

#[test]
fn failures_name_their_cause_and_no_value() {
    let resource = json!({ "id": "secret", "generation": i64::MIN, "labels": { "secret": "secret" }, "spec": null, "list": [1] });
    let sources = [
        "resource.labels.zone",
        "resource.spec.region",
        "resource.id.region",
        "resource.id + 1",
        "resource.id < 1",
        "timestamp(resource.id)",
        "timestamp(resource.labels)",
        "string(resource.labels)",
        "resource.generation - 1",
        "resource.generation / 0",
        "resource.generation % 0",
        "resource.list[7]",
        "resource.id.all(c, true)",
        "duration(\"9e9h\")",
        "resource.labels[resource.labels]",
        "{resource.labels: 1}",
    ];
    let failed = sources.map(|source| {
        let problem = evaluate(source, &resource).unwrap_err();
        assert!(!problem.contains("secret"), "{source}: {problem}");
        format!("{source}\n  {problem}")
    });
    insta::assert_snapshot!(failed.join("\n"));
}

/// In the library the order of a map's keys differs from map to map.
#[test]
fn macros_iterate_over_the_keys_of_a_map_in_their_order() {
    let labels: serde_json::Map<_, _> = (0..100).map(|n| (format!("k{n:03}"), json!(n))).collect();
    let keys: Vec<&String> = labels.keys().collect();
    let resource = json!({ "labels": labels });
    assert_eq!(evaluate("resource.labels.map(key, key)", &resource), Ok(json!(keys)));
    let first = "resource.labels.exists(key, key == \"k000\" || resource.labels[key].size() > 0)";
    assert_eq!(evaluate(first, &resource), Ok(json!(true)));
}

#[test]
fn costs_are_known_before_and_bounded() {
    let steps = |source: &str| compile(source).unwrap().steps;
    let (flat, one) = (steps("resource.id == \"a\""), steps("resource.list.exists(x, x == \"a\")"));
    let two = steps("resource.list.exists(x, resource.list.exists(y, x == y))");
    assert!(flat < 10 && (1000..5000).contains(&one) && two > 100_000, "{flat} {one} {two}");

    let long = |items: usize| json!({ "list": vec![1; items] });
    let macros = "resource.list.all(x, x == 1)";
    assert_eq!(evaluate(macros, &long(functions::ITEMS_MAX)), Ok(json!(true)));
    assert!(evaluate(macros, &long(functions::ITEMS_MAX + 1)).is_err());
    let text = json!({ "text": "x".repeat(9000) });
    assert!(evaluate("resource.text", &text).is_ok());
    assert!(evaluate("resource.text + resource.text", &text).is_err());
}

#[test]
fn each_node_of_an_expression_costs_a_step() {
    // The list and the initial result, the condition and the step of each item, and the result.
    let macros = 4 + functions::ITEMS_MAX as u64 * 8 + 1;
    for (source, steps) in [
        ("1", 1),
        ("now", 1),
        ("resource.id", 2),
        ("resource.spec.a.b", 4),
        ("has(resource.spec.a)", 3),
        ("now.a.b", 3),
        ("{\"a\": 1}.a", 4),
        ("[1, now, 2]", 4),
        ("{\"a\": 1, \"b\": now}", 5),
        ("1 + 2", 3),
        ("resource.id.size()", 3),
        ("resource.id == \"a\" ? 1 : 2", 7),
        ("[1].all(x, x == 1)", macros),
    ] {
        assert_eq!(compile(source).unwrap().steps, steps, "{source}");
    }
}

#[test]
fn the_fields_that_an_expression_reads_are_known() {
    let fields = |source: &str| compile(source).unwrap().fields.into_iter().collect::<Vec<_>>();
    assert_eq!(fields("resource.spec.a.b == 1 && has(resource.name)"), ["name", "spec.a.b"]);
    assert_eq!(fields("resource.spec.list.exists(x, x.y == now)"), ["spec.list"]);
    assert_eq!(fields("resource.labels[\"a.b\"]"), ["labels"]);
    assert_eq!(fields("[1].exists(resource, resource.x == 1)"), Vec::<String>::new());
}

fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "resource.id",
        "resource.labels",
        "resource.spec.replicas",
        "resource.generation",
        "now",
        "x",
        "\"a\"",
        "1",
        "-1",
        "9223372036854775807",
        "1.5",
        "1u",
        "true",
        "null",
        "b\"a\"",
        "[1, x]",
        "{\"a\": 1}",
        "duration(\"99h\")",
        "timestamp(\"9999-12-31T00:00:00Z\")",
        " + ",
        " - ",
        " * ",
        " / ",
        " % ",
        " == ",
        " < ",
        " && ",
        " || ",
        " in ",
        " ? ",
        " : ",
        "!",
        "(",
        ")",
        "[",
        "]",
        ".size()",
        ".all(x, ",
        ".map(x, ",
        "condition(",
        "int(",
        "string(",
        ".getHours()",
        ".substring(",
        ",",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_panics_and_results_are_the_same_each_time(tokens in prop::collection::vec(token(), 1..12), end in ".{0,3}") {
        let source = tokens.concat() + &end;
        if let Ok(expression) = compile(&source) {
            let once = || {
                let functions = functions();
                let mut scope = functions.new_inner_scope();
                add_resource(&mut scope, &cluster(), Wall::from_timestamp(Timestamp::UNIX_EPOCH));
                expression.evaluate(&scope).and_then(|value| value::to_json(&value))
            };
            prop_assert_eq!(once(), once());
        }
    }
}
