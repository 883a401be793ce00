use lockstep_crds::sentinel::MatchExpression;
use proptest::prelude::*;

use super::*;

fn expression(key: &str, operator: &str, values: &[&str]) -> MatchExpression {
    MatchExpression {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(ToString::to_string).collect(),
    }
}

fn selector(labels: &[(&str, &str)], expressions: Vec<MatchExpression>) -> Selector {
    let match_labels = labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Selector::read(&ShardSelector { match_labels, match_expressions: expressions }).unwrap()
}

fn labels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[test]
fn it_is_written_in_both_languages() {
    let all = selector(
        &[("region", "us-east")],
        vec![
            expression("env", "In", &["b", "a"]),
            expression("tier", "NotIn", &["y", "x"]),
            expression("app.kubernetes.io/name", "Exists", &[]),
            expression("gone", "DoesNotExist", &[]),
            expression("cluster-type", "In", &["hypershift"]),
            expression("owner", "In", &["neil"]),
            expression("empty", "In", &[""]),
        ],
    );
    assert_eq!(
        all.to_string(),
        "app.kubernetes.io/name,cluster-type in (hypershift),empty=,env in (a,b),!gone,owner in (neil),region=us-east,tier notin (x,y)"
    );
    // Terms that are not sent are compared here.
    assert_eq!(
        all.search(),
        "(labels.env='b' or labels.env='a') and labels.owner='neil' and labels.region='us-east'"
    );
    assert!(selector(&[], vec![]).is_empty());
}

#[test]
fn each_operator_selects_as_in_kubernetes() {
    let table: [(&str, &[&str], [bool; 3]); 4] = [
        ("In", &["a", "b"], [true, false, false]),
        ("NotIn", &["a", "b"], [false, true, true]),
        ("Exists", &[], [true, true, false]),
        ("DoesNotExist", &[], [false, false, true]),
    ];
    for (operator, values, expected) in table {
        let selector = selector(&[], vec![expression("k", operator, values)]);
        let found = [labels(&[("k", "a")]), labels(&[("k", "z")]), labels(&[("other", "a")])];
        assert_eq!(found.map(|labels| selector.matches(&labels)), expected, "{operator}");
    }
}

#[test]
fn each_problem_is_reported_with_its_field() {
    let wrong = ShardSelector {
        match_labels: labels(&[("", "x")]),
        match_expressions: vec![
            expression("", "Exists", &[]),
            expression("a", "In", &[]),
            expression("a", "Exists", &["x"]),
            expression("a", "Equals", &["x"]),
        ],
    };
    assert_eq!(
        Selector::read(&wrong).unwrap_err(),
        [
            "spec.shardSelector.matchLabels: the key \"\" is not a label key: the name must have 1 to 63 letters, digits, \"-\", \"_\" and \".\", and begin and end with a letter or digit",
            "spec.shardSelector.matchExpressions[0].key: \"\" is not a label key: the name must have 1 to 63 letters, digits, \"-\", \"_\" and \".\", and begin and end with a letter or digit",
            "spec.shardSelector.matchExpressions[1].values: In needs at least one value",
            "spec.shardSelector.matchExpressions[2].values: Exists takes no values; remove them",
            "spec.shardSelector.matchExpressions[3].operator: \"Equals\" is none of In, NotIn, Exists and DoesNotExist",
        ]
    );
}

/// The rules of `IsQualifiedName` and `IsValidLabelValue` in Kubernetes.
#[test]
fn keys_and_values_are_judged_as_kubernetes_does() {
    let is_good = |key: &str, value: &str| {
        let selector = ShardSelector { match_labels: labels(&[(key, value)]), match_expressions: vec![] };
        let term = expression(key, "NotIn", &[value]);
        let other = ShardSelector { match_labels: labels(&[]), match_expressions: vec![term] };
        let good = Selector::read(&selector).is_ok();
        assert_eq!(good, Selector::read(&other).is_ok(), "{key:?} {value:?}");
        good
    };
    let (long, longer) = ("a".repeat(63), "a".repeat(64));
    let prefix = |length: usize| format!("{}/name", vec!["a".repeat(61); 5].join(".")[..length].to_owned());
    for key in ["a", "A", "1st", "a-b_c.D", "app.kubernetes.io/name", "a/b", "1.2/b", &long, &prefix(253)] {
        assert!(is_good(key, "x"), "{key:?}");
    }
    for key in [
        "",
        "re gion!!",
        "-a",
        "a-",
        ".a",
        "a_",
        "é",
        "/a",
        "a/",
        "a/b/c",
        "A.com/b",
        "a..b/c",
        "a_b/c",
        "-a/b",
        &longer,
        &prefix(254),
    ] {
        assert!(!is_good(key, "x"), "{key:?}");
    }
    for value in ["", "x", "X-1_2.y", "05", &long] {
        assert!(is_good("a", value), "{value:?}");
    }
    for value in ["a b/c?", "-x", "x.", "_", "é", "a,b", "o'neil", &longer] {
        assert!(!is_good("a", value), "{value:?}");
    }
}

#[test]
fn the_order_of_terms_and_values_does_not_matter_to_the_name_of_the_shard() {
    let terms = [
        expression("b", "In", &["y", "x"]),
        expression("a", "Exists", &[]),
        expression("b", "NotIn", &["z"]),
    ];
    let there = selector(&[("c", "1")], terms.to_vec());
    let back = selector(&[("c", "1")], terms.iter().rev().cloned().collect());
    assert_eq!(there.to_string(), "a,b in (x,y),b notin (z),c=1");
    assert_eq!(there.to_string(), back.to_string());
}

/// The parser of Kubernetes accepts `empty=`, and no list of nothing.
#[test]
fn an_empty_value_alone_is_compared_and_among_others_listed() {
    let terms = [
        ("In", &[""][..], "empty="),
        ("NotIn", &[""], "empty!="),
        ("In", &["a"], "empty in (a)"),
        ("NotIn", &["a"], "empty notin (a)"),
        ("In", &["a", ""], "empty in (,a)"),
        ("NotIn", &["a", ""], "empty notin (,a)"),
    ];
    for (operator, values, text) in terms {
        assert_eq!(selector(&[], vec![expression("empty", operator, values)]).to_string(), text);
    }
}

#[test]
fn an_id_that_a_search_can_not_hold_is_not_written() {
    let longest = "a".repeat(ID_MAX - 2);
    assert_eq!(quoted_id(&longest), Some(format!("'{longest}'")));
    for id in ["", "a\\b", &"a".repeat(ID_MAX - 1), &format!("{}'", &longest[1..])] {
        assert_eq!(quoted_id(id), None, "{id:?}");
    }
}

#[test]
fn a_search_stays_within_what_the_api_reads() {
    let values = (0..400).map(|n| format!("value-{n:04}")).collect::<Vec<_>>();
    let values = values.iter().map(String::as_str).collect::<Vec<_>>();
    let long = selector(&[("region", "eu")], vec![expression("k", "In", &values)]);
    assert_eq!(long.search(), "labels.region='eu'");
    // The search must not be expensive for the API either.
    let terms = (0..20).map(|n| expression(&format!("k{n}"), "In", &["a", "b"])).collect();
    assert_eq!(selector(&[], terms).search().matches('=').count(), COMPARISONS_MAX);
}

proptest! {
    #[test]
    fn nothing_panics(key in ".{0,8}", operator in "(In|NotIn|Exists|DoesNotExist|.{0,3})", values in prop::collection::vec(".{0,5}", 0..3)) {
        let selector = ShardSelector {
            match_labels: BTreeMap::new(),
            match_expressions: vec![MatchExpression { key, operator, values }],
        };
        if let Ok(selector) = Selector::read(&selector) {
            let _ = (selector.search(), selector.to_string(), selector.matches(&BTreeMap::new()));
        }
    }
}
