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

/// Measures the cost of a decision by expressions, and by the table. Run it with `--ignored --nocapture`.
#[test]
#[ignore = "prints figures, which depend on the machine"]
fn the_cost_of_a_decision() {
    use crate::config::Config;
    use crate::decision::judge;
    use crate::resource::Resource;
    use crate::rules::Evaluator;

    let params = json!([
        { "name": "ref_time", "expr": "condition('Reconciled').last_updated_time" },
        { "name": "is_reconciled", "expr": "condition('Reconciled').status == 'True'" },
        { "name": "is_changed", "expr": "resource.generation > condition('Reconciled').observed_generation" },
        { "name": "age", "expr": "now - timestamp(ref_time)" },
    ]);
    let result = "is_changed || (is_reconciled ? age > duration('30m') : age > duration('10s'))";
    let read = |spec: Value| -> Config { config::read(&json!({ "spec": spec })).unwrap() };
    let config = read(spec_with(&json!({ "messageDecision": { "params": params, "result": result } })));
    let document = json!({
        "id": "0198f0c2-7c1e-7b7a-9d52-6a4f0b1c2d3e", "generation": 3, "labels": { "region": "us-east" },
        "status": { "conditions": [
            { "type": "Reconciled", "status": "True", "observed_generation": 3, "last_updated_time": "2025-10-21T11:59:00Z" },
            { "type": "Applied", "status": "True", "observed_generation": 3, "last_updated_time": "2025-10-21T11:59:00Z" },
        ] },
    });
    let resource = Resource {
        is_ready: true,
        since: Some("2025-10-21T11:59:00Z".parse().unwrap()),
        document: Some(document.to_string().into()),
        ..Resource::default()
    };
    let now = Bench::new(confirmed).now().wall;
    let evaluator = Evaluator::new(config.rules.as_deref().unwrap());
    for (name, evaluator, times) in
        [("table", None, 1_000_000_u32), ("expressions", Some(&evaluator), 20_000)]
    {
        #[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures")]
        let began = std::time::Instant::now();
        for _ in 0..times {
            std::hint::black_box(judge(std::hint::black_box(&resource), &config.backoffs, evaluator, now));
        }
        #[expect(clippy::disallowed_methods, reason = "it measures")]
        let elapsed = began.elapsed();
        println!("{name}: {:?} for a resource", elapsed / times);
    }
}
