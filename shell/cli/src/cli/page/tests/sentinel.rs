//! The page of a Sentinel.

use std::time::Duration;

use lockstep_engine::action::{BrokerRequest, Fetch, Outcome, Success};
use lockstep_engine::broker::{Broker, Exchange, ExchangeType, SecretString};
use lockstep_engine::document::Fields;

use super::*;

const PATH: &str = "sentinel/SentinelConfig.hyperfleet.redhat.com/default/clusters";
const EXPLANATION: &str =
    "/api/explanation?kind=SentinelConfig.hyperfleet.redhat.com&namespace=default&name=clusters";

fn config() -> Arc<Kind> {
    let sets = controllers::select(&["sentinel".to_owned()]).unwrap();
    controllers::kinds(&sets).remove(0)
}

fn seen(url: &str) -> (Event, Step) {
    let object = json!({
        "metadata": {"namespace": "default", "name": "clusters"},
        "spec": {
            "pollInterval": "5s",
            "broker": {"type": "rabbitmq", "url": url, "urlSecretRef": {"name": "rabbitmq", "key": "url"}},
        },
        "status": {"lastCycle": {
            "resources": 7, "published": 3, "skippedReady": 2, "skippedNotReady": 1, "failed": 1, "malformed": 0,
        }},
    });
    (Event::Applied { kind: config(), object: Arc::new(object) }, Step::default())
}

fn asks(event: Event, actions: impl IntoIterator<Item = (u64, Action)>) -> (Event, Step) {
    let requests = actions.into_iter().map(|(id, action)| Asked { id: ActionId(id), action });
    (event, Step { requests: requests.collect(), notes: Vec::new() })
}

fn answered(id: u64, outcome: Outcome) -> Event {
    Event::Finished { id: ActionId(id), outcome }
}

fn broker() -> Arc<Broker> {
    let exchange =
        Exchange { name: "events".to_owned(), r#type: ExchangeType::Fanout, routing_key: String::new() };
    Arc::new(Broker::RabbitMq { url: SecretString::new(format!("amqp://{}@mq", SECRET[0])), exchange })
}

fn publish() -> Action {
    Action::Broker(BrokerRequest::Publish { broker: broker(), events: Arc::from([]) })
}

/// Returns the steps of a cycle that publishes this many batches. The broker refuses an event of the third one.
fn cycle(batches: u64) -> Vec<(Event, Step)> {
    let keep = Arc::new(Fields::default());
    let url = "http://user:hush@fleet/clusters".to_owned();
    let fetch = Action::Http(Fetch { url, headers: [].into(), timeout: Duration::from_secs(5), keep });
    let refused = Failure::new(ErrorKind::Forbidden, "no permission to publish");
    let mut steps = vec![
        seen("amqp://broker:hush@mq"),
        asks(
            Event::TimerFired,
            [(1, Action::Broker(BrokerRequest::Connect { broker: broker() })), (2, fetch)],
        ),
        asks(answered(1, Ok(Success::Done)), []),
        asks(answered(2, Ok(Success::Document("[]".into()))), (10..10 + batches).map(|id| (id, publish()))),
    ];
    for id in 10..10 + batches {
        let result = if id == 12 { Err(refused.clone()) } else { Ok(()) };
        steps.push(asks(answered(id, Ok(Success::Published(vec![Ok(()), result]))), []));
    }
    let decided = Note::ConditionChanged {
        object: Name::new("default", "clusters").object(&config()),
        condition: "Publishing".to_owned(),
        status: "False".to_owned(),
        reason: "EventsGivenUp".to_owned(),
        message: "1 event was given up".to_owned(),
        warning: true,
    };
    steps.last_mut().unwrap().1.notes.push(decided);
    steps
}

#[tokio::test]
async fn a_condition_of_a_sentinel_is_explained_by_the_requests_of_its_cycle() {
    let (page, _running) = page_of("sentinel", lockstep_sentinel::TRAITS, cycle(4)).await;
    let routes = page.routes();
    let explained = get(&routes, EXPLANATION).await;
    let publishing = &explained["conditions"][0];
    assert_eq!(publishing["condition"], "Publishing");
    let facts: Vec<String> = publishing["facts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fact| format!("{} {}", fact["label"].as_str().unwrap(), fact["text"].as_str().unwrap()))
        .collect();
    let refused = "publish to rabbitmq: events were not confirmed: forbidden: no permission to publish";
    let expected = [
        "decided step 8, 2023-11-14T22:13:27.000Z".to_owned(),
        "began step 2: a poll or a retry was due".to_owned(),
        "answer step 3: connect rabbitmq: ok".to_owned(),
        "answer step 4: fetch http://***@fleet/clusters: ok".to_owned(),
        "answer step 5: publish to rabbitmq: ok".to_owned(),
        "answer step 6: publish to rabbitmq: ok".to_owned(),
        format!("answer step 7: {refused}"),
        "answer step 8: publish to rabbitmq: ok".to_owned(),
    ];
    assert_eq!(facts, expected);
    let next = explained["next"].as_str().unwrap();
    assert!(next.starts_with("the Sentinel begins a cycle 5s after the end of the last one"), "{next}");
}

#[tokio::test]
async fn of_thousands_of_answers_the_failures_are_shown() {
    let (page, _running) = page_of("sentinel", lockstep_sentinel::TRAITS, cycle(1000)).await;
    let routes = page.routes();
    let explained = get(&routes, EXPLANATION).await;
    let facts = explained["conditions"][0]["facts"].as_array().unwrap();
    let answers = facts.iter().filter(|fact| fact["label"] == "answer");
    let answers: Vec<&str> = answers.map(|fact| fact["text"].as_str().unwrap()).collect();
    let [others, failure, last] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(others, "1000 other answers");
    assert!(failure.contains("no permission to publish"), "{failure}");
    assert_eq!(last, "step 1004: publish to rabbitmq: ok");
}

#[tokio::test]
async fn the_page_shows_a_sentinel_and_none_of_its_credentials() {
    let mut steps = cycle(2);
    steps.push(asks(Event::TimerFired, [(99, publish())]));
    let (page, _running) = page_of("sentinel", lockstep_sentinel::TRAITS, steps).await;
    let routes = page.routes();
    let view = get(&routes, &format!("/api/view?object={PATH}")).await;
    assert_eq!(names(&view), ["clusters"]);
    assert_eq!(view["detail"]["cycle"], "7 resources, 3 published, 3 skipped, 1 given up, 0 malformed");
    assert_eq!(view["detail"]["relations"]["to"][0]["text"], "Secret default/rabbitmq");
    assert_eq!(view["requests"][0]["text"], "publish to rabbitmq");
    assert_eq!(view["decisions"][0]["path"], PATH);
    let text = view.to_string();
    assert!(!text.contains("hush") && !text.contains(SECRET[0]), "{text}");
}

#[test]
fn each_sentinel_of_a_process_is_found() {
    let mut page = Page::new();
    let sets = controllers::select(&["sentinel".to_owned()]).unwrap();
    for name in ["clusters", "nodepools"] {
        let redactor = Arc::clone(record::tracker(lockstep_sentinel::TRAITS).unwrap().redactor());
        let kinds = controllers::kinds(&sets);
        let mut feed =
            Feed::new(page.feeds.len(), &format!("sentinel default/{name}"), "sentinel", kinds, redactor);
        let object = json!({"metadata": {"namespace": "default", "name": name}});
        feed.objects.applied(&config(), &object);
        page.feeds.push(Arc::new(Mutex::new(feed)));
    }
    for name in ["clusters", "nodepools"] {
        let path = format!("sentinel/SentinelConfig.hyperfleet.redhat.com/default/{name}");
        assert_eq!(detail::detail(&page.feeds, &path)["found"], true, "{name}");
        let kind = config().to_string();
        assert!(detail::explanation(&page.feeds, &kind, "default", name).is_some(), "{name}");
    }
}
