use std::collections::BTreeMap;

use lockstep_crds::sentinel::ShardSelector;
use lockstep_engine::document::Condenser;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn selector() -> Selector {
    let match_labels = BTreeMap::from([("region".to_owned(), "us-east".to_owned())]);
    Selector::read(&ShardSelector { match_labels, match_expressions: Vec::new() }).unwrap()
}

fn read(text: &str, dialect: Dialect) -> Result<Page, String> {
    super::read(&text.into(), dialect, &selector())
}

fn at(after: Option<&str>, page: u64) -> Place {
    Place { after: after.map(str::to_owned), page, ..Place::default() }
}

#[test]
fn urls_of_both_dialects() {
    let of = |dialect, resources, selector: &Selector, place: Place| {
        url("http://api:8080/", dialect, resources, selector, &place)
    };
    let all = Selector::default();
    let clusters = ResourceType::read("clusters").unwrap();
    let urls = [
        of(Dialect::Labels, &clusters, &all, at(None, 1)),
        of(Dialect::Labels, &ResourceType::read("nodepools").unwrap(), &selector(), at(None, 2)),
        of(Dialect::Search, &clusters, &all, at(None, 1)),
        of(Dialect::Search, &clusters, &selector(), at(Some("0198-a'b"), 1)),
        of(
            Dialect::Search,
            &clusters,
            &all,
            Place { before: Some("0199".to_owned()), ..at(Some("0198"), 2) },
        ),
    ];
    insta::assert_snapshot!(urls.join("\n"));
}

#[test]
fn a_page_as_documented() {
    let page = json!({ "items": [
        { "id": "cls-1", "status": { "phase": "Provisioning", "lastTransitionTime": "2025-10-21T12:00:00Z" } },
        { "id": "cls-2", "kind": "Cluster", "href": "/x", "generation": 3, "labels": { "a": "b", "region": "us-east" },
          "status": { "phase": "Ready", "lastTransitionTime": "2025-10-21T12:00:00.5+02:00" } },
        { "id": "cls-3" },
    ] });
    insta::assert_debug_snapshot!(read(&page.to_string(), Dialect::Labels).unwrap());
    let list = page["items"].to_string();
    assert_eq!(read(&list, Dialect::Labels).unwrap().resources.len(), 3);
}

#[test]
fn a_page_as_released() {
    let condition = |name: &str, status: &str, time: &str| json!({ "type": name, "status": status, "last_updated_time": time, "last_transition_time": "2020-01-01T00:00:00Z" });
    let page = json!({ "page": 1, "size": 3, "total": 7, "items": [
        { "id": "a", "kind": "NodePool", "generation": 1, "href": "/a", "owner_references": { "id": "c" },
          "labels": { "region": "us-east" }, "created_time": "2026-05-04T08:00:00Z",
          "status": { "conditions": [
              condition("LastKnownReconciled", "True", "2026-05-04T09:10:00Z"),
              condition("Reconciled", "False", "2026-05-04T09:31:10Z"),
          ] } },
        { "id": "b", "labels": { "region": "us-east" }, "status": { "conditions": [condition("Ready", "True", "2026-05-04T09:31:10Z")] } },
        { "id": "c", "labels": { "region": "us-east" }, "created_time": "2026-05-04T08:00:00Z", "status": { "conditions": [] } },
        { "id": "d", "kind": "NodePool", "labels": { "region": "eu" }, "created_time": "2026-05-04T08:00:00Z" },
    ] });
    insta::assert_debug_snapshot!(read(&page.to_string(), Dialect::Search).unwrap());
}

#[test]
fn a_malformed_item_spoils_nothing_else() {
    let good =
        json!({ "id": "good", "status": { "phase": "Ready", "lastTransitionTime": "2025-10-21T12:00:00Z" } });
    let page = json!({ "items": [
        good,
        "text",
        null,
        { "id": 7 },
        { "id": "" },
        { "name": "no id" },
        { "id": "x", "status": { "phase": "Ready", "lastTransitionTime": "21.10.2025" } },
        { "id": "y", "status": { "phase": 4 } },
        { "id": "z", "labels": ["a"] },
        good,
    ] });
    let page = read(&page.to_string(), Dialect::Labels).unwrap();
    assert_eq!((page.items, page.resources.len()), (10, 2));
    insta::assert_snapshot!(page.malformed.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}

/// Some APIs do not filter by labels, so each shard reads all resources.
#[test]
fn a_malformed_resource_of_another_shard_is_not_reported() {
    for dialect in [Dialect::Labels, Dialect::Search] {
        let item =
            |region: &str| json!({ "id": "a", "labels": { "region": region }, "created_time": "today" });
        let page = |region| read(&json!({ "items": [item(region)] }).to_string(), dialect).unwrap();
        assert_eq!((page("us-east").malformed.len(), page("us-east").resources.len()), (1, 0), "{dialect:?}");
        assert_eq!((page("eu-west").malformed.len(), page("eu-west").resources.len()), (0, 1), "{dialect:?}");
        assert!(!page("eu-west").resources[0].is_selected);
    }
}

#[test]
fn what_the_released_api_says_is_no_resource_as_documented() {
    let conditions =
        json!([{ "type": "Reconciled", "status": "True", "last_updated_time": "2026-05-04T09:31:10Z" }]);
    let page = json!({ "items": [
        { "id": "a", "created_time": "2026-05-04T08:00:00Z", "status": { "conditions": conditions } },
        { "id": "b", "status": { "phase": "Ready", "conditions": conditions } },
        { "id": "c", "status": {} },
    ] });
    let page = read(&page.to_string(), Dialect::Labels).unwrap();
    assert_eq!(page.resources.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(page.spoiled, 1);
    let problems = page.malformed.iter().map(ToString::to_string).collect::<String>();
    assert!(problems.contains("(id a)") && problems.contains("hyperfleetAPI.dialect: search"), "{problems}");
}

#[test]
fn what_the_documented_api_says_is_no_resource_as_released() {
    let page = json!({ "items": [
        { "id": "a", "status": { "phase": "Ready", "lastTransitionTime": "2026-05-04T08:00:00Z" } },
        { "id": "b", "status": { "phase": "Ready", "conditions": [] } },
        { "id": "c", "status": {} },
    ] });
    let page = read(&page.to_string(), Dialect::Search).unwrap();
    assert_eq!(page.resources.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(page.spoiled, 1);
    let problems = page.malformed.iter().map(ToString::to_string).collect::<String>();
    assert!(problems.contains("(id a)") && problems.contains("hyperfleetAPI.dialect: labels"), "{problems}");
}

#[test]
fn of_an_item_no_more_is_kept_than_events_need() {
    let owner = json!({ "id": "cls-1", "kind": "Cluster", "href": "/cls-1", "more": [[], [], []] });
    let page = json!({ "items": [
        { "id": "np-1", "owner_references": owner },
        { "id": "np-2", "spec": "x".repeat(300_000) },
        { "id": "np-3", "href": "x".repeat(8 << 10) },
    ] });
    let page = read(&page.to_string(), Dialect::Labels).unwrap();
    assert_eq!(page.resources.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["np-1", "np-2"]);
    assert!(!format!("{:?}", page.resources).contains("more"), "{:?}", page.resources);
    let problems: Vec<String> = page.malformed.iter().map(ToString::to_string).collect();
    assert!(
        problems.len() == 1 && problems[0].contains("item 2") && problems[0].contains("href"),
        "{problems:?}"
    );
}

/// The result for a page is the same whether all of it is kept, or only the fields that are read.
#[test]
fn every_field_that_is_read_is_kept() {
    let condition = |name: &str| json!({ "type": name, "status": "True", "last_updated_time": "2026-05-04T09:31:10Z", "message": "m" });
    let item = |id: &str, labels: Value, status: Value| {
        json!({ "id": id, "kind": "NodePool", "href": "/x", "generation": 3, "name": "n", "spec": { "id": "y" }, "labels": labels,
            "owner_references": { "id": "c", "kind": "Cluster", "href": "/c", "more": 1 },
            "created_time": "2026-05-04T08:00:00Z", "status": status })
    };
    let items = json!([
        item(
            "a",
            json!({ "region": "us-east" }),
            json!({ "conditions": [condition("Other"), condition("Reconciled")] })
        ),
        item("b", json!({ "region": "us-west" }), json!({ "conditions": [] })),
        item("c", Value::Null, json!({ "phase": "Ready", "lastTransitionTime": "2025-10-21T12:00:00Z" })),
        item("d", json!([1]), Value::Null),
        json!({ "id": "e", "created_time": "yesterday" }),
        json!("f"),
    ]);
    for page in [
        json!({ "page": 1, "items": items, "total": 7 }),
        items,
        json!({ "items": null }),
        json!({ "items": {} }),
    ] {
        let text = page.to_string();
        let mut condenser = Condenser::new(&fields());
        condenser.push(text.as_bytes()).unwrap();
        let document = condenser.finish().unwrap();
        let kept = document.text();
        assert!(!kept.contains("spec") && !kept.contains("message") && !kept.contains("more"), "{kept}");
        for dialect in [Dialect::Labels, Dialect::Search] {
            let (whole, kept) = (read(&text, dialect), read(&kept, dialect));
            assert_eq!(whole.is_ok(), kept.is_ok());
            assert!(whole.is_err() || whole == kept, "{dialect:?}: {whole:?} {kept:?}");
        }
    }
}

#[test]
fn no_items_at_all_are_an_empty_list() {
    let page = read(r#"{"items":null,"total":0}"#, Dialect::Search).unwrap();
    assert_eq!((page.items, page.total), (0, Some(0)));
}

#[test]
fn invalid_pages_are_reported() {
    let answers =
        ["", "  \n", "<!DOCTYPE html><html>…", "{}", r#"{"items": 3}"#, "null", r#"{"items": ["#, "[1,"];
    let problems =
        answers.map(|answer| format!("{answer:?}: {}", read(answer, Dialect::Search).unwrap_err()));
    insta::assert_snapshot!(problems.join("\n"));
}

proptest! {
    #[test]
    fn nothing_panics(text in r#"[\[\]{}:," a-z0-9]{0,60}"#) {
        let _ = (read(&text, Dialect::Labels), read(&text, Dialect::Search));
    }
}

/// Otherwise an expression that names a part of a field would hide the rest of it from one that reads all of it.
#[test]
fn a_field_that_an_expression_reads_whole_is_kept_whole() {
    let item = json!({ "id": "a", "spec": { "a": 1, "b": { "c": 2, "d": 3 }, "e": 4 }, "specs": { "a": 5, "b": 6 } });
    let text = json!({ "items": [&item] }).to_string();
    let mut condenser = Condenser::new(&fields_for(["spec", "spec.b.c", "spec.a", "specs.a"].into_iter()));
    condenser.push(text.as_bytes()).unwrap();
    let kept: Value = serde_json::from_str(&condenser.finish().unwrap().part(0)).unwrap();
    let expected = json!({ "id": "a", "spec": item["spec"], "specs": { "a": 5 } });
    assert_eq!(kept["items"][0], expected);
}
