use lockstep_crds::dpuservice::HealthStatus;
use serde_json::{Map, json};

use super::trim::INNER;
use super::*;

fn status() -> Value {
    let resource = |index: usize| {
        json!({
            "kind": "Pod", "version": "v1", "namespace": "a", "name": format!("p{index}"), "status": "Synced",
            "health": { "status": "Healthy", "message": null }, "unheard-of": { "a": 1 },
        })
    };
    let deployment = |index: usize| {
        json!({
            "id": index, "revision": "1.0.0", "deployedAt": "2026-01-01T00:00:00Z",
            "source": { "repoURL": "r", "chart": "c", "targetRevision": "1.0.0", "helm": { "valuesObject": { "p": "s3cret" } } },
        })
    };
    json!({
        "sync": {
            "status": "OutOfSync", "revision": "1.0.0",
            "comparedTo": { "source": { "repoURL": "r", "chart": "c", "targetRevision": "1.0.0", "helm": {} }, "destination": {} },
        },
        "health": { "status": "Degraded", "message": "x".repeat(5000), "lastTransitionTime": "2026-01-01T00:00:00Z" },
        "operationState": {
            "phase": "Failed", "message": "one object is invalid", "startedAt": "2026-01-01T00:00:00Z",
            "syncResult": { "resources": [1, 2, 3] }, "operation": { "sync": { "revision": "1.0.0" } }, "retryCount": 2,
        },
        "conditions": [{ "type": "SyncError", "message": "boom", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        "resources": (0..150).map(resource).collect::<Vec<_>>(),
        "history": (0..15).map(deployment).collect::<Vec<_>>(),
        "summary": { "images": (0..30).map(|index| format!("i{index}")).collect::<Vec<_>>() },
        "sourceType": "Helm",
        "reconciledAt": "2026-01-01T00:00:00Z",
    })
}

#[test]
fn a_report_is_bounded_and_holds_no_values() {
    let report = Report::read(&status());
    assert_eq!((report.resources.len(), report.history.len()), (RESOURCES_MAX, HISTORY_MAX));
    let size = serde_json::to_string(&report).unwrap().len();
    assert!(size < 40_000, "{size}");
    let shown = Report {
        resources: report.resources[..1].to_vec(),
        history: report.history[9..].to_vec(),
        health: report.health.clone().map(|health| HealthStatus { message: short("x"), ..health }),
        ..report.clone()
    };
    insta::assert_yaml_snapshot!(shown);
    assert!(!serde_json::to_string(&report).unwrap().contains("s3cret"));
}

#[test]
fn no_status_makes_a_report_too_large() {
    let long = "\u{1}\"".repeat(3000);
    let many: Map<String, Value> = (0..20).map(|i| (format!("f{i}"), json!(long))).collect();
    let mut object = json!({ "kind": [long, long], "name": long, "namespace": long, "health": many });
    for field in INNER {
        object["health"][field] = json!(long);
        object[field] = json!(long);
    }
    object["source"] = object["health"].clone();
    object["destination"] = object["health"].clone();
    let mut status = object.clone();
    status["sync"] = json!({ "status": long, "revision": long, "comparedTo": object });
    status["operationState"] = json!({ "phase": long, "message": long, "startedAt": long });
    let objects = json!(vec![object; 200]);
    for list in ["resources", "history"] {
        status[list] = objects.clone();
    }
    status["conditions"] = json!(vec![json!({ "type": long, "message": long }); 200]);
    status["summary"] = json!({ "images": vec![&long; 100], "externalURLs": vec![&long; 100] });
    let size = serde_json::to_string(&Report::read(&status)).unwrap().len();
    assert!(size < 200_000, "{size}");
}

#[test]
fn the_words_name_the_cause() {
    let words = |change: &dyn Fn(&mut Value)| {
        let mut status = status();
        status["health"]["message"] = json!("0 of 3 pods run");
        change(&mut status);
        let report = Report::read(&status);
        report.describe(report.operation.as_ref())
    };
    let hook = |phase: &str, message: &str| {
        json!({
            "kind": "Job", "name": "check", "hookType": "PostSync", "hookPhase": phase, "message": message,
        })
    };
    let operation = |phase: &str, message: &str, results: &[Value]| {
        json!({
            "sync": { "status": "Synced" }, "health": { "status": "Healthy" },
            "operationState": {
                "phase": phase, "message": message, "startedAt": "2026-01-01T00:00:00Z", "retryCount": 2,
                "syncResult": { "resources": results },
            },
        })
    };
    insta::assert_yaml_snapshot!([
        words(&|_| {}),
        words(&|status| status["conditions"] = json!(null)),
        words(&|status| {
            status["conditions"] = json!(null);
            status["health"] = json!({ "status": "Progressing" });
        }),
        words(
            &|status| *status = json!({ "sync": { "status": "Synced" }, "health": { "status": "Healthy" } })
        ),
        words(&|status| *status = json!(null)),
        words(&|status| {
            let results = [hook("Succeeded", "done"), hook("Failed", "it ran into its backoff limit")];
            *status = operation("Failed", "one or more tasks failed", &results);
        }),
        words(&|status| *status = operation("Running", "waiting", &[hook("Running", "")])),
        words(&|status| *status = operation("Running", "waiting", &[])),
        words(&|status| {
            let object =
                json!({ "kind": "DaemonSet", "name": "a", "status": "SyncFailed", "message": "denied" });
            *status = operation("Running", "failed. Retrying attempt #2 at 9:04AM.", &[object]);
        }),
        words(&|status| {
            *status = operation("Running", "no route to host. Retrying attempt #2 at 9:04AM.", &[]);
        }),
        words(&|status| {
            *status = operation("Succeeded", "synced", &[]);
            status["conditions"] = json!([{ "type": "DeletionError", "message": "it is over" }]);
        }),
    ]);
}

#[test]
fn why_an_attempt_failed_is_remembered_during_the_next() {
    let read = |phase: &str, message: &str, retries: u64| {
        let state = json!({ "phase": phase, "message": message, "retryCount": retries });
        Report::read(&json!({ "operationState": state }))
    };
    let cause = |report: &Report| report.operation.clone().and_then(|operation| operation.cause);
    let failed = read("Running", "no route to host. Retrying attempt #1 at 9:04AM.", 1);
    let mut next = read("Running", "Retrying operation. Attempt #1", 1);
    next.remember(&failed);
    assert_eq!(cause(&next).as_deref(), Some("no route to host"));
    let mut other = read("Running", "no such host. Retrying attempt #2 at 9:05AM.", 2);
    other.remember(&next);
    assert_eq!(cause(&other).as_deref(), Some("no such host"));
    for mut report in [read("Succeeded", "synced", 2), read("Running", "waiting", 0)] {
        report.remember(&next);
        assert_eq!(cause(&report), None);
    }
}

#[test]
fn attempts_of_one_sync_that_fails_read_the_same() {
    let read = |message: &str, retries: u64, finished: Option<&str>| {
        let mut state = json!({ "phase": "Running", "message": message, "retryCount": retries });
        if let Some(finished) = finished {
            state["finishedAt"] = finished.into();
        }
        Report::read(&json!({ "operationState": state }))
    };
    let first = read("denied. Retrying attempt #1 at 9:04AM.", 1, Some("2026-01-01T00:00:00Z"));
    let mut report = first.clone();
    for next in [
        read("Retrying operation. Attempt #1", 1, None),
        read("Retrying operation with latest revisions. Attempt #1", 1, None),
        read("waiting for completion of hook batch/Job/check", 1, None),
        read("denied. Retrying attempt #2 at 9:05AM.", 2, Some("2026-01-01T00:01:00Z")),
    ] {
        let mut next = next;
        next.remember(&report);
        report = next.clone();
        // Decisions about its end depend on this, and it is not shown.
        for operation in next.operation.iter_mut().zip(&first.operation) {
            operation.0.is_between_attempts = operation.1.is_between_attempts;
        }
        assert_eq!(next, first);
    }
}

#[test]
fn a_hook_that_hangs_is_named_after_an_attempt_that_failed_of_something_else() {
    let read = |message: &str, results: Value| {
        let state = json!({
            "phase": "Running", "message": message, "retryCount": 1, "syncResult": { "resources": results },
        });
        Report::read(&json!({ "operationState": state }))
    };
    let hook =
        |phase: &str| json!({ "kind": "Job", "name": "check", "hookType": "PreSync", "hookPhase": phase });
    let failed = read("namespaces \"a\" already exists. Retrying attempt #1 at 9:04AM.", json!([]));
    let mut next = read("Retrying operation. Attempt #1", json!([]));
    next.remember(&failed);
    let mut waits = read("waiting for completion of hook batch/Job/check", json!([hook("Running")]));
    waits.remember(&next);
    let operation = waits.operation.unwrap();
    assert_eq!((operation.cause, operation.hook.as_deref()), (None, Some("PreSync hook Job check")));

    // A hook that runs again has not passed its own failure.
    let failed = read("failed. Retrying attempt #1 at 9:04AM.", json!([hook("Failed")]));
    let mut again = read("waiting for completion of hook batch/Job/check", json!([hook("Running")]));
    again.remember(&failed);
    let operation = again.operation.unwrap();
    assert_eq!((operation.cause.as_deref(), operation.hook), (Some("PreSync hook Job check failed"), None));
}

#[test]
fn anything_can_be_read() {
    for status in
        [json!(null), json!("x"), json!({ "sync": 1, "resources": {}, "history": [1], "summary": [] })]
    {
        let report = Report::read(&status);
        assert!(!report.is_well() && !report.has_failed(None), "{status}");
    }
}

/// On a cluster that differs, a sync without hooks is as usual.
#[test]
fn a_sync_under_way_is_named_if_it_waits_for_a_hook_or_nothing_else_is_left() {
    let words = |sync: &str, phase: &str, hook: bool, message: &str| {
        let results =
            json!([{ "kind": "Job", "name": "check", "hookType": "PreSync", "hookPhase": "Running" }]);
        let report = Report::read(&json!({
            "sync": { "status": sync },
            "operationState": {
                "phase": phase, "startedAt": "9:00", "message": message,
                "syncResult": { "resources": if hook { results } else { json!([]) } },
            },
        }));
        report.describe(report.operation.as_ref())
    };
    let waits = "the sync that began at 9:00 waits for PreSync hook Job check";
    let has_not_ended = "the sync that began at 9:00 has not ended";
    assert_eq!(words("OutOfSync", "Running", true, ""), format!("OutOfSync: {waits}"));
    assert_eq!(words("Synced", "Running", true, ""), format!("Synced: {waits}"));
    assert_eq!(words("Synced", "Running", false, ""), format!("Synced: {has_not_ended}"));
    assert_eq!(words("Synced", "Terminating", false, ""), format!("Synced: {has_not_ended}"));
    assert_eq!(words("OutOfSync", "Running", false, ""), "OutOfSync");
    assert_eq!(words("Synced", "Succeeded", true, ""), "Synced");
    assert_eq!(
        words("OutOfSync", "Running", true, "denied. Retrying attempt #2 at 9:04AM."),
        "OutOfSync: denied"
    );
}
