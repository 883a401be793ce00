//! The log lines of events.

use super::*;
use crate::status::Finding;

/// Source: "Message Publisher", "Log event publishing success/failure".
#[test]
fn each_confirmed_event_is_logged_and_no_other() {
    let sent = Rc::<RefCell<Vec<CloudEvent>>>::default();
    let seen = Rc::clone(&sent);
    let mut bench = Bench::new(move |action| match action {
        Action::Broker(BrokerRequest::Publish { events, .. }) => {
            let nack = || Err(Failure::new(ErrorKind::Unavailable, "nack"));
            let is_first = seen.borrow().is_empty();
            seen.borrow_mut().extend(events.iter().cloned());
            // Only the second event of the first request is confirmed.
            let results = (0..events.len()).map(|at| if is_first && at == 1 { Ok(()) } else { nack() });
            Ok(Success::Published(results.collect()))
        }
        action => confirmed(action),
    });
    bench.configured(1, &spec());
    bench.passes(Duration::from_secs(4));
    let sent = sent.take();
    let second = &sent[1];
    let resource = second.data["id"].as_str().unwrap().to_owned();
    let expected =
        Note::Published { event: second.id.clone(), resource_type: "clusters".to_owned(), resource };
    assert_eq!(bench.published, [expected]);
}

/// Cycles without any work happen every few seconds.
#[test]
fn only_cycles_with_work_are_logged_as_information() {
    let due = json!({ "id": "due", "labels": { "region": "us-east" } });
    let fresh = json!({ "id": "fresh", "labels": { "region": "us-east" }, "status": { "phase": "Ready", "lastTransitionTime": START } });
    let broken = json!({ "id": "broken", "labels": { "region": "us-east" }, "status": { "phase": "Ready", "lastTransitionTime": "yesterday" } });
    for (items, is_refused, is_quiet) in [
        (json!([]), false, true),
        (json!([fresh]), false, true),
        (json!([due]), false, false),
        (json!([due]), true, false),
        (json!([broken]), false, false),
    ] {
        let page = json!({ "items": items }).to_string();
        let mut bench = Bench::new(move |action| match action {
            Action::Http(_) => Ok(Success::Document(page.clone().into())),
            Action::Broker(BrokerRequest::Publish { events, .. }) if is_refused => {
                Ok(Success::Published(vec![Err(Failure::new(ErrorKind::Unavailable, "nack")); events.len()]))
            }
            action => confirmed(action),
        });
        bench.configured(1, &spec());
        bench.passes(Duration::from_secs(4));
        assert!(bench.log.contains("cycle 1 of"), "{}", bench.log);
        let is_debugged = bench.debugged.iter().any(|message| message.starts_with("cycle 1 of"));
        assert_eq!(is_debugged, is_quiet, "{items} {is_refused}: {}", bench.log);
    }
}

/// Returns the conditions that a step reports as warnings.
fn warned(step: &Step) -> Vec<&str> {
    let warned = step.notes.iter().filter_map(|note| match note {
        Note::ConditionChanged { condition, warning: true, .. } => Some(condition.as_str()),
        _ => None,
    });
    warned.collect()
}

#[test]
fn a_warning_about_another_problem_silences_no_condition() {
    let mut bench = Bench::new(confirmed);
    let (now, mut step) = (bench.now(), Step::default());
    let broker = Finding::broken(status::BROKER_CONNECTED, "ConnectionFailed", "no route to rabbitmq");
    bench.sentinel.report_problem(broker, now, &mut step);
    assert_eq!(warned(&step), [""; 0], "the warning reports it, and Ready repeats it");
    let fleet = Finding::broken(status::FLEET_REACHABLE, "Unreachable", "GET http://fleet failed");
    bench.sentinel.find(fleet, now, &mut step);
    assert_eq!(warned(&step), [status::FLEET_REACHABLE, status::READY]);
    let works =
        Finding::valid(status::FLEET_REACHABLE, "FleetListed", "the last poll brought the whole list");
    let mut step = Step::default();
    bench.sentinel.find(works, now, &mut step);
    assert_eq!(warned(&step), [status::READY], "Ready names the broker now");
}

/// A page that fails once is requested again a little later. A pause that the API asks for may be long.
#[test]
fn a_pause_that_the_api_asks_for_is_reported_at_once() {
    let retry_after = Some(Duration::from_secs(2));
    for (class, retry_after, is_reported) in [
        (ErrorKind::Unavailable, None, false),
        (ErrorKind::Unavailable, retry_after, true),
        (ErrorKind::Throttled, None, true),
        (ErrorKind::Throttled, retry_after, true),
    ] {
        let mut has_failed = false;
        let mut bench = Bench::new(move |action| match action {
            Action::Http(_) if !std::mem::replace(&mut has_failed, true) => {
                Err(Failure { retry_after, ..Failure::new(class, "later") })
            }
            action => confirmed(action),
        });
        bench.configured(1, &spec());
        bench.passes(Duration::from_secs(4));
        let is_warned = bench.log.contains("warning: GET http://api/");
        assert_eq!(is_warned, is_reported, "{class} {retry_after:?}: {}", bench.log);
        assert_eq!(bench.log.contains("FleetReachable=False"), is_reported, "{}", bench.log);
    }
}
