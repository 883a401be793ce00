//! Tests of a Sentinel with expressions, which fail for some resources.

use super::*;

fn spec_with(expressions: &Value) -> Value {
    let mut spec = spec();
    for (field, value) in expressions.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

fn by_age(seconds: u64) -> Value {
    let age = json!({ "name": "age", "expr": "now - timestamp(resource.status.lastTransitionTime)" });
    json!({
        "messageDecision": { "params": [age], "result": format!("age > duration('{seconds}s')") },
        "messageData": { "phase": "resource.status.phase", "zone": "resource.labels.zone" },
    })
}

fn fleet() -> Success {
    let item =
        |id: &str, status: Value| json!({ "id": id, "labels": { "region": "us-east" }, "status": status });
    let reported = |phase: &str, since: &str| json!({ "phase": phase, "lastTransitionTime": since });
    let items = json!({ "items": [
        item("older", reported("Ready", "2025-10-21T11:59:00Z")),
        item("newer", reported("Provisioning", "2025-10-21T11:59:40Z")),
        item("unreported", Value::Null),
    ] });
    Success::Document(items.to_string().into())
}

/// Returns the log, and the data of all events.
fn run(specs: &[Value]) -> (String, Vec<Value>) {
    let sent = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&sent);
    let mut bench = Bench::new(move |action| match action {
        Action::Http(_) => Ok(fleet()),
        Action::Broker(BrokerRequest::Publish { events, .. }) => {
            seen.borrow_mut().extend(events.iter().map(|event| event.data.clone()));
            confirmed(action)
        }
        action => confirmed(action),
    });
    for (index, spec) in specs.iter().enumerate() {
        bench.configured(i64::try_from(index).unwrap() + 1, spec);
        bench.passes(Duration::from_secs(6));
    }
    (bench.log, sent.take())
}

#[test]
fn expressions_decide_and_the_backoffs_where_they_fail() {
    let (log, sent) = run(&[spec_with(&by_age(30))]);
    insta::assert_snapshot!(log);
    let [older, unreported, ..] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(older["phase"], "Ready");
    assert_eq!((&older["reason"], &older["id"]), (&json!("message decision matched"), &json!("older")));
    assert_eq!((&unreported["reason"], &unreported["phase"]), (&json!("backoff-expired"), &Value::Null));
    assert!(sent.iter().all(|data| data.get("zone").is_none()), "{sent:?}");
}

#[test]
fn changed_expressions_take_effect_at_once_and_broken_ones_never() {
    let broken = json!({ "messageDecision": { "result": "resource.generation >" } });
    let (log, sent) = run(&[spec_with(&by_age(3600)), spec_with(&broken), spec_with(&by_age(20)), spec()]);
    let problem = "spec.messageDecision.result: \"resource.generation >\" at 1:22: Syntax error: mismatched input '<EOF>'";
    assert!(log.contains(problem) && log.contains("the Sentinel goes on with generation 1"), "{log}");
    let of = |id: &str| {
        sent.iter().filter(|data| data["id"] == id).map(|data| data["reason"].clone()).collect::<Vec<_>>()
    };
    // Two polls in each six seconds: the third configuration, and the fourth one without expressions.
    let (matched, expired) = (json!("message decision matched"), json!("backoff-expired"));
    assert_eq!(of("older"), [matched.clone(), matched.clone()]);
    assert_eq!(of("newer"), [matched.clone(), matched, expired.clone(), expired]);
    // The refused configuration interrupts no cycle.
    assert_eq!(of("unreported").len(), 2 + 1 + 2 + 2);
}
