//! The effects of permanent failures: backoff within its bounds, no endless loop, and a correct status.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, Failure, KubeRequest};
use lockstep_engine::machine::{Note, ReconcileResult};
use lockstep_namespaceclass::controller::BACKOFF;
use lockstep_sim::cluster::FaultVerdict;
use serde_json::{Value, json};

use super::bench::{Bench, settings};

#[test]
fn a_lasting_failure_backs_off_from_half_a_second_to_five_minutes() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.settle();
    bench.cluster.interfere(|_, action| match action {
        Action::Kube(KubeRequest::Apply { target, .. }) if target.kind.kind == "ConfigMap" => {
            FaultVerdict::failed(ErrorKind::Unavailable)
        }
        _ => FaultVerdict::Served,
    });
    bench.namespace("team", Some("web"));
    bench.cluster.advance(Duration::from_hours(1));
    let is_apply = |action: &Action| matches!(action, Action::Kube(KubeRequest::Apply { target, .. }) if target.kind.kind == "ConfigMap");
    let tries: Vec<Duration> =
        bench.cluster.carried().filter(|(_, carried)| is_apply(&carried.action)).map(|(at, _)| at).collect();
    let pauses: Vec<Duration> = tries.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    assert!(tries.len() < 35, "{} tries in an hour", tries.len());
    // The operator's own status may trigger two passes. After that, each delay is within its bounds.
    let longest = pauses.iter().max().expect("several tries");
    assert!(*longest <= Duration::from_secs(301) && *longest >= Duration::from_secs(225), "{pauses:?}");
    assert!(bench.ready("team").starts_with("False ApplyFailed"));

    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(Duration::from_mins(6));
    assert!(bench.ready("team").starts_with("True ResourcesApplied"));
}

#[test]
fn every_failure_of_every_class_is_tried_again_within_the_bounds_of_its_attempt() {
    for class in ErrorKind::ALL {
        let mut bench = Bench::new();
        bench.define("web", &[settings("a", "1")]);
        bench.settle();
        bench.cluster.interfere(move |_, action| match action {
            Action::Kube(KubeRequest::Apply { target, .. }) if target.kind.kind == "ConfigMap" => {
                FaultVerdict::failed(class)
            }
            _ => FaultVerdict::Served,
        });
        bench.namespace("team", Some("web"));
        bench.cluster.advance(Duration::from_hours(1));
        let (mut failures, mut longest) = (BTreeMap::<_, u32>::new(), Duration::ZERO);
        for note in bench.cluster.notes() {
            let Note::Reconciled { object, result, .. } = note else { continue };
            let failures = failures.entry(object).or_default();
            let ReconcileResult::Failed { retry_after, .. } = result else {
                *failures = 0;
                continue;
            };
            *failures += 1;
            let ceiling = BACKOFF.ceiling(*failures);
            assert!(
                (ceiling * 3 / 4..=ceiling).contains(retry_after),
                "{class}: failure {failures} of {object} is tried again in {retry_after:?}"
            );
            longest = longest.max(ceiling);
        }
        assert_eq!(longest, BACKOFF.max, "{class}: {failures:?}");
    }
}

#[test]
fn one_namespace_that_fails_does_not_hold_back_another() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1")]);
    bench.settle();
    bench.cluster.interfere(|_, action| match action.target() {
        Some(target) if target.namespace.as_deref() == Some("bad") => {
            FaultVerdict::failed(ErrorKind::Unknown)
        }
        _ => FaultVerdict::Served,
    });
    bench.namespace("bad", Some("web"));
    for number in 0..20 {
        bench.namespace(&format!("good-{number}"), Some("web"));
    }
    bench.cluster.advance(Duration::from_secs(2));
    for number in 0..20 {
        assert!(bench.ready(&format!("good-{number}")).starts_with("True"));
    }
}

#[test]
fn a_forbidden_kind_is_named_with_the_remedy() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1"), settings("b", "1")]);
    bench.settle();
    bench.cluster.interfere(|_, action| match action {
        Action::Kube(KubeRequest::Apply { target, .. }) if target.name == "a" => {
            FaultVerdict::failed(ErrorKind::Forbidden)
        }
        _ => FaultVerdict::Served,
    });
    bench.namespace("team", Some("web"));
    bench.cluster.advance(Duration::from_secs(5));
    assert!(bench.config_map("team", "b").is_some());
    insta::assert_snapshot!(bench.ready("team"));
}

/// The CRD may be gone although its watch has not failed yet.
#[test]
fn a_kind_that_an_apply_or_a_read_does_not_find_is_discovered_again() {
    for name in ["apply", "get"] {
        let mut bench = Bench::new();
        bench.define("web", &[settings("a", "1")]);
        bench.namespace("team", Some("web"));
        bench.settle();
        bench.cluster.journal.clear();
        bench.cluster.interfere(move |_, action| {
            let fits = action.name() == name && action.target().is_some_and(|it| it.kind.kind == "ConfigMap");
            if fits { FaultVerdict::failed(ErrorKind::KindNotServed) } else { FaultVerdict::Served }
        });
        bench.update("web", &[settings("a", "1"), settings("b", "1")]);
        bench.cluster.advance(Duration::from_mins(1));
        let is_discovery = |action: &Action| matches!(action, Action::Kube(KubeRequest::Discover { .. }));
        let discoveries = bench.carried().filter(|carried| is_discovery(&carried.action)).count();
        assert!((1..20).contains(&discoveries), "{name}: {discoveries} in a minute");
    }
}

/// A starting API server or a proxy answers like this, also if there are objects of the kind.
#[test]
fn resources_of_a_kind_that_is_not_served_for_a_moment_are_removed() {
    for name in ["get", "discover"] {
        let mut bench = Bench::new();
        bench.define("web", &[settings("a", "1"), settings("b", "1")]);
        bench.namespace("team", Some("web"));
        bench.settle();
        let mut answers = 0;
        bench.cluster.interfere(move |_, action| {
            let is_other = action.target().is_some_and(|it| it.kind.kind != "ConfigMap");
            let fits = action.name() == name && !is_other;
            answers += u32::from(fits);
            if fits && answers < 4 {
                FaultVerdict::failed(ErrorKind::KindNotServed)
            } else {
                FaultVerdict::Served
            }
        });
        bench.update("web", &[settings("a", "1")]);
        bench.cluster.crash(0, Some(Duration::ZERO));
        bench.cluster.advance(Duration::from_mins(5));
        assert!(bench.config_map("team", "a").is_some(), "{name}");
        assert!(bench.config_map("team", "b").is_none(), "{name}");
    }
}

#[test]
fn a_jumping_wall_clock_changes_nothing() {
    for jump in [-86_400_000, 86_400_000] {
        let mut bench = Bench::new();
        bench.define("web", &[settings("a", "1")]);
        bench.namespace("team", Some("web"));
        bench.settle();
        bench.cluster.journal.clear();
        bench.cluster.skew(0, jump);
        bench.cluster.advance(Duration::from_mins(1));
        assert_eq!(bench.carried().next(), None);
        bench.update("web", &[settings("a", "2")]);
        bench.settle();
        assert_eq!(bench.config_map("team", "a").expect("is there")["data"]["value"], "2");
    }
}

#[test]
fn what_comes_about_bit_by_bit_is_no_fight() {
    let mut bench = Bench::new();
    let resources: Vec<Value> = (0..12).map(|number| settings(&format!("a{number}"), "1")).collect();
    bench.define("web", &resources);
    bench.settle();
    // Every ninth apply succeeds.
    let mut tries = 0;
    bench.cluster.interfere(move |_, action| match action {
        Action::Kube(KubeRequest::Apply { target, .. }) if target.kind.kind == "ConfigMap" => {
            tries += 1;
            if tries % 9 == 0 { FaultVerdict::Served } else { FaultVerdict::failed(ErrorKind::Throttled) }
        }
        _ => FaultVerdict::Served,
    });
    bench.namespace("team", Some("web"));
    bench.cluster.advance(Duration::from_hours(1));
    let transitions = bench.transitions();
    assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{transitions}");
    assert!(!transitions.contains("Contested"), "{transitions}");
}

#[test]
fn a_forbidden_removal_is_reported_once_and_does_not_flap() {
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "1"), settings("b", "1")]);
    bench.namespace("team", Some("web"));
    bench.settle();
    bench.cluster.interfere(|_, action| match action {
        Action::Kube(KubeRequest::Delete { target, .. }) if target.kind.kind == "ConfigMap" => {
            FaultVerdict::failed(ErrorKind::Forbidden)
        }
        _ => FaultVerdict::Served,
    });
    bench.update("web", &[settings("a", "1")]);
    bench.cluster.advance(Duration::from_mins(1));
    bench.cluster.journal.clear();
    let before = bench.binding("team").expect("is bound");
    bench.cluster.advance(Duration::from_hours(1));
    assert_eq!(bench.binding("team").expect("is bound"), before, "the status does not change");
    assert_eq!(bench.transitions(), "");
    insta::assert_snapshot!(bench.ready("team"));
}

#[test]
fn kinds_that_cannot_be_asked_for_hold_nothing_else_back() {
    let mut bench = Bench::new();
    bench.cluster.interfere(|_, action| match action {
        Action::Kube(KubeRequest::Discover { api_version }) if api_version == "example.com/v1" => {
            FaultVerdict::failed(ErrorKind::Unavailable)
        }
        _ => FaultVerdict::Served,
    });
    let widget = |api_version: &str| serde_json::json!({ "apiVersion": api_version, "kind": "Widget", "metadata": { "name": "w" } });
    bench.define("web", &[settings("a", "1"), widget("example.com/v1"), widget("example.com/")]);
    bench.namespace("team", Some("web"));
    bench.cluster.advance(Duration::from_mins(5));
    assert!(bench.config_map("team", "a").is_some());
    assert!(bench.carried().count() < 60, "{} requests in five minutes", bench.carried().count());
    insta::assert_snapshot!(bench.ready("team"));
}

/// A new leader still has to discover kinds, and starts just as the API server has a short outage.
#[test]
fn a_server_that_stumbles_at_a_new_leader_changes_no_status() {
    for class in [ErrorKind::Unavailable, ErrorKind::Unknown, ErrorKind::Throttled] {
        let mut bench = Bench::new();
        for name in ["web", "data", "edge", "batch", "other"] {
            bench.define(name, &[settings("a", "1")]);
            bench.namespace(if name == "web" { "team" } else { name }, Some(name));
        }
        bench.settle();
        bench.cluster.journal.clear();
        let mut asked = 0;
        bench.cluster.interfere(move |_, action| match action {
            // Each of the classes sends its own request.
            Action::Kube(KubeRequest::Discover { .. }) if asked < 20 => {
                asked += 1;
                // A busy server may request a long `Retry-After` immediately.
                let retry_after = (class == ErrorKind::Throttled).then_some(Duration::from_secs(8));
                FaultVerdict::Failed(Failure { retry_after, ..Failure::new(class, "injected") })
            }
            _ => FaultVerdict::Served,
        });
        bench.cluster.crash(0, Some(Duration::ZERO));
        bench.settle();
        assert_eq!(bench.carried().filter(|carried| carried.action.is_write()).count(), 0, "{class}");
        bench.update("web", &[settings("a", "2")]);
        bench.settle();
        assert_eq!(bench.config_map("team", "a").expect("is there")["data"]["value"], "2", "{class}");
    }
}

/// An aggregated API is unavailable and requests a long `Retry-After`, immediately or later. That delays nothing else of the
/// class.
#[test]
fn a_group_that_can_not_be_asked_holds_up_no_other_resource_for_long() {
    let widget =
        json!({ "apiVersion": "metrics.example.com/v1", "kind": "Widget", "metadata": { "name": "w" } });
    for (answers_without, requested) in
        [(1000, None), (0, Some(Duration::from_mins(5))), (1, Some(Duration::from_mins(5)))]
    {
        let mut bench = Bench::new();
        bench.define("web", &[settings("a", "1")]);
        bench.namespace("team", Some("web"));
        bench.settle();
        let mut asked = 0;
        bench.cluster.interfere(move |_, action| match action {
            Action::Kube(KubeRequest::Discover { api_version })
                if api_version == "metrics.example.com/v1" =>
            {
                asked += 1;
                let retry_after = requested.filter(|_| asked > answers_without);
                FaultVerdict::Failed(Failure {
                    retry_after,
                    ..Failure::new(ErrorKind::Unavailable, "injected")
                })
            }
            _ => FaultVerdict::Served,
        });
        bench.update("web", &[settings("a", "2"), widget.clone()]);
        bench.cluster.advance(Duration::from_secs(15));
        assert_eq!(
            bench.config_map("team", "a").expect("is there")["data"]["value"],
            "2",
            "{answers_without} {requested:?}"
        );
        assert!(bench.ready("team").starts_with("False InvalidResources"), "{}", bench.ready("team"));
    }
}

/// The `Retry-After` of a throttling server.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// Returns when settings were applied, while their class changed every five seconds for ten minutes and every attempt failed.
fn tries_while_the_class_changes(failure: Failure) -> Vec<Duration> {
    let is_try = |action: &Action| matches!(action, Action::Kube(KubeRequest::Apply { target, .. }) if target.kind.kind == "ConfigMap");
    let mut bench = Bench::new();
    bench.define("web", &[settings("a", "0")]);
    bench.settle();
    bench.cluster.interfere(move |_, action| {
        if is_try(action) { FaultVerdict::Failed(failure.clone()) } else { FaultVerdict::Served }
    });
    bench.namespace("team", Some("web"));
    for number in 0..120 {
        bench.update("web", &[settings("a", &number.to_string())]);
        bench.cluster.advance(Duration::from_secs(5));
    }
    let tries = bench.cluster.carried().filter(|(_, carried)| is_try(&carried.action));
    tries.map(|(at, _)| at).collect()
}

#[test]
fn an_event_wakes_what_fails_but_not_before_the_time_that_a_server_asked_for() {
    let pauses = |tries: Vec<Duration>| {
        tries.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect::<Vec<_>>()
    };
    let woken = pauses(tries_while_the_class_changes(Failure::new(ErrorKind::Unavailable, "injected")));
    assert!(woken.len() >= 119 && woken.iter().all(|pause| *pause <= Duration::from_secs(6)), "{woken:?}");
    let throttled =
        Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(ErrorKind::Throttled, "injected") };
    let asked = pauses(tries_while_the_class_changes(throttled));
    assert!(asked.len() >= 8, "{asked:?}");
    for pause in &asked {
        assert!(*pause >= RETRY_AFTER && *pause <= RETRY_AFTER + Duration::from_secs(6), "{asked:?}");
    }
}

#[test]
fn an_event_that_could_not_be_written_is_written_when_it_happens_again() {
    let mut bench = Bench::new();
    bench.cluster.interfere(|_, action| match action {
        Action::Kube(KubeRequest::Create { target, .. }) if target.kind.kind == "Event" => {
            FaultVerdict::failed(ErrorKind::Unavailable)
        }
        _ => FaultVerdict::Served,
    });
    bench.namespace("team", Some("missing"));
    bench.settle();
    let path = "/apis/events.k8s.io/v1/events";
    assert_eq!(bench.get(path).expect("can be listed")["items"], serde_json::json!([]));

    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.label("team", None);
    bench.settle();
    bench.label("team", Some("missing"));
    bench.settle();
    let reported = bench.get(path).expect("can be listed")["items"].take();
    assert_eq!(reported.as_array().map(Vec::len), Some(1), "{reported:#}");
    assert_eq!(reported[0]["reason"], "ClassNotFound");
    assert_eq!(reported[0]["series"]["count"], 2, "both occurrences are counted");
}

#[test]
fn an_event_that_happens_three_times_in_twenty_seconds_is_counted_three_times() {
    let mut bench = Bench::new();
    bench.namespace("team", None);
    for _ in 0..3 {
        bench.label("team", Some("missing"));
        bench.cluster.advance(Duration::from_secs(5));
        bench.label("team", None);
        bench.cluster.advance(Duration::from_secs(2));
    }
    // No event occurs any more: the count is written because of the time that has passed.
    bench.cluster.advance(Duration::from_secs(30));
    let reported = bench.get("/apis/events.k8s.io/v1/events").expect("can be listed")["items"].take();
    assert_eq!(reported.as_array().map(Vec::len), Some(1), "{reported:#}");
    assert_eq!(reported[0]["series"]["count"], 3, "{reported:#}");
}

#[test]
fn an_event_that_could_not_be_written_is_written_although_it_does_not_happen_again() {
    let mut bench = Bench::new();
    bench.cluster.interfere(|_, action| match action {
        Action::Kube(KubeRequest::Create { target, .. }) if target.kind.kind == "Event" => {
            FaultVerdict::failed(ErrorKind::Unavailable)
        }
        _ => FaultVerdict::Served,
    });
    bench.namespace("team", Some("missing"));
    bench.cluster.advance(Duration::from_secs(15));
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(Duration::from_secs(10));
    let reported = bench.get("/apis/events.k8s.io/v1/events").expect("can be listed")["items"].take();
    assert_eq!(reported[0]["reason"], "ClassNotFound", "{reported:#}");
}
