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

/// Evaluates an expression whose variables are also the first and the last time of CEL.
fn evaluate_times(source: &str) -> Result<Value, String> {
    let expression = Expression::compile(source, &["now", "first", "last"])?;
    let functions = functions();
    let mut scope = functions.new_inner_scope();
    add_resource(&mut scope, &cluster(), Wall::from_timestamp("2026-03-06T14:00:00Z".parse().unwrap()));
    for (name, time) in [("first", "0001-01-01T00:00:00Z"), ("last", "9999-12-31T23:59:59Z")] {
        let time = compile(&format!("timestamp({time:?})")).unwrap().evaluate(&scope).unwrap();
        scope.add_variable_from_value(name, time);
    }
    expression.evaluate(&scope)
}

/// The library adds to times with an operator that panics. Its calendar has 262,000 years, that of CEL 10,000.
#[test]
fn a_time_can_t_leave_the_calendar() {
    let sum = |terms: usize| vec!["(last - first)"; terms].join(" + ");
    for far in [
        format!("now + ({}) > now", sum(27)),
        format!("now - ({}) < now", sum(27)),
        format!("now + ({}) > now", sum(30)),
        format!("[{}].exists(span, now - span < now)", sum(27)),
    ] {
        assert_eq!(evaluate_times(&far), Err("overflow".to_owned()), "{far}");
    }
    for near in
        ["now - first > duration(\"1h\")", "first + (last - first) == last", "last - (last - now) == now"]
    {
        assert_eq!(evaluate_times(near), Ok(Value::Bool(true)), "{near}");
    }
}

/// The library has the nanoseconds of a duration in 64 bits: 292 years.
#[test]
fn a_duration_has_a_correct_text_or_none() {
    let text = |source: &str| evaluate_times(source).and_then(|value| value::to_json(&value));
    assert_eq!(text("string(now - (now - duration(\"36h\")))"), Ok(json!("36h0m0s")));
    for long in ["string(last - first)", "(first - last).string()", "(last - now).string()"] {
        assert!(text(long).is_err(), "{long}: {:?}", text(long));
    }
}

/// The library looks for it in windows of no length.
#[test]
fn all_bytes_contain_no_bytes() {
    for (source, contains) in [
        ("b\"ab\".contains(b\"\")", true),
        ("b\"\".contains(b\"\")", true),
        ("contains(b\"ab\", b\"\")", true),
        ("b\"ab\".contains(b\"b\")", true),
        ("b\"ab\".contains(b\"c\")", false),
        ("\"ab\".contains(\"b\")", true),
        ("\"ab\".contains(b\"\")", false),
        ("[b\"\"].contains(b\"\")", true),
    ] {
        assert_eq!(evaluate(source, &cluster()), Ok(json!(contains)), "{source}");
    }
}

/// Evaluation recurses, on a stack of two megabytes. The parser accepts less than a hundred expressions within each other.
#[test]
fn an_expression_can_be_as_deep_as_it_can_be_long() {
    let nested = |open: &str, close: &str| open.repeat(90) + "1" + &close.repeat(90);
    let chained = |first: &str, link: &str| {
        first.to_owned() + &link.repeat((SOURCE_MAX_BYTES - first.len()) / link.len())
    };
    for source in [
        nested("(", ")"),
        nested("[", "]"),
        nested("int(", ")"),
        nested("{1:", "}"),
        nested("true?", ":1"),
        nested("true?1:", ""),
        chained("1", "+1"),
        chained("1", "==1"),
        chained("true", "||true"),
        chained("now", ".a"),
        chained("now", "[1]"),
        chained("\"\"", ".trim()"),
        "!".repeat(SOURCE_MAX_BYTES - 4) + "true",
    ] {
        let _ = evaluate(&source, &cluster());
    }
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

/// Expressions of extreme values, most of which have a type.
fn extreme() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "now",
        "first",
        "last",
        "(last - first)",
        "(first - last)",
        "duration(\"876600h\")",
        "duration(\"-1ns\")",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615u",
        "0",
        "0u",
        "1e308",
        "(0.0 / 0.0)",
        "\"\"",
        "\"9\"",
        "\"9223372036854775808\"",
        "b\"\"",
        "b\"\\xff\"",
        "[]",
        "{}",
        "null",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let operators = prop::sample::select(vec!["+", "-", "*", "/", "%", "<", "==", "in"]);
        let names = prop::sample::select(functions::NAMES.to_vec());
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            (pair.clone(), operators).prop_map(|((a, b), operator)| format!("({a} {operator} {b})")),
            (pair.clone(), names.clone()).prop_map(|((a, b), name)| format!("{a}.{name}({b})")),
            (inner.clone(), names.clone()).prop_map(|(a, name)| format!("{a}.{name}()")),
            (inner.clone(), names).prop_map(|(a, name)| format!("{name}({a})")),
            pair.prop_map(|(a, b)| format!("[{a}, {b}].map(x, x + {b})[0]")),
            (inner, 2..30_usize).prop_map(|(a, terms)| format!("({})", vec![a; terms].join(" + "))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_operator_or_function_panics_on_extreme_values(source in extreme()) {
        let _ = evaluate_times(&source);
    }

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
