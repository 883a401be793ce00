//! Properties of all requests.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// One clause of a search with its meaning, which is evaluated without the search's own code.
type Clause = (String, fn(&Resource, &str) -> bool, String);

fn clause() -> impl Strategy<Value = Clause> {
    let value = select(vec!["a", "b", "c", "it's"]);
    let form = select(vec![
        (
            "labels.k=V",
            (|r, v| r.labels.get("k").is_some_and(|found| found == v)) as fn(&Resource, &str) -> bool,
        ),
        ("labels.k != V", |r, v| r.labels.get("k").is_some_and(|found| found != v)),
        ("labels.k is null", |r, _| !r.labels.contains_key("k")),
        ("labels.k like '%'", |r, _| r.labels.contains_key("k")),
        ("labels.k in ['z', V]", |r, v| r.labels.get("k").is_some_and(|found| found == v)),
        ("name>=V", |r, v| r.name.as_str() >= v),
        ("id > V", |r, v| r.id.as_str() > v),
        ("status.conditions.Reconciled='True'", |r, _| r.is_ready()),
        ("status.conditions.Reconciled.last_updated_time < '2026-05-04T08:00:05Z'", |r, _| {
            r.last_report().is_some_and(|time| time < at(5))
        }),
    ]);
    (form, value).prop_map(|((text, holds), value)| {
        let quoted = format!("'{}'", value.replace('\'', r"\'"));
        (text.replace('V', &quoted), holds, value.to_owned())
    })
}

#[derive(Debug, Clone)]
enum Change {
    Insert { id: char, label: Option<&'static str> },
    Report { id: char, ready: bool, at: i64 },
    Remove { id: char },
}

fn change() -> impl Strategy<Value = Change> {
    let id = prop::char::range('a', 'f');
    let label = prop::option::of(select(vec!["a", "b", "it's"]));
    prop_oneof![
        3 => (id.clone(), label).prop_map(|(id, label)| Change::Insert { id, label }),
        2 => (id.clone(), any::<bool>(), 0..10_i64).prop_map(|(id, ready, at)| Change::Report { id, ready, at }),
        1 => id.prop_map(|id| Change::Remove { id }),
    ]
}

fn apply(fleet: &mut HyperFleet, change: &Change) {
    match change {
        Change::Insert { id, label } => {
            let created = fleet.create(&id.to_string(), labels(&[]), at(0));
            let mut resource = fleet.get(&created).unwrap().clone();
            fleet.remove(&created);
            resource.id = id.to_string();
            resource.labels = labels(&label.map(|label| ("k", label)).into_iter().collect::<Vec<_>>());
            fleet.insert(resource);
        }
        Change::Report { id, ready, at: seconds } => {
            fleet.report(&id.to_string(), *ready, at(*seconds));
        }
        Change::Remove { id } => {
            fleet.remove(&id.to_string());
        }
    }
}

fn percent(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        write!(encoded, "%{byte:02X}").unwrap();
    }
    encoded
}

/// Returns all ids of a search, page by page.
fn search(fleet: &mut HyperFleet, search: &str, size: usize) -> Vec<String> {
    let mut found = Vec::new();
    for page in 1.. {
        let path = format!("{CLUSTERS}?order=id&size={size}&page={page}&search={}", percent(search));
        let list = get(fleet, &path);
        let items = list["items"].as_array().unwrap();
        found.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        if items.is_empty() {
            assert_eq!(list["total"], found.len());
            return found;
        }
    }
    unreachable!("pages end")
}

proptest! {
    #[test]
    fn searches_find_what_a_naive_filter_finds(
        changes in prop::collection::vec((change(), prop::bool::weighted(0.3)), 1..30),
        clauses in prop::collection::vec(clause(), 1..4),
        any_of in any::<bool>(),
        size in 1..4_usize,
    ) {
        let text = clauses.iter().map(|(text, ..)| format!("({text})")).collect::<Vec<_>>();
        let text = text.join(if any_of { " or " } else { " and " });
        let holds = |resource: &Resource| {
            let mut tests = clauses.iter().map(|(_, holds, value)| holds(resource, value));
            if any_of { tests.any(|holds| holds) } else { tests.all(|holds| holds) }
        };
        let mut fleet = HyperFleet::new(Dialect::Released, 0);
        // Some searches run in between, so that cached results are updated, too.
        for (change, ask) in changes.iter().map(|(change, ask)| (change, *ask)).chain([(&Change::Remove { id: 'z' }, true)]) {
            apply(&mut fleet, change);
            if ask {
                let naive: Vec<String> =
                    fleet.resources(Kind::Cluster).filter(|r| holds(r)).map(|r| r.id.clone()).collect();
                prop_assert_eq!(search(&mut fleet, &text, size), naive, "{}", text);
            }
        }
    }

    #[test]
    fn nothing_that_is_asked_panics(
        path in "(/api/hyperfleet/v1)?(/clusters|/nodepools|/statuses?|/[a-c%/.]{0,6}){0,4}",
        name in select(vec!["search", "labels", "order", "page", "size", "x"]),
        value in "(labels\\.[a-z-]{1,3}|id|status\\.conditions\\.A| and | or |\\(|\\)|[=<>!]|'[a-z\\\\]{0,2}'|is null|[0-9]{1,30}|in \\[|\\]|.){0,12}",
        method in select(vec!["GET", "POST", "PUT", "DELETE"]),
        body in prop::collection::vec(any::<u8>(), 0..20),
        released in any::<bool>(),
    ) {
        let dialect = if released { Dialect::Released } else { Dialect::Documented };
        let (mut fleet, _) = fleet(dialect);
        let uri = format!("{path}?{name}={}", percent(&value));
        if let Ok(request) = http::Request::builder().method(method).uri(&uri).body(Bytes::from(body)) {
            let response = fleet.handle(&request, at(0));
            prop_assert!(serde_json::from_slice::<Value>(response.body()).is_ok(), "{}", uri);
        }
    }
}
