//! Tests of the status that a Sentinel writes after another process led.

use super::*;

/// The status of another process that has led: while everything worked, and after the API failed.
struct Former {
    healthy: Value,
    failing: Value,
}

fn api_fails(action: &Action) -> Outcome {
    match action {
        Action::Http(_) => Err(Failure::new(ErrorKind::Unavailable, "503")),
        action => confirmed(action),
    }
}

/// Returns a Sentinel, and the statuses that it writes.
pub(super) fn observed(
    mut answer: impl FnMut(&Action) -> Outcome + 'static,
) -> (Bench, Rc<RefCell<Vec<Value>>>) {
    let written = Rc::<RefCell<Vec<Value>>>::default();
    let seen = Rc::clone(&written);
    let bench = Bench::new(move |action| {
        if let Action::Kube(KubeRequest::Patch { patch, .. }) = action {
            seen.borrow_mut().push(patch["status"].clone());
        }
        answer(action)
    });
    (bench, written)
}

fn former() -> Former {
    let is_up = Rc::new(RefCell::new(true));
    let up = Rc::clone(&is_up);
    let (mut bench, written) =
        observed(
            move |action| {
                if *up.borrow() { late::confirmed_without_flaws(action) } else { api_fails(action) }
            },
        );
    bench.configured(1, &spec());
    bench.passes(Duration::from_mins(3));
    let healthy = written.borrow().last().expect("the status is written").clone();
    *is_up.borrow_mut() = false;
    bench.passes(Duration::from_mins(3));
    let failing = written.borrow().last().expect("the status is written").clone();
    assert_eq!((statuses(&healthy)["Ready"], statuses(&failing)["FleetReachable"]), ("True", "False"));
    Former { healthy, failing }
}

fn statuses(status: &Value) -> BTreeMap<&str, &str> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .filter_map(|condition| Some((condition["type"].as_str()?, condition["status"].as_str()?)))
        .collect()
}

/// Returns the time of the last transition of each condition.
fn transitions(status: &Value) -> BTreeMap<&str, &str> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .filter_map(|condition| {
            Some((condition["type"].as_str()?, condition["lastTransitionTime"].as_str()?))
        })
        .collect()
}

fn applied(version: i64, status: &Value) -> Event {
    let metadata = json!({ "uid": "u1", "generation": 1, "resourceVersion": version.to_string() });
    let object = Arc::new(json!({ "metadata": metadata, "spec": spec(), "status": status }));
    Event::Applied { kind: loader::kind(), object }
}

/// Lets a Sentinel lead, and returns the status that it writes before any answer.
fn leads(bench: &mut Bench) -> (Option<Value>, Vec<Request>) {
    let step = bench.sentinel.step(Event::LeadershipChanged { leading: true }, bench.now());
    (written(&step.requests), step.requests)
}

fn written(requests: &[Request]) -> Option<Value> {
    requests.iter().find_map(|request| match &request.action {
        Action::Kube(KubeRequest::Patch { patch, .. }) => Some(patch["status"].clone()),
        _ => None,
    })
}

/// Answers the requests of a step, lets three minutes pass, and checks that the API has failed all the time in each status.
fn fails_all_the_time(
    mut bench: Bench,
    requests: Vec<Request>,
    written: &RefCell<Vec<Value>>,
    failing: &Value,
) {
    written.take();
    for Request { id, action } in requests {
        let outcome = (bench.answer)(&action);
        bench.happens(Event::Finished { id, outcome });
    }
    bench.passes(Duration::from_mins(3));
    let all = written.take();
    assert!(!all.is_empty(), "the counts of its cycles are written");
    for status in all {
        assert_eq!(statuses(&status), statuses(failing));
        assert_eq!(transitions(&status), transitions(failing));
    }
}

/// It has started when everything worked, or before the other process wrote a status.
#[test]
fn a_standby_that_takes_over_keeps_the_status() {
    let Former { healthy, failing } = former();
    for first in [&healthy, &Value::Null] {
        let (mut bench, statuses) = observed(api_fails);
        bench.happens(Event::LeadershipChanged { leading: false });
        bench.happens(applied(1, first));
        bench.elapsed = Duration::from_hours(5);
        bench.happens(applied(2, &failing));
        let (status, requests) = leads(&mut bench);
        assert_eq!(status, None);
        fails_all_the_time(bench, requests, &statuses, &failing);
    }
}

/// It led while everything worked. Then another process led.
#[test]
fn a_leader_that_leads_again_keeps_the_status() {
    let failing = former().failing;
    let is_up = Rc::new(RefCell::new(true));
    let up = Rc::clone(&is_up);
    let (mut bench, statuses) =
        observed(
            move |action| {
                if *up.borrow() { late::confirmed_without_flaws(action) } else { api_fails(action) }
            },
        );
    bench.happens(applied(1, &Value::Null));
    bench.passes(Duration::from_mins(3));
    bench.happens(Event::LeadershipChanged { leading: false });
    *is_up.borrow_mut() = false;
    bench.elapsed = Duration::from_hours(5);
    bench.happens(applied(2, &failing));
    let (status, requests) = leads(&mut bench);
    assert_eq!(status, None);
    fails_all_the_time(bench, requests, &statuses, &failing);
}

/// The watch shows the last write of the former leader after leadership has changed.
#[test]
fn a_late_status_of_the_former_leader_is_kept() {
    let Former { healthy, failing } = former();
    let (mut bench, statuses) = observed(api_fails);
    bench.happens(Event::LeadershipChanged { leading: false });
    bench.happens(applied(1, &healthy));
    bench.elapsed = Duration::from_hours(5);
    let (status, mut requests) = leads(&mut bench);
    assert_eq!(status, None);
    let step = bench.sentinel.step(applied(2, &failing), bench.now());
    assert_eq!(written(&step.requests), None);
    requests.extend(step.requests);
    fails_all_the_time(bench, requests, &statuses, &failing);
}

/// The former leader ended before it reported that the configuration is invalid. The standby has read the configuration.
#[test]
fn a_standby_that_takes_over_reports_what_it_knows_of_the_configuration() {
    let healthy = former().healthy;
    let (mut bench, _) = observed(api_fails);
    bench.happens(Event::LeadershipChanged { leading: false });
    bench.happens(applied(1, &healthy));
    let mut invalid = spec();
    invalid["pollInterval"] = json!("soon");
    let metadata = json!({ "uid": "u1", "generation": 2, "resourceVersion": "2" });
    let object = Arc::new(json!({ "metadata": metadata, "spec": invalid, "status": healthy }));
    bench.happens(Event::Applied { kind: loader::kind(), object });
    let (status, _) = leads(&mut bench);
    let status = status.expect("it is written at once");
    let mut expected = statuses(&healthy);
    expected.extend([("ConfigValid", "False"), ("Ready", "False")]);
    assert_eq!(statuses(&status), expected);
    assert_eq!((&status["observedGeneration"], &status["lastCycle"]), (&json!(2), &healthy["lastCycle"]));
}
