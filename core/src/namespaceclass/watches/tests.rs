use serde_json::json;

use super::*;
use crate::engine::action::{Request, Success};
use crate::engine::machine::{Event, Machine as _};
use crate::engine::operator::Config;
use crate::engine::recording::Recordable as _;
use crate::namespaceclass::Operator;
use crate::time::{Monotonic, Wall};

fn operator() -> Operator {
    Operator::new(Config {
        concurrency: 1,
        resync: Duration::from_hours(1),
        instance: "test".to_owned(),
        seed: 1,
    })
}

fn now() -> Now {
    Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic: Monotonic::START }
}

/// The events of a list.
fn list(kind: &Arc<Kind>, objects: Vec<Value>) -> Vec<Event> {
    let observed = |object| Event::Observed { kind: Arc::clone(kind), object: Arc::new(object) };
    let (began, ended) =
        (Event::ListStarted { kind: Arc::clone(kind) }, Event::ListCompleted { kind: Arc::clone(kind) });
    [began].into_iter().chain(objects.into_iter().map(observed)).chain([ended]).collect()
}

#[test]
fn nothing_is_remembered_of_a_namespace_that_a_new_list_shows_to_be_gone() {
    let mut operator = operator();
    let labels = json!({ names::CLASS_LABEL: "missing" });
    let object =
        json!({ "metadata": { "name": "team", "uid": "1", "resourceVersion": "1", "labels": labels } });
    let mut take = |events: Vec<Event>| {
        for event in events {
            let _step = operator.step(event, now());
        }
        let state = operator.checkpoint()().expect("JSON");
        state["controller"]["world"]["complaints"].as_object().map(serde_json::Map::len)
    };
    take(vec![Event::Started, Event::LeadershipChanged { leading: true }]);
    take(list(&names::class(), Vec::new()));
    take(list(&names::binding(), Vec::new()));
    assert_eq!(take(list(&names::namespace(), vec![object])), Some(1));
    assert_eq!(take(list(&names::namespace(), Vec::new())), Some(0));
}

/// A leader begins just as the API server stumbles: that is no news for bindings that are ready.
#[test]
fn a_kind_that_can_not_be_listed_is_told_only_if_it_stays_so() {
    let mut operator = operator();
    let config_map = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let metadata = |name: &str| json!({ "name": name, "namespace": name, "uid": name, "generation": 1, "resourceVersion": "1" });
    let mut namespace = json!({ "metadata": metadata("team") });
    namespace["metadata"]["labels"] = json!({ names::CLASS_LABEL: "web" });
    let resource = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let class = json!({ "metadata": metadata("web"), "spec": { "resources": [resource] } });
    let owner = json!({ "uid": "team", "controller": true });
    let mut binding = json!({ "metadata": metadata("team"), "spec": { "className": "web" } });
    binding["metadata"]["ownerReferences"] = json!([owner]);

    let mut events = vec![Event::Started, Event::LeadershipChanged { leading: true }];
    events.extend(list(&names::namespace(), vec![namespace]));
    events.extend(list(&names::binding(), vec![binding]));
    events.extend(list(&names::class(), vec![class]));
    let cut = || Failure::new(FailureClass::Unavailable, "cut");
    let mut told = Vec::new();
    for attempt in 0..=3 {
        let mut waiting = std::mem::take(&mut events);
        while !waiting.is_empty() {
            let step = |event| operator.step(event, now()).requests;
            let requests: Vec<Request> = waiting.drain(..).flat_map(step).collect();
            for Request { id, action } in requests {
                let outcome = match action {
                    Action::Discover { .. } => Ok(Success::Kinds(vec![Arc::clone(&config_map)])),
                    Action::Patch { target, patch, .. } if target.kind == names::binding() => {
                        told.push((attempt, patch["status"]["conditions"][0]["reason"].clone()));
                        continue;
                    }
                    _ => Err(cut()),
                };
                waiting.push(Event::Finished { id, outcome });
            }
        }
        events.push(Event::WatchFailed { kind: Arc::clone(&config_map), failure: cut() });
    }
    assert_eq!(told, [(3, json!("ApplyFailed"))]);
}
