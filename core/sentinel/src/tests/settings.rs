//! What the configuration says about the requests, and what the probes of the process report.

use super::*;

/// "Resource Watcher": the timeout of the configuration, and its headers (decision 76).
#[test]
fn pages_are_requested_with_the_configured_timeout_and_headers() {
    let asked = Rc::<RefCell<Vec<Fetch>>>::default();
    let seen = Rc::clone(&asked);
    let mut bench = Bench::new(move |action| {
        if let Action::Http(fetch) = action {
            seen.borrow_mut().push(fetch.clone());
        }
        confirmed(action)
    });
    let mut spec = spec();
    spec["hyperfleetAPI"]["timeout"] = json!("3s");
    spec["hyperfleetAPI"]["headers"] = json!({ "X-Tenant": "edge" });
    bench.configured(1, &spec);
    let asked = asked.take();
    let headers = BTreeMap::from([("X-Tenant".to_owned(), "edge".to_owned())]);
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|fetch| fetch.timeout == Duration::from_secs(3) && fetch.headers == headers));
}

/// "Operator Deployment", the liveness probe.
#[test]
fn a_sentinel_that_misses_three_polls_is_stuck() {
    let mut bench = Bench::new(confirmed);
    assert_eq!(bench.sentinel.patience(), None, "without a configuration it only waits");
    bench.configured(1, &spec());
    assert_eq!(bench.sentinel.patience(), Some(Duration::from_secs(15)));
    let mut often = spec();
    often["pollInterval"] = json!("1s");
    bench.configured(2, &often);
    assert_eq!(bench.sentinel.patience(), Some(Duration::from_secs(10)), "a busy machine is slow");
    bench.happens(Event::LeadershipChanged { leading: false });
    assert_eq!(bench.sentinel.patience(), None, "a standby only waits");
}

/// "Operator Deployment", the readiness probe: it needs a list from the API and a connection to the broker.
#[test]
fn a_sentinel_is_ready_once_it_has_read_a_list_and_has_connected() {
    let of_api: fn(&Action) -> bool = |action| matches!(action, Action::Http(_));
    let of_broker: fn(&Action) -> bool =
        |action| matches!(action, Action::Broker(BrokerRequest::Connect { .. }));
    for is_refused in [of_api, of_broker] {
        let is_up = Rc::new(RefCell::new(false));
        let up = Rc::clone(&is_up);
        let mut bench = Bench::new(move |action| {
            if is_refused(action) && !*up.borrow() {
                return Err(Failure::new(ErrorKind::Unavailable, "connection refused"));
            }
            confirmed(action)
        });
        bench.configured(1, &spec());
        bench.passes(Duration::from_mins(5));
        assert!(!bench.sentinel.is_synced(), "{}", bench.log);
        *is_up.borrow_mut() = true;
        bench.passes(Duration::from_mins(5));
        assert!(bench.sentinel.is_synced(), "{}", bench.log);
    }
}

/// A rolling update waits for the probe of a standby, which polls and connects only once it leads.
#[test]
fn a_standby_is_ready_once_it_knows_its_configuration() {
    let mut bench = Bench::new(|action| match action {
        Action::Http(_) | Action::Broker(_) => {
            Err(Failure::new(ErrorKind::Unavailable, "connection refused"))
        }
        action => confirmed(action),
    });
    bench.happens(Event::LeadershipChanged { leading: false });
    assert!(!bench.sentinel.is_synced(), "without a configuration");
    bench.configured(1, &spec());
    assert!(bench.sentinel.is_synced());
    bench.happens(Event::LeadershipChanged { leading: true });
    assert!(!bench.sentinel.is_synced(), "it leads, and has read nothing");
    bench.happens(Event::LeadershipChanged { leading: false });
    assert!(!bench.sentinel.is_synced(), "it has led, and has read nothing");
}
