//! Holds the model to answers that were observed on the real API.
//!
//! Each row of `observations.json` is a request and its answer: the names in their order, or the status of a refusal. `seen` is
//! `run` if the release gave this answer to us, and `read` if its sources say so. The names are those of this fleet, in which
//! the same requests have the same kinds of answers.

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Observation {
    release: String,
    seen: Seen,
    about: String,
    /// The path below the API and the query, not encoded; `{a}` is the id of that cluster.
    request: String,
    names: Option<Vec<String>>,
    total: Option<u64>,
    status: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Seen {
    Run,
    Read,
}

/// Returns three clusters, of which the second is ready, and a node pool of the first.
fn observed_fleet() -> (HyperFleet, String) {
    let mut fleet = HyperFleet::new(Dialect::Released, 1);
    let a = fleet.create("a", labels(&[("region", "us-east"), ("env", "a")]), at(0));
    let b = fleet.create("b", labels(&[("region", "eu-west"), ("app.kubernetes.io/name", "x")]), at(1));
    let odd = [("region", "us-east"), ("env", "b"), ("odd", "it's"), ("mark", "=")];
    fleet.create("c", labels(&odd), at(2));
    fleet.create_node_pool(&a, "workers", labels(&[]), at(3));
    fleet.report(&b, true, at(10));
    (fleet, a)
}

/// Encodes everything that a path and a query can't contain.
fn encoded(request: &str) -> String {
    let special = |c: char| matches!(c, ' ' | '\'' | '<' | '>' | '[' | ']' | '%' | '\\' | '"');
    request
        .chars()
        .map(|c| if special(c) { format!("%{:02X}", u32::from(c)) } else { c.to_string() })
        .collect()
}

#[test]
fn the_model_gives_the_observed_answers() {
    let observations: Vec<Observation> = serde_json::from_str(include_str!("../observations.json")).unwrap();
    let (mut run, mut read) = (0, 0);
    for Observation { release, seen, about, request, names: expected, total, status } in observations {
        let (mut fleet, a) = observed_fleet();
        fleet.release(match release.as_str() {
            "0.3.0" => Release::V0_3_0,
            "0.3.1" => Release::V0_3_1,
            other => panic!("release {other:?}"),
        });
        let path = encoded(&format!("{API}/{}", request.replace("{a}", &a)));
        let (answered, body) = ask(&mut fleet, "GET", &path, &Value::Null);
        let row = format!("{release}, {about}: {request} gives {answered} {body}");
        assert_eq!(answered.as_u16(), status.unwrap_or(200), "{row}");
        assert_eq!(expected.is_some(), status.is_none(), "{row}");
        if let Some(expected) = expected {
            assert_eq!(names(&body), expected, "{row}");
            assert_eq!(body["total"], total.unwrap_or(expected.len() as u64), "{row}");
        }
        *(if seen == Seen::Run { &mut run } else { &mut read }) += 1;
    }
    // A row that is lost would show nothing.
    assert_eq!((run, read), (30, 7));
}
