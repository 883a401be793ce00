use kube_cel::cel::{Context, ExecutionError, Program, Value as CelValue};
use lockstep_crds::namespaceclass::expression_pattern;
use proptest::prelude::*;
use regex::Regex;
use serde_json::json;

use super::*;

/// Returns a namespace with some labels and no annotations.
fn namespace() -> Value {
    let labels = json!({ "team": "red", "example.com/tier": "gold", "empty": "" });
    json!({ "metadata": { "name": "shop", "labels": labels, "annotations": {} } })
}

/// Returns the value in that namespace; for a missing label or annotation, its key.
fn value(source: &str) -> Result<String, String> {
    let expression = Expression::parse(source).unwrap_or_else(|| panic!("{source}"));
    expression.value("shop", &NamespaceMetadata::read(&namespace())).map_err(|reason| match reason {
        NoValue::Missing(_, key) => key.to_owned(),
        NoValue::TooLong => "too long".to_owned(),
    })
}

/// Returns the same, as a CEL library finds it.
fn value_in_cel(source: &str) -> Result<String, String> {
    let program = Program::compile(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    let mut context = Context::default();
    context.add_variable("namespaceObject", namespace()).expect("JSON");
    match program.execute(&context) {
        Ok(CelValue::String(text)) => Ok(text.to_string()),
        Err(ExecutionError::NoSuchKey(key)) => Err(key.to_string()),
        other => panic!("{source}: {other:?}"),
    }
}

fn accepts(pattern: &Regex, source: &str) -> bool {
    pattern.is_match(&format!("+{source}"))
}

#[test]
fn expressions_have_the_value_that_cel_gives_them() {
    for (source, expected) in [
        (r#""a""#, Ok("a")),
        ("'say \"a\"'", Ok("say \"a\"")),
        (r#" "don't" "#, Ok("don't")),
        ("namespaceObject.metadata.name", Ok("shop")),
        (r#"namespaceObject.metadata.labels["team"]+"-"+namespaceObject.metadata.name"#, Ok("red-shop")),
        ("namespaceObject.metadata.labels['empty']", Ok("")),
        ("namespaceObject.metadata.labels['lead']", Err("lead")),
        ("namespaceObject.metadata.annotations['team']", Err("team")),
        (r#"("team" in namespaceObject.metadata.labels ? "yes" : "no") + "!""#, Ok("yes!")),
        (
            r#""a" + ( 'lead'  in namespaceObject.metadata.labels?"b":namespaceObject.metadata.name )"#,
            Ok("ashop"),
        ),
        (
            r#"("team" in namespaceObject.metadata.labels ? namespaceObject.metadata.labels["lead"] : "x")"#,
            Err("lead"),
        ),
        (r#"("team" in namespaceObject.metadata.annotations ? "yes" : "no")"#, Ok("no")),
    ] {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(value(source), expected, "{source}");
        assert_eq!(value_in_cel(source), expected, "{source}");
    }
}

#[test]
fn other_expressions_are_not_accepted() {
    let pattern = Regex::new(&expression_pattern()).expect("a pattern");
    for source in [
        "",
        "+",
        r#""a" +"#,
        r#"+ "a""#,
        r#""a" "b""#,
        r#""a""b""#,
        r#""""a""""#,
        r#""a\n""#,
        "\"a\nb\"",
        "\"a\"\n",
        "\"a",
        "'a\"",
        "1",
        "true",
        "namespaceObject.metadata.uid",
        "namespaceObject.metadata.namespace",
        "namespaceObject.metadata.labels",
        "namespaceObject.metadata.labels.team",
        "namespaceObject.metadata.labels[team]",
        "namespaceObject.metadata.labels['']",
        "namespaceObject.metadata.labels['the team']",
        "namespaceObject.metadata['name']",
        "namespaceObject.spec.finalizers['a']",
        "namespace.name",
        "size(namespaceObject.metadata.name)",
        r#""team" in namespaceObject.metadata.labels ? "a" : "b""#,
        r#"("team" in namespaceObject.metadata.labels)"#,
        r#"("team"in namespaceObject.metadata.labels ? "a" : "b")"#,
        r#"("team" in namespaceObject.metadata.labels ? "a")"#,
        r#"("team" in namespaceObject.metadata.labels ? "a" : 1)"#,
        r#"("team" in namespaceObject.metadata.labels ? "a" : "b" + "c")"#,
        r#"("a")"#,
    ] {
        assert_eq!(Expression::parse(source), None, "{source}");
        assert!(!accepts(&pattern, source), "{source}");
    }
}

#[test]
fn a_value_that_is_too_long_is_none() {
    let value = |length: usize| {
        let labels = json!({ "long": "ä".repeat(length) });
        let metadata = NamespaceMetadata::read(&json!({ "metadata": { "annotations": labels } }));
        let expression = Expression::parse("namespaceObject.metadata.annotations['long']").expect("valid");
        expression.value("shop", &metadata).map_err(|reason| assert_eq!(reason, NoValue::TooLong))
    };
    assert_eq!(value(VALUE_MAX_BYTES / 2), Ok("ä".repeat(VALUE_MAX_BYTES / 2)));
    assert_eq!((value(VALUE_MAX_BYTES / 2 + 1), value(100_000)), (Err(()), Err(())));
}

#[test]
fn the_labels_that_an_expression_reads_are_known() {
    let source = r#"("a" in namespaceObject.metadata.labels ? namespaceObject.metadata.annotations["b"] : "c") + "d" + namespaceObject.metadata.labels["e"]"#;
    let expression = Expression::parse(source).expect("valid");
    let read: Vec<_> = expression.reads().collect();
    assert_eq!(read, [(Field::Labels, "a"), (Field::Annotations, "b"), (Field::Labels, "e")]);
}

/// Returns sources of expressions that are accepted.
fn source() -> impl Strategy<Value = String> {
    let key =
        prop_oneof![Just("team"), Just("example.com/tier"), Just("empty"), Just("lead"), Just("A-b_c.d/e")];
    let key = (key, any::<bool>())
        .prop_map(|(key, is_double)| if is_double { format!("{key:?}") } else { format!("'{key}'") });
    let map = prop_oneof![Just("labels"), Just("annotations")];
    let (keys, maps) = (key.clone(), map.clone());
    let operand = prop_oneof![
        r#""[^"\\\x00-\x1f\x7f]{0,12}""#,
        r"'[^'\\\x00-\x1f\x7f]{0,12}'",
        Just("namespaceObject.metadata.name".to_owned()),
        (map, key).prop_map(|(map, key)| format!("namespaceObject.metadata.{map}[{key}]")),
    ]
    .boxed();
    let space = || " {0,2}";
    let choice = (space(), keys, maps, operand.clone(), space(), operand.clone()).prop_map(
        |(space, key, map, present, other, absent)| {
            format!("({space}{key} in namespaceObject.metadata.{map}{space}?{other}{present}{space}:{other}{absent}{other})")
        },
    );
    let term = (space(), prop_oneof![3 => operand, 1 => choice], space());
    let term = term.prop_map(|(before, term, after)| format!("{before}{term}{after}"));
    proptest::collection::vec(term, 1..5).prop_map(|terms| terms.join("+"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What the schema accepts is CEL, is a text, and has the same value in CEL.
    #[test]
    fn what_is_accepted_has_the_value_that_cel_gives_it(source in source()) {
        let pattern = Regex::new(&expression_pattern()).expect("a pattern");
        prop_assert!(accepts(&pattern, &source), "{}", source);
        prop_assert_eq!(value(&source), value_in_cel(&source), "{}", source);
    }

    /// The parser accepts what the schema accepts, and nothing else.
    #[test]
    fn the_parser_follows_the_pattern(
        source in source(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>(), "[ -~\n]"), 0..3),
    ) {
        let mut edited: Vec<char> = source.chars().collect();
        for (place, inserts, letter) in edits {
            let place = place.index(edited.len() + 1);
            if inserts {
                edited.splice(place..place, letter.chars());
            } else if place < edited.len() {
                edited.remove(place);
            }
        }
        let edited: String = edited.into_iter().collect();
        let pattern = Regex::new(&expression_pattern()).expect("a pattern");
        let is_accepted = accepts(&pattern, &edited);
        prop_assert_eq!(Expression::parse(&edited).is_some(), is_accepted, "{}", edited);
        if is_accepted {
            prop_assert_eq!(value(&edited), value_in_cel(&edited), "{}", edited);
        }
    }
}
