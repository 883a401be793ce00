//! Tests of the API from a client's perspective.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;

mod observations;
mod properties;

const CLUSTERS: &str = "/api/hyperfleet/v1/clusters";

fn at(seconds: i64) -> Timestamp {
    "2026-05-04T08:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn labels(pairs: &[(&str, &str)]) -> Arc<Labels> {
    Arc::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn ask(fleet: &mut HyperFleet, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
    let body = Bytes::from(body.to_string());
    let request = http::Request::builder().method(method).uri(path).body(body).unwrap();
    let response = fleet.handle(&request, at(100));
    let kind = if response.status().is_success() { "application/json" } else { "application/problem+json" };
    assert_eq!(response.headers()["content-type"], kind);
    (response.status(), serde_json::from_slice(response.body()).unwrap())
}

fn get(fleet: &mut HyperFleet, path: &str) -> Value {
    let (status, body) = ask(fleet, "GET", path, &Value::Null);
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// Returns three clusters: the second is ready, and the first has a node pool.
fn fleet(dialect: Dialect) -> (HyperFleet, Vec<String>) {
    let mut fleet = HyperFleet::new(dialect, 1);
    let created = [("a", "us-east"), ("b", "eu-west"), ("c", "us-east")].into_iter().zip(0..);
    let mut ids: Vec<String> = created
        .map(|((name, region), second)| fleet.create(name, labels(&[("region", region)]), at(second)))
        .collect();
    let owner = ids[0].clone();
    ids.push(fleet.create_node_pool(&owner, "workers", labels(&[]), at(3)));
    fleet.report(&ids[1], true, at(10));
    (fleet, ids)
}

#[test]
fn the_released_api_lists_pages() {
    let (mut fleet, ids) = fleet(Dialect::Released);
    let all = get(&mut fleet, CLUSTERS);
    assert_eq!((&all["page"], &all["size"], &all["total"]), (&json!(1), &json!(3), &json!(3)));
    assert_eq!(names(&all), ["c", "b", "a"]);
    let second = get(&mut fleet, &format!("{CLUSTERS}?order=id+asc&size=2&page=2"));
    assert_eq!((&second["size"], &second["total"], names(&second)), (&json!(1), &json!(3), vec!["c"]));
    let beyond = get(&mut fleet, &format!("{CLUSTERS}?page=9&size=100"));
    assert_eq!((&beyond["size"], &beyond["total"], &beyond["items"]), (&json!(0), &json!(3), &json!([])));
    let after = format!("{CLUSTERS}?order=id%20asc&search=id%20%3E%20%27{}%27", ids[0]);
    assert_eq!(names(&get(&mut fleet, &after)), ["b", "c"]);
    assert_eq!(names(&get(&mut fleet, &format!("{CLUSTERS}?order=id+desc"))), ["c", "b", "a"]);
    assert_eq!(
        names(&get(&mut fleet, &format!("{CLUSTERS}?order=deleted_time,name%20desc"))),
        ["c", "b", "a"]
    );
    // An unknown parameter is ignored: the request of the specification returns every cluster.
    assert_eq!(get(&mut fleet, &format!("{CLUSTERS}?labels=region%3Deu-west"))["total"], 3);
    let found = get(&mut fleet, &format!("{CLUSTERS}?search=labels.region%3D%27eu-west%27"));
    assert_eq!((&found["total"], names(&found)), (&json!(1), vec!["b"]));
}

/// Observed on release 0.3.0: see "Observed on the real systems" in the notes on upstream.
#[test]
fn release_0_3_0_orders_by_another_parameter() {
    let (mut fleet, ids) = fleet(Dialect::Released);
    fleet.release(Release::V0_3_0);
    assert_eq!(
        names(&get(&mut fleet, &format!("{CLUSTERS}?order=id+asc"))),
        ["c", "b", "a"],
        "it is ignored"
    );
    assert_eq!(names(&get(&mut fleet, &format!("{CLUSTERS}?orderBy=id+asc"))), ["a", "b", "c"]);
    assert_eq!(get(&mut fleet, &format!("{CLUSTERS}?size=5000"))["size"], 3);
    let after = format!("{CLUSTERS}?orderBy=id%20asc&search=id%20%3E%20%27{}%27", ids[0]);
    assert_eq!(names(&get(&mut fleet, &after)), ["b", "c"]);
    let (status, _) = ask(
        &mut fleet,
        "GET",
        &format!("{CLUSTERS}?search=labels.region%20in%20%5B%27a%27%5D"),
        &Value::Null,
    );
    assert_eq!(status, StatusCode::BAD_REQUEST);
    fleet.release(Release::V0_3_1);
    assert_eq!(names(&get(&mut fleet, &format!("{CLUSTERS}?order=id+asc&orderBy=id+desc"))), ["a", "b", "c"]);
}

#[test]
fn the_released_api_writes_resources() {
    let (mut fleet, ids) = fleet(Dialect::Released);
    insta::assert_json_snapshot!(get(&mut fleet, &format!("{CLUSTERS}/{}", ids[1])));
    let pools = get(&mut fleet, &format!("{CLUSTERS}/{}/nodepools", ids[0]));
    insta::assert_json_snapshot!(pools);
    assert_eq!(pools["items"], get(&mut fleet, "/api/hyperfleet/v1/nodepools")["items"]);
    assert_eq!(pools["items"][0], get(&mut fleet, pools["items"][0]["href"].as_str().unwrap()));
    assert_eq!(get(&mut fleet, &format!("{CLUSTERS}/{}/nodepools", ids[1]))["total"], 0);
}

#[test]
fn the_documented_api_selects_by_labels() {
    let (mut fleet, ids) = fleet(Dialect::Documented);
    assert_eq!(get(&mut fleet, CLUSTERS)["total"], 3);
    let list = get(&mut fleet, &format!("{CLUSTERS}?labels=region%20in%20%28us-east%29%2C%21gone"));
    assert_eq!((&list["total"], &list["items"][1]["id"]), (&json!(2), &json!(ids[2])));
    let second = get(&mut fleet, &format!("{CLUSTERS}?size=2&page=2"));
    assert_eq!((&second["size"], &second["items"][0]["id"]), (&json!(1), &json!(ids[2])));
    insta::assert_json_snapshot!(get(&mut fleet, &format!("{CLUSTERS}/{}", ids[1])));
    let (status, _) = ask(&mut fleet, "GET", &format!("{CLUSTERS}?labels=a%20b"), &Value::Null);
    assert_eq!(status, StatusCode::BAD_REQUEST);
    // The released language has no effect here.
    assert_eq!(get(&mut fleet, &format!("{CLUSTERS}?search=not+a+search"))["total"], 3);
    fleet.forget_pages();
    assert_eq!(get(&mut fleet, &format!("{CLUSTERS}?size=2&page=2"))["size"], 3);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (mut fleet, ids) = fleet(Dialect::Released);
    let none = Value::Null;
    for query in [
        "page=0",
        "page=x",
        "page=-1",
        "size=0",
        "size=101",
        "order=color",
        "order=id+sideways",
        "order=labels.region",
        "search=labels.cluster-type%3D%27x%27",
    ] {
        let (status, problem) = ask(&mut fleet, "GET", &format!("{CLUSTERS}?{query}"), &none);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
        assert_eq!((&problem["status"], &problem["title"]), (&json!(400), &json!("Bad Request")), "{query}");
        assert!(["type", "detail", "code"].iter().all(|field| problem[field].is_string()), "{problem}");
    }
    let pool_elsewhere = format!("{CLUSTERS}/{}/nodepools/{}", ids[1], ids[3]);
    let cluster_as_pool = format!("/api/hyperfleet/v1/nodepools/{}", ids[0]);
    let no_such = format!("{CLUSTERS}/none");
    let below = format!("{CLUSTERS}/none/nodepools");
    for path in ["/", "/api/hyperfleet/v2/clusters", &no_such, &below, &pool_elsewhere, &cluster_as_pool] {
        assert_eq!(ask(&mut fleet, "GET", path, &none).0, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(ask(&mut fleet, "DELETE", CLUSTERS, &none).0, StatusCode::METHOD_NOT_ALLOWED);
}

#[test]
fn the_reports_of_all_adapters_make_a_resource_reconciled() {
    let (mut fleet, ids) = fleet(Dialect::Released);
    let path = format!("{CLUSTERS}/{}/statuses", ids[0]);
    let report = |adapter: &str, generation: i64, status: &str| {
        json!({"adapter": adapter, "observed_generation": generation,
               "conditions": [{"type": "Available", "status": status}]})
    };
    let reconciled = |resource: &Value| {
        let condition = &resource["status"]["conditions"][0];
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        (text("status"), text("reason"), text("last_updated_time"))
    };
    let time = |seconds: i64| at(seconds).to_string();
    let expected =
        |status: &str, reason: &str, seconds| (status.to_owned(), reason.to_owned(), time(seconds));
    let (status, half) = ask(&mut fleet, "POST", &path, &report("dns", 1, "True"));
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(reconciled(&half), expected("False", "ReconciledMissingAdapters", 100));
    fleet.report(&ids[0], true, at(200));
    // The aggregate is as old as the oldest report.
    let (_, whole) = ask(&mut fleet, "POST", &path, &report("validation", 1, "True"));
    assert_eq!(reconciled(&whole), expected("True", "ReconciledAll", 100));
    fleet.set_spec(&ids[0], json!({"replicas": 3}), at(300));
    let outdated = get(&mut fleet, &format!("{CLUSTERS}/{}", ids[0]));
    assert_eq!(outdated["generation"], 2);
    assert_eq!(reconciled(&outdated), expected("False", "ReconciledMissingAdapters", 100));
    assert_eq!(outdated["status"]["conditions"][1]["status"], "True");
    // A report on an older or a future generation changes nothing.
    fleet.report(&ids[0], false, at(400));
    let before = fleet.get(&ids[0]).cloned();
    for generation in [1, 3] {
        ask(&mut fleet, "POST", &path, &report("dns", generation, "True"));
    }
    assert_eq!(fleet.get(&ids[0]).cloned(), before);
    assert_eq!(before.and_then(|resource| resource.last_report()), Some(at(400)));
    for body in [json!({}), json!([]), report("dns", 1, "Maybe")] {
        assert_eq!(ask(&mut fleet, "POST", &path, &body).0, StatusCode::BAD_REQUEST, "{body}");
    }
}

#[test]
fn a_report_moves_the_documented_time() {
    let (mut fleet, ids) = fleet(Dialect::Documented);
    let path = format!("{CLUSTERS}/{}/status", ids[0]);
    let (status, reported) = ask(&mut fleet, "POST", &path, &json!({"phase": "Failed"}));
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(reported["status"], json!({"phase": "Failed", "lastTransitionTime": at(100).to_string()}));
    fleet.report(&ids[0], false, at(110));
    let (phase, last_transition) = ("Failed".to_owned(), at(110));
    assert_eq!(fleet.get(&ids[0]).unwrap().status, Status::Phase { phase, last_transition });
    fleet.report(&ids[0], true, at(120));
    assert!(fleet.get(&ids[0]).unwrap().is_ready());
    fleet.report(&ids[0], false, at(130));
    assert!(!fleet.get(&ids[0]).unwrap().is_ready());
}

#[test]
fn what_is_deleted_is_listed_until_it_is_gone() {
    let (mut fleet, ids) = fleet(Dialect::Released);
    assert!(fleet.delete(&ids[0], at(50)) && fleet.delete(&ids[0], at(60)));
    let cluster = get(&mut fleet, &format!("{CLUSTERS}/{}", ids[0]));
    assert_eq!(cluster["deleted_time"], at(50).to_string());
    assert_eq!(get(&mut fleet, CLUSTERS)["total"], 3);
    assert!(fleet.remove(&ids[0]) && !fleet.remove(&ids[0]));
    assert_eq!(get(&mut fleet, CLUSTERS)["total"], 2);
    assert_eq!(fleet.resources(Kind::Cluster).len(), 2);
    assert!(!fleet.report(&ids[0], true, at(70)));
}

#[test]
fn a_clone_is_a_snapshot() {
    let (mut fleet, ids) = fleet(Dialect::Released);
    let mut before = fleet.clone();
    fleet.remove(&ids[0]);
    assert_eq!(get(&mut before, CLUSTERS)["total"], 3);
    // Both continue in the same way.
    let create = |fleet: &mut HyperFleet| fleet.create("d", labels(&[]), at(200));
    assert_eq!(create(&mut fleet), create(&mut before));
}
