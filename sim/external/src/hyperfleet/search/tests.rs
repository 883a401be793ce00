//! The evaluation of searches by release 0.3.1.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::hyperfleet::report;
use crate::hyperfleet::resource::{Kind, Labels, Status, Written};

/// Returns a cluster that all adapters have reported as complete, ten seconds after the epoch.
fn cluster() -> Resource {
    let labels = [
        ("region", "us-east"),
        ("env", "a"),
        ("app.kubernetes.io/name", "x"),
        ("tier", "7"),
        ("odd", "it's ="),
    ];
    let mut cluster = Resource {
        kind: Kind::Cluster,
        id: "b".to_owned(),
        name: "payments".to_owned(),
        owner: None,
        generation: 3,
        labels: Arc::new(
            labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect::<Labels>(),
        ),
        spec: Arc::new(json!({"provider": "gcp", "release": {"version": 11}})),
        created: Timestamp::UNIX_EPOCH,
        updated: Timestamp::UNIX_EPOCH,
        deleted: None,
        status: Status::Conditions(report::unreported(Timestamp::UNIX_EPOCH)),
        written: Written::default(),
    };
    report::report_all(&mut cluster, true, Timestamp::from_second(10).unwrap());
    cluster
}

fn finds(search: &str) -> bool {
    let (after, search) = Search::parse(search).unwrap();
    let cluster = cluster();
    after.is_none_or(|after| cluster.id > after) && search.matches(&cluster)
}

#[test]
fn searches_find() {
    for search in [
        "",
        "labels.region='us-east' and labels.env in ['a','b']",
        "labels.region = \"us-east\" AND (labels.env = 'z' OR labels.env = 'a')",
        "labels.app.kubernetes.io/name='x'",
        "labels.missing is null",
        "(labels.missing!='x' or labels.missing is null)",
        "labels.region like '%' and labels.region like 'us_e%t'",
        r"labels.odd='it\'s ='",
        "labels.tier > 6 and labels.tier > '60'",
        "id > 'a' and id >= 'b' and id < 'c' and id != 'd'",
        "name in ['payments']",
        "generation=3 and generation<=3",
        "created_by='ops@example.com' and created_time < '1970-01-01T00:00:01Z'",
        "deleted_time is null and owner_id is null",
        "spec.provider='gcp' and spec.release.version > 9",
        "status.conditions.Reconciled='True'",
        "status.conditions.DnsSuccessful='True'",
        "status.conditions.Reconciled='False' or (status.conditions.Reconciled='True' and \
         status.conditions.Reconciled.last_updated_time < '1970-01-01T00:00:11Z')",
        "status.conditions.Reconciled.last_transition_time >= '1970-01-01T00:00:10Z'",
        "status.conditions.Reconciled.observed_generation = 3",
        // `and` has a higher precedence than `or`.
        "id='b' or id='b' and id='z'",
    ] {
        assert!(finds(search), "{search}");
    }
}

#[test]
fn searches_pass_over() {
    for search in [
        "labels.region='eu-west'",
        "labels.missing='x'",
        // SQL: a comparison with NULL is not true.
        "labels.missing!='x'",
        "labels.missing like '%'",
        "labels.region is null",
        // An empty string becomes an equals sign.
        "labels.region=''",
        "labels.region like 'us'",
        "id > 'b'",
        "id > 'a' and id > 'b'",
        "(id='b' or id='b') and id='z'",
        "deleted_time > '1970-01-01T00:00:00Z'",
        "labels.region > 3",
        "status.conditions.Missing='True'",
        "status.conditions.Reconciled.last_updated_time < '1970-01-01T00:00:10Z'",
    ] {
        assert!(!finds(search), "{search}");
    }
}

#[test]
fn searches_are_refused() {
    let long = format!("name='{}'", "x".repeat(LONGEST));
    let deep = format!("{}id='a'{}", "(".repeat(2000), ")".repeat(2000));
    for search in [
        "labels.cluster-type='x'",
        "labels.'cluster-type'='x'",
        "not labels.region='x'",
        "labels.region not in ['x']",
        "labels.region is not null",
        "labels.region in ('a','b')",
        "labels.region in []",
        "labels.odd='it''s'",
        "labels.='x'",
        "labels.region",
        "labels.region=",
        "labels.region='x",
        "labels.region='x' and",
        "(labels.region='x'",
        "labels.region='x')",
        "region='x'",
        "id=3",
        "name = other",
        "generation='3'",
        "generation=1.5",
        "created_time < 'yesterday'",
        "status.conditions.Reconciled!='True'",
        "status.conditions.Reconciled in ['True']",
        "status.conditions.Reconciled like '%'",
        "status.conditions.Reconciled is null",
        "status.conditions.Reconciled.reason='x'",
        "not status.conditions.Reconciled='True'",
        "status.phase='Ready'",
        "id ~ 'x'",
        &long,
        &deep,
    ] {
        assert!(Search::parse(search).is_err(), "{search}");
    }
    let room = LONGEST - ADDED.len() - "name=''".len();
    assert!(Search::parse(&format!("name='{}'", "x".repeat(room))).is_ok());
    assert!(Search::parse(&format!("name='{}'", "x".repeat(room + 1))).is_err());
    // The length is in bytes, not in characters.
    assert!(Search::parse(&format!("name='{}'", "é".repeat(room / 2))).is_ok());
    assert!(Search::parse(&format!("name='{}'", "é".repeat(room / 2 + 1))).is_err());
}

#[test]
fn the_start_id_is_separated_from_the_search() {
    let parse = |search| Search::parse(search).unwrap();
    let (after, search) = parse("id > 'a' and labels.region='x' and id > 'c'");
    assert_eq!((after.as_deref(), search), (Some("c"), parse("labels.region='x'").1));
    let (after, search) = parse("id > 'a'");
    assert!(after.is_some() && search.is_open());
    let (after, search) = parse("id > 'a' or labels.region='x'");
    assert!(after.is_none() && !search.is_open());
}

#[test]
fn release_0_3_0_refuses_some_searches() {
    let takes = |search: &str| Search::parse_as(search, Release::V0_3_0).is_ok();
    for search in [
        "",
        "labels.region='a' and (labels.env='a' or labels.env='b')",
        "id > 'a'",
        "labels.a_b1='x'",
        "labels.region is null",
    ] {
        assert!(takes(search), "{search}");
    }
    for search in [
        "labels.env in ['a','b']",
        "labels.env in ('a','b')",
        "labels.a.b='x'",
        "labels.a/b='x'",
        "labels.Env='x'",
        "labels.a-b='x'",
    ] {
        assert!(!takes(search), "{search}");
    }
    assert!(takes(&format!("name='{}'", "x".repeat(2 * LONGEST))));
}
