use lockstep_crds::sentinel::Param;

use super::*;

fn decision(params: &[(&str, &str)], result: &str) -> MessageDecision {
    let params =
        params.iter().map(|(name, expr)| Param { name: (*name).to_owned(), expr: (*expr).to_owned() });
    MessageDecision { params: params.collect(), result: result.to_owned() }
}

fn data(fields: &[(&str, &str)]) -> BTreeMap<String, String> {
    fields.iter().map(|(name, expr)| ((*name).to_owned(), (*expr).to_owned())).collect()
}

/// The default of the released Sentinel, version of November 2026.
fn released() -> MessageDecision {
    decision(
        &[
            ("ref_time", r#"condition("Reconciled").last_updated_time"#),
            ("is_reconciled", r#"condition("Reconciled").status == "True""#),
            ("has_ref_time", r#"ref_time != """#),
            ("is_new_resource", "resource.generation == 1 && !has_ref_time"),
            ("generation_mismatch", r#"resource.generation > condition("Reconciled").observed_generation"#),
            ("stale", r#"is_reconciled && has_ref_time && now - timestamp(ref_time) > duration("30m")"#),
            ("debounced", r#"!is_reconciled && has_ref_time && now - timestamp(ref_time) > duration("10s")"#),
        ],
        "is_new_resource || generation_mismatch || stale || debounced",
    )
}

fn read(decision: &MessageDecision, fields: &[(&str, &str)]) -> Rules {
    Rules::read(Some(decision), &data(fields)).unwrap().unwrap()
}

fn wall() -> Wall {
    Wall::from_timestamp("2026-03-06T14:00:00Z".parse().unwrap())
}

fn cluster(generation: i64, reconciled: Option<(&str, i64, &str)>) -> String {
    let conditions = reconciled.map(|(status, observed, time)| {
        json!({ "type": "Reconciled", "status": status, "observed_generation": observed, "last_updated_time": time })
    });
    let conditions = conditions.into_iter().collect::<Vec<_>>();
    json!({ "id": "a", "generation": generation, "status": { "conditions": conditions } }).to_string()
}

#[test]
fn the_default_of_the_released_sentinel_decides_as_documented_there() {
    let rules = read(&released(), &[]);
    let evaluator = Evaluator::new(&rules);
    let (recent, stale) = ("2026-03-06T13:55:00Z", "2026-03-06T13:29:00Z");
    let table = [
        (cluster(2, Some(("True", 2, recent))), false),
        (cluster(2, Some(("False", 2, "2026-03-06T13:59:45Z"))), true),
        (cluster(2, Some(("False", 2, "2026-03-06T13:59:55Z"))), false),
        (cluster(2, Some(("True", 2, stale))), true),
        (cluster(1, None), true),
        (cluster(2, Some(("True", 1, recent))), true),
        (cluster(2, None), true),
    ];
    for (document, is_due) in table {
        assert_eq!(evaluator.about(Some(&document), wall()).is_due(), Some(Ok(is_due)), "{document}");
    }
}

#[test]
fn every_problem_of_the_expressions_is_reported_with_its_field() {
    let problems = [
        Rules::read(
            Some(&decision(&[("a", "b"), ("a", "1"), ("a b", "1"), ("now", "1"), ("c", "a == ")], "z")),
            &data(&[
                ("id", "resource.id"),
                ("a-b", "1"),
                ("region", "resource.labels.region +"),
                ("fine", "reason"),
            ]),
        ),
        Rules::read(Some(&decision(&[("a", "resource.id")], "a")), &data(&[])),
        Rules::read(
            Some(&decision(&[("a", "resource.a.map(x, resource.b.map(y, x == y))")], "a[0][0]")),
            &data(&[("a", "resource.a.map(x, resource.b.map(y, x == y))")]),
        ),
    ];
    let problems = problems.map(|read| read.unwrap_err().join("\n"));
    insta::assert_snapshot!(problems.join("\n--\n"));
    assert_eq!(Rules::read(None, &data(&[])), Ok(None));
}

#[test]
fn fields_of_events_are_added_and_what_fails_is_left_out() {
    let fields = [
        ("a_number", "resource.generation + 1"),
        ("absent", "resource.spec.missing"),
        ("empty", "null"),
        ("large", "resource.text"),
        ("owner", "{\"id\": resource.id}"),
        ("span", "duration(\"1h\")"),
        ("why", "reason"),
    ];
    let rules = Rules::read(None, &data(&fields)).unwrap().unwrap();
    let document = json!({ "id": "a", "generation": 1, "spec": {}, "text": "x".repeat(5000) }).to_string();
    let evaluator = Evaluator::new(&rules);
    let mut evaluation = evaluator.about(Some(&document), wall());
    assert_eq!(evaluation.is_due(), None);
    let (data, failures) = evaluation.data("backoff-expired");
    assert_eq!(
        Json::Object(data),
        json!({ "a_number": 2, "owner": { "id": "a" }, "why": "backoff-expired" })
    );
    let failures = failures.iter().map(ToString::to_string).collect::<Vec<_>>();
    insta::assert_snapshot!(failures.join("\n"));
}

#[test]
fn a_resource_that_is_too_large_fails() {
    let rules = read(&released(), &[("a", "resource.id"), ("b", "resource.id")]);
    let evaluator = Evaluator::new(&rules);
    let mut evaluation = evaluator.about(None, wall());
    assert!(evaluation.is_due().unwrap().is_err());
    let (data, failures) = evaluation.data("x");
    assert_eq!((data.len(), failures.len()), (0, 1));
}

/// The configuration is loaded at each start, so a panic would repeat.
#[test]
fn a_time_out_of_the_calendar_is_a_failure_and_no_panic() {
    let params = [("a", "timestamp('9999-12-31T23:59:59Z')"), ("b", "timestamp('0001-01-01T00:00:00Z')")];
    let rules = read(&decision(&params, &format!("now + ({}) > now", ["(a - b)"; 27].join("+"))), &[]);
    let failure = Evaluator::new(&rules).about(Some("{}"), wall()).is_due().unwrap().unwrap_err();
    assert_eq!(failure.to_string(), "spec.messageDecision.result: overflow");
}

#[test]
fn names_are_those_of_variables() {
    for fine in ["a", "_", "aB_9", &"a".repeat(NAME_MAX)] {
        assert!(is_name(fine), "{fine}");
    }
    for bad in ["", "9a", "a-b", "a.b", "ä", &"a".repeat(NAME_MAX + 1)] {
        assert!(!is_name(bad), "{bad}");
    }
}
