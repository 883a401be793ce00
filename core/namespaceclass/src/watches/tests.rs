use std::time::Duration;

use lockstep_engine::action::{ActionId, ErrorKind, KubeRequest, Request, Success, WatchCommand};
use lockstep_engine::machine::{Event, Machine as _};
use lockstep_engine::operator::Config;
use lockstep_engine::recording::Recordable as _;
use lockstep_engine::time::{Monotonic, Wall};
use serde_json::json;

use super::super::resolved_class;
use super::*;
use crate::Operator;
use crate::store::Resources;
use crate::variables::Variables;

fn config() -> Config {
    Config { concurrency: 1, resync: Duration::from_hours(1), instance: "test".to_owned(), seed: 1 }
}

fn operator() -> Operator {
    Operator::new(config())
}

fn now() -> Now {
    Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic: Monotonic::START }
}

/// Returns the events of a list.
fn list(kind: &Arc<Kind>, objects: Vec<Value>) -> Vec<Event> {
    let observed = |object| Event::Applied { kind: Arc::clone(kind), object: Arc::new(object) };
    let (began, ended) =
        (Event::ListStarted { kind: Arc::clone(kind) }, Event::ListCompleted { kind: Arc::clone(kind) });
    [began].into_iter().chain(objects.into_iter().map(observed)).chain([ended]).collect()
}

/// Returns the answer to a read of an object that does not exist.
fn missing(id: ActionId) -> Event {
    Event::Finished { id, outcome: Err(Failure::new(ErrorKind::NotFound, "there is none")) }
}

#[test]
fn nothing_is_remembered_of_a_namespace_that_a_new_list_shows_to_be_gone() {
    let mut operator = operator();
    let labels = json!({ names::CLASS_LABEL: "missing" });
    let object =
        json!({ "metadata": { "name": "team", "uid": "1", "resourceVersion": "1", "labels": labels } });
    let mut take = |events: Vec<Event>| {
        for event in events {
            let requests = operator.step(event, now()).requests;
            let is_read =
                |request: &&Request| matches!(request.action, Action::Kube(KubeRequest::Get { .. }));
            for read in requests.iter().filter(is_read) {
                let _step = operator.step(missing(read.id), now());
            }
        }
        let state = operator.checkpoint()().expect("JSON");
        state["controller"]["store"]["reported_events"].as_object().map(serde_json::Map::len)
    };
    take(vec![Event::Started, Event::LeadershipChanged { leading: true }]);
    take(list(&names::class(), Vec::new()));
    take(list(&names::binding(), Vec::new()));
    assert_eq!(take(list(&names::namespace(), vec![object])), Some(1));
    assert_eq!(take(list(&names::namespace(), Vec::new())), Some(0));
}

/// Returns a class with one resource, a namespace of it and its binding, as a new leader lists them.
fn found(resource: &Value) -> Vec<Event> {
    found_with(&json!([resource]))
}

fn found_with(resources: &Value) -> Vec<Event> {
    let metadata = |name: &str| json!({ "name": name, "namespace": name, "uid": name, "generation": 1, "resourceVersion": "1" });
    let mut namespace = json!({ "metadata": metadata("team") });
    namespace["metadata"]["labels"] = json!({ names::CLASS_LABEL: "web" });
    let class = json!({ "metadata": metadata("web"), "spec": { "resources": resources } });
    let owner = json!({ "uid": "team", "controller": true });
    let mut binding = json!({ "metadata": metadata("team"), "spec": { "className": "web" } });
    binding["metadata"]["ownerReferences"] = json!([owner]);

    let mut events = vec![Event::Started, Event::LeadershipChanged { leading: true }];
    events.extend(list(&names::namespace(), vec![namespace]));
    events.extend(list(&names::binding(), vec![binding]));
    events.extend(list(&names::class(), vec![class]));
    events
}

fn failed(kind: &Arc<Kind>, class: ErrorKind) -> Event {
    Event::WatchFailed { kind: Arc::clone(kind), failure: Failure::new(class, "cut") }
}

/// Delivers events and executes what follows from them; returns the requests. Discovery is answered; all other requests fail.
fn drive(operator: &mut Operator, events: Vec<Event>, now: Now, served: &[Arc<Kind>]) -> Vec<Action> {
    let (mut waiting, mut asked) = (events, Vec::new());
    while !waiting.is_empty() {
        let step = |event| operator.step(event, now).requests;
        let requests: Vec<Request> = waiting.drain(..).flat_map(step).collect();
        for Request { id, action } in requests {
            let outcome = match &action {
                Action::Kube(KubeRequest::Discover { api_version }) => {
                    let of_version = served.iter().filter(|kind| kind.api_version() == *api_version);
                    Ok(Success::Kinds(of_version.cloned().collect()))
                }
                _ => Err(Failure::new(ErrorKind::Unavailable, "cut")),
            };
            waiting.push(Event::Finished { id, outcome });
            asked.push(action);
        }
    }
    asked
}

/// The operator becomes leader while the API server fails for a short time. Ready bindings do not report that.
#[test]
fn an_unlistable_kind_is_reported_only_if_the_failure_persists() {
    use ErrorKind::{Throttled, Unavailable};
    // A server that is busy is waited for: its answers are counted separately.
    for failures in
        [vec![Unavailable; 3], vec![Throttled; 10], [vec![Throttled; 9], vec![Unavailable; 3]].concat()]
    {
        let mut operator = operator();
        let config_map = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        let mut events =
            found(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }));
        let mut reported = Vec::new();
        for attempt in 0..=failures.len() {
            for action in drive(&mut operator, std::mem::take(&mut events), now(), &[Arc::clone(&config_map)])
            {
                if let Action::Kube(KubeRequest::Patch { target, patch, .. }) = action
                    && target.kind == names::binding()
                {
                    reported.push((attempt, patch["status"]["conditions"][0]["reason"].clone()));
                }
            }
            events.extend(failures.get(attempt).map(|class| failed(&config_map, *class)));
        }
        assert_eq!(reported, [(failures.len(), json!("ApplyFailed"))]);
    }
}

/// One member of the control plane does not allow watches yet: the next attempt reaches another member.
#[test]
fn a_watch_refused_after_it_ran_is_reported_only_if_the_failure_persists() {
    let mut operator = operator();
    let config_map = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let served = [Arc::clone(&config_map)];
    let events = found(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }));
    drive(&mut operator, events, now(), &served);
    drive(&mut operator, list(&config_map, Vec::new()), now(), &served);
    for refusals in [2, 3] {
        let mut reported = Vec::new();
        for attempt in 1..=refusals {
            let refused = vec![failed(&config_map, ErrorKind::Forbidden)];
            let asked = drive(&mut operator, refused, now(), &served);
            let is_reported =
                asked.iter().any(|action| matches!(action, Action::Kube(KubeRequest::Patch { .. })));
            reported.extend(is_reported.then_some(attempt));
        }
        assert_eq!(reported, if refusals < 3 { vec![] } else { vec![3] });
        drive(&mut operator, list(&config_map, Vec::new()), now(), &served);
    }
}

/// The old watch fails for as long as the kind is away, with exponential backoff. Waiting for its next attempt would take
/// long.
#[test]
fn a_kind_that_returns_is_watched_again_at_once() {
    let widget = Kind::known("example.com", "v1", "Widget", "widgets", true);
    let served = [Arc::clone(&widget)];
    let mut operator = operator();
    let mut asks = |events: Vec<Event>, seconds: u64, served: &[Arc<Kind>]| {
        let now = Now { monotonic: Monotonic::from_elapsed(Duration::from_secs(seconds)), ..now() };
        let of_widgets = |action: Action| match action {
            Action::Watch(WatchCommand::Start { kind, .. }) if kind == widget => Some("watch"),
            Action::Watch(WatchCommand::Stop { kind }) if kind == widget => Some("unwatch"),
            _ => None,
        };
        drive(&mut operator, events, now, served).into_iter().filter_map(of_widgets).collect::<Vec<_>>()
    };
    let events =
        found(&json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } }));
    assert_eq!(asks(events, 0, &served), ["watch"]);
    assert!(asks(list(&widget, Vec::new()), 1, &served).is_empty());
    let gone = || vec![failed(&widget, ErrorKind::KindNotServed)];
    assert!(
        asks(gone(), 2, &served).is_empty(),
        "discovery lags: the watch tries again by itself, with backoff"
    );
    assert_eq!(asks(gone(), 4, &[]), ["unwatch"]);
    assert!(asks(vec![Event::TimerFired], 60, &[]).is_empty());
    assert_eq!(asks(vec![Event::TimerFired], 120, &served), ["watch"]);
}

#[test]
fn a_watch_ends_when_its_kind_is_gone_or_unused() {
    let widget = Kind::known("example.com", "v1", "Widget", "widgets", true);
    let config_map = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let mut operator = operator();
    let mut asks = |events: Vec<Event>, minutes: u64, served: &[&Arc<Kind>]| {
        let now = Now { monotonic: Monotonic::from_elapsed(Duration::from_mins(minutes)), ..now() };
        let served: Vec<Arc<Kind>> = served.iter().map(|kind| Arc::clone(kind)).collect();
        let own = [names::namespace(), names::class(), names::binding()];
        let watches = |action: Action| match action {
            Action::Watch(WatchCommand::Start { kind, .. }) if !own.contains(&kind) => {
                Some(format!("start {}", kind.kind))
            }
            Action::Watch(WatchCommand::Stop { kind }) => Some(format!("stop {}", kind.kind)),
            _ => None,
        };
        drive(&mut operator, events, now, &served).into_iter().filter_map(watches).collect::<Vec<_>>()
    };
    let resource = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "a" } });
    let events = found_with(&json!([resource("v1", "ConfigMap"), resource("example.com/v1", "Widget")]));
    assert_eq!(asks(events, 0, &[&config_map, &widget]), ["start ConfigMap", "start Widget"]);
    let listed = [list(&config_map, Vec::new()), list(&widget, Vec::new())].concat();
    assert!(asks(listed, 1, &[&config_map, &widget]).is_empty());
    // Each refusal makes the operator discover the kinds again.
    let refused = || vec![failed(&widget, ErrorKind::KindNotServed)];
    assert!(asks(refused(), 2, &[&config_map, &widget]).is_empty());
    assert_eq!(asks(refused(), 3, &[&config_map]), ["stop Widget"]);

    let mut class =
        json!({ "metadata": { "name": "web", "uid": "web", "generation": 2, "resourceVersion": "9" } });
    class["spec"]["resources"] = json!([]);
    let emptied = vec![Event::Applied { kind: names::class(), object: Arc::new(class) }];
    assert!(asks(emptied, 4, &[&config_map]).is_empty(), "requests for it may be in progress");
    assert_eq!(asks(vec![Event::TimerFired], 120, &[&config_map]), ["stop ConfigMap"]);
}

/// A Deployment sets its replica counts as soon as it exists, while others of its class are still being applied.
#[test]
fn what_the_server_accepted_stays_accepted_though_its_status_came_first() {
    let kind = Kind::known("apps", "v1", "Deployment", "deployments", true);
    // The server omits empty values, so only its answer shows that it accepted what was sent.
    let resource = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" }, "spec": { "volumes": [] },
    });
    let mut store = Store::default();
    store.kinds.learn("apps/v1", vec![Arc::clone(&kind)]);
    store.resources.insert(Arc::clone(&kind), Resources::default());
    let content = resolved_class::resolve("web", &[resource], Variables::default(), &store.kinds);
    let entry = &content.entries[0];
    let object = |version: u64| {
        let fields = json!({
            "manager": names::FIELD_MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { "f:replicas": {} } },
        });
        json!({ "metadata": {
            "namespace": "team", "name": "a", "uid": "1", "resourceVersion": version.to_string(),
            "annotations": { names::CONTENT_ANNOTATION: entry.content }, "managedFields": [fields],
        } })
    };
    let is_intact = |store: &Store| {
        let key = ("team".to_owned(), "a".to_owned());
        store.resources[&kind].cache.get(&key).is_some_and(|resource| resource.is_intact(entry))
    };
    store.observe_resource(&kind, &object(11));
    assert!(!is_intact(&store));
    store.absorb_applied(&kind, &object(10));
    assert!(is_intact(&store));
}

/// A list of an old state lacks the class, and a namespace is labelled. Then the answer to a write of the class shows it again.
#[test]
fn a_class_that_was_gone_for_a_moment_gets_the_namespaces_that_missed_it() {
    let mut operator = Operator::new(Config { concurrency: 2, ..config() });
    let object = |name: &str, version: &str, labels: Value| json!({ "metadata": { "name": name, "uid": name, "generation": 1, "resourceVersion": version, "labels": labels } });
    let config_map = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let mut class = object("web", "1", json!({}));
    class["spec"]["resources"] =
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }]);
    let mut take = |events: Vec<Event>| -> Vec<Request> {
        events.into_iter().flat_map(|event| operator.step(event, now()).requests).collect()
    };
    let find = |requests: &[Request], kind: &Arc<Kind>| {
        let found = requests.iter().find(|it| it.action.target().is_some_and(|target| target.kind == *kind));
        found.map(|request| request.id).expect("it is requested")
    };
    let answer = |id, object: Value| Event::Finished { id, outcome: Ok(Success::Object(Arc::new(object))) };

    take(vec![Event::Started, Event::LeadershipChanged { leading: true }]);
    take(list(&names::namespace(), vec![object("team", "2", json!({}))]));
    take(list(&names::binding(), Vec::new()));
    let requests = take(list(&names::class(), vec![class.clone()]));
    let discovery =
        requests.iter().find(|it| matches!(it.action, Action::Kube(KubeRequest::Discover { .. })));
    let id = discovery.expect("the kinds are discovered").id;
    let requests = take(vec![Event::Finished { id, outcome: Ok(Success::Kinds(vec![config_map])) }]);
    let status = find(&requests, &names::class());
    take(list(&names::class(), Vec::new()));
    let mut namespace = object("team", "3", json!({ names::CLASS_LABEL: "web" }));
    let labelled = Event::Applied { kind: names::namespace(), object: Arc::new(namespace.clone()) };
    let read = find(&take(vec![labelled]), &names::class());
    let annotation = find(&take(vec![missing(read)]), &names::namespace());
    class["metadata"]["resourceVersion"] = json!("4");
    namespace["metadata"]["resourceVersion"] = json!("5");
    let requests = take(vec![answer(status, class), answer(annotation, namespace)]);
    find(&requests, &names::binding());
}
