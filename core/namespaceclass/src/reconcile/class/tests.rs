use lockstep_engine::action::Success;
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use lockstep_engine::outcome::Failure;
use lockstep_engine::scheduler::Reconcile as _;
use serde_json::{Value, json};

use super::*;
use crate::reconcile;
use crate::tests::{TestCluster, at};

#[test]
fn the_longest_wait_that_a_failed_discovery_asks_for_counts() {
    let failed = |class: ErrorKind, seconds: u64| {
        let failure =
            Failure { retry_after: Some(Duration::from_secs(seconds)), ..Failure::new(class, "no") };
        Outcome::Err(failure)
    };
    let outcomes =
        [failed(ErrorKind::Unavailable, 5), failed(ErrorKind::Unknown, 20), failed(ErrorKind::Throttled, 60)];
    assert_eq!(asks_to_be_left_alone(&outcomes), Duration::from_secs(20));
}

fn kind(group: &str, kind: &str) -> Arc<Kind> {
    Kind::known(group, "v1", kind, &format!("{}s", kind.to_lowercase()), true)
}

/// Returns the spec of a class with one resource of each of these kinds.
fn spec(kinds: &[&Kind]) -> Value {
    let resource = |kind: &&Kind| {
        let name = kind.kind.to_lowercase();
        json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name } })
    };
    json!({ "resources": kinds.iter().map(resource).collect::<Vec<_>>() })
}

fn discovered(action: &Action) -> Option<&str> {
    if let Action::Kube(KubeRequest::Discover { api_version }) = action { Some(api_version) } else { None }
}

/// Returns the values of the condition `Valid` that were written, in order.
fn validity(cluster: &TestCluster) -> Vec<Value> {
    let mut written = Vec::new();
    for action in &cluster.asked {
        if let Action::Kube(KubeRequest::Patch { target, patch, .. }) = action
            && target.kind == names::class()
        {
            let conditions = patch["status"]["conditions"].as_array().into_iter().flatten();
            let valid = conditions.filter(|condition| condition["type"] == "Valid");
            written.extend(valid.map(|condition| condition["status"].clone()));
        }
    }
    written
}

#[test]
fn a_class_edited_during_a_discovery_is_not_judged_by_its_answer() {
    let (first, second) = (kind("a", "First"), kind("b", "Second"));
    let mut cluster = TestCluster::new();
    cluster.served = vec![Arc::clone(&first), Arc::clone(&second)];
    cluster.withheld = |action| discovered(action).is_some();
    for kinds in [&[&*first][..], &[&*first, &*second]] {
        let event = cluster.class("web", spec(kinds));
        cluster.deliver(vec![event]);
    }
    cluster.answer_withheld();
    assert_eq!(validity(&cluster), ["True"]);
}

/// A CRD is removed while a class waits for a discovery. The class uses another kind of the same API version.
#[test]
fn a_class_is_not_judged_by_kinds_that_were_forgotten_during_its_discovery() {
    let (used, removed, other) = (kind("a", "Used"), kind("a", "Removed"), kind("b", "Other"));
    let mut cluster = TestCluster::new();
    cluster.served = vec![Arc::clone(&used), Arc::clone(&other)];
    let first = cluster.class("first", spec(&[&used]));
    cluster.deliver(vec![first]);
    cluster.withheld = |action| discovered(action).is_some();
    let second = cluster.class("second", spec(&[&used, &other]));
    let failure = Failure::new(ErrorKind::KindNotServed, "gone");
    cluster.deliver(vec![second, Event::WatchFailed { kind: removed, failure }]);
    cluster.answer_withheld();
    assert_eq!(validity(&cluster), ["True", "True"]);
}

#[test]
fn a_discovery_is_repeated_at_once_only_if_it_succeeded_and_an_api_version_was_missing() {
    let (first, second) = (kind("a", "First"), kind("b", "Second"));
    let failed = || Err(Failure::new(ErrorKind::Unavailable, "down"));
    let served =
        |kinds: &[&Arc<Kind>]| Ok(Success::Kinds(kinds.iter().map(|&kind| Arc::clone(kind)).collect()));
    let cases = [
        (vec!["a/v1"], vec![served(&[&first])], "discover b/v1"),
        (vec!["a/v1"], vec![served(&[])], "discover a/v1 b/v1"),
        (vec!["a/v1"], vec![failed()], "retry"),
        (vec!["a/v1", "b/v1"], vec![served(&[]), served(&[&second])], "judge"),
        (vec!["a/v1", "b/v1"], vec![failed(), served(&[])], "judge"),
    ];
    for (asked, outcomes, expected) in cases {
        let mut cluster = TestCluster::new();
        cluster.withheld = |action| discovered(action).is_some();
        let event = cluster.class("web", spec(&[&first, &second]));
        cluster.deliver(vec![event]);
        let mut controller = cluster.controller();
        // Discovery has failed for so long that it is reported.
        let since = at(Duration::ZERO).monotonic;
        controller.store.discovery_failing_since.insert("web".to_owned(), since);
        let stage = Stage::Discovering(asked.iter().map(|&it| it.to_owned()).collect());
        let (key, stage) = (Key::Class("web".to_owned()), reconcile::Stage::Class(stage));
        let actual = match controller.resume(&key, stage, outcomes, at(PATIENCE)) {
            Next::Done(Verdict::Retry { .. }) => "retry".to_owned(),
            Next::Done(verdict) => format!("{verdict:?}"),
            Next::Await(actions, _) => {
                let versions: Vec<&str> = actions.iter().filter_map(discovered).collect();
                if versions.is_empty() {
                    "judge".to_owned()
                } else {
                    format!("discover {}", versions.join(" "))
                }
            }
        };
        assert_eq!(actual, expected, "{asked:?}");
    }
}

/// A CRD was created with the wrong scope, deleted, and created again.
#[test]
fn a_cluster_scoped_kind_is_discovered_again() {
    let mut cluster = TestCluster::new();
    let first = kind("example.com", "First");
    cluster.served = vec![Kind::known("example.com", "v1", "First", "firsts", false)];
    let class = cluster.class("web", spec(&[&first]));
    cluster.deliver(vec![class]);
    cluster.served = vec![first];
    cluster.minutes += 1;
    cluster.deliver(vec![Event::TimerFired]);
    assert_eq!(validity(&cluster), ["False", "True"]);
}

/// No namespace has the classes, so that no watch says that the kind is gone.
#[test]
fn a_new_generation_is_not_judged_by_kinds_that_are_only_remembered() {
    let first = kind("example.com", "First");
    let discoveries =
        |cluster: &TestCluster| cluster.asked.iter().filter(|action| discovered(action).is_some()).count();
    let mut cluster = TestCluster::new();
    cluster.served = vec![Arc::clone(&first)];
    let class = cluster.class("web", spec(&[&first]));
    cluster.deliver(vec![class]);
    let before = discoveries(&cluster);
    cluster.list(&names::class());
    cluster.minutes += 10;
    cluster.deliver(vec![Event::TimerFired]);
    assert_eq!(discoveries(&cluster), before, "nothing has changed");
    cluster.served = Vec::new();
    let events = [cluster.class("web", spec(&[&first])), cluster.class("new", spec(&[&first]))];
    for event in events {
        cluster.deliver(vec![event]);
    }
    assert_eq!(validity(&cluster), ["True", "False", "False"]);
}
