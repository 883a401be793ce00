//! Tests of answers that arrive after a configuration has replaced the one that they are for.

use super::*;

fn config(uid: &str, version: i64, broker: &Value) -> Event {
    let mut spec = spec();
    spec["broker"] = broker.clone();
    let metadata = json!({ "uid": uid, "generation": version, "resourceVersion": version.to_string() });
    let object = Arc::new(json!({ "metadata": metadata, "spec": spec }));
    Event::Applied { kind: loader::kind(), object }
}

fn is_get(action: &Action) -> bool {
    matches!(action, Action::Kube(KubeRequest::Get { .. }))
}

fn is_connect(action: &Action) -> bool {
    matches!(action, Action::Broker(BrokerRequest::Connect { .. }))
}

/// A Sentinel that leads, with its unanswered reads of the Secret and connections. All else is answered at once.
struct Slow {
    sentinel: Sentinel,
    now: Now,
    waiting: VecDeque<Request>,
    notes: Vec<Note>,
}

impl Slow {
    fn new() -> Self {
        let Bench { sentinel, .. } = Bench::new(confirmed);
        let now = Bench::new(confirmed).now();
        Self { sentinel, now, waiting: VecDeque::new(), notes: Vec::new() }
    }

    fn happens(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let step = self.sentinel.step(event, self.now);
            self.notes.extend(step.notes);
            for request in step.requests {
                if is_get(&request.action) || is_connect(&request.action) {
                    self.waiting.push_back(request);
                } else {
                    let outcome = confirmed(&request.action);
                    events.push_back(Event::Finished { id: request.id, outcome });
                }
            }
        }
    }

    /// Takes the oldest unanswered request of a type.
    fn take(&mut self, is_it: fn(&Action) -> bool) -> Request {
        let at = self.waiting.iter().position(|request| is_it(&request.action)).expect("it is sent");
        self.waiting.remove(at).expect("it is in the list")
    }

    /// Advances the time by ten minutes. Each connection is confirmed.
    fn passes(&mut self) {
        for _ in 0..120 {
            self.now.monotonic = self.now.monotonic + Duration::from_secs(5);
            self.happens(Event::TimerFired);
            while self.waiting.iter().any(|request| is_connect(&request.action)) {
                let id = self.take(is_connect).id;
                self.happens(Event::Finished { id, outcome: Ok(Success::Done) });
            }
        }
    }
}

/// The Secret's value changes between two reads that are in flight at the same time.
#[test]
fn of_two_reads_of_the_secret_only_the_last_one_counts() {
    let broker = |topic: &str| json!({ "type": "rabbitmq", "topic": topic, "urlSecretRef": { "name": "rabbit", "key": "url" } });
    // The configuration names another exchange, or it is created again.
    let changes: [fn(&mut Slow, [&Value; 2]); 2] = [
        |slow, [_, other]| slow.happens(config("u1", 2, other)),
        |slow, [same, _]| {
            slow.happens(Event::Deleted { kind: loader::kind(), object: Arc::default() });
            slow.happens(config("u2", 2, same));
        },
    ];
    let mut outcomes = Vec::new();
    for change in changes {
        for order in [["old", "new"], ["new", "old"]] {
            let mut slow = Slow::new();
            let brokers = [broker("events"), broker("others")];
            slow.happens(config("u1", 1, &brokers[0]));
            let old = slow.take(is_get);
            change(&mut slow, [&brokers[0], &brokers[1]]);
            let new = slow.take(is_get);
            for read in order {
                let id = if read == "old" { old.id } else { new.id };
                let url = STANDARD.encode(format!("amqp://user:{read}@rabbitmq/"));
                let object = Arc::new(json!({ "data": { "url": url } }));
                slow.happens(Event::Finished { id, outcome: Ok(Success::Object(object)) });
            }
            slow.passes();
            let broker = slow.sentinel.broker.as_deref();
            let is_new = matches!(broker, Some(Broker::RabbitMq { url, .. }) if url.reveal().contains("new"));
            outcomes.push((order, slow.sentinel.link.up.is_some(), is_new));
        }
    }
    // Whether it is connected, and whether it uses the new credentials.
    let expected = [(["old", "new"], true, true), (["new", "old"], true, true)];
    assert_eq!(outcomes, [expected, expected].concat());
}

/// The configuration names another broker and then the first one again, before the first connection is answered.
#[test]
fn an_outdated_connection_to_the_same_broker_is_ignored() {
    let broker =
        |host: &str| json!({ "type": "rabbitmq", "topic": "events", "url": format!("amqp://user@{host}/") });
    let mut slow = Slow::new();
    for (version, host) in [(1, "first"), (2, "second"), (3, "first")] {
        slow.happens(config("u1", version, &broker(host)));
    }
    let outdated = slow.take(is_connect).id;
    slow.notes.clear();
    let refused = Err(Failure::new(ErrorKind::Forbidden, "refused"));
    slow.happens(Event::Finished { id: outdated, outcome: refused });
    assert_eq!(slow.notes, []);
    assert!(slow.take(is_connect).id > outdated);
    let current = slow.take(is_connect).id;
    slow.happens(Event::Finished { id: current, outcome: Ok(Success::Done) });
    assert!(slow.sentinel.link.up.is_some());
}
