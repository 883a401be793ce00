//! Shards: the answers of the fleet's API to a selector as the Sentinel writes it, in both dialects.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use lockstep_crds::sentinel::{MatchExpression, ShardSelector};
use lockstep_external::hyperfleet::{Dialect, HyperFleet, Kind, Labels, Release};
use lockstep_sentinel::fleet::{self, Place};
use lockstep_sentinel::resource::{self, ResourceType};
use lockstep_sentinel::selector::Selector;
use proptest::prelude::*;
use proptest::sample::select;

/// A search can't contain some of them: those with a hyphen, a dot, a slash or a capital, and those that begin with a digit.
const KEYS: [&str; 6] = ["region", "app.kubernetes.io/name", "cluster-type", "1st", "a_b", "Region"];
/// The APIs that a Sentinel may use.
const APIS: [(Dialect, Release); 3] = [
    (Dialect::Documented, Release::V0_3_1),
    (Dialect::Released, Release::V0_3_0),
    (Dialect::Released, Release::V0_3_1),
];
/// Valid values of Kubernetes labels, and some that look like another type.
const VALUES: [&str; 8] = ["us-east", "us-west", "US-East", "", "5", "05", "null", "a_b.c"];

fn labels() -> impl Strategy<Value = Labels> {
    let label = (select(&KEYS), select(&VALUES)).prop_map(|(key, value)| (key.to_owned(), value.to_owned()));
    prop::collection::vec(label, 0..4).prop_map(Labels::from_iter)
}

fn expression() -> impl Strategy<Value = MatchExpression> {
    let values = prop::collection::vec(select(&VALUES).prop_map(str::to_owned), 1..4);
    let operator = select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    (select(&KEYS), operator, values).prop_map(|(key, operator, values)| MatchExpression {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: if operator.ends_with("In") { values } else { Vec::new() },
    })
}

fn selector() -> impl Strategy<Value = ShardSelector> {
    (prop::option::weighted(0.5, labels()), prop::collection::vec(expression(), 0..3)).prop_map(
        |(match_labels, match_expressions)| ShardSelector {
            // More than one label rarely matches any object.
            match_labels: match_labels.into_iter().flatten().take(1).collect(),
            match_expressions,
        },
    )
}

/// Evaluates the selector with the semantics of Kubernetes.
fn is_selected(labels: &Labels, selector: &ShardSelector) -> bool {
    let among = |key: &str, values: &[String]| labels.get(key).is_some_and(|value| values.contains(value));
    selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().all(|term| match term.operator.as_str() {
            "In" => among(&term.key, &term.values),
            "NotIn" => !among(&term.key, &term.values),
            "Exists" => labels.contains_key(&term.key),
            _ => !labels.contains_key(&term.key),
        })
}

/// Returns the ids in the API's answer, and those of them that the Sentinel accepts as its own.
fn found(
    rows: &[Labels],
    selector: &ShardSelector,
    (dialect, release): (Dialect, Release),
) -> [BTreeSet<String>; 3] {
    let mut fleet = HyperFleet::new(dialect, 1);
    fleet.release(release);
    for labels in rows {
        fleet.create("a", Arc::new(labels.clone()), Timestamp::UNIX_EPOCH);
    }
    let spoken = match dialect {
        Dialect::Documented => resource::Dialect::Labels,
        Dialect::Released => resource::Dialect::Search,
    };
    let own = Selector::read(selector).unwrap();
    let url =
        fleet::url("http://fleet", spoken, &ResourceType::read("clusters").unwrap(), &own, &Place::default());
    let request = http::Request::get(&url["http://fleet".len()..]).body(Bytes::new()).unwrap();
    let answer = fleet.handle(&request, Timestamp::UNIX_EPOCH).into_body();
    let page = fleet::read(&std::str::from_utf8(&answer).unwrap().into(), spoken, &own);
    let page = page.unwrap_or_else(|problem| panic!("{url}: {problem} {answer:?}"));
    let listed: BTreeMap<String, bool> =
        page.resources.into_iter().map(|resource| (resource.id, resource.is_selected)).collect();
    let own = listed.iter().filter(|(_, is_own)| **is_own).map(|(id, _)| id.clone()).collect();
    let wanted = fleet.resources(Kind::Cluster).filter(|row| is_selected(&row.labels, selector));
    [wanted.map(|row| row.id.clone()).collect(), listed.into_keys().collect(), own]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_sentinel_finds_what_its_selector_selects(
        rows in prop::collection::vec(labels(), 0..40),
        selector in selector(),
    ) {
        for api in APIS {
            let [wanted, listed, own] = found(&rows, &selector, api);
            prop_assert!(wanted.is_subset(&listed), "{:?}: {:?} is not in {:?}", api, wanted, listed);
            prop_assert_eq!(wanted, own);
        }
    }
}

/// The API filters where that is efficient: in the released one, only for In.
#[test]
fn what_is_not_its_own_stays_on_the_server() {
    let rows = VALUES.map(|value| Labels::from([("region".to_owned(), value.to_owned())]));
    let rows = [&rows[..], &[Labels::new()]].concat();
    for (operator, values, count) in [
        ("In", &["us-east", "5"][..], 2),
        ("NotIn", &["us-east", "5"], 7),
        ("Exists", &[], 8),
        ("DoesNotExist", &[], 1),
    ] {
        let (operator, values) = (operator.to_owned(), values.iter().map(ToString::to_string).collect());
        let term = MatchExpression { key: "region".to_owned(), operator, values };
        let selector = ShardSelector { match_expressions: vec![term], ..ShardSelector::default() };
        for api in APIS {
            let [wanted, listed, _] = found(&rows, &selector, api);
            let is_sent = api.0 == Dialect::Documented || selector.match_expressions[0].operator == "In";
            let wide = if is_sent { count } else { rows.len() };
            assert_eq!((wanted.len(), listed.len()), (count, wide), "{api:?} {selector:?}");
        }
    }
}

/// For any selector and id, the search is not longer than the API's limit.
#[test]
fn a_search_is_never_longer_than_the_api_reads() {
    let values: Vec<String> = (0..80).map(|number| format!("{number:a>63}")).collect();
    for count in [1, 40, 55, 56, 57, 58, 59, 60, 61, 80] {
        let term = |values: &[String]| MatchExpression {
            key: "region".to_owned(),
            operator: "In".to_owned(),
            values: values.to_vec(),
        };
        // Terms with one value each fill the available space to the last permitted byte.
        let terms = values.iter().take(count).map(|value| term(std::slice::from_ref(value))).collect();
        let all = term(&values[..count]);
        for match_expressions in [terms, vec![all]] {
            let selector = ShardSelector { match_expressions, ..ShardSelector::default() };
            let own = Selector::read(&selector).unwrap();
            for id in ["0198f0c2-7c1e-7b7a-9d52-6a4f0b1c2d3e".to_owned(), "é'".repeat(40), "x".repeat(4000)]
            {
                let mut fleet = HyperFleet::new(Dialect::Released, 1);
                let place = Place { after: Some(id.clone()), before: Some(id), ..Place::default() };
                let url = fleet::url(
                    "http://fleet",
                    resource::Dialect::Search,
                    &ResourceType::read("nodepools").unwrap(),
                    &own,
                    &place,
                );
                let request = http::Request::get(&url["http://fleet".len()..]).body(Bytes::new()).unwrap();
                assert_eq!(fleet.handle(&request, Timestamp::UNIX_EPOCH).status(), 200, "{count}: {url}");
            }
        }
    }
}
