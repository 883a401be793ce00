//! Tests of late answers.

use super::*;

/// Returns one page with 9,000 resources, all of them due.
fn long_page() -> Success {
    let item = |number: usize| json!({ "id": format!("{number:05}"), "labels": { "region": "us-east" } });
    let items: Vec<Value> = (0..9000).map(item).collect();
    Success::Document(json!({ "items": items }).to_string().into())
}

/// At the end of leadership, and at shutdown. More events are due than may be in flight, so that each confirm makes room.
#[test]
fn at_the_end_nothing_new_is_begun_and_confirms_are_counted() {
    let (mut sentinel, now, publications, _) = unanswered(&long_page(), is_publication);
    assert_eq!(sentinel.step(Event::LeadershipChanged { leading: false }, now).requests, []);
    let mut counted = 0;
    for publication in publications {
        let event = Event::Finished { id: publication.id, outcome: confirmed(&publication.action) };
        let step = sentinel.step(event, now);
        assert_eq!(step.requests, []);
        counted += step.notes.iter().map(published).sum::<u64>();
    }
    assert_eq!(counted, 2000);
    let later = Now { monotonic: now.monotonic + Duration::from_hours(1), ..now };
    assert_eq!(sentinel.step(Event::TimerFired, later).requests, []);
    assert_eq!(sentinel.deadline(), None);
}

/// Returns the number of events that a note counts as published.
fn published(note: &Note) -> u64 {
    match note {
        Note::Measured(measure) if measure.metric == metrics::PUBLISHED => match measure.by {
            Amount::Add(events) => events,
            _ => 0,
        },
        _ => 0,
    }
}

#[test]
fn the_metrics_of_a_shard_end_once_nothing_of_it_is_in_flight() {
    let series = |notes: &[Note], ends: bool| -> BTreeSet<String> {
        let measures = notes.iter().filter_map(|note| match note {
            Note::Measured(measure) if (measure.by == Amount::Forget) == ends => Some(measure),
            _ => None,
        });
        let of_shard = measures.filter(|measure| measure.labels[0] == "region=us-east");
        of_shard.map(|measure| format!("{} {:?}", measure.metric, measure.labels)).collect()
    };
    let (mut sentinel, now, mut publications, mut notes) = unanswered(&page(), is_publication);
    let mut changed = spec();
    changed["shardSelector"] = json!({ "matchLabels": { "region": "eu" } });
    let object =
        json!({ "metadata": { "uid": "u1", "generation": 2, "resourceVersion": "2" }, "spec": changed });
    let step = sentinel.step(Event::Applied { kind: loader::kind(), object: Arc::new(object) }, now);
    assert!(series(&step.notes, true).is_empty(), "events are in flight");
    let publication = publications.pop_front().expect("events were published");
    let outcome = confirmed(&publication.action);
    let step = sentinel.step(Event::Finished { id: publication.id, outcome }, now);
    // One cycle has begun and never ended.
    let took = format!("{} {:?}", metrics::DURATION, ["region=us-east", "clusters"]);
    notes.extend(step.notes.iter().cloned());
    let mut begun = series(&notes, false);
    begun.insert(took);
    assert_eq!(series(&step.notes, true), begun);
}

#[test]
fn a_page_as_long_as_the_list_is_looked_at_as_events_are_confirmed() {
    let (mut sentinel, now, mut publications, _) = unanswered(&long_page(), is_publication);
    let held = |sentinel: &Sentinel| sentinel.cycle.as_ref().map_or(0, Cycle::held);
    assert_eq!((held(&sentinel), publications.len()), (3000, 20));
    let mut published = 0;
    while let Some(publication) = publications.pop_front() {
        published += 100;
        let outcome = confirmed(&publication.action);
        let step = sentinel.step(Event::Finished { id: publication.id, outcome }, now);
        publications.extend(step.requests.into_iter().filter(|request| is_publication(&request.action)));
        assert!(held(&sentinel) <= 3000);
    }
    assert_eq!(published, 9000);
    assert!(sentinel.cycle.is_none(), "the cycle has ended");
}

/// The configuration names another broker before the answer of the first one comes.
#[test]
fn the_answer_of_one_broker_is_not_taken_for_another() {
    let is_connect: fn(&Action) -> bool =
        |action| matches!(action, Action::Broker(BrokerRequest::Connect { .. }));
    let (mut sentinel, now, mut connects, _) = unanswered(&page(), is_connect);
    let mut changed = spec();
    changed["broker"]["url"] = json!("amqp://user:hunter2@other/");
    let object =
        json!({ "metadata": { "uid": "u1", "generation": 2, "resourceVersion": "2" }, "spec": changed });
    let first = connects.pop_front().expect("it connects");
    let mut events = VecDeque::from([Event::Applied { kind: loader::kind(), object: Arc::new(object) }]);
    events.push_back(Event::Finished { id: first.id, outcome: Ok(Success::Done) });
    let mut publications = 0;
    for (is_connected, expected) in [(false, 0), (true, 1)] {
        if is_connected {
            let second = connects.pop_front().expect("it connects to the other one");
            events.push_back(Event::Finished { id: second.id, outcome: Ok(Success::Done) });
        }
        while let Some(event) = events.pop_front() {
            for request in sentinel.step(event, now).requests {
                if is_connect(&request.action) {
                    connects.push_back(request);
                    continue;
                }
                publications += usize::from(is_publication(&request.action));
                events.push_back(Event::Finished { id: request.id, outcome: confirmed(&request.action) });
            }
        }
        assert_eq!(publications, expected);
    }
}

/// Returns the number of broker errors that notes count.
fn broker_errors(notes: &[Note]) -> u64 {
    let errors = notes.iter().map(|note| match note {
        Note::Measured(measure) if measure.metric == metrics::BROKER_ERRORS => match measure.by {
            Amount::Add(errors) => errors,
            _ => 0,
        },
        _ => 0,
    });
    errors.sum()
}

#[test]
fn a_connection_is_lost_once_however_many_batches_report_it() {
    for class in [ErrorKind::Unavailable, ErrorKind::Unknown] {
        let (mut sentinel, now, publications, _) = unanswered(&long_page(), is_publication);
        let mut notes = Vec::new();
        for publication in publications {
            let outcome = Err(Failure::new(class, "the connection was reset"));
            notes.extend(sentinel.step(Event::Finished { id: publication.id, outcome }, now).notes);
        }
        assert_eq!(broker_errors(&notes), 1, "{class}");
    }
}

/// The events of the configuration before were sent to another broker.
#[test]
fn a_connection_to_the_former_broker_is_not_missed() {
    let (mut sentinel, now, mut publications, _) = unanswered(&page(), is_publication);
    let former = publications.pop_front().expect("events were published");
    let mut changed = spec();
    changed["broker"]["url"] = json!("amqp://user:hunter2@other/");
    let object =
        json!({ "metadata": { "uid": "u1", "generation": 2, "resourceVersion": "2" }, "spec": changed });
    let mut events = VecDeque::from([Event::Applied { kind: loader::kind(), object: Arc::new(object) }]);
    while let Some(event) = events.pop_front() {
        let requests = sentinel.step(event, now).requests.into_iter();
        events.extend(
            requests
                .filter(|request| !is_publication(&request.action))
                .map(|request| Event::Finished { id: request.id, outcome: confirmed(&request.action) }),
        );
    }
    assert!(sentinel.link.up.is_some());
    let outcome = Err(Failure::new(ErrorKind::Unknown, "the connection was closed"));
    let step = sentinel.step(Event::Finished { id: former.id, outcome }, now);
    assert!(sentinel.link.up.is_some() && broker_errors(&step.notes) == 0, "{:?}", step.notes);
}

/// The first of several batches reports the loss, and the Sentinel connects again, perhaps with new credentials from the Secret. Only
/// then another batch reports the loss of the same connection.
#[test]
fn the_loss_of_an_earlier_connection_is_no_loss_of_the_current_one() {
    let (mut sentinel, now, mut publications, _) = unanswered(&long_page(), is_publication);
    let lost = |request: Request| {
        let outcome = Err(Failure::new(ErrorKind::Unknown, "the connection was reset"));
        Event::Finished { id: request.id, outcome }
    };
    let mut earlier = || publications.pop_front().expect("events were published");
    let _ = sentinel.step(lost(earlier()), now);
    assert!(sentinel.link.up.is_none());
    let later = Now { monotonic: now.monotonic + Duration::from_secs(2), ..now };
    let mut asked = VecDeque::from(sentinel.step(Event::TimerFired, later).requests);
    let mut again = VecDeque::new();
    while let Some(request) = asked.pop_front() {
        if is_publication(&request.action) {
            again.push_back(request);
        } else {
            let outcome = confirmed(&request.action);
            asked.extend(sentinel.step(Event::Finished { id: request.id, outcome }, later).requests);
        }
    }
    let notes = sentinel.step(lost(earlier()), later).notes;
    assert!(sentinel.link.up.is_some() && broker_errors(&notes) == 0, "{notes:?}");
    let notes = sentinel.step(lost(again.pop_front().expect("they are sent again")), later).notes;
    assert!(sentinel.link.up.is_none() && broker_errors(&notes) == 1, "{notes:?}");
}

/// Of several failures in one answer it is the most useful one.
#[test]
fn a_lost_connection_is_noticed_among_refused_events() {
    let item = |id: &str| json!({ "id": id, "labels": { "region": "us-east" } });
    let page = json!({ "items": [item("a"), item("b"), item("c")] }).to_string();
    let (mut sentinel, now, mut publications, _) =
        unanswered(&Success::Document(page.into()), is_publication);
    let nack = || Err(Failure::new(ErrorKind::Unavailable, "nack"));
    let lost = Err(Failure::new(ErrorKind::Unknown, "the connection was reset"));
    let outcome = Ok(Success::Published(vec![nack(), lost, nack()]));
    let id = publications.pop_front().expect("events were published").id;
    let notes = sentinel.step(Event::Finished { id, outcome }, now).notes;
    assert_eq!(broker_errors(&notes), 1);
    let is_named = |note: &Note| {
        matches!(note, Note::Warning { message } if message.starts_with("3 events were not confirmed")
            && message.contains("the connection was reset"))
    };
    assert!(notes.iter().any(is_named), "{notes:?}");
}

/// As many events are in flight as may be. The broker is not connected when one of the batches is to be sent.
#[test]
fn a_batch_that_was_not_sent_is_sent_again_and_no_other_instead() {
    let (mut sentinel, now, mut publications, _) = unanswered(&long_page(), is_publication);
    let sent = publications.len();
    let unsent = publications.pop_front().expect("events were published");
    let outcome = Err(Failure::new(ErrorKind::Unavailable, "not connected"));
    let mut asked = VecDeque::from(sentinel.step(Event::Finished { id: unsent.id, outcome }, now).requests);
    let later = Now { monotonic: now.monotonic + Duration::from_secs(2), ..now };
    asked.extend(sentinel.step(Event::TimerFired, later).requests);
    while let Some(request) = asked.pop_front() {
        if is_publication(&request.action) {
            publications.push_back(request);
        } else {
            let outcome = confirmed(&request.action);
            asked.extend(sentinel.step(Event::Finished { id: request.id, outcome }, later).requests);
        }
    }
    assert_eq!(publications.len(), sent);
    assert_eq!(publications.back().map(|request| &request.action), Some(&unsent.action));
}

/// Another leader wrote after this one, and the watch was faster than the answer.
#[test]
fn a_late_answer_does_not_hide_what_another_client_wrote_since() {
    let is_status = |action: &Action| matches!(action, Action::Kube(KubeRequest::Patch { .. }));
    let (mut sentinel, now, mut writes, _) = unanswered(&page(), is_status);
    let write = writes.pop_front().expect("the status is written");
    let metadata = |version: &str| json!({ "uid": "u1", "generation": 1, "resourceVersion": version });
    let theirs = json!({ "metadata": metadata("3"), "spec": spec(), "status": { "conditions": [] } });
    let _ = sentinel.step(Event::Applied { kind: loader::kind(), object: Arc::new(theirs) }, now);
    let ours = Arc::new(json!({ "metadata": metadata("2") }));
    let _ = sentinel.step(Event::Finished { id: write.id, outcome: Ok(Success::Object(ours)) }, now);
    let later = Now { monotonic: now.monotonic + Duration::from_secs(6), ..now };
    let again = sentinel.step(Event::TimerFired, later).requests;
    let again = again.iter().find_map(|request| match &request.action {
        Action::Kube(KubeRequest::Patch { patch, .. }) => Some(patch["metadata"]["resourceVersion"].clone()),
        _ => None,
    });
    assert_eq!(again, Some(json!("3")), "over what they wrote");
}

/// Returns the content of a written status: its generation, and whether it is ready.
fn written(requests: &[Request]) -> Option<(i64, String)> {
    requests.iter().find_map(|request| match &request.action {
        Action::Kube(KubeRequest::Patch { patch, .. }) => {
            let status = &patch["status"];
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready")?;
            Some((status["observedGeneration"].as_i64()?, ready["status"].as_str()?.to_owned()))
        }
        _ => None,
    })
}

/// A second after the last write, and also while one is in flight or after one that failed.
#[test]
fn a_new_generation_is_written_at_once() {
    let observed = |generation: i64, poll_interval: &str| {
        let mut spec = spec();
        spec["pollInterval"] = json!(poll_interval);
        let version = (10 * generation).to_string();
        let metadata = json!({ "uid": "u1", "generation": generation, "resourceVersion": version });
        Event::Applied {
            kind: loader::kind(),
            object: Arc::new(json!({ "metadata": metadata, "spec": spec })),
        }
    };
    let is_status = |action: &Action| matches!(action, Action::Kube(KubeRequest::Patch { .. }));
    let (mut sentinel, now, mut writes, _) = unanswered(&page(), is_status);
    let later = |seconds| Now { monotonic: now.monotonic + Duration::from_secs(seconds), ..now };
    assert_eq!(written(&sentinel.step(observed(2, "7s"), later(1)).requests), None, "one is under way");
    let conflict = Err(Failure::new(ErrorKind::Conflict, "the object has been modified"));
    let id = writes.pop_front().expect("the status is written").id;
    let after = sentinel.step(Event::Finished { id, outcome: conflict }, later(1));
    assert_eq!(written(&after.requests), None, "the watch brings what the write has met");
    let after = sentinel.step(observed(3, "8s"), later(2));
    assert_eq!(written(&after.requests), Some((3, "Unknown".to_owned())), "not yet known of this one");
    let request = after.requests.into_iter().find(|request| is_status(&request.action)).expect("a write");
    let broken = Err(Failure::new(ErrorKind::Unavailable, "503"));
    let _ = sentinel.step(Event::Finished { id: request.id, outcome: broken }, later(2));
    assert_eq!(
        written(&sentinel.step(Event::TimerFired, later(10)).requests),
        None,
        "it is left alone for 30 s"
    );
    let after = sentinel.step(observed(4, "9s"), later(11));
    assert_eq!(written(&after.requests).map(|(generation, _)| generation), Some(4));
}

/// The spec changes only in form, so nothing that the conditions depend on changes.
#[test]
fn conditions_hold_for_a_generation_that_changes_nothing() {
    let mut bench = Bench::new(confirmed_without_flaws);
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(6));
    assert!(bench.log.contains("Ready=True"), "{}", bench.log);
    bench.log.clear();
    let mut same = spec();
    same["pollInterval"] = json!("5000ms");
    bench.configured(2, &same);
    assert!(!bench.log.contains("    Ready="), "{}", bench.log);
    assert!(bench.log.contains("  status ConfigValid=True"), "{}", bench.log);
}

/// A finalizer of another client keeps the object. The API server counts the deletion as a generation.
#[test]
fn conditions_hold_while_the_configuration_is_being_deleted() {
    let (mut bench, written) = takeover::observed(confirmed_without_flaws);
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(6));
    bench.log.clear();
    let metadata = json!({
        "uid": "u1", "generation": 2, "resourceVersion": "20", "deletionTimestamp": START,
        "finalizers": ["example.com/audit"],
    });
    let object = Arc::new(json!({ "metadata": metadata, "spec": spec() }));
    bench.happens(Event::Applied { kind: loader::kind(), object });
    let status = written.borrow().last().expect("the status is written").clone();
    assert_eq!(status["observedGeneration"], 2);
    for condition in status["conditions"].as_array().expect("a list") {
        assert_eq!((&condition["status"], &condition["observedGeneration"]), (&json!("True"), &json!(2)));
    }
    bench.passes(Duration::from_mins(2));
    assert!(bench.log.contains("fetch") && !bench.log.contains("    Ready="), "{}", bench.log);
}

/// Answers as all systems do in normal operation.
pub(super) fn confirmed_without_flaws(action: &Action) -> Outcome {
    match action {
        Action::Http(_) => {
            Ok(Success::Document(r#"{"items":[{"id":"a","labels":{"region":"us-east"}}]}"#.into()))
        }
        action => confirmed(action),
    }
}
