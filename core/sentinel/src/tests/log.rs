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
            let nack = || Err(Failure::new(Class::Unavailable, "nack"));
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
    bench.sentinel.trouble(broker, now, &mut step);
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
