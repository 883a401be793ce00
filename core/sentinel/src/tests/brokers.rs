//! Tests of failures of the broker, and of the Secret with its URL: they are reported, and the Sentinel recovers.

use super::*;

fn with_secret() -> Value {
    let mut spec = spec();
    spec["broker"] =
        json!({ "type": "rabbitmq", "topic": "events", "urlSecretRef": { "name": "rabbit", "key": "url" } });
    spec
}

fn url_of(user: &str) -> Success {
    let url = STANDARD.encode(format!("amqp://{user}:secret@rabbitmq/"));
    Success::Object(Arc::new(json!({ "data": { "url": url } })))
}

#[test]
fn nothing_is_published_as_long_as_the_secret_is_unusable() {
    let mut bench = Bench::new(|action| match action {
        Action::Kube(KubeRequest::Get { .. }) => {
            Err(Failure::new(ErrorKind::NotFound, "secrets \"rabbit\" not found"))
        }
        action => late::confirmed_without_flaws(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(6));
    assert!(bench.log.contains("Publishing=True AllConfirmed"), "{}", bench.log);
    bench.configured(2, &with_secret());
    bench.passes(Duration::from_secs(6));
    assert!(bench.log.contains("BrokerConnected=False SecretUnusable"), "{}", bench.log);
    assert!(bench.log.contains("Publishing=False NotConnected"), "{}", bench.log);
}

/// The list may be read before the broker answers.
#[test]
fn nothing_counts_as_published_before_there_is_a_connection_again() {
    let mut reads = 0;
    let mut bench = Bench::new(move |action| match action {
        Action::Kube(KubeRequest::Get { .. }) => {
            reads += 1;
            if reads == 1 { Err(Failure::new(ErrorKind::NotFound, "no Secret")) } else { Ok(url_of("user")) }
        }
        Action::Http(_) => Ok(Success::Document(r#"{ "items": [] }"#.into())),
        action => confirmed(action),
    });
    let mut spec = with_secret();
    spec["pollInterval"] = json!("7s");
    bench.configured(1, &spec);
    // The Secret is read again after 30 s, and the next cycle connects.
    bench.passes(Duration::from_secs(31));
    assert!(bench.log.contains("Publishing=False NotConnected"), "{}", bench.log);
    bench.elapsed = Duration::from_secs(35);
    let requests = bench.sentinel.step(Event::TimerFired, bench.now()).requests;
    let is_connection =
        |request: &Request| matches!(request.action, Action::Broker(BrokerRequest::Connect { .. }));
    let (connects, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_connection);
    for request in others.into_iter().chain(connects) {
        assert!(!bench.log.contains("Publishing=True"), "{}", bench.log);
        let outcome = (bench.answer)(&request.action);
        bench.happens(Event::Finished { id: request.id, outcome });
    }
    for recovered in ["BrokerConnected=True Connected", "Publishing=True NothingSelected"] {
        assert!(bench.log.contains(recovered), "{recovered}: {}", bench.log);
    }
}

/// A node that restarts takes the API server and the broker away at the same time.
#[test]
fn a_url_stays_in_use_while_its_secret_can_not_be_read() {
    let is_down = Rc::new(RefCell::new(false));
    let down = Rc::clone(&is_down);
    let refused = || Err(Failure::new(ErrorKind::Unavailable, "refused"));
    let mut bench = Bench::new(move |action| match action {
        Action::Kube(KubeRequest::Get { .. }) => {
            if *down.borrow() {
                refused()
            } else {
                Ok(url_of("user"))
            }
        }
        Action::Broker(BrokerRequest::Connect { .. }) if *down.borrow() => refused(),
        action => late::confirmed_without_flaws(action),
    });
    bench.configured(1, &with_secret());
    bench.passes(Duration::from_secs(31));
    *is_down.borrow_mut() = true;
    bench.log.clear();
    bench.passes(Duration::from_secs(8));
    let connects = bench.log.matches("  connect\n").count();
    assert!(connects >= 4, "{connects} times in some seconds: {}", bench.log);
    *is_down.borrow_mut() = false;
    bench.passes(Duration::from_secs(10));
    assert!(bench.log.contains("the URL that was read before is still used"), "{}", bench.log);
    assert!(bench.log.contains("BrokerConnected=True Connected"), "{}", bench.log);
    assert!(!bench.log.contains("SecretUnusable"), "{}", bench.log);
}

/// The user in it may connect, and not publish.
#[test]
fn a_secret_is_read_again_when_no_event_gets_through() {
    let (mut reads, is_new) = (0, Rc::new(RefCell::new(false)));
    let known = Rc::clone(&is_new);
    let mut bench = Bench::new(move |action| match action {
        Action::Kube(KubeRequest::Get { .. }) => {
            reads += 1;
            Ok(url_of(if reads == 1 { "reader" } else { "writer" }))
        }
        Action::Broker(BrokerRequest::Connect { broker }) => {
            *known.borrow_mut() =
                matches!(&**broker, Broker::RabbitMq { url, .. } if url.reveal().contains("writer"));
            Ok(Success::Done)
        }
        Action::Broker(BrokerRequest::Publish { events, .. }) if !*known.borrow() => {
            let refused = Failure::new(ErrorKind::Unknown, "the broker closed the channel: ACCESS_REFUSED");
            Ok(Success::Published(vec![Err(refused); events.len()]))
        }
        action => late::confirmed_without_flaws(action),
    });
    bench.configured(1, &with_secret());
    bench.passes(Duration::from_secs(70));
    assert!(*is_new.borrow(), "{}", bench.log);
    assert!(bench.log.contains("Publishing=True AllConfirmed"), "{}", bench.log);
}

/// Pub/Sub accepts connections without the permission to publish, and without quota.
#[test]
fn a_broker_that_refuses_all_events_is_reported_until_it_takes_one() {
    for (class, reason) in [
        (ErrorKind::Forbidden, "CredentialsRefused"),
        (ErrorKind::NotFound, "ConfigurationRefused"),
        (ErrorKind::Throttled, "EventsThrottled"),
    ] {
        let is_open = Rc::new(RefCell::new(false));
        let open = Rc::clone(&is_open);
        let mut bench = Bench::new(move |action| match action {
            Action::Broker(BrokerRequest::Publish { events, .. }) if !*open.borrow() => {
                Ok(Success::Published(vec![Err(Failure::new(class, "no")); events.len()]))
            }
            action => late::confirmed_without_flaws(action),
        });
        bench.configured(1, &spec());
        bench.passes(Duration::from_mins(10));
        let sent = bench.log.matches("  publish ").count();
        assert!((15..40).contains(&sent), "{sent} times in ten minutes");
        assert!(bench.log.contains(&format!("BrokerConnected=False {reason}: no")), "{}", bench.log);
        assert!(bench.log.contains("Publishing=False EventsRefused"), "{}", bench.log);
        assert_eq!(
            bench.log.matches("BrokerConnected=True").count(),
            1,
            "only before the first: {}",
            bench.log
        );
        assert!(!bench.log.contains("given up"), "{}", bench.log);
        *is_open.borrow_mut() = true;
        bench.log.clear();
        bench.passes(Duration::from_mins(1));
        for recovered in ["BrokerConnected=True Connected", "Publishing=True AllConfirmed"] {
            assert!(bench.log.contains(recovered), "{recovered}: {}", bench.log);
        }
    }
}

/// Pub/Sub may have room for some events of a batch only.
#[test]
fn events_for_which_there_is_no_quota_are_not_given_up() {
    let (is_open, mut batches) = (Rc::new(RefCell::new(false)), 0);
    let open = Rc::clone(&is_open);
    let mut bench = Bench::new(move |action| match action {
        Action::Http(_) => {
            let item = |id: u32| json!({ "id": id.to_string(), "labels": { "region": "us-east" } });
            let items: Vec<Value> = (0..90).map(item).collect();
            Ok(Success::Document(json!({ "items": items }).to_string().into()))
        }
        Action::Broker(BrokerRequest::Publish { events, .. }) if !*open.borrow() => {
            batches += 1;
            let is_taken = |place: usize| place == 0 && batches < 12;
            let full = || Failure::new(ErrorKind::Throttled, "no quota");
            let results = (0..events.len()).map(|place| if is_taken(place) { Ok(()) } else { Err(full()) });
            Ok(Success::Published(results.collect()))
        }
        action => confirmed(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_mins(5));
    assert!(bench.log.contains("BrokerConnected=False EventsThrottled: no quota"), "{}", bench.log);
    assert_eq!(bench.log.matches("BrokerConnected=True").count(), 1, "only before the first: {}", bench.log);
    assert!(bench.log.matches("  publish ").count() < 30, "the pauses get longer: {}", bench.log);
    assert!(!bench.log.contains("given up"), "{}", bench.log);
    *is_open.borrow_mut() = true;
    bench.log.clear();
    bench.passes(Duration::from_mins(1));
    for recovered in ["BrokerConnected=True Connected", "Publishing=True AllConfirmed", "90 published"] {
        assert!(bench.log.contains(recovered), "{recovered}: {}", bench.log);
    }
}

/// Such as a user of RabbitMQ without write permission: it can connect, and is disconnected at the first event.
#[test]
fn a_broker_that_lets_in_and_confirms_nothing_is_left_alone() {
    let mut bench = Bench::new(|action| match action {
        Action::Broker(BrokerRequest::Publish { events, .. }) => {
            let refused = Failure::new(ErrorKind::Unknown, "the broker closed the channel: ACCESS_REFUSED");
            Ok(Success::Published(vec![Err(refused); events.len()]))
        }
        action => confirmed(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_mins(10));
    let connects = bench.log.matches("  connect\n").count();
    assert!(connects < 35, "{connects} times in ten minutes");
    assert!(bench.log.contains("BrokerConnected=False ConnectionLost: the connection to the broker was lost: the broker closed the channel: ACCESS_REFUSED"), "{}", bench.log);
}

/// Quiet shards have no confirmations for a long time, and still connect at once.
#[test]
fn a_cycle_without_failures_makes_up_for_lost_connections() {
    let mut tries = 0;
    let mut bench = Bench::new(move |action| match action {
        Action::Http(_) => Ok(Success::Document(r#"{"items":[]}"#.into())),
        Action::Broker(BrokerRequest::Connect { .. }) => {
            tries += 1;
            let refused = || Err(Failure::new(ErrorKind::Unavailable, "connection refused"));
            if tries % 3 == 0 { refused() } else { confirmed(action) }
        }
        action => confirmed(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_mins(10));
    let connects = bench.log.matches("  connect\n").count();
    assert!(connects > 100, "{connects} times in ten minutes: {}", bench.log);
}

/// Its polls succeed, but show nothing about the broker.
#[test]
fn a_quiet_shard_leaves_a_broker_that_is_down_alone() {
    let mut bench = Bench::new(|action| match action {
        Action::Http(_) => Ok(Success::Document(r#"{"items":[]}"#.into())),
        Action::Broker(BrokerRequest::Connect { .. }) => {
            Err(Failure::new(ErrorKind::Unavailable, "connection refused"))
        }
        action => confirmed(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_mins(10));
    let connects = bench.log.matches("  connect\n").count();
    assert!((15..40).contains(&connects), "{connects} times in ten minutes: {}", bench.log);
}
