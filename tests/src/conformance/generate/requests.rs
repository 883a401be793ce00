//! The requests of generated sequences.

use http::Method;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::{bool, option};
use serde_json::{Value, json};

use super::fields;
use super::kind::Kind;
use crate::conformance::merge::merge;
use crate::conformance::scenario::{APPLY, JSON_PATCH, MERGE, METADATA_LIST, STRATEGIC, Step, TABLE};

/// Returns a request about one of two objects. A deletion is followed by a request that waits for the garbage collector.
pub(super) fn request(kind: Kind) -> impl Strategy<Value = Vec<Step>> {
    let writes = prop_oneof![
        8 => apply(kind),
        3 => merge_patch(kind),
        2 => strategic(kind),
        3 => json_patch(kind),
        3 => put(kind),
        2 => post(kind),
        2 => finalizers(kind),
        if kind.status.is_some() { 3 } else { 0 } => status(kind),
    ];
    let writes = (writes, bool::weighted(0.1)).prop_map(|(mut write, dry)| {
        if dry {
            write.path.push_str("&dryRun=All");
        }
        vec![write]
    });
    let reads = prop_oneof![get(kind), list(kind)].prop_map(|read| vec![read]);
    prop_oneof![26 => writes, 3 => delete(kind), 2 => reads]
}

fn name() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b"])
}

fn manager() -> impl Strategy<Value = &'static str> {
    select(vec!["one", "two", "three"])
}

/// Returns a write to an object, and saves its uid and version for later requests.
fn write(method: Method, path: String, name: &str, body: Value) -> Step {
    let save =
        ["uid", "resourceVersion"].map(|field| (format!("{field}-{name}"), format!("/metadata/{field}")));
    Step { save: save.into(), ..Step::new(method, path, Some(body)) }
}

fn patch(kind: Kind, name: &str, query: &str, content_type: &'static str, body: Value) -> Step {
    let path = format!("{}/{name}{query}", kind.path);
    Step { content_type, ..write(Method::PATCH, path, name, body) }
}

/// Adds the last saved version of the object, if requested.
fn versioned(name: &str, versioned: bool, mut body: Value) -> Value {
    if versioned {
        merge(&mut body, json!({"metadata": {"resourceVersion": format!("${{resourceVersion-{name}}}")}}));
    }
    body
}

fn apply(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), manager(), any::<bool>(), (kind.fields)()).prop_map(move |(name, manager, force, fields)| {
        let query = format!("?fieldManager={manager}&force={force}");
        patch(kind, name, &query, APPLY, kind.object(name, fields))
    })
}

fn merge_patch(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), manager(), (kind.fields)(), fields::nulls(), bool::weighted(0.2)).prop_map(
        move |(name, manager, mut body, nulls, at_version)| {
            merge(&mut body, nulls);
            let body = versioned(name, at_version, body);
            patch(kind, name, &format!("?fieldManager={manager}"), MERGE, body)
        },
    )
}

fn strategic(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), manager(), (kind.fields)()).prop_map(move |(name, manager, fields)| {
        patch(kind, name, &format!("?fieldManager={manager}"), STRATEGIC, fields)
    })
}

fn json_patch(kind: Kind) -> impl Strategy<Value = Step> {
    let mut places = kind.places.to_vec();
    places.extend([("/metadata/labels", r#"{"x": "3"}"#), ("/metadata/labels/x", r#""3""#)]);
    let operations = select(vec!["add", "add", "replace", "remove", "test", "copy", "move"]);
    let operation =
        (operations, select(places.clone()), select(places)).prop_map(|(op, (path, value), (from, _))| {
            let value: Value = serde_json::from_str(value).unwrap_or_default();
            match op {
                "remove" => json!({"op": op, "path": path}),
                "copy" | "move" => json!({"op": op, "from": from, "path": path}),
                _ => json!({"op": op, "path": path, "value": value}),
            }
        });
    (name(), manager(), vec(operation, 1..3)).prop_map(move |(name, manager, operations)| {
        patch(kind, name, &format!("?fieldManager={manager}"), JSON_PATCH, operations.into())
    })
}

fn put(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), manager(), (kind.fields)(), any::<bool>()).prop_map(
        move |(name, manager, fields, at_version)| {
            let path = format!("{}/{name}?fieldManager={manager}", kind.path);
            write(Method::PUT, path, name, versioned(name, at_version, kind.object(name, fields)))
        },
    )
}

fn post(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), manager(), (kind.fields)()).prop_map(move |(name, manager, fields)| {
        let path = format!("{}?fieldManager={manager}", kind.path);
        write(Method::POST, path, name, kind.object(name, fields))
    })
}

fn finalizers(kind: Kind) -> impl Strategy<Value = Step> {
    let finalizers = prop_oneof![
        2 => Just(json!(["lockstep.test/a"])),
        1 => Just(json!(["lockstep.test/b", "lockstep.test/a"])),
        1 => Just(json!(["unqualified"])),
        3 => Just(Value::Null),
    ];
    (name(), manager(), finalizers).prop_map(move |(name, manager, finalizers)| {
        let body = json!({"metadata": {"finalizers": finalizers}});
        patch(kind, name, &format!("?fieldManager={manager}"), MERGE, body)
    })
}

/// Returns a write to the status, which may contain other fields too.
fn status(kind: Kind) -> impl Strategy<Value = Step> {
    let status = kind.status.unwrap_or(kind.fields);
    let fields = option::weighted(0.3, (kind.fields)());
    let types = select(vec![MERGE, STRATEGIC, APPLY, "application/json"]);
    (name(), manager(), types, status(), fields).prop_map(
        move |(name, manager, content_type, status, fields)| {
            let mut body = fields.unwrap_or_else(|| json!({}));
            merge(&mut body, status);
            let query = format!("/status?fieldManager={manager}");
            match content_type {
                "application/json" => {
                    let path = format!("{}/{name}{query}", kind.path);
                    write(Method::PUT, path, name, kind.object(name, body))
                }
                APPLY => patch(kind, name, &query, APPLY, kind.object(name, body)),
                _ => patch(kind, name, &query, content_type, body),
            }
        },
    )
}

/// Returns a deletion, and a read of what is left after the garbage collector has finished.
fn delete(kind: Kind) -> impl Strategy<Value = Vec<Step>> {
    let policy = option::of(select(vec!["Background", "Background", "Foreground", "Orphan"]));
    let precondition = option::weighted(0.4, select(vec!["uid", "resourceVersion"]));
    (name(), policy, precondition, bool::weighted(0.1)).prop_map(move |(name, policy, precondition, dry)| {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(policy) = policy {
            options["propagationPolicy"] = policy.into();
        }
        if let Some(field) = precondition {
            options["preconditions"] = json!({field: format!("${{{field}-{name}}}")});
        }
        if dry {
            options["dryRun"] = json!(["All"]);
        }
        let path = format!("{}/{name}", kind.path);
        let delete = Step::new(Method::DELETE, path.clone(), Some(options));
        vec![delete, Step { collected: true, ..Step::new(Method::GET, path, None) }]
    })
}

fn get(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), select(vec!["application/json", TABLE])).prop_map(move |(name, accept)| Step {
        accept,
        ..Step::new(Method::GET, format!("{}/{name}", kind.path), None)
    })
}

fn list(kind: Kind) -> impl Strategy<Value = Step> {
    let selectors = select(vec![
        "",
        "labelSelector=x",
        "labelSelector=%21x",
        "labelSelector=x%3D1",
        "labelSelector=x%21%3D1,y",
        "labelSelector=x+in+%281%2C2%29",
        "labelSelector=y+notin+%281%29",
        "fieldSelector=metadata.name%3Da",
        "fieldSelector=metadata.name%21%3Da",
        "limit=1",
    ]);
    (selectors, select(vec!["application/json", TABLE, METADATA_LIST])).prop_map(move |(selector, accept)| {
        Step { accept, ..Step::new(Method::GET, format!("{}?{selector}", kind.path), None) }
    })
}
