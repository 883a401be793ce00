//! Tests of failures of the API and the configuration: they are reported, and the Sentinel recovers.

use super::*;

/// A poll waits for that time after a 429. After a 503 or a 403 it may end earlier; then the next poll waits.
#[test]
fn retry_after_delays_the_next_poll() {
    for class in [ErrorKind::Throttled, ErrorKind::Unavailable, ErrorKind::Forbidden] {
        let retry_after = Some(Duration::from_mins(1));
        let mut bench = Bench::new(move |action| match action {
            Action::Http(_) => Err(Failure { retry_after, ..Failure::new(class, "later") }),
            action => confirmed(action),
        });
        bench.configured(1, &spec());
        bench.passes(Duration::from_mins(30));
        assert_eq!(bench.log.contains("cycle 2 "), class != ErrorKind::Throttled, "{class}: {}", bench.log);
        let asked: Vec<&str> = bench.log.lines().filter(|line| line.contains("  fetch ")).collect();
        assert_eq!(asked.len(), 31, "{class}: once a minute: {asked:#?}");
    }
}

/// Returns the range in a URL, for a fleet whose ids are numbers of six digits: from which row, up to which row, and which
/// page of that.
fn range(url: &str) -> (usize, usize, usize) {
    let url = url.replace("%20", " ").replace("%27", "'").replace("%3E", ">").replace("%3C", "<");
    let number = |mark: &str| {
        let (_, rest) = url.split_once(mark)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
    };
    let from = number("id > '").map_or(0, |after| after + 1);
    (from, number("id < '").unwrap_or(usize::MAX), number("&page=").unwrap())
}

/// Eight pages in a row can't be read, so that each poll gives the list up at some of them.
#[test]
fn a_list_that_was_given_up_goes_on_from_there() {
    for dialect in ["labels", "search"] {
        let (rows, bad) = (2000, 200..1000);
        let published = Rc::<RefCell<Vec<usize>>>::default();
        let (seen, is_bad) = (Rc::clone(&published), bad.clone());
        let mut bench = Bench::new(move |action| match action {
            Action::Http(Fetch { url, .. }) => {
                let (from, until, page) = range(url);
                let all: Vec<usize> = (from..rows.min(until)).collect();
                let page: Vec<usize> = all.iter().copied().skip(100 * (page - 1)).take(100).collect();
                if page.iter().any(|row| is_bad.contains(row)) {
                    return Err(Failure::new(ErrorKind::Unavailable, "500"));
                }
                let item = |row| json!({ "id": format!("{row:06}"), "labels": { "region": "us-east" } });
                let items: Vec<Value> = page.into_iter().map(item).collect();
                Ok(Success::Document(json!({ "total": all.len(), "items": items }).to_string().into()))
            }
            Action::Broker(BrokerRequest::Publish { events, .. }) => {
                let ids =
                    events.iter().map(|event| event.data["id"].as_str().unwrap().parse::<usize>().unwrap());
                seen.borrow_mut().extend(ids);
                confirmed(action)
            }
            action => confirmed(action),
        });
        let mut spec = spec();
        spec["hyperfleetAPI"]["dialect"] = json!(dialect);
        bench.configured(1, &spec);
        let good: Vec<usize> = (0..rows).filter(|row| !bad.contains(row)).collect();
        for cycle in 1..6 {
            while bench.sentinel.cycle.is_some() {
                bench.passes(Duration::from_millis(100));
            }
            assert!(bench.log.contains("was given up; the next poll continues here"), "{}", bench.log);
            let mut visited = published.take();
            visited.sort_unstable();
            // Resources that the first poll can't reach are read by the later ones.
            let expected = if cycle == 1 { &good[..200] } else { &good[..] };
            assert_eq!(visited, expected, "{dialect}, cycle {cycle}");
            while bench.sentinel.cycle.is_none() {
                bench.passes(Duration::from_millis(100));
            }
        }
    }
}

#[test]
fn a_known_problem_is_not_logged_again_when_rows_shift() {
    let broken = |since: &str| json!({ "id": "broken", "labels": { "region": "us-east" }, "status": { "lastTransitionTime": since } });
    let mut polls = 0;
    let mut bench = Bench::new(move |action| match action {
        Action::Http(_) => {
            polls += 1;
            let since = ["yesterday", "tomorrow"][polls % 2];
            let mut items = vec![json!({ "id": 7 }), broken(since)];
            items.rotate_left(polls % 2);
            Ok(Success::Document(json!({ "items": items }).to_string().into()))
        }
        action => confirmed(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(30));
    assert_eq!(bench.log.matches("a resource is left out").count(), 2, "{}", bench.log);
}

#[test]
fn what_was_counted_before_there_was_a_configuration_ends_with_it() {
    let Bench { mut sentinel, .. } = Bench::new(confirmed);
    let now = Bench::new(confirmed).now();
    let errors = |step: &Step| {
        let of = |note: &Note| match note {
            Note::Measured(measure) if measure.labels == ["", "", operation::CONFIG_LOAD] => Some(measure.by),
            _ => None,
        };
        step.notes.iter().filter_map(of).collect::<Vec<_>>()
    };
    let step = sentinel.step(Event::ListCompleted { kind: loader::kind() }, now);
    assert_eq!(errors(&step), [Amount::Add(1)]);
    let object =
        json!({ "metadata": { "uid": "u1", "generation": 1, "resourceVersion": "1" }, "spec": spec() });
    let step = sentinel.step(Event::Applied { kind: loader::kind(), object: Arc::new(object) }, now);
    assert_eq!(errors(&step), [Amount::Forget]);
}

#[test]
fn of_a_shard_that_changes_its_broker_only_the_series_of_the_broker_ends() {
    let (mut sentinel, now, mut publications, _) = unanswered(&page(), is_publication);
    let mut changed = spec();
    changed["broker"] = json!({ "type": "gcp-pubsub", "topic": "events", "projectID": "hyperfleet" });
    let object =
        json!({ "metadata": { "uid": "u1", "generation": 2, "resourceVersion": "2" }, "spec": changed });
    let mut notes =
        sentinel.step(Event::Applied { kind: loader::kind(), object: Arc::new(object) }, now).notes;
    let publication = publications.pop_front().expect("events were published");
    let outcome = confirmed(&publication.action);
    notes.extend(sentinel.step(Event::Finished { id: publication.id, outcome }, now).notes);
    let ended = notes.iter().filter_map(|note| match note {
        Note::Measured(measure) if measure.by == Amount::Forget => {
            Some((&*measure.metric, measure.labels.join(",")))
        }
        _ => None,
    });
    let of_broker = (metrics::BROKER_ERRORS, "region=us-east,clusters,rabbitmq".to_owned());
    assert_eq!(ended.collect::<Vec<_>>(), [of_broker]);
}

/// The specification's "On config load failure: requeue after 30 seconds".
#[test]
fn nothing_is_polled_or_published_once_the_configuration_is_deleted() {
    // Once the watch shows that, and once a list no longer contains it.
    let ends: [fn(&mut Bench); 2] = [
        |bench| bench.happens(Event::Deleted { kind: loader::kind(), object: Arc::default() }),
        |bench| {
            bench.happens(Event::ListStarted { kind: loader::kind() });
            bench.happens(Event::ListCompleted { kind: loader::kind() });
        },
    ];
    for end in ends {
        let mut bench = Bench::new(confirmed);
        bench.configured(1, &spec());
        bench.passes(Duration::from_secs(6));
        bench.log.clear();
        end(&mut bench);
        bench.passes(Duration::from_secs(100));
        let log = std::mem::take(&mut bench.log);
        for action in ["  fetch ", "  connect", "  publish ", "  status "] {
            assert!(!log.contains(action), "{action}: {log}");
        }
        assert_eq!(log.matches("warning: SentinelConfig").count(), 4, "at once, and every 30 s: {log}");
        assert_eq!(log.matches("config_load} Add(1)").count(), 4, "{log}");
        bench.configured(2, &spec());
        assert!(bench.log.contains("  publish due"), "{}", bench.log);
    }
}

/// With the wrong dialect no resource can be parsed, and none gets an event.
#[test]
fn a_sentinel_of_the_wrong_dialect_is_not_publishing() {
    let mut bench = Bench::new(|action| match action {
        Action::Http(_) => {
            let condition = json!({ "type": "Reconciled", "status": "True", "last_updated_time": "2025-10-21T11:00:00Z" });
            let item = json!({ "id": "a", "labels": { "region": "us-east" }, "status": { "conditions": [condition] } });
            Ok(Success::Document(json!({ "items": [item], "total": 1 }).to_string().into()))
        }
        action => confirmed(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(30));
    assert!(!bench.log.contains("Publishing=True") && !bench.log.contains("Ready=True"), "{}", bench.log);
    assert!(bench.log.contains("Publishing=False MalformedResources"), "{}", bench.log);
    assert!(bench.log.contains("understood (its status has conditions"), "{}", bench.log);
}

/// A selector with a typing error selects nothing, which looks like a quiet fleet.
#[test]
fn a_selector_that_matches_nothing_is_reported() {
    for (selector, is_reported) in
        [(json!({ "matchLabels": { "region": "us-esat" } }), true), (json!({}), false)]
    {
        let mut bench = Bench::new(|action| match action {
            Action::Http(_) => Ok(Success::Document(r#"{"items":[],"total":0}"#.into())),
            action => confirmed(action),
        });
        let mut spec = spec();
        spec["shardSelector"] = selector;
        bench.configured(1, &spec);
        bench.passes(Duration::from_secs(30));
        let warnings = bench.log.matches("warning: the last poll read the whole list: no resource").count();
        assert_eq!(warnings, usize::from(is_reported), "once: {}", bench.log);
        for condition in ["FleetReachable=True NothingSelected", "Publishing=True NothingSelected"] {
            assert_eq!(bench.log.contains(condition), is_reported, "{}", bench.log);
        }
    }
}

/// Two large resources make their page too large, but not a smaller page with one of them. A resource that is too large by
/// itself gets no events, and the status reports that for as long as it lasts.
#[test]
fn what_is_left_out_because_it_is_too_large_is_never_said_to_be_published() {
    for dialect in ["labels", "search"] {
        let huge = Rc::new(RefCell::new(None));
        let (is_huge, rows, large) = (Rc::clone(&huge), 250, [120, 121]);
        let mut bench = Bench::new(move |action| match action {
            Action::Http(Fetch { url, .. }) => {
                let (from, until, page) = range(url);
                let size: usize = url.rsplit_once("&size=").unwrap().1.parse().unwrap();
                let all: Vec<usize> = (from..rows.min(until)).collect();
                let page: Vec<usize> = all.iter().copied().skip(size * (page - 1)).take(size).collect();
                let is_whole = large.iter().all(|row| page.contains(row));
                if is_whole || is_huge.borrow().is_some_and(|row| page.contains(&row)) {
                    return Ok(Success::Oversized {
                        why: "the answer is longer than 64 MiB".to_owned(),
                        is_late: false,
                    });
                }
                let item = |row| json!({ "id": format!("{row:06}"), "labels": { "region": "us-east" } });
                let items: Vec<Value> = page.into_iter().map(item).collect();
                Ok(Success::Document(json!({ "total": all.len(), "items": items }).to_string().into()))
            }
            action => confirmed(action),
        });
        let mut spec = spec();
        spec["hyperfleetAPI"]["dialect"] = json!(dialect);
        bench.configured(1, &spec);
        bench.passes(Duration::from_secs(6));
        assert!(
            bench.log.contains("cycle 1 of shard region=us-east took 0 ms: 250 resources, 250 published"),
            "{}",
            bench.log
        );
        assert!(bench.log.contains("Ready=True"), "{}", bench.log);
        *huge.borrow_mut() = Some(40);
        bench.passes(Duration::from_secs(6));
        for condition in
            ["FleetReachable=False AnswerTooLarge", "Publishing=False FleetNotListed", "Ready=False"]
        {
            assert!(bench.log.contains(condition), "{}", bench.log);
        }
        bench.log.clear();
        bench.passes(Duration::from_mins(1));
        assert!(bench.log.contains(": 249 resources, 249 published"), "{}", bench.log);
        assert!(!bench.log.contains("Publishing=True") && !bench.log.contains("Ready=True"), "{}", bench.log);
        *huge.borrow_mut() = None;
        bench.passes(Duration::from_secs(12));
        assert!(
            bench.log.contains("FleetReachable=True FleetListed") && bench.log.contains("Ready=True"),
            "{}",
            bench.log
        );
    }
}

/// Beyond its last page the API answers 500, as some proxies do. Every sixth poll looks there, because the list may have grown.
#[test]
fn an_api_that_was_down_is_read_from_page_1_again() {
    for dialect in ["labels", "search"] {
        let is_up = Rc::new(RefCell::new(true));
        let (up, rows) = (Rc::clone(&is_up), 450);
        let mut bench = Bench::new(move |action| match action {
            Action::Http(Fetch { url, .. }) => {
                let (from, until, page) = range(url);
                let all: Vec<usize> = (from..rows.min(until)).collect();
                let items: Vec<usize> = all.iter().copied().skip(100 * (page - 1)).take(100).collect();
                if !*up.borrow() || items.is_empty() {
                    return Err(Failure::new(ErrorKind::Unavailable, "503"));
                }
                let item = |row| json!({ "id": format!("{row:06}"), "labels": { "region": "us-east" } });
                let items: Vec<Value> = items.into_iter().map(item).collect();
                Ok(Success::Document(json!({ "total": all.len(), "items": items }).to_string().into()))
            }
            action => confirmed(action),
        });
        let mut spec = spec();
        spec["hyperfleetAPI"]["dialect"] = json!(dialect);
        bench.configured(1, &spec);
        assert!(bench.log.contains("450 resources, 450 published"), "{}", bench.log);
        *is_up.borrow_mut() = false;
        bench.log.clear();
        bench.passes(Duration::from_mins(2));
        let (polls, log) = (bench.log.matches(" took ").count(), bench.log.clone());
        assert!(polls > 15, "{log}");
        let asked: Vec<&str> = log.lines().filter(|line| line.contains("  fetch ")).collect();
        assert!(asked.iter().all(|line| !line.contains("page=7") && !line.contains("id%20%3E")), "{log}");
        let ahead = asked.iter().filter(|line| line.contains("page=6")).count();
        assert!(ahead <= polls / 6, "{ahead} requests beyond the end in {polls} polls");
        assert!(asked.len() - ahead <= 4 * polls, "{} requests in {polls} polls", asked.len());
        // The last one may still be in flight.
        let failures = log.matches("fetch_resources} Add(1)").count();
        assert!((polls..=polls + 1).contains(&failures), "{failures} in {polls} polls: {log}");
        assert_eq!(log.matches("warning: GET http://api/").count(), failures, "{log}");
        *is_up.borrow_mut() = true;
        bench.log.clear();
        bench.passes(Duration::from_secs(6));
        assert!(bench.log.contains("450 resources, 450 published"), "{}", bench.log);
    }
}

/// `FleetReachable` reports it; the other resources get their events.
#[test]
fn a_sentinel_is_ready_although_a_page_can_not_be_read() {
    let mut bench = Bench::new(|action| match action {
        Action::Http(Fetch { url, .. }) => {
            let (from, until, page) = range(url);
            let rows: Vec<usize> = (from..300.min(until)).skip(100 * (page - 1)).take(100).collect();
            if rows.contains(&150) {
                return Err(Failure::new(ErrorKind::Unavailable, "500"));
            }
            let item = |row| json!({ "id": format!("{row:06}"), "labels": { "region": "us-east" } });
            let items: Vec<Value> = rows.into_iter().map(item).collect();
            Ok(Success::Document(json!({ "total": 300, "items": items }).to_string().into()))
        }
        action => confirmed(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_mins(5));
    assert!(bench.log.contains("FleetReachable=False"), "{}", bench.log);
    assert!(bench.sentinel.is_synced(), "{}", bench.log);
}

/// A user who reads that the API throttles changes the configuration, such as its `pollInterval`.
#[test]
fn another_configuration_does_not_end_a_pause_that_the_api_asked_for() {
    for (url, expected) in [("http://api", 1), ("http://other", 2)] {
        let retry_after = Some(Duration::from_mins(5));
        let mut bench = Bench::new(move |action| match action {
            Action::Http(_) => Err(Failure { retry_after, ..Failure::new(ErrorKind::Throttled, "later") }),
            action => confirmed(action),
        });
        bench.configured(1, &spec());
        bench.passes(Duration::from_secs(10));
        let mut changed = spec();
        changed["pollInterval"] = json!("1m");
        changed["hyperfleetAPI"]["url"] = json!(url);
        bench.configured(2, &changed);
        bench.passes(Duration::from_mins(4));
        assert_eq!(bench.log.matches("  fetch ").count(), expected, "{}", bench.log);
        bench.passes(Duration::from_mins(2));
        assert_eq!(bench.log.matches("  fetch ").count(), expected + 1, "{}", bench.log);
    }
}
