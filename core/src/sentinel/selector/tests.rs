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
            expression("env", "In", &["a", "b"]),
            expression("tier", "NotIn", &["x", "y"]),
            expression("app.kubernetes.io/name", "Exists", &[]),
            expression("gone", "DoesNotExist", &[]),
            expression("cluster-type", "In", &["hypershift"]),
            expression("owner", "In", &["o'neil"]),
            expression("empty", "In", &[""]),
        ],
    );
    assert_eq!(
        all.to_string(),
        "region=us-east,env in (a,b),tier notin (x,y),app.kubernetes.io/name,!gone,cluster-type=hypershift,owner=o'neil,empty="
    );
    // What the search can't express is left to the comparison here.
    assert_eq!(
        all.search(),
        "labels.region='us-east' and labels.env in ['a','b'] and ((labels.tier!='x' and labels.tier!='y') or \
         labels.tier is null) and labels.app.kubernetes.io/name like '%' and labels.gone is null and \
         labels.owner='o\\'neil'"
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
fn each_problem_is_told_with_its_place() {
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
            "spec.shardSelector.matchLabels: a key is empty; name the label",
            "spec.shardSelector.matchExpressions[0].key: is missing; name the label",
            "spec.shardSelector.matchExpressions[1].values: In needs at least one value",
            "spec.shardSelector.matchExpressions[2].values: Exists takes no values; remove them",
            "spec.shardSelector.matchExpressions[3].operator: \"Equals\" is none of In, NotIn, Exists and DoesNotExist",
        ]
    );
}

#[test]
fn a_search_stays_within_what_the_api_reads() {
    let values = (0..400).map(|n| format!("value-{n:04}")).collect::<Vec<_>>();
    let values = values.iter().map(String::as_str).collect::<Vec<_>>();
    let long = selector(&[("region", "eu")], vec![expression("k", "In", &values)]);
    assert_eq!(long.search(), "labels.region='eu'");
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
