//! The requests of generated sequences.

use http::Method;
use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::{bool, option};
use serde_json::{Value, json};

use super::clients::CLIENTS;
use super::fields;
use super::kind::{Kind, Naming};
use crate::conformance::merge::merge;
use crate::conformance::scenario::{APPLY, JSON_PATCH, MERGE, METADATA_LIST, STRATEGIC, Step, TABLE, Watch};

/// Returns a request about one of two objects. A deletion is followed by a request that waits for the garbage collector.
pub(super) fn request(kind: &Kind) -> BoxedStrategy<Vec<Step>> {
    let often = |weight, possible| if possible { weight } else { 0 };
    let has_status = kind.status.is_some();
    let writes = prop_oneof![
        8 => apply(kind.clone()),
        3 => merge_patch(kind.clone()),
        2 => strategic(kind.clone()),
        3 => json_patch(kind.clone()),
        3 => put(kind.clone()),
        2 => post(kind.clone()),
        often(2, kind.is_deleted) => finalizers(kind.clone()),
        often(3, has_status) => status(kind.clone()),
        often(3, kind.has_scale) => scale(kind.clone()),
    ];
    let options = prop_oneof![
        7 => Just(""),
        1 => Just("&dryRun=All"),
        1 => Just("&fieldValidation=Strict"),
        1 => Just("&fieldValidation=Ignore"),
    ];
    let writes = (writes, options).prop_map(|(mut write, option)| {
        write.path.push_str(option);
        vec![write]
    });
    let reads = prop_oneof![
        2 => get(kind.clone()),
        3 => list(kind.clone()),
        2 => page(kind.clone()),
        often(1, kind.is_watched()) => open(kind.clone()),
    ];
    let reads = reads.prop_map(|read| vec![read]);
    prop_oneof![
        26 => writes,
        often(3, kind.is_deleted) => delete(kind.clone()),
        often(1, kind.is_deleted) => delete_all(kind.clone()),
        4 => reads,
    ]
    .boxed()
}

fn name() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b"])
}

/// Returns the name of a field manager. If it is empty, the server uses the name of the client.
fn manager() -> impl Strategy<Value = &'static str> {
    let mut managers = vec![""];
    managers.extend(CLIENTS);
    select(managers)
}

/// Returns the path of the collection with the objects that have these labels, limited to the objects of the sequence.
pub(super) fn collection(kind: &Kind, labels: &str, rest: &str) -> String {
    let path = &kind.path;
    match &kind.naming {
        Naming::Namespaced => format!("{path}?labelSelector={labels}{rest}"),
        Naming::ClusterScoped if labels.is_empty() => format!("{path}?labelSelector=lot%3D${{ns}}{rest}"),
        Naming::ClusterScoped => format!("{path}?labelSelector=lot%3D${{ns}},{labels}{rest}"),
        Naming::Fixed(name) => {
            format!("{path}?labelSelector={labels}&fieldSelector=metadata.name%3D{name}{rest}")
        }
    }
}

fn one(kind: &Kind, name: &str, rest: &str) -> String {
    format!("{}/{}{rest}", kind.path, kind.called(name))
}

/// Returns a write to an object, and saves its uid and version for later requests.
fn write(method: Method, path: String, name: &str, body: Value) -> Step {
    let save =
        ["uid", "resourceVersion"].map(|field| (format!("{field}-{name}"), format!("/metadata/{field}")));
    Step { save: save.into(), ..Step::new(method, path, Some(body)) }
}

fn patch(kind: &Kind, name: &str, rest: &str, content_type: &'static str, body: Value) -> Step {
    Step { content_type, ..write(Method::PATCH, one(kind, name, rest), name, body) }
}

/// Adds the last saved version of the object, if requested.
fn versioned(name: &str, versioned: bool, mut body: Value) -> Value {
    if versioned {
        merge(&mut body, json!({"metadata": {"resourceVersion": format!("${{resourceVersion-{name}}}")}}));
    }
    body
}

fn apply(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), manager(), any::<bool>(), kind.fields.clone()).prop_map(move |(name, manager, force, fields)| {
        let query = format!("?fieldManager={manager}&force={force}");
        patch(&kind, name, &query, APPLY, kind.object(name, fields))
    })
}

fn merge_patch(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), manager(), kind.patches.clone(), fields::nulls(), bool::weighted(0.2)).prop_map(
        move |(name, manager, mut body, nulls, at_version)| {
            merge(&mut body, nulls);
            let body = versioned(name, at_version, body);
            patch(&kind, name, &format!("?fieldManager={manager}"), MERGE, body)
        },
    )
}

fn strategic(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), manager(), kind.patches.clone()).prop_map(move |(name, manager, mut fields)| {
        name_by_scalars(&mut fields);
        patch(&kind, name, &format!("?fieldManager={manager}"), STRATEGIC, fields)
    })
}

/// Removes lists and maps from the fields that name the items of lists. A real server that compares them in a strategic merge
/// patch panics, and closes the connection without an answer.
fn name_by_scalars(value: &mut Value) {
    const KEYS: [&str; 9] =
        ["containerPort", "devicePath", "ip", "mountPath", "name", "port", "topologyKey", "type", "uid"];
    match value {
        Value::Array(items) => {
            for item in items {
                if let Value::Object(fields) = &mut *item {
                    fields.retain(|key, value| {
                        !(KEYS.contains(&key.as_str()) && (value.is_object() || value.is_array()))
                    });
                }
                name_by_scalars(item);
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(name_by_scalars),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn json_patch(kind: Kind) -> impl Strategy<Value = Step> {
    let text = |path: &str, value: Value| (path.to_owned(), value);
    let mut places = kind.places.clone();
    places.extend([text("/metadata/labels", json!({"x": "3"})), text("/metadata/labels/x", json!("3"))]);
    let operations = select(vec!["add", "add", "replace", "remove", "test", "copy", "move"]);
    let operation =
        (operations, select(places.clone()), select(places)).prop_map(|(op, (path, value), (from, _))| {
            match op {
                "remove" => json!({"op": op, "path": path}),
                "copy" | "move" => json!({"op": op, "from": from, "path": path}),
                _ => json!({"op": op, "path": path, "value": value}),
            }
        });
    (name(), manager(), vec(operation, 1..3)).prop_map(move |(name, manager, operations)| {
        patch(&kind, name, &format!("?fieldManager={manager}"), JSON_PATCH, operations.into())
    })
}

fn put(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), manager(), kind.fields.clone(), any::<bool>()).prop_map(
        move |(name, manager, fields, at_version)| {
            let path = one(&kind, name, &format!("?fieldManager={manager}"));
            write(Method::PUT, path, name, versioned(name, at_version, kind.object(name, fields)))
        },
    )
}

fn post(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), manager(), kind.fields.clone()).prop_map(move |(name, manager, fields)| {
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
        patch(&kind, name, &format!("?fieldManager={manager}"), MERGE, body)
    })
}

/// Returns a write to the status, which may contain other fields too.
fn status(kind: Kind) -> impl Strategy<Value = Step> {
    let status = kind.status.clone().unwrap_or_else(|| kind.fields.clone());
    let fields = option::weighted(0.3, kind.fields.clone());
    let types = select(vec![MERGE, STRATEGIC, APPLY, "application/json"]);
    (name(), manager(), types, status, fields).prop_map(
        move |(name, manager, content_type, status, fields)| {
            let mut body = fields.unwrap_or_else(|| json!({}));
            merge(&mut body, status);
            let query = format!("/status?fieldManager={manager}");
            match content_type {
                "application/json" => {
                    write(Method::PUT, one(&kind, name, &query), name, kind.object(name, body))
                }
                APPLY => patch(&kind, name, &query, APPLY, kind.object(name, body)),
                _ => {
                    if content_type == STRATEGIC {
                        name_by_scalars(&mut body);
                    }
                    patch(&kind, name, &query, content_type, body)
                }
            }
        },
    )
}

/// Returns a read of the scale or a write to it.
fn scale(kind: Kind) -> impl Strategy<Value = Step> {
    let replicas = select(vec![json!(1), json!(2), json!(-1), json!("two"), Value::Null]);
    let types = select(vec![MERGE, STRATEGIC, JSON_PATCH, APPLY, "application/json", ""]);
    (name(), manager(), types, replicas, any::<bool>(), bool::weighted(0.3)).prop_map(
        move |(name, manager, content_type, replicas, force, at_version)| {
            let path = |query: &str| one(&kind, name, &format!("/scale?fieldManager={manager}{query}"));
            let spec = versioned(name, at_version, json!({"spec": {"replicas": replicas}}));
            let mut whole = spec.clone();
            let head = json!({"apiVersion": "autoscaling/v1", "kind": "Scale"});
            merge(&mut whole, head);
            merge(&mut whole, json!({"metadata": {"name": kind.called(name), "namespace": "${ns}"}}));
            let operation = json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}]);
            let patch =
                |query: &str, body| Step { content_type, ..write(Method::PATCH, path(query), name, body) };
            match content_type {
                "" => Step::new(Method::GET, path(""), None),
                "application/json" => write(Method::PUT, path(""), name, whole),
                APPLY => patch(&format!("&force={force}"), whole),
                JSON_PATCH => patch("", operation),
                _ => patch("", spec),
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
        let path = one(&kind, name, "");
        let delete = Step::new(Method::DELETE, path.clone(), Some(options));
        vec![delete, collected(&kind, name)]
    })
}

/// Returns a read of what is left of an object after the garbage collector has finished.
fn collected(kind: &Kind, name: &str) -> Step {
    Step { collected: true, ..Step::new(Method::GET, one(kind, name, ""), None) }
}

/// Returns a deletion of all objects or of some, and reads of what is left.
fn delete_all(kind: Kind) -> impl Strategy<Value = Vec<Step>> {
    // With other policies, the garbage collector would end the deletions in any order.
    let options = prop_oneof![3 => Just("&propagationPolicy=Background"), 1 => Just("&dryRun=All")];
    (select(vec!["", "x%3D1", "%21y"]), options).prop_map(move |(labels, options)| {
        let path = collection(&kind, labels, options);
        vec![Step::new(Method::DELETE, path, None), collected(&kind, "a"), collected(&kind, "b")]
    })
}

fn get(kind: Kind) -> impl Strategy<Value = Step> {
    (name(), select(vec!["application/json", TABLE]))
        .prop_map(move |(name, accept)| Step { accept, ..Step::new(Method::GET, one(&kind, name, ""), None) })
}

fn list(kind: Kind) -> impl Strategy<Value = Step> {
    let selectors =
        select(vec!["", "x", "%21x", "x%3D1", "x%21%3D1,y", "x+in+%281%2C2%29", "y+notin+%281%29", "x+in"]);
    let names = if matches!(kind.naming, Naming::Fixed(_)) {
        vec![String::new()]
    } else {
        let names =
            ["%3D", "%21%3D"].map(|is| format!("&fieldSelector=metadata.name{is}{}", kind.called("a")));
        [String::new(), String::new()].into_iter().chain(names).collect()
    };
    (selectors, select(names), select(vec!["application/json", TABLE, METADATA_LIST])).prop_map(
        move |(labels, fields, accept)| Step {
            accept,
            ..Step::new(Method::GET, collection(&kind, labels, &fields), None)
        },
    )
}

/// Returns the first page of a list, the next one, or the list at the version of an earlier one.
fn page(kind: Kind) -> impl Strategy<Value = Step> {
    let mut rests = vec!["&resourceVersion=${listed}&resourceVersionMatch=Exact"];
    if matches!(kind.naming, Naming::Namespaced) {
        // Where other objects follow, the server may return an empty last page.
        rests.extend(["&limit=1", "&limit=1&continue=${continue}"]);
    }
    (select(rests), select(vec!["", "x"])).prop_map(move |(rest, labels)| {
        let save = [("continue", "/metadata/continue"), ("listed", "/metadata/resourceVersion")];
        let save = save.map(|(name, pointer)| (name.to_owned(), pointer.to_owned()));
        Step { save: save.into(), ..Step::new(Method::GET, collection(&kind, labels, rest), None) }
    })
}

/// Opens a watch of all objects, from the start or with the existing objects first.
fn open(kind: Kind) -> impl Strategy<Value = Step> {
    let starts = [
        "&resourceVersion=${start}",
        "&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true",
        "&resourceVersion=${resourceVersion-a}",
    ];
    (select(starts.to_vec()), select(vec!["", "x%3D1"])).prop_map(move |(start, labels)| {
        let path = collection(&kind, labels, &format!("&watch=true{start}"));
        Step { watch: Watch::Open, ..Step::new(Method::GET, path, None) }
    })
}
