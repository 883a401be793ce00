use serde_json::json;

use super::*;
use crate::engine::machine::{Event, Machine as _};
use crate::engine::operator::Config;
use crate::engine::recording::Recordable as _;
use crate::namespaceclass::Operator;
use crate::time::{Monotonic, Wall};

#[test]
fn nothing_is_remembered_of_a_namespace_that_a_new_list_shows_to_be_gone() {
    let mut operator = Operator::new(Config {
        concurrency: 1,
        resync: Duration::from_hours(1),
        instance: "test".to_owned(),
        seed: 1,
    });
    let labels = json!({ names::CLASS_LABEL: "missing" });
    let object =
        json!({ "metadata": { "name": "team", "uid": "1", "resourceVersion": "1", "labels": labels } });
    let list = |kind: &Arc<Kind>, objects: Vec<Value>| {
        let observed = |object| Event::Observed { kind: Arc::clone(kind), object: Arc::new(object) };
        let (began, ended) =
            (Event::ListStarted { kind: Arc::clone(kind) }, Event::ListCompleted { kind: Arc::clone(kind) });
        [began].into_iter().chain(objects.into_iter().map(observed)).chain([ended]).collect::<Vec<_>>()
    };
    let mut take = |events: Vec<Event>| {
        let now =
            Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic: Monotonic::START };
        for event in events {
            let _step = operator.step(event, now);
        }
        let state = operator.checkpoint()().expect("JSON");
        state["controller"]["world"]["told_missing"].as_object().map(serde_json::Map::len)
    };
    take(vec![Event::Started, Event::LeadershipChanged { leading: true }]);
    take(list(&names::class(), Vec::new()));
    take(list(&names::binding(), Vec::new()));
    assert_eq!(take(list(&names::namespace(), vec![object])), Some(1));
    assert_eq!(take(list(&names::namespace(), Vec::new())), Some(0));
}
