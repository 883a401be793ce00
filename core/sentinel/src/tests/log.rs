//! The log lines of events.

use super::*;

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
