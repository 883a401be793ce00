use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use lockstep_engine::action::{BrokerRequest, ErrorKind, Failure, Fetch, KubeRequest, Request, Success};
use lockstep_engine::broker::{Broker, CloudEvent};
use lockstep_engine::machine::Amount;
use lockstep_engine::time::Wall;
use lockstep_engine::trace::{self, Span};
use serde_json::{Value, json};

use super::*;

mod brokers;
mod expressions;
mod failures;
mod late;
mod log;
mod outdated;
mod parts;
mod settings;
mod takeover;

/// The start time.
const START: &str = "2025-10-21T12:00:00Z";

/// A Sentinel with scripted answers: each request is answered at once, in order.
struct Bench {
    sentinel: Sentinel,
    elapsed: Duration,
    /// The answers of the API, the broker and Kubernetes.
    answer: Box<dyn FnMut(&Action) -> Outcome>,
    log: String,
    published: Vec<Note>,
    /// The messages that are only logged for debugging.
    debugged: Vec<String>,
    spans: Vec<Span>,
}

impl Bench {
    fn new(answer: impl FnMut(&Action) -> Outcome + 'static) -> Self {
        let sentinel = Sentinel::new(Settings {
            namespace: "hyperfleet-system".to_owned(),
            config: "us-east".to_owned(),
            logs_decisions: true,
            traces: false,
            seed: 1,
        });
        let mut bench = Self {
            sentinel,
            elapsed: Duration::ZERO,
            answer: Box::new(answer),
            log: String::new(),
            published: Vec::new(),
            debugged: Vec::new(),
            spans: Vec::new(),
        };
        bench.happens(Event::Started);
        bench.happens(Event::LeadershipChanged { leading: true });
        bench.happens(Event::ListStarted { kind: loader::kind() });
        bench
    }

    fn now(&self) -> Now {
        let start: jiff::Timestamp = START.parse().unwrap();
        let wall = start + SignedDuration::try_from(self.elapsed).unwrap();
        Now { wall: Wall::from_timestamp(wall), monotonic: Monotonic::from_elapsed(self.elapsed) }
    }

    fn happens(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let step = self.sentinel.step(event, self.now());
            for note in &step.notes {
                self.log_note(note);
            }
            for request in step.requests {
                let _ = writeln!(self.log, "{:>7.3}  {}", self.elapsed.as_secs_f64(), asked(&request.action));
                let outcome = (self.answer)(&request.action);
                events.push_back(Event::Finished { id: request.id, outcome });
            }
        }
    }

    fn log_note(&mut self, note: &Note) {
        let at = self.elapsed.as_secs_f64();
        let text = match note {
            Note::ConditionChanged { condition, status, reason, message, warning, .. } => {
                let level = if *warning { "warning: " } else { "" };
                format!("{level}{condition}={status} {reason}: {message}")
            }
            Note::Error { message, .. } => format!("error: {message}"),
            Note::Warning { message } => format!("warning: {message}"),
            Note::Log { message, debug, .. } => {
                self.debugged.extend(debug.then(|| message.clone()));
                message.clone()
            }
            Note::Published { .. } => {
                self.published.push(note.clone());
                return;
            }
            Note::Measured(measure) if matches!(measure.by, Amount::Add(0) | Amount::Forget) => return,
            Note::Measured(measure) => {
                format!("{}{{{}}} {:?}", measure.metric, measure.labels.join(","), measure.by)
            }
            Note::Traced(span) => {
                self.spans.push(span.clone());
                return;
            }
            Note::Reconciled { .. } | Note::EventAnnounced { .. } | Note::LeadershipChanged { .. } => return,
        };
        let _ = writeln!(self.log, "{at:>7.3}    {text}");
    }

    fn configured(&mut self, generation: i64, spec: &Value) {
        let object = json!({
            "metadata": { "uid": "u1", "generation": generation, "resourceVersion": (10 * generation).to_string() },
            "spec": spec,
        });
        self.happens(Event::Applied { kind: loader::kind(), object: Arc::new(object) });
        self.happens(Event::ListCompleted { kind: loader::kind() });
    }

    /// Advances the time, with all events that become due.
    fn passes(&mut self, time: Duration) {
        let end = self.elapsed + time;
        while let Some(deadline) = self.sentinel.deadline().filter(|deadline| deadline.at.elapsed() <= end) {
            self.elapsed = self.elapsed.max(deadline.at.elapsed());
            self.happens(Event::TimerFired);
        }
        self.elapsed = end;
    }
}

fn asked(action: &Action) -> String {
    match action {
        Action::Http(Fetch { url, .. }) => format!("fetch {url}"),
        Action::Broker(BrokerRequest::Publish { events, .. }) => {
            let resources = events.iter().map(|event| event.data["id"].as_str().unwrap_or_default());
            format!("publish {}", resources.collect::<Vec<_>>().join(" "))
        }
        Action::Kube(KubeRequest::Patch { patch, .. }) => {
            let status = &patch["status"];
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let gist = conditions
                .map(|c| format!("{}={}", c["type"].as_str().unwrap(), c["status"].as_str().unwrap()));
            format!("status {} {}", gist.collect::<Vec<_>>().join(" "), status["lastCycle"])
        }
        other => other.name().to_owned(),
    }
}

fn spec() -> Value {
    json!({
        "resourceType": "clusters",
        "shardSelector": { "matchLabels": { "region": "us-east" } },
        "hyperfleetAPI": { "url": "http://api" },
        "broker": { "type": "rabbitmq", "topic": "events", "url": "amqp://user:hunter2@rabbitmq/" },
    })
}

fn page() -> Success {
    let item = |id: &str, phase: &str, since: &str| json!({ "id": id, "labels": { "region": "us-east" }, "status": { "phase": phase, "lastTransitionTime": since } });
    let items = json!({ "items": [
        item("due", "Provisioning", "2025-10-21T11:59:50Z"),
        item("fresh", "Provisioning", "2025-10-21T12:00:59Z"),
        item("ready", "Ready", "2025-10-21T11:59:50Z"),
        item("stale", "Ready", "2025-10-21T11:00:00Z"),
        item("broken", "Ready", "yesterday"),
        { "id": "foreign", "labels": { "region": "eu" } },
    ] });
    Success::Document(items.to_string().into())
}

#[expect(clippy::unnecessary_wraps, reason = "it is an answer like others, which may be failures")]
fn confirmed(action: &Action) -> Outcome {
    match action {
        Action::Broker(BrokerRequest::Publish { events, .. }) => {
            Ok(Success::Published(vec![Ok(()); events.len()]))
        }
        Action::Http(_) => Ok(page()),
        _ => Ok(Success::Done),
    }
}

fn is_publication(action: &Action) -> bool {
    matches!(action, Action::Broker(BrokerRequest::Publish { .. }))
}

/// Returns a Sentinel with some unanswered actions, these actions, and its notes so far.
fn unanswered(page: &Success, waits: fn(&Action) -> bool) -> (Sentinel, Now, VecDeque<Request>, Vec<Note>) {
    let Bench { mut sentinel, .. } = Bench::new(confirmed);
    let now = Bench::new(confirmed).now();
    let object =
        json!({ "metadata": { "uid": "u1", "generation": 1, "resourceVersion": "1" }, "spec": spec() });
    let first = sentinel.step(Event::Applied { kind: loader::kind(), object: Arc::new(object) }, now);
    let (mut asked, mut notes) = (VecDeque::from(first.requests), first.notes);
    let mut waiting = VecDeque::new();
    while let Some(request) = asked.pop_front() {
        let outcome = match &request.action {
            action if waits(action) => {
                waiting.push_back(request);
                continue;
            }
            Action::Http(_) => Ok(page.clone()),
            action => confirmed(action),
        };
        let step = sentinel.step(Event::Finished { id: request.id, outcome }, now);
        asked.extend(step.requests);
        notes.extend(step.notes);
    }
    (sentinel, now, waiting, notes)
}

#[test]
fn a_cycle_as_it_should_be() {
    let mut bench = Bench::new(confirmed);
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(6));
    insta::assert_snapshot!(bench.log);
}

#[test]
fn a_configuration_that_is_missing_invalid_fixed_changed_and_deleted() {
    let mut bench = Bench::new(|action| match action {
        Action::Http(_) => Ok(Success::Document(r#"{"items":[]}"#.into())),
        action => confirmed(action),
    });
    bench.happens(Event::ListCompleted { kind: loader::kind() });
    bench.passes(Duration::from_secs(31));
    let mut broken = spec();
    broken["pollInterval"] = json!("soon");
    bench.configured(1, &broken);
    bench.configured(2, &spec());
    bench.configured(3, &broken);
    bench.passes(Duration::from_secs(7));
    let mut changed = spec();
    changed["pollInterval"] = json!("1m");
    bench.configured(4, &changed);
    bench.happens(Event::Deleted { kind: loader::kind(), object: Arc::default() });
    bench.passes(Duration::from_secs(65));
    assert!(!bench.sentinel.is_synced(), "it is not ready without a configuration");
    bench.configured(5, &changed);
    insta::assert_snapshot!(bench.log);
}

#[test]
fn a_broker_that_refuses_breaks_and_comes_back() {
    let mut calls = 0;
    let mut bench = Bench::new(move |action| {
        calls += 1;
        match action {
            Action::Broker(BrokerRequest::Connect { .. }) if calls < 8 => {
                Err(Failure::new(ErrorKind::Forbidden, "rabbitmq:5672 refuses the credentials"))
            }
            Action::Broker(BrokerRequest::Publish { events, .. }) if calls < 16 => {
                let silence = Failure::new(ErrorKind::Unknown, "the connection was lost");
                let mut results = vec![Err(silence); events.len()];
                results[0] = Ok(());
                Ok(Success::Published(results))
            }
            action => confirmed(action),
        }
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(12));
    insta::assert_snapshot!(bench.log);
}

#[test]
fn events_that_are_refused_again_and_again_are_given_up() {
    let mut bench = Bench::new(|action| match action {
        Action::Broker(BrokerRequest::Publish { events, .. }) => {
            let nack = Failure::new(ErrorKind::Unavailable, "nack");
            Ok(Success::Published(vec![Err(nack); events.len()]))
        }
        action => confirmed(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(6));
    insta::assert_snapshot!(bench.log);
}

#[test]
fn a_cycle_is_a_trace_and_each_publication_a_span_of_it() {
    let published = Rc::<RefCell<Vec<CloudEvent>>>::default();
    let seen = Rc::clone(&published);
    let mut bench = Bench::new(move |action| match action {
        Action::Broker(BrokerRequest::Publish { events, .. }) => {
            seen.borrow_mut().extend(events.iter().cloned());
            let nack = Failure::new(ErrorKind::Unavailable, "nack");
            Ok(Success::Published(vec![Err(nack); events.len()]))
        }
        action => confirmed(action),
    });
    bench.sentinel.settings.traces = true;
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(4));
    let [poll] = bench.spans.as_slice() else { panic!("{:?}", bench.spans) };
    let (trace, first) = trace::ids(&poll.traceparent).unwrap();
    assert_eq!(trace::parent(trace, first), None);
    let mut spans = BTreeMap::<_, BTreeSet<_>>::new();
    for event in published.take() {
        let traceparent = event.traceparent.expect("a trace");
        let (of, span) = trace::ids(&traceparent).unwrap();
        assert_eq!((of, trace::parent(of, span)), (trace, Some(first)));
        assert!(spans.entry(event.id).or_default().insert(span.to_owned()));
    }
    assert_eq!(spans.into_values().map(|spans| spans.len()).collect::<Vec<_>>(), [5, 5]);
    insta::assert_json_snapshot!(poll);
}

#[test]
fn a_cycle_that_is_left_is_a_span_too() {
    let unconfirmed = |action: &Action| match action {
        Action::Broker(BrokerRequest::Publish { events, .. }) => {
            Ok(Success::Published(vec![Err(Failure::new(ErrorKind::Unavailable, "nack")); events.len()]))
        }
        action => confirmed(action),
    };
    let ends: [fn(&mut Bench); 2] = [
        |bench| {
            let mut changed = spec();
            changed["pollInterval"] = json!("7s");
            bench.configured(2, &changed);
        },
        |bench| bench.happens(Event::LeadershipChanged { leading: false }),
    ];
    for end in ends {
        let mut bench = Bench::new(unconfirmed);
        bench.sentinel.settings.traces = true;
        bench.configured(1, &spec());
        assert_eq!(bench.spans, []);
        end(&mut bench);
        let reported =
            bench.spans.iter().map(|span| (span.failure.clone(), &span.attributes["hyperfleet.resources"]));
        assert_eq!(reported.collect::<Vec<_>>(), [(None, &json!(4))]);
    }
}

#[test]
fn an_api_that_gives_no_list() {
    let html = || Ok(Success::Document("<!DOCTYPE html><title>Sign in</title>".into()));
    let busy = Failure {
        retry_after: Some(Duration::from_secs(4)),
        ..Failure::new(ErrorKind::Throttled, "slow down")
    };
    let mut answers = VecDeque::from([
        html(),
        html(),
        html(),
        Ok(Success::Document("".into())),
        Err(Failure::new(ErrorKind::Forbidden, "401 Unauthorized")),
        Err(busy),
    ]);
    let mut bench = Bench::new(move |action| match action {
        Action::Http(_) => answers.pop_front().unwrap_or_else(|| Ok(page())),
        action => confirmed(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(20));
    insta::assert_snapshot!(bench.log);
}

#[test]
fn a_secret_gives_the_url_and_is_read_again_when_it_is_refused() {
    let mut reads = 0;
    let mut bench = Bench::new(move |action| match action {
        Action::Kube(KubeRequest::Get { .. }) => {
            reads += 1;
            let url = match reads {
                1 => return Err(Failure::new(ErrorKind::NotFound, "secrets \"rabbit\" not found")),
                2 => "YW1xcDovL3VzZXI6b2xkQHJhYmJpdG1xLw==",
                _ => "YW1xcDovL3VzZXI6bmV3QHJhYmJpdG1xLw==",
            };
            Ok(Success::Object(Arc::new(json!({ "data": { "url": url } }))))
        }
        Action::Broker(BrokerRequest::Connect { broker }) => match &**broker {
            Broker::RabbitMq { url, .. } if url.reveal().contains("new") => Ok(Success::Done),
            _ => Err(Failure::new(ErrorKind::Forbidden, "rabbitmq:5672 refuses the credentials")),
        },
        action => confirmed(action),
    });
    let mut spec = spec();
    spec["broker"] =
        json!({ "type": "rabbitmq", "topic": "events", "urlSecretRef": { "name": "rabbit", "key": "url" } });
    bench.configured(1, &spec);
    bench.passes(Duration::from_secs(75));
    assert!(bench.sentinel.is_synced());
    insta::assert_snapshot!(bench.log);
}

#[test]
fn the_answer_about_one_secret_is_not_taken_for_another() {
    let mut sentinel = Bench::new(confirmed).sentinel;
    let now = Bench::new(confirmed).now();
    let mut configured = |generation: i64, secret: &str| {
        let mut spec = spec();
        spec["broker"] = json!({ "type": "rabbitmq", "topic": "events", "urlSecretRef": { "name": secret, "key": "url" } });
        let metadata =
            json!({ "uid": "u1", "generation": generation, "resourceVersion": generation.to_string() });
        let object = Arc::new(json!({ "metadata": metadata, "spec": spec }));
        sentinel.step(Event::Applied { kind: loader::kind(), object }, now).requests
    };
    let read = |requests: Vec<Request>| {
        let get = |request: &Request| matches!(request.action, Action::Kube(KubeRequest::Get { .. }));
        requests.into_iter().find(get).expect("a Secret is read").id
    };
    let old = read(configured(1, "old"));
    let new = read(configured(2, "new"));
    let mut answered = |id: ActionId, url: &str| {
        let object = Arc::new(json!({ "data": { "url": STANDARD.encode(url) } }));
        let requests =
            sentinel.step(Event::Finished { id, outcome: Ok(Success::Object(object)) }, now).requests;
        requests.into_iter().find_map(|request| match request.action {
            Action::Broker(BrokerRequest::Connect { broker }) => Some(broker),
            _ => None,
        })
    };
    assert_eq!(answered(old, "amqp://old/"), None);
    let broker = answered(new, "amqp://new/").expect("it connects");
    assert!(matches!(&*broker, Broker::RabbitMq { url, .. } if url.reveal() == "amqp://new/"));
}

/// Nothing is confirmed: pages are read ahead, but not without bound.
#[test]
fn the_next_page_is_asked_for_as_the_first_is_published() {
    let mut sentinel = Bench::new(confirmed).sentinel;
    let now = Bench::new(confirmed).now();
    let page = |number: usize| {
        let item = |n: usize| json!({ "id": format!("{n:06}"), "labels": { "region": "us-east" } });
        let items = (100 * number..100 * (number + 1)).map(item).collect::<Vec<_>>();
        Ok(Success::Document(json!({ "total": 100_000, "items": items }).to_string().into()))
    };
    let kinds = |requests: &[Request]| {
        let is = |of: &Request| match of.action {
            Action::Http(_) => Some("fetch"),
            Action::Broker(BrokerRequest::Publish { .. }) => Some("publish"),
            _ => None,
        };
        requests.iter().filter_map(is).collect::<Vec<_>>()
    };
    let object =
        json!({ "metadata": { "uid": "u1", "generation": 1, "resourceVersion": "1" }, "spec": spec() });
    let mut asked: VecDeque<Request> =
        sentinel.step(Event::Applied { kind: loader::kind(), object: Arc::new(object) }, now).requests.into();
    let (mut pages, mut publications, mut first) = (0, Vec::new(), None);
    while let Some(request) = asked.pop_front() {
        let outcome = match &request.action {
            Action::Broker(BrokerRequest::Publish { .. }) => {
                publications.push(request);
                continue;
            }
            Action::Http(_) => {
                pages += 1;
                page(pages)
            }
            action => confirmed(action),
        };
        let step = sentinel.step(Event::Finished { id: request.id, outcome }, now);
        let kinds = kinds(&step.requests);
        if kinds.contains(&"publish") {
            first.get_or_insert((pages, kinds));
        }
        asked.extend(step.requests);
    }
    assert_eq!(first, Some((1, vec!["fetch", "publish"])));
    // 3,000 events are held, of which 2,000 are in flight, in requests of 100.
    assert_eq!((pages, publications.len()), (30, 20));
    assert_eq!(sentinel.workload().queues[0].waiting, 3000);
    let answered = publications.remove(0);
    let event = Event::Finished { id: answered.id, outcome: confirmed(&answered.action) };
    assert_eq!(kinds(&sentinel.step(event, now).requests), ["fetch", "publish"]);
}
